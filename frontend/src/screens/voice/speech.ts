/** The system's voice, where the browser has one, and how risky something is. */
import { language } from "../../lib/i18n";

/** Reads a question aloud; call the result to stop. */
export function readBack(text: string): () => void {
  if (typeof speechSynthesis === "undefined") return () => {};
  const said = new SpeechSynthesisUtterance(text);
  said.lang = language.locale;
  speechSynthesis.speak(said);
  return () => speechSynthesis.cancel();
}

export const riskTone = (tier: string): "neutral" | "warn" | "danger" => (tier === "high" ? "danger" : tier === "medium" ? "warn" : "neutral");
