import type { Component } from "svelte";
import type { Method, Rpc } from "../rpc";
import type { Command } from "./commands.svelte";
import type { LinkTarget } from "./nav.svelte";

export type ScreenGroup = "Work" | "Mind" | "Voice" | "System";

/** What a folder below `src/screens` exports as `screen` from its `screen.ts`. */
export interface ScreenDef extends LinkTarget {
  /** First segment of the address and id of its "Go to" command. */
  id: string;
  title: string;
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
  /** Said with the number: "3 waiting". */
  badgeLabel?: string;
  /** Commands that are offered whether or not the screen is open. */
  commands?: readonly Command[];
  /** Runs once when the connection is open: start what feeds the badge. */
  start?: (rpc: Rpc) => void;
}
