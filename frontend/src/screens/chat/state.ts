/**
 * The state of a chat, folded from the backend's data: stored messages, and the text of the streaming answer.
 * Pure: no clock, no calls. Deltas are not replayed, so some are lost with a connection and some arrive
 * twice, once in `chat.get` and once as an event. Offsets determine their positions.
 */
import type { Get, Message, Queued, Session, Turn } from "./types";

/** The answer of one model call while it streams. */
export interface Live {
  turnId: string;
  /** The step of the turn, from 1: its message has this number. */
  step: number;
  attempt: number;
  text: string;
  /** Length of `text` in UTF-8, the unit of offsets. */
  bytes: number;
  /** Deltas after a gap, until the missing part is read. */
  later: readonly Piece[];
  /** The connection was lost: no delta applies for certain before `chat.get` is read. */
  unsure: boolean;
  reasoning: string;
  /** A previous attempt was discarded. */
  restarted: boolean;
  /** The answer of the previous call, until its message is read. */
  before: string;
}

interface Piece {
  attempt: number;
  offset: number;
  delta: string;
}

export interface Chat {
  session: Session | null;
  turn: Turn | null;
  queue: readonly Queued[];
  /** In the order of the log, without gaps between the first and the last. */
  messages: readonly Message[];
  /** There are earlier messages. */
  more: boolean;
  live: Live | null;
  /** Counts model calls: a result of `chat.get` that was requested during another one does not apply to this one. */
  epoch: number;
  /** The step of the turn, from 1, and the maximum number of steps. */
  step: number;
  maxSteps: number;
  /** The name of the running tool, or "". */
  tool: string;
  /** The service whose rate limit the turn waits for, or "". */
  waiting: string;
}

export type Fact =
  | { type: "get"; epoch: number; get: Get }
  | { type: "messages"; messages: readonly Message[] }
  /** Messages before the first. */
  | { type: "older"; messages: readonly Message[]; more: boolean }
  /** The newest messages, after more than one page was missed. */
  | { type: "restart"; messages: readonly Message[] }
  /** The answer to the input of a turn was replaced. */
  | { type: "retried"; turnId: string }
  /** The connection was lost. */
  | { type: "lost" }
  | { type: "delta"; turnId: string; attempt: number; offset: number; delta: string }
  | { type: "reasoning"; turnId: string; attempt: number; delta: string }
  | { type: "discarded"; turnId: string; attempt: number }
  | { type: "progress"; turnId: string; kind: string; message: string; turn: number; maxTurns: number };

export const empty: Chat = { session: null, turn: null, queue: [], messages: [], more: false, live: null, epoch: 0, step: 0, maxSteps: 0, tool: "", waiting: "" };

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const fresh = (turnId: string, step: number, more: Partial<Live> = {}): Live => ({ turnId, step, attempt: 0, text: "", bytes: 0, later: [], unsure: false, reasoning: "", restarted: false, before: "", ...more });

/** Whether a part of the answer is missing, so that `chat.get` must be read. */
export const hasGap = (c: Chat): boolean => c.live !== null && (c.live.unsure || c.live.later.length > 0);

/** Applies a delta: the known part is skipped, and a delta after a gap is stored for later. */
function put(live: Live, p: Piece): Live {
  if (live.unsure || p.offset > live.bytes) return { ...live, later: [...live.later, p] };
  const data = encoder.encode(p.delta);
  const known = live.bytes - p.offset;
  const joined = known >= data.length ? live : { ...live, text: live.text + (known === 0 ? p.delta : decoder.decode(data.subarray(known))), bytes: p.offset + data.length };
  const ready = joined.later.find((d) => d.offset <= joined.bytes);
  return ready ? put({ ...joined, later: joined.later.filter((d) => d !== ready) }, ready) : joined;
}

/** The number of stored answers of a turn. */
const answers = (messages: readonly Message[], turnId: string): number => messages.filter((m) => m.turnId === turnId && m.role === "assistant").length;

/** The live answer of an attempt; null if the attempt has ended. */
function liveOf(c: Chat, turnId: string, attempt: number): Live | null {
  const live = c.live;
  if (!live || live.turnId !== turnId) return fresh(turnId, answers(c.messages, turnId) + 1, { attempt });
  if (live.unsure || attempt === live.attempt) return live;
  return attempt < live.attempt ? null : fresh(turnId, live.step, { attempt, before: live.before, restarted: live.restarted });
}

