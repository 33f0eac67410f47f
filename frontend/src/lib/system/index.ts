import { rpc } from "../rpc";
import { System } from "./system.svelte";

/** The frame's own state; one per page. */
export const system = new System(rpc);
