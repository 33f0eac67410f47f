/** Automatic mappings of a new step from the previous step, if the types match. */
import { memberPath } from "./expressions";
import type { Entry, Step } from "./types";

type Schema = Record<string, unknown>;
const isObject = (v: unknown): v is Schema => typeof v === "object" && v !== null && !Array.isArray(v);
const properties = (schema: unknown): Schema => (isObject(schema) && isObject(schema["properties"]) ? schema["properties"] : {});

function typeOf(schema: unknown): string {
  const type = isObject(schema) ? schema["type"] : undefined;
  return typeof type === "string" ? type : "";
}
const fits = (from: unknown, to: unknown): boolean => typeOf(from) !== "" && (typeOf(from) === typeOf(to) || (typeOf(from) === "integer" && typeOf(to) === "number"));

/**
 * Paths for parameters of a step, by name: a required parameter is mapped to the output of the same name and
 * type; a single remaining one to the only output of its type.
 */
export function wiring(input: unknown, output: unknown, from: string): Record<string, string> {
  const params = properties(input);
  const given = properties(output);
  const required = isObject(input) && Array.isArray(input["required"]) ? input["required"].filter((n): n is string => typeof n === "string" && n in params) : [];
  const out: Record<string, string> = {};
  for (const name of required) if (fits(given[name], params[name])) out[name] = `$.${from}${memberPath(name)}`;
  const left = required.filter((name) => !(name in out));
  const [only] = left;
  if (only === undefined || left.length > 1 || Object.keys(out).length > 0) return out;
  if (fits(output, params[only])) return { [only]: `$.${from}` };
  const same = Object.keys(given).filter((name) => fits(given[name], params[only]));
  return same.length === 1 ? { [only]: `$.${from}${memberPath(same[0]!)}` } : out;
}

/** A new step, mapped from the output of the previous step. `find` returns what a step calls. */
export function wired(step: Step, before: Step | undefined, find: (s: Step) => Entry | undefined): Step {
  if (!before || before.toolType === "branch" || before.condition || before.errorHandling === "skip" || before.errorHandling === "continue") return step;
  if (step.toolType === "transform") return { ...step, value: `$.${before.stepId}` };
  const paths = wiring(find(step)?.inputSchema, find(before)?.outputSchema, before.stepId);
  return Object.keys(paths).length === 0 ? step : { ...step, inputMapping: { ...(step.inputMapping as Schema | undefined), ...paths } };
}
