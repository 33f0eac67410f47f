/** Texts of the charts. */
import { catalogue, number, plural } from "../i18n";

export const en = {
  table: "Show as table",
  time: "Time",
  value: "Value",
  today: "today",
  tools: "Tools of the map",
  lasso: "Lasso",
  lassoHelp: "Draw around points to list only those. Escape lists all again.",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  fit: "Reset zoom",
  keysHelp: "Arrow keys move between points, Enter opens one, + and − zoom.",
  lineKeys: "Arrow keys read the values.",
  from: "From",
  to: "To",
  chosen: (n: number, all: number) => `${number(n)} of ${plural(all, { one: "point", other: "points" })}`,
};
export type Messages = typeof en;
export const t = catalogue(en, { de: () => import("./messages.de") });
