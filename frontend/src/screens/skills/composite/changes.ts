/** Changes between two versions, grouped by step. Pure. */
import { t } from "../messages";
import type { FieldChange, VersionDiff } from "./types";
import { pretty } from "./words";

/** What happened to one step. */
export interface StepChange {
  stepId: string;
  kind: "added" | "removed" | "moved" | "changed";
  words: string;
  /** Both sides as text; equal if it only moved. */
  before: string;
  after: string;
}

/** One line per field, with longer values below it. A side without the field omits it. */
export function asText(changes: readonly FieldChange[], side: "before" | "after"): string {
  return changes
    .filter((c) => c[side] !== undefined)
    .map((c) => {
      const v = c[side];
      const text = typeof v === "string" ? v : pretty(v);
      return text.includes("\n") ? `${c.path}:\n${text.replace(/^/gm, "  ")}` : `${c.path}: ${text}`;
    })
    .join("\n");
}

/** The steps that differ: removed and added ones completely, changed ones by their fields. */
export function byStep(diff: VersionDiff): StepChange[] {
  const { added, removed, moved, changed } = diff.steps;
  const out: StepChange[] = [];
  for (const s of added) out.push({ stepId: s.stepId, kind: "added", words: t.places.added(place(s.path)), before: "", after: pretty(s.step) });
  for (const s of removed) out.push({ stepId: s.stepId, kind: "removed", words: t.places.removed(place(s.path)), before: pretty(s.step), after: "" });
  const fields = new Map<string, FieldChange[]>();
  for (const c of changed) {
    const id = c.stepId ?? "";
    fields.set(id, [...(fields.get(id) ?? []), c]);
  }
  for (const [stepId, list] of fields) {
    const move = moved.find((m) => m.stepId === stepId);
    out.push({ stepId, kind: "changed", words: move ? t.places.changedMoved(place(move.to)) : t.places.changed, before: asText(list, "before"), after: asText(list, "after") });
  }
  for (const m of moved) if (!fields.has(m.stepId)) out.push({ stepId: m.stepId, kind: "moved", words: t.places.moved(place(m.from), place(m.to)), before: "", after: "" });
  return out;
}

/** `steps[2].cases[0].steps[1]` in a readable form: `3 › arm 1 › 2`. */
export function place(path: string): string {
  const words: string[] = [];
  for (const [, name, index] of path.matchAll(/(\w+)(?:\[(\d+)\])?/g)) {
    const n = index === undefined ? "" : String(Number(index) + 1);
    if (name === "cases") words.push(t.places.case(n));
    else if (name === "else") words.push(t.places.else, n);
    else words.push(n);
  }
  return t.places.place(words.filter(Boolean).join(" › "));
}
