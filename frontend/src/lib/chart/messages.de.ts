import { number, plural } from "../i18n";
import type { Messages } from "./messages";

export default {
  table: "Als Tabelle zeigen",
  time: "Zeit",
  value: "Wert",
  today: "heute",
  tools: "Werkzeuge der Karte",
  lasso: "Lasso",
  lassoHelp: "Punkte umfahren, um nur diese aufzulisten. Escape listet wieder alle auf.",
  zoomIn: "Vergrößern",
  zoomOut: "Verkleinern",
  fit: "Zoom zurücksetzen",
  keysHelp: "Pfeiltasten gehen von Punkt zu Punkt, Enter öffnet einen, + und − vergrößern und verkleinern.",
  lineKeys: "Pfeiltasten lesen die Werte vor.",
  from: "Von",
  to: "Bis",
  chosen: (n: number, all: number) => `${number(n)} von ${plural(all, { one: "Punkt", other: "Punkten" })}`,
} satisfies Messages;
