import { dateRange, listing, number, plural } from "../../lib/i18n";
import { t } from "./messages";
import type { Pattern } from "./types";

/** The arguments of the sentence of a proposal. */
export interface ProposalArgs {
  /** Whom or what it is about. */
  about: string;
  /** The number of texts behind it. */
  texts: string;
  /** When they were written. */
  when: string;
  /** A component of its confidence. */
  part(name: string): number;
  /** A component as a percentage, such as 40 %. */
  share(name: string): string;
}

/** The sentence of a proposal in the language of the interface. Text written by a model is kept unchanged. */
export function sentenceOf(p: Pick<Pattern, "type" | "engine" | "description" | "subjects" | "evidence" | "confidenceParts" | "firstEvidence" | "lastEvidence">): string {
  const say = t.proposals[p.type];
  if (!say || p.engine === "llm" || !p.firstEvidence || !p.lastEvidence) return p.description.replaceAll("*", "");
  const part = (name: string): number => p.confidenceParts[name] ?? 0;
  return say({
    about: listing(p.subjects),
    texts: plural(p.evidence.length, t.texts),
    when: dateRange(new Date(p.firstEvidence), new Date(p.lastEvidence), { day: "numeric", month: "long", year: "numeric" }),
    part,
    share: (name) => number(part(name), { style: "percent", maximumFractionDigits: 0 }),
  });
}
