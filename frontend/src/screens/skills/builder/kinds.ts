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
import type { Step } from "./types";

type Icon = Component<Record<string, unknown>>;

export interface Kind {
  /** One of it. */
  title: string;
  /** Heading of its group in the palette. */
  group: string;
  icon: Icon;
}

const KINDS: Record<string, Kind> = {
  custom: { title: "Tool", group: "Tools", icon: Wrench as unknown as Icon },
  builtin: { title: "Built-in", group: "Built-in", icon: Zap as unknown as Icon },
  mcp: { title: "MCP tool", group: "MCP tools", icon: Plug as unknown as Icon },
  skill: { title: "Skill", group: "Skills", icon: Blocks as unknown as Icon },
  wasm: { title: "WASM tool", group: "WASM skills", icon: Binary as unknown as Icon },
  branch: { title: "Branch", group: "Flow", icon: Split as unknown as Icon },
  map: { title: "For each", group: "Flow", icon: Repeat as unknown as Icon },
  approval: { title: "Approval", group: "Flow", icon: Hand as unknown as Icon },
  transform: { title: "Transform", group: "Flow", icon: Braces as unknown as Icon },
};

export const kindOf = (toolType: string): Kind => KINDS[toolType] ?? { title: toolType || "Unknown", group: "Other", icon: Wrench as unknown as Icon };

/** What the steps that call nothing are for. */
export const FLOW = [
  { kind: "branch", text: "Take one of several ways, by conditions" },
  { kind: "map", text: "Run steps for each item of a list" },
  { kind: "approval", text: "Wait until a person agrees" },
  { kind: "transform", text: "Make a value out of others" },
] as const;

/** The line under the id of a step. */
export function summary(s: Step): string {
  if (s.description) return s.description;
  switch (s.toolType) {
    case "branch":
      return `${(s.cases?.length ?? 0) + 1} ways`;
    case "map":
      return s.items ? `Each of ${s.items}` : "For each item";
    case "approval":
      return typeof s.title === "string" && s.title !== "" && !s.title.startsWith("$") ? s.title : "Approval";
    case "transform":
      return "Transform";
    default:
      return s.toolName || s.toolId || "Choose what it calls";
  }
}

export function armTitle(arm: Arm): string {
  if (arm.kind === "body") return "For each item";
  if (arm.kind === "else") return arm.index === 0 ? "Always" : "Otherwise";
  return arm.when === "" ? `Case ${arm.index + 1}` : arm.when;
}

/** Tiers of calls. */
export function tierOf(tier: string): { label: string; tone: "neutral" | "info" | "warn" | "danger" } {
  switch (tier) {
    case "readOnly":
      return { label: "Reads only", tone: "neutral" };
    case "privileged":
      return { label: "Privileged", tone: "danger" };
    default:
      return { label: "Changes things", tone: "info" };
  }
}

/** What happens on failure, in a word for a node. */
export function policyOf(s: Step): string {
  switch (s.errorHandling) {
    case "retry":
      return `Retries ${s.maxRetries ?? 1}×`;
    case "skip":
      return "Skipped when it fails";
    case "continue":
      return "Goes on when it fails";
    default:
      return "";
  }
}
