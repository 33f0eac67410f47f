/**
 * The list-screen kit. A list screen is a `ListState` (rows, search, filters, selection, deletion
 * with Undo) and a `ListScreen` that shows it in every state. The screen declares its filters, the
 * actions of a row and snippets for a row, the empty state and the inspector.
 *
 * `ListPane` is the list alone, for a screen that needs its own frame around it.
 */
export { default as ListPane } from "./ListPane.svelte";
export { default as MarkBox } from "./MarkBox.svelte";
export { default as ListScreen } from "./ListScreen.svelte";
export type { Filter } from "./ListPane.svelte";
export { listCommands, menuItems, rowCommands, type ListHandle, type RowAction } from "./actions";
export * from "./state";
export type { ListWords } from "./words";
