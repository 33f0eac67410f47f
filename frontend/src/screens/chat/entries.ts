/**
 * The entries of a transcript, built from the messages of a chat: calls with their results, and answers
 * replaced by a retry behind a switch.
 */
import type { Chat } from "./state";
import type { Message, Part, Queued, TreeNode } from "./types";

/** A tool call with its result. */
export interface Call {
  part: Part;
  result: Part | null;
  /** running, waiting, done, failed, denied, skipped or unknown */
  status: string;
  /** The subagent that it started. */
  node: TreeNode | null;
}

/** A call that starts a subagent. */
export const isDelegation = (p: Part): boolean => p.kind === "toolCall" && p.tool === "delegate_to_agent";

export type Entry =
  | { kind: "user"; id: string; message: Message }
  /** Calls are in the order of the parts of the message; `first` is the first answer of a turn. */
  | { kind: "answer"; id: string; message: Message; calls: readonly Call[]; first: boolean }
  | { kind: "notice"; id: string; message: Message }
  | { kind: "replaced"; id: string; turnId: string; open: boolean }
  | { kind: "live"; id: string }
  | { kind: "approval"; id: string; more: number }
  | { kind: "queued"; id: string; input: Queued };

/** The entry of a message, for scrolling to it. */
export const entryAt = (entries: readonly Entry[], seq: number): number => entries.findIndex((e) => "message" in e && e.message.seq >= seq);

/** The entries of a chat. `open` are the turns whose replaced answers are shown, `tree` its subagents. */
export function entriesOf(c: Chat, open: ReadonlySet<string>, tree: readonly TreeNode[] = []): Entry[] {
  const out: Entry[] = [];
  const results = new Map<string, Part>();
  for (const m of c.messages) if (m.role === "tool") for (const p of m.parts) results.set(`${m.turnId} ${p.callId ?? ""}`, p);
  let answered = "";
  let replaced = "";
  for (const m of c.messages) {
    if (m.hidden) {
      if (replaced !== m.turnId) out.push({ kind: "replaced", id: `replaced ${m.turnId}`, turnId: m.turnId, open: open.has(m.turnId) });
      replaced = m.turnId;
      if (!open.has(m.turnId)) continue;
    }
    if (m.role === "user") out.push({ kind: "user", id: m.id, message: m });
    else if (m.role === "system") out.push({ kind: "notice", id: m.id, message: m });
    else if (m.role === "assistant" && m.parts.some((p) => p.kind !== "text" || p.text)) {
      const calls = m.parts
        .filter((p) => p.kind === "toolCall")
        .map((part): Call => {
          const result = results.get(`${m.turnId} ${part.callId ?? ""}`) ?? null;
          const active = c.turn?.turnId === m.turnId;
          const node = tree.find((n) => n.parentTurnId === m.turnId && n.callId === part.callId) ?? null;
          return { node, part, result, status: result?.status ?? (!active ? "skipped" : c.turn?.state === "waiting" ? "waiting" : "running") };
        });
      out.push({ kind: "answer", id: m.id, message: m, calls, first: answered !== m.turnId });
      answered = m.turnId;
    }
  }
  if (c.live !== null || (c.turn !== null && c.turn.state === "running")) out.push({ kind: "live", id: "live" });
  const [asked, ...more] = c.turn?.approvals ?? [];
  if (asked !== undefined) out.push({ kind: "approval", id: asked, more: more.length });
  for (const input of c.queue) out.push({ kind: "queued", id: input.turnId, input });
  return out;
}

/** The text of a message for the clipboard. */
export const textOf = (m: Message): string => m.parts.flatMap((p) => (p.kind === "text" && p.text ? [p.text] : [])).join("\n\n");

/** Complete sentences of a text after a position, for screen readers; the rest waits until the text ends. */
export function sentences(text: string, from: number): { said: string; to: number } {
  const end = [...text.slice(from).matchAll(/[.!?…:]["”’)]*(?=\s)|\n/g)].at(-1);
  if (!end) return { said: "", to: from };
  const to = from + end.index + end[0].length;
  return { said: text.slice(from, to).trim(), to };
}
