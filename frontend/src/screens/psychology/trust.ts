/** Stages of trust from first to last, with the trust where each begins, as in `backend/psychology/trust.go`. */
const lines = { pre_attachment: 0, early_trust: 0.15, attachment_forming: 0.3, secure_attachment: 0.5, deep_secure: 0.7, primary_attachment: 0.85 } as const;

export const stages = Object.keys(lines) as readonly string[];

/** The distance of a person from the center, 0 to 1: the ring is the stage, and the position in it the trust. */
export function ringOf(stage: string, trust: number): number {
  const i = Math.max(0, stages.indexOf(stage));
  const from = Object.values(lines)[i] ?? 0;
  const to = Object.values(lines)[i + 1] ?? 1;
  // A tenth on both sides stays free, so that no one is placed on a line.
  const share = 0.1 + 0.8 * Math.min(1, Math.max(0, (trust - from) / (to - from)));
  return (stages.length - i - share) / stages.length;
}
