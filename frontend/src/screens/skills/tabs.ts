/**
 * The kinds of skills, each a tab of the screen. A new kind is one entry here: its component
 * shows `SkillTabs` above its own list and reads `nav.rest`.
 */
import type { Component } from "svelte";
import { rpc, type Method } from "../../lib/rpc";
import CompositeTab from "./composite/CompositeTab.svelte";
import { compositeScreen } from "./composite/instance";
import { wasmScreen } from "./instance";
import WasmTab from "./WasmTab.svelte";

export interface SkillTab {
  id: "composite" | "wasm";
  /** Its address. */
  target: string;
  /** The tab appears only when the backend registers it. */
  needs: Method;
  component: Component;
  /** Number beside the title. Reactive. */
  count: () => number | undefined;
  /** Reads what the number needs. */
  read: () => void;
}

const all: readonly SkillTab[] = [
  { id: "composite", target: "skills", needs: "skills.list_composite", component: CompositeTab, count: () => compositeScreen().list.total, read: () => void compositeScreen().list.page.reload() },
  { id: "wasm", target: "skills/wasm", needs: "skills.list_wasm", component: WasmTab, count: () => wasmScreen().list.total, read: () => void wasmScreen().list.page.reload() },
];

/** The tabs that work here, in order. */
export const tabs = (): readonly SkillTab[] => all.filter((t) => rpc.can(t.needs) || t.id === "wasm");

/** The tab that an address belongs to, by its second segment. */
export function tabOf(segment: string | undefined): SkillTab {
  const shown = tabs();
  return (segment === "wasm" ? shown.find((t) => t.id === "wasm") : undefined) ?? shown[0]!;
}
