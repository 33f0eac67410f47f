/**
 * The list-screen kit: `ListState` holds the rows, search, filters and selection, `ListPane`
 * shows them in every state, `listCommands` are the keys that all lists share, and
 * `followAddress` ties the selection to the address.
 */
export { default as ListPane } from "./ListPane.svelte";
export { followAddress } from "./address.svelte";
export { listCommands, type ListHandle } from "./commands";
export { ListState, type PageQuery } from "./list.svelte";
