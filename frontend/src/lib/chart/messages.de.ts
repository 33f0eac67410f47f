import { number, plural } from "../i18n";
import type { Messages } from "./messages";

export default {
  table: "Als Tabelle zeigen",
  time: "Zeit",
  value: "Wert",
  today: "heute",
  tools: "Kartenwerkzeuge",
  lasso: "Lasso",
  lassoHelp: "Umfahren Sie Punkte, um nur diese aufzulisten. Escape zeigt wieder alle.",
  zoomIn: "Vergrößern",
  zoomOut: "Verkleinern",
  fit: "Zoom zurücksetzen",
  keysHelp: "Mit den Pfeiltasten gehen Sie von Punkt zu Punkt, Enter öffnet einen, + und − zoomen.",
  lineKeys: "Mit den Pfeiltasten lesen Sie die Werte.",
  from: "Von",
  to: "Bis",
  chosen: (n: number, all: number) => `${number(n)} von ${plural(all, { one: "Punkt", other: "Punkten" })}`,
} satisfies Messages;