/** Messages by their position in the log; the newer version of one replaces the older. */
function merge(a: readonly Message[], b: readonly Message[]): Message[] {
  const all = new Map([...a, ...b].map((m) => [m.seq, m]));
  return [...all.values()].sort((x, y) => x.seq - y.seq);
}

/** The live answer without the part that is in the messages. */
function settle(live: Live | null, messages: readonly Message[]): Live | null {
  if (!live) return null;
  const stored = answers(messages, live.turnId);
  if (stored >= live.step) return null;
  return stored === live.step - 1 && live.before !== "" ? { ...live, before: "" } : live;
}

/** Applies the backend's partial answer. Messages may be newer than that. */
function read(c: Chat, turn: Turn, partial: Get["partial"]): Live | null {
  const live = c.live?.turnId === turn.turnId ? c.live : null;
  if (live && !live.unsure) {
    const same = partial && liveOf(c, turn.turnId, partial.attempt);
    return same ? put(same, { attempt: partial.attempt, offset: 0, delta: partial.text }) : live;
  }
  const known = partial && partial.attempt >= (live?.attempt ?? 0) ? partial : null;
  const later = live?.later ?? [];
  const attempt = known?.attempt ?? later.at(-1)?.attempt ?? live?.attempt ?? 0;
  const now = fresh(turn.turnId, turn.steps, { attempt, reasoning: live?.reasoning ?? "", later: later.filter((p) => p.attempt === attempt) });
  return live || known ? settle(put(now, { attempt, offset: 0, delta: known?.text ?? "" }), c.messages) : null;
}

/** The state after a fact. */
export function next(c: Chat, f: Fact): Chat {
  switch (f.type) {
    case "get": {
      const { session, activeTurn = null, queue, partial } = f.get;
      const known = { ...c, session, turn: activeTurn, queue };
      if (!activeTurn) return { ...known, live: null, tool: "", waiting: "" };
      return f.epoch === c.epoch ? { ...known, live: read(c, activeTurn, partial) } : known;
    }
    case "messages": {
      const messages = merge(c.messages, f.messages);
      return { ...c, messages, live: settle(c.live, messages) };
    }
    case "older": {
      const messages = merge(f.messages, c.messages);
      return { ...c, messages, more: f.more, live: settle(c.live, messages) };
    }
    case "restart":
      return { ...c, messages: f.messages, more: true, live: settle(c.live, f.messages) };
    case "retried":
      return { ...c, messages: c.messages.map((m) => (m.turnId === f.turnId ? { ...m, hidden: true } : m)) };
    case "lost":
      return { ...c, epoch: c.epoch + 1, live: c.live && { ...c.live, attempt: 0, later: [], unsure: true } };
    case "delta": {
      const live = liveOf(c, f.turnId, f.attempt);
      return live ? { ...c, live: put(live, { attempt: f.attempt, offset: f.offset, delta: f.delta }), tool: "" } : c;
    }
    case "reasoning": {
      const live = liveOf(c, f.turnId, f.attempt);
      return live ? { ...c, live: { ...live, reasoning: live.reasoning + f.delta } } : c;
    }
    case "discarded": {
      const { live } = c;
      if (live?.turnId !== f.turnId || f.attempt < live.attempt) return c;
      if (live.unsure) return { ...c, live: { ...live, attempt: f.attempt + 1, later: live.later.filter((p) => p.attempt > f.attempt), restarted: true } };
      return { ...c, live: fresh(f.turnId, live.step, { attempt: f.attempt + 1, before: live.before, restarted: true }) };
    }
    case "progress": {
      const at = { ...c, step: f.turn, maxSteps: f.maxTurns, tool: f.kind === "tool_execution" || f.kind === "tool_heartbeat" ? f.message : "", waiting: f.kind === "waiting_rate" ? f.message : "" };
      if (f.kind !== "provider_call") return at;
      const before = c.live?.turnId === f.turnId && c.live.step < f.turn ? c.live.text || c.live.before : "";
      return { ...at, epoch: c.epoch + 1, live: settle(fresh(f.turnId, f.turn, { before }), c.messages) ?? fresh(f.turnId, f.turn) };
    }
  }
}
