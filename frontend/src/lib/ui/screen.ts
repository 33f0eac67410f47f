import type { Component } from "svelte";
import type { Method, Rpc } from "../rpc";
import type { Command } from "./commands.svelte";
import type { Job } from "./jobs.svelte";
import type { LinkTarget } from "./nav.svelte";

export type ScreenGroup = "Work" | "Mind" | "Voice" | "System";

/** A lasting condition that a screen shows in the status bar, as a link to its explanation. */
export interface StatusItem {
  id: string;
  text: string;
  icon: Component<Record<string, unknown>>;
  tone: "muted" | "accent" | "warn" | "danger";
  /** A target for `nav.go`. */
  target: string;
  /** Omitted if the bar is short of space. */
  optional?: boolean;
}

/** Something that works at once, which the welcome page offers. The page opens by itself until one of them has been used. */
export interface Starter {
  /** Its place among the first steps; without one it is offered below them. */
  readonly step?: number;
  /** "Try a tool" */
  readonly title: string;
  /** What it does, in one sentence. */
  readonly text: string;
  /** The button: "Run it" */
  readonly action: string;
  run(): unknown;
  /** A second way, such as sample data. Reactive. */
  also?: () => { readonly action: string; readonly busy?: boolean; run(): unknown } | null;
  /** Whether the person has done this before. */
  used(rpc: Rpc): Promise<boolean>;
}

/**
 * The export `screen` of `screen.ts` in a folder below `src/screens`. The frame does not know any domain:
 * everything it shows of one is contributed here. What depends on the language is a getter or a function.
 */
export interface ScreenDef extends LinkTarget {
  /** First segment of the address and id of its "Go to" command. */
  id: string;
  readonly title: string;
  group: ScreenGroup;
  /** Order inside the group. */
  order: number;
  icon: Component<Record<string, unknown>>;
  /** The screen is shown only if the backend registers all of these. */
  needs: readonly Method[];
  /** Loads the component; it takes no props and reads the selection from `nav.rest`. */
  load: () => Promise<{ default: Component }>;
  /** Shortcut of its "Go to" command. */
  keys?: string | readonly string[];
  /** Number on the right of its rail entry; 0 shows nothing. Reactive. */
  badge?: () => number;
  /** Announced with the number: "waiting" for "3 waiting". */
  readonly badgeLabel?: string;
  /** Commands that are available whether or not the screen is open. Reactive. */
  commands?: () => readonly Command[];
  /** Commands for the text typed into the palette, such as "Open schedule: …". */
  search?: (rpc: Rpc, query: string) => Promise<Command[]>;
  /** How to start with this screen. */
  starter?: Starter;
  /** Long work of this screen, for the status bar. Reactive. */
  jobs?: () => readonly Job[];
  /** Lasting conditions for the status bar. Reactive. */
  status?: () => readonly StatusItem[];
  /** Shown over every screen, such as a question that can come at any time. */
  overlay?: Component;
  /** Called once when the connection is open: starts whatever feeds badge, jobs and status. */
  start?: (rpc: Rpc) => void;
}
