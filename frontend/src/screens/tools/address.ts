/**
 * Addresses of the screen:
 *   tools                                  the list
 *   tools/<tool>[/<part>[/<run>]]          one tool: the run pane, the editor or a tab, one of its runs
 *   tools/wasm/<id>[/<part>[/<run>]]       the same for a WASM tool
 *   tools/marketplace, tools/templates     the other lists
 */
import type { Route } from "../../lib/list/state";
import { nav } from "../../lib/ui/nav.svelte";
import type { Row } from "./types";

/** Segments after `tools/` that are not the id of a tool. */
export const PARTS = ["marketplace", "templates"];
const others = ["new", "shared", ...PARTS];

/** A tool in the address: its id, after `wasm/` if it is a module. */
export const keyOf = (tool: Pick<Row, "id" | "module">): string => (tool.module ? moduleKey(tool.id) : tool.id);
export const moduleKey = (id: string): string => `wasm/${id}`;

const depth = (): number => (nav.rest[0] === "wasm" ? 2 : 1);

/** The selection is stored only in the address. */
export const toolRoute: Route = {
  selected() {
    const [first = "", second = ""] = nav.rest;
    if (nav.screen !== "tools" || others.includes(first)) return undefined;
    const key = first === "wasm" ? second && moduleKey(second) : first;
    return key === "" ? null : key;
  },
  to: (key) => (key === null ? "tools" : `tools/${key}`),
};

/** The part of the selected tool in the address, "" for none. */
export const partOf = (): string => (toolRoute.selected() ? (nav.rest[depth()] ?? "") : "");

/** The open run of a tool. */
export const runRoute = (key: string): Route => ({
  selected: () => (toolRoute.selected() === key ? ((partOf() === "history" && nav.rest[depth() + 1]) || null) : undefined),
  to: (id) => `tools/${key}/history${id === null ? "" : `/${id}`}`,
});
