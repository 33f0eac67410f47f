import type { ScreenDef, ScreenGroup } from "./lib/ui/screen";

const found = import.meta.glob<{ screen: ScreenDef }>("./screens/*/screen.ts", { eager: true });

export const groups: readonly ScreenGroup[] = ["Work", "Mind", "Voice", "System"];

/** All screens, in the order of the rail. A new folder with a `screen.ts` is included automatically. */
export const screens: readonly ScreenDef[] = Object.values(found)
  .map((m) => m.screen)
  .sort((a, b) => groups.indexOf(a.group) - groups.indexOf(b.group) || a.order - b.order);
