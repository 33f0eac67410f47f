import { lookup } from "../../lib/i18n";
import { common } from "../../lib/i18n/common";
import { format } from "../../lib/ui/state";
import { t } from "./messages";
import type { Choice, Conflict, Status } from "./types";

/** Fields of a definition that are of no use to a person. */
const internal = /(_hash|_id|_size)$/;

/** A value of a conflict as readable, comparable text. */
export function textOf(c: Conflict, value: unknown): string {
  if (c.fieldType === "deleted") return value === null ? c.itemText || t.edited : t.deleted(format.moment(String(value)));
  if (value === null || value === undefined) return "";
  if (c.fieldType === "definition")
    return Object.entries(value as Record<string, unknown>)
      .filter(([name]) => !internal.test(name))
      .map(([name, v]) => `${lookup(t.fields, name)}:\n${pretty(v)}`)
      .join("\n\n");
  if (c.fieldType === "time") return format.moment(String(value));
  if (typeof value === "boolean") return value ? common.yes : common.no;
  return pretty(value);
}

/** Indents JSON and returns other texts unchanged. */
function pretty(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  if (!/^[[{]/.test(value)) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

/** Whether the two values can be merged manually. */
export const mergeable = (c: Conflict): boolean => c.fieldType === "text" || c.fieldType === "json";

/** Whether choosing a side of a conflict about a deletion deletes the item. */
const deletes = (c: Conflict, choice: Choice): boolean => (choice === "mine" ? c.mine : c.theirs) !== null;
export const choiceLabel = (c: Conflict, choice: Choice): string => (c.fieldType === "deleted" ? (deletes(c, choice) ? t.deleteIt : t.keepIt) : t.keep[choice]);
export const resolvedText = (c: Conflict, choice: Choice, name: string): string => (c.fieldType === "deleted" ? (deletes(c, choice) ? t.wasDeleted(name) : t.wasKept(name)) : t.resolved(choice, name));

/** Counts seconds within the first minute, then formats like everywhere else. */
const ago = (when: string, now: number): string => {
  const s = Math.max(0, Math.round((now - Date.parse(when)) / 1000));
  return s < 2 ? common.justNow : s < 60 ? common.ago(common.seconds(String(s))) : format.ago(when, now);
};

/** "12,300 of 100,000 items · 1.2 MB/s · 8 s left" */
export const copyText = (p: NonNullable<Status["initial"]>): string =>
  [t.copied(p.rows, p.of), t.rate(format.bytes(p.bytesPerSecond)), p.etaMs > 0 ? t.timeLeft(format.duration(p.etaMs)) : ""].filter(Boolean).join(" · ");

/** "Up to date · 3 devices · last change 4 s ago" */
export function stateText(s: Status, now: number, progress = s.initial): string {
  if (s.state === "initial" && progress) return [t.firstCopy, copyText(progress)].join(" · ");
  const waits = s.queueLength > 0 ? t.waiting(s.queueLength) : "";
  const head: Record<string, string> = {
    connecting: t.connecting,
    initial: t.firstCopy,
    live: waits || t.upToDate,
    polling: waits || t.upToDate,
    offline: t.offline,
    paused: t.paused,
    error: t.stopped,
  };
  const online = s.state === "live" || s.state === "polling";
  return [head[s.state] ?? s.state, online || s.state === "connecting" ? "" : waits, s.devices > 0 ? t.deviceCount(s.devices) : "", s.lastChange ? t.lastChange(ago(s.lastChange, now)) : "", s.hub ? t.embeddings[s.hub.embeddings] : ""].filter(Boolean).join(" · ");
}

export const stateTone = (s: Status): "ok" | "warn" | "danger" | "neutral" =>
  s.state === "error" || s.problem ? "danger" : s.state === "offline" ? "warn" : s.state === "paused" ? "neutral" : s.queueLength > 0 || s.state !== "live" ? "warn" : "ok";
