/**
 * The kinds of skills, each a tab of the screen. A new kind is one entry here: its component
 * shows `SkillTabs` above its own list and reads `nav.rest` after its name.
 */
import type { Component } from "svelte";
import { rpc, type Method } from "../../lib/rpc";
import { wasmScreen } from "./instance";
import WasmTab from "./WasmTab.svelte";

export interface SkillTab {
  /** Second segment of the address. */
  id: string;
  title: string;
  /** The tab appears only when the backend registers it. */
  needs: Method;
  component: Component;
  /** Number beside the title. Reactive. */
  count?: () => number | undefined;
}

const all: readonly SkillTab[] = [{ id: "wasm", title: "WASM", needs: "skills.list_wasm", component: WasmTab, count: () => wasmScreen().list.total }];

/** The tabs that work here, in order. */
export const tabs = (): readonly SkillTab[] => all.filter((t) => rpc.can(t.needs) || t.id === "wasm");
