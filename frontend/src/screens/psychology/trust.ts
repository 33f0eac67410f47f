/** Stages of trust from the first to the last, with the trust where each begins, as `backend/psychology/trust.go` has them. */
const lines = { pre_attachment: 0, early_trust: 0.15, attachment_forming: 0.3, secure_attachment: 0.5, deep_secure: 0.7, primary_attachment: 0.85 } as const;

export const stages = Object.keys(lines) as readonly string[];

/** How far from the center a person stands, 0 to 1: the ring is the stage, and the place in it the trust. */
export function ringOf(stage: string, trust: number): number {
  const i = Math.max(0, stages.indexOf(stage));
  const from = Object.values(lines)[i] ?? 0;
  const to = Object.values(lines)[i + 1] ?? 1;
  // A tenth stays free at both sides, so that nobody stands on a line.
  const share = 0.1 + 0.8 * Math.min(1, Math.max(0, (trust - from) / (to - from)));
  return (stages.length - i - share) / stages.length;
}
