/** The part of the kit without components, for state classes and their tests. */
export { ListState, type Deletion, type PageQuery } from "./list.svelte";
export { Marks } from "./marks.svelte";
export { route, type Route } from "./route";
