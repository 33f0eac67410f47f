/** The state of a run: one vocabulary for the different wire names of tools, skills, schedules, chats and jobs. */
import { lookup } from "../i18n";
import { t } from "./messages";

export type RunState = keyof typeof t.runStates;
export type Tone = "neutral" | "accent" | "ok" | "warn" | "danger" | "info";

/** Other names on the wire. */
const aliases: Readonly<Record<string, RunState>> = { success: "succeeded", completed: "succeeded", done: "succeeded", ran: "succeeded", failure: "failed", cancelled: "canceled" };

const tones: { readonly [S in RunState]?: Tone } = {
  queued: "info",
  running: "accent",
  retrying: "warn",
  waiting: "warn",
  succeeded: "ok",
  failed: "danger",
  denied: "danger",
  timeout: "warn",
  interrupted: "warn",
  missed: "warn",
  unmocked: "warn",
  unknown: "warn",
};

/** The state for a status of the backend. An unknown status is returned unchanged. */
export const runState = (status: string): RunState => aliases[status] ?? (status as RunState);

export const stateTone = (status: string): Tone => tones[runState(status)] ?? "neutral";

/** "succeeded", for use in a sentence or in choices. */
export const stateWord = (status: string): string => lookup(t.runStates, runState(status));

/** "Succeeded", for use on its own. */
export function stateTitle(status: string): string {
  const word = stateWord(status);
  return word.charAt(0).toUpperCase() + word.slice(1);
}

const open: readonly string[] = ["pending", "queued", "running", "retrying", "waiting"];

/** The run has not ended. */
export const isOpen = (status: string): boolean => open.includes(status);

/** Statuses of the backend as the choices of a filter, after the one for all. */
export const stateOptions = (statuses: readonly string[]): { value: string; label: string }[] => [{ value: "", label: t.anyState }, ...statuses.map((value) => ({ value, label: stateWord(value) }))];
