/** What state classes need, without components: importing from here instead of from `lib/ui` keeps their tests fast. */
export { copy, openInBrowser, openURL } from "./browser";
export { commands, keycaps, isMac, score, Commands } from "./commands.svelte";
export type { Command, CommandList, CommandSource } from "./commands.svelte";
export { diffLines, diffWords, fold } from "./diff";
export * as format from "./format";
export { base64 } from "./files";
export { JobList, type Job } from "./jobs.svelte";
export { lasting } from "./lasting.svelte";
export { Load } from "./load.svelte";
export { minute, second } from "./now.svelte";
export { nav, fromLink, Nav } from "./nav.svelte";
export { Paged } from "./paged.svelte";
export { Recent } from "./recent.svelte";
export { SignIn, type SignInFlow } from "./signin.svelte";
export { theme } from "./theme.svelte";
export type { ThemeChoice } from "./theme.svelte";
export { toasts, undoSeconds } from "./toasts.svelte";
export type { Notify } from "./toasts.svelte";
