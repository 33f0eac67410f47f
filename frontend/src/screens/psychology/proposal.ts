import { dateRange, listing, number, plural } from "../../lib/i18n";
import { t } from "./messages";
import type { Pattern } from "./types";

/** What the sentence of a proposal is made of. */
export interface ProposalArgs {
  /** Whom or what it is about. */
  about: string;
  /** The texts that it rests on, counted. */
  texts: string;
  /** When they were written. */
  when: string;
  /** What its confidence was computed from. */
  part(name: string): number;
  /** A part as a share, such as 40 %. */
  share(name: string): string;
}

/** The sentence of a proposal in the language of the interface. What a model has written stays as it is. */
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
