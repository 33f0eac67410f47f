import type { Component } from "svelte";
import type { Method, Rpc } from "../rpc";
import type { Command } from "./commands.svelte";
import type { Job } from "./jobs.svelte";
import type { LinkTarget } from "./nav.svelte";

export type ScreenGroup = "Work" | "Mind" | "Voice" | "System";

/** A lasting condition that a screen shows in the status bar, as a link to where it is explained. */
export interface StatusItem {
  id: string;
  text: string;
  icon: Component<Record<string, unknown>>;
  tone: "muted" | "accent" | "warn";
  /** A target for `nav.go`. */
  target: string;
  /** Left out where the bar is short. */
  optional?: boolean;
}

/** Something that works at once, which the welcome page offers until one of them was used. */
export interface Starter {
  /** "Try a tool" */
  readonly title: string;
  /** What it does, in one sentence. */
  readonly text: string;
  /** The button: "Run it" */
  readonly action: string;
  run(): unknown;
  /** Whether the person has done this before. */
  used(rpc: Rpc): Promise<boolean>;
}

/**
 * What a folder below `src/screens` exports as `screen` from its `screen.ts`. The frame knows no
 * domain: everything it shows of one is contributed here. What depends on the language is a
 * getter or a function.
 */
export interface ScreenDef extends LinkTarget {
  /** First segment of the address and id of its "Go to" command. */
  id: string;
  readonly title: string;
  group: ScreenGroup;
  /** Order inside the group. */
  order: number;
  icon: Component<Record<string, unknown>>;
  /** The screen appears only when the backend registers all of these. */
  needs: readonly Method[];
  /** Loads the component; it takes no props and reads `nav.rest` for what is selected. */
  load: () => Promise<{ default: Component }>;
  /** Shortcut of its "Go to" command. */
  keys?: string | readonly string[];
  /** Number at the right of its rail entry; 0 shows nothing. Reactive. */
  badge?: () => number;
  /** Said with the number: "waiting" for "3 waiting". */
  readonly badgeLabel?: string;
  /** Commands that are offered whether or not the screen is open. Reactive. */
  commands?: () => readonly Command[];
  /** Commands for what is typed into the palette, such as "Open schedule: …". */
  search?: (rpc: Rpc, query: string) => Promise<Command[]>;
  /** How to begin with this screen. */
  starter?: Starter;
  /** Long work of this screen, for the status bar. Reactive. */
  jobs?: () => readonly Job[];
  /** Lasting conditions for the status bar. Reactive. */
  status?: () => readonly StatusItem[];
  /** Runs once when the connection is open: start what feeds badge, jobs and status. */
  start?: (rpc: Rpc) => void;
}
