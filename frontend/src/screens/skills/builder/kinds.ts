/** The kinds of steps in words and icons. */
import Binary from "@lucide/svelte/icons/binary";
import Blocks from "@lucide/svelte/icons/blocks";
import Braces from "@lucide/svelte/icons/braces";
import Hand from "@lucide/svelte/icons/hand";
import Plug from "@lucide/svelte/icons/plug";
import Repeat from "@lucide/svelte/icons/repeat";
import Split from "@lucide/svelte/icons/split";
import Wrench from "@lucide/svelte/icons/wrench";
import Zap from "@lucide/svelte/icons/zap";
import type { Component } from "svelte";
import type { Arm } from "./steps";
import { t } from "./messages";
import { CALLS, type Step } from "./types";

type Icon = Component<Record<string, unknown>>;

const icons = { custom: Wrench, builtin: Zap, mcp: Plug, skill: Blocks, wasm: Binary, branch: Split, map: Repeat, approval: Hand, transform: Braces } as unknown as Readonly<Record<string, Icon>>;

/** Example expressions for empty fields. */
export const examples = { condition: "$.input.count > 3", path: "$.input…", list: "$.fetch.results", value: "$.fetch" };

/** The groups of the palette, in order. */
export const groupOrder: readonly (keyof typeof t.kindGroups)[] = ["custom", "wasm", "skill", "flow", "builtin", "mcp", "other"];
/** The kinds that call nothing. */
export const flowKinds = ["branch", "map", "approval", "transform"] as const;

export const iconOf = (kind: string): Icon => icons[kind] ?? icons["custom"]!;
export const kindTitle = (kind: string): string => t.kinds[kind] ?? (kind || t.unknown);
export const groupOf = (kind: string): keyof typeof t.kindGroups => (kind in t.kindGroups ? (kind as keyof typeof t.kindGroups) : kind in icons ? "flow" : "other");

/** The title of a step: its own title, else what it calls or does. */
export function titleOf(s: Step): string {
  if (s.description) return s.description.replace(/\.$/, "");
  if (s.toolType === "approval" && typeof s.title === "string" && s.title !== "" && !s.title.startsWith("$")) return s.title;
  return s.toolName || s.toolId || (CALLS.includes(s.toolType) ? t.noTarget : kindTitle(s.toolType));
}

/** The line below the title of a step: its id, and details of its kind. */
export function summary(s: Step): string {
  const more = s.toolType === "branch" ? t.ways((s.cases?.length ?? 0) + 1) : s.toolType === "map" && s.items ? t.eachOf(s.items) : "";
  return [s.stepId || t.noId, more].filter(Boolean).join(" · ");
}

export function armTitle(arm: Arm): string {
  if (arm.kind === "body") return t.forEach;
  if (arm.kind === "else") return arm.index === 0 ? t.always : t.otherwise;
  return arm.when === "" ? t.case(arm.index + 1) : arm.when;
}

/** Tiers of calls. */
export function tierOf(tier: string): { label: string; tone: "neutral" | "info" | "danger" } {
  const known = tier === "readOnly" || tier === "privileged" ? tier : "sideEffecting";
  return { label: t.tiers[known], tone: ({ readOnly: "neutral", privileged: "danger", sideEffecting: "info" } as const)[known] };
}

/** The failure policy, as a word for a node. */
export function policyOf(s: Step): string {
  switch (s.errorHandling) {
    case "retry":
      return t.retries(s.maxRetries ?? 1);
    case "skip":
      return t.skippedOnFailure;
    case "continue":
      return t.continuesOnFailure;
    default:
      return "";
  }
}
