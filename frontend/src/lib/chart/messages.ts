/** Texts of the charts. */
import { catalogue, number, plural } from "../i18n";

export const en = {
  table: "Show as table",
  time: "Time",
  value: "Value",
  today: "today",
  tools: "Map tools",
  lasso: "Lasso",
  lassoHelp: "Draw around points to list only those. Press Escape to list all again.",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  fit: "Reset zoom",
  keysHelp: "Use the arrow keys to move between points, Enter to open one, and + and − to zoom.",
  lineKeys: "Use the arrow keys to read the values.",
  from: "From",
  to: "To",
  chosen: (n: number, all: number) => `${number(n)} of ${plural(all, { one: "point", other: "points" })}`,
};
export type Messages = typeof en;
export const t = catalogue(en, { de: () => import("./messages.de") });
