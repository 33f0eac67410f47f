/** The sandbox profiles with their limits, as the backend enforces them. */
import type { Profile } from "../../lib/run/capabilities";

/** Limits of a run that a person can see and lower. */
export interface RunLimits {
  wallMs: number;
  cpuMs: number;
  memoryMb: number;
}

export interface ProfileInfo {
  name: Profile;
  label: string;
  text: string;
  limits: RunLimits;
}

export const PROFILES: readonly ProfileInfo[] = [
  { name: "strict", label: "Strict", text: "Computes, keeps state, runs other tools. No files, no network.", limits: { wallMs: 10_000, cpuMs: 10_000, memoryMb: 64 } },
  { name: "standard", label: "Standard", text: "Also reads files and connects to hosts that you allow.", limits: { wallMs: 30_000, cpuMs: 10_000, memoryMb: 128 } },
  { name: "permissive", label: "Permissive", text: "Also writes files in its own folder, and has more time and memory.", limits: { wallMs: 60_000, cpuMs: 10_000, memoryMb: 256 } },
];

/** The profile of a name; an unknown name gets the default one. */
export function profileInfo(name: string): ProfileInfo {
  return PROFILES.find((p) => p.name === name) ?? PROFILES[1]!;
}

/** The limits of a profile, lowered where the tool sets lower ones. */
export function limitsFor(profile: string, own?: Partial<RunLimits> | null): RunLimits {
  const base = profileInfo(profile).limits;
  const low = (max: number, v: number | undefined) => (v === undefined || v <= 0 ? max : Math.min(max, v));
  return { wallMs: low(base.wallMs, own?.wallMs), cpuMs: low(base.cpuMs, own?.cpuMs), memoryMb: low(base.memoryMb, own?.memoryMb) };
}
