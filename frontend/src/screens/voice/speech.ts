/** The system's voice, where the browser has one, and how risky something is. */
import { language } from "../../lib/i18n";

/** Reads a text aloud, if `wanted` says so; call the result to stop. */
export function readBack(text: string, wanted: Promise<boolean>): () => void {
  let stopped = false;
  void wanted.then((yes) => yes && !stopped && speak(text));
  return () => {
    stopped = true;
    if (typeof speechSynthesis !== "undefined") speechSynthesis.cancel();
  };
}

function speak(text: string): void {
  if (typeof speechSynthesis === "undefined") return;
  const said = new SpeechSynthesisUtterance(text);
  said.lang = language.locale;
  speechSynthesis.speak(said);
}

export const riskTone = (tier: string): "neutral" | "warn" | "danger" => (tier === "high" ? "danger" : tier === "medium" ? "warn" : "neutral");
