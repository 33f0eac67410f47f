/** A run document generated from schemas, for mapping before the first run. */
import { armsOf } from "./steps";
import type { Entry, Skill, Step } from "./types";

type Schema = Record<string, unknown>;
const isObject = (v: unknown): v is Schema => typeof v === "object" && v !== null && !Array.isArray(v);

/** A value that matches a schema: its default, an example, or the simplest of its type. */
export function sample(schema: unknown, depth = 0): unknown {
  if (!isObject(schema) || depth > 8) return null;
  if (schema["default"] !== undefined) return schema["default"];
  if (Array.isArray(schema["examples"]) && schema["examples"].length > 0) return schema["examples"][0];
  if (schema["const"] !== undefined) return schema["const"];
  if (Array.isArray(schema["enum"]) && schema["enum"].length > 0) return schema["enum"][0];
  for (const k of ["oneOf", "anyOf", "allOf"]) {
    const options = schema[k];
    if (Array.isArray(options) && options.length > 0) return sample(options[0], depth + 1);
  }
  const type = Array.isArray(schema["type"]) ? schema["type"].find((t) => t !== "null") : schema["type"];
  switch (type ?? (isObject(schema["properties"]) ? "object" : undefined)) {
    case "object": {
      const out: Schema = {};
      for (const [k, v] of Object.entries(isObject(schema["properties"]) ? schema["properties"] : {})) out[k] = sample(v, depth + 1);
      return out;
    }
    case "array":
      return schema["items"] === undefined ? [] : [sample(schema["items"], depth + 1)];
    case "string":
      return schema["format"] === "date-time" ? "2026-01-01T00:00:00Z" : schema["format"] === "uri" ? "https://example.com/" : "text";
    case "integer":
    case "number":
      return typeof schema["minimum"] === "number" ? schema["minimum"] : 1;
    case "boolean":
      return true;
    default:
      return null;
  }
}

/** Finds the catalog entry that a step calls. */
export type Find = (step: Step) => Entry | undefined;

/** Whether the output of a step is known from a schema. */
export function outputKnown(step: Step, find: Find): boolean {
  return step.toolType === "approval" || step.toolType === "map" || find(step)?.outputSchema !== undefined;
}

/** The possible output of a step according to schemas. */
export function sampleOutput(step: Step, find: Find): unknown {
  switch (step.toolType) {
    case "transform":
      return isObject(step.value) && !Object.keys(step.value).some((k) => k.startsWith("$")) ? Object.fromEntries(Object.keys(step.value).map((k) => [k, null])) : null;
    case "approval":
      return { decision: "approve", data: step.form === undefined ? null : sample(step.form) };
    case "map":
      // One output per item: that of the last step of the body.
      return step.steps?.length ? [sampleOutput(step.steps.at(-1)!, find)] : [];
    case "branch":
      return null;
  }
  if (step.outputMapping !== undefined) return isObject(step.outputMapping) && !Object.keys(step.outputMapping).some((k) => k.startsWith("$")) ? Object.fromEntries(Object.keys(step.outputMapping).map((k) => [k, null])) : null;
  const e = find(step);
  return e?.outputSchema === undefined ? null : sample(e.outputSchema);
}

/** A document in which every step has run. */
export function sampleDocument(skill: Skill, find: Find): Record<string, unknown> {
  const doc: Record<string, unknown> = {
    input: isObject(skill.inputSchema) ? sample(skill.inputSchema) : {},
    run: { id: "00000000-0000-0000-0000-000000000000", startedAt: "2026-01-01T00:00:00Z", trigger: "user" },
    steps: {},
  };
  const steps = doc["steps"] as Record<string, unknown>;
  const go = (list: readonly Step[]): void => {
    for (const s of list) {
      const output = sampleOutput(s, find);
      steps[s.stepId] = { status: "completed", output, skipped: false, attempts: 1 };
      doc[s.stepId] = output;
      for (const a of armsOf(s, "")) go(a.steps);
    }
  };
  go(skill.steps);
  return doc;
}
