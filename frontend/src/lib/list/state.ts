/** The part of the kit without components, for state classes and their tests. */
export { ListState, type PageQuery } from "./list.svelte";
