/** The sandbox profiles with their limits, as the backend enforces them. */
import { t } from "./messages";
import { KINDS, parseCapability, type Profile } from "../../lib/run/capabilities";

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

const LIMITS: Readonly<Record<Profile, RunLimits>> = {
  strict: { wallMs: 10_000, cpuMs: 10_000, memoryMb: 64 },
  standard: { wallMs: 30_000, cpuMs: 10_000, memoryMb: 128 },
  permissive: { wallMs: 60_000, cpuMs: 10_000, memoryMb: 256 },
};

/** The profiles, strictest first. */
export const profiles = (): ProfileInfo[] => (Object.keys(LIMITS) as Profile[]).map(profileInfo);

/** The profile with a name; an unknown name gets the default one. */
export function profileInfo(name: string): ProfileInfo {
  const known: Profile = Object.hasOwn(LIMITS, name) ? (name as Profile) : "standard";
  return { name: known, ...t.profiles[known], limits: LIMITS[known] };
}

/** The limits of a profile, lowered by those of the tool. */
export function limitsFor(profile: string, own?: Partial<RunLimits> | null): RunLimits {
  const base = (LIMITS[profile as Profile] ?? LIMITS.standard);
  const low = (max: number, v: number | undefined) => (v === undefined || v <= 0 ? max : Math.min(max, v));
  return { wallMs: low(base.wallMs, own?.wallMs), cpuMs: low(base.cpuMs, own?.cpuMs), memoryMb: low(base.memoryMb, own?.memoryMb) };
}

/** How many of the capabilities a profile never allows. Unknown kinds are not counted. */
export const forbiddenBy = (profile: Profile, capabilities: readonly string[]): number => capabilities.filter((c) => parseCapability(c).kind?.profiles.includes(profile) === false).length;

/** Whether there is a kind of capability that a profile never allows. */
export const narrows = (profile: Profile): boolean => KINDS.some((k) => !k.profiles.includes(profile));
