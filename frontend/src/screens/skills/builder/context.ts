import { getContext, setContext } from "svelte";
import type { SkillBuilder } from "./builder.svelte";

/** What nodes on the canvas need besides their data. */
export interface CanvasContext {
  builder: SkillBuilder;
  onadd(at: { list: string; index: number }): void;
}

const key = Symbol("canvas");
export const setCanvas = (c: CanvasContext): void => void setContext(key, c);
export const canvas = (): CanvasContext => getContext<CanvasContext>(key);
