/** The builder of skills loads when it is first opened. */
import type { Component } from "svelte";

interface BuilderProps {
  /** The skill that is edited; null for a new one. */
  skillId: string | null;
  onclose: () => void;
}

const found = import.meta.glob<{ default: Component<BuilderProps> }>("../builder/Builder.svelte");
const load = found["../builder/Builder.svelte"];

/** Skills can be built here. */
export const canBuild = load !== undefined;

/** Loads the builder. */
export async function loadBuilder(): Promise<Component<BuilderProps>> {
  if (load === undefined) throw new Error("There is no builder here.");
  return (await load()).default;
}
