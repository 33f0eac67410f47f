import { asError, type Rpc, type RpcError } from "../../lib/rpc";
import type { Conversation, Doc } from "./types";

/** One message of a conversation or one part of a document. */
export interface Piece {
  id: string;
  seq: number;
  text: string;
  /** The speaker; "" in a document. */
  speaker: string;
  role: string;
  heading: string;
  at: string;
}

export type Of = "conversation" | "document";

/** The number of pieces that are read first, around the opened one, and then at each end. */
const around = 21;
const more = 50;

interface Window {
  conversation: Conversation | null;
  document: Doc | null;
  pieces: readonly Piece[];
  total: number;
  offset: number;
}

/** A conversation or a document, read around one piece and further as it is scrolled. */
export class Reader {
  of = $state<Of>("conversation");
  id = $state("");
  /** The number of the piece where it was opened; -1: at the beginning. */
  focus = $state(-1);
  conversation = $state.raw<Conversation | null>(null);
  document = $state.raw<Doc | null>(null);
  pieces = $state.raw<readonly Piece[]>([]);
  total = $state(0);
  /** The number of pieces before the first one shown. */
  offset = $state(0);
  error = $state.raw<RpcError | undefined>(undefined);
  busy = $state<"" | "open" | "earlier" | "later">("");
  readonly #rpc: Rpc;
  #abort: AbortController | undefined;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly before = $derived(this.offset);
  readonly after = $derived(Math.max(0, this.total - this.offset - this.pieces.length));
  readonly title = $derived(this.conversation?.title || this.document?.title || this.document?.sourceUri || "");
  readonly first = $derived(this.id !== "" && this.pieces.length === 0 && this.busy === "open");

  close(): void {
    this.#abort?.abort();
    this.#abort = undefined;
    this.id = "";
    this.busy = "";
    this.#clear();
  }

  #clear(): void {
    this.pieces = [];
    this.total = this.offset = 0;
    this.conversation = this.document = null;
    this.error = undefined;
  }

  /** Opens it at a piece. Loaded pieces are kept if it is one of them. */
  async open(of: Of, id: string, seq = -1): Promise<void> {
    const same = this.of === of && this.id === id;
    this.focus = seq;
    if (same && this.pieces.length > 0 && (seq < 0 || this.pieces.some((p) => p.seq === seq))) return;
    this.of = of;
    this.id = id;
    this.#clear();
    await this.#run("open", (signal) => (seq < 0 ? this.#read({ offset: 0, limit: more }, signal) : this.#read({ aroundSeq: seq, limit: around }, signal)));
  }

  /** Reads the shown pieces again. */
  async reload(): Promise<void> {
    if (this.id === "") return;
    const limit = Math.min(200, Math.max(this.pieces.length, around));
    await this.#run("open", (signal) => this.#read({ offset: this.offset, limit }, signal));
  }

  /** Reads earlier pieces. */
  async earlier(): Promise<void> {
    if (this.before === 0 || this.busy !== "") return;
    const limit = Math.min(more, this.offset);
    const had = this.pieces;
    await this.#run("earlier", async (signal) => {
      const w = await this.#read({ offset: this.offset - limit, limit }, signal);
      return { ...w, pieces: [...w.pieces, ...had] };
    });
  }

  /** Reads later pieces. */
  async later(): Promise<void> {
    if (this.after === 0 || this.busy !== "") return;
    const had = this.pieces;
    const offset = this.offset;
    await this.#run("later", async (signal) => {
      const w = await this.#read({ offset: offset + had.length, limit: more }, signal);
      return { ...w, offset, pieces: [...had, ...w.pieces], total: w.pieces.length === 0 ? offset + had.length : w.total };
    });
  }

  async #run(what: "open" | "earlier" | "later", read: (signal: AbortSignal) => Promise<Window>): Promise<void> {
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.busy = what;
    try {
      const w = await read(abort.signal);
      if (this.#abort !== abort) return;
      this.conversation = w.conversation;
      this.document = w.document;
      this.pieces = w.pieces;
      this.total = w.total;
      this.offset = w.offset;
      this.error = undefined;
    } catch (e) {
      const err = asError(e);
      if (this.#abort === abort && err.kind !== "canceled") this.error = err;
    } finally {
      if (this.#abort === abort) {
        this.#abort = undefined;
        this.busy = "";
      }
    }
  }

  async #read(at: { aroundSeq?: number; limit: number; offset?: number }, signal: AbortSignal): Promise<Window> {
    if (this.of === "conversation") {
      const r = await this.#rpc.call("memory.conversation", { id: this.id, ...at }, { signal });
      const pieces = r.turns.map((t) => ({ id: t.id, seq: t.seq, text: t.text, speaker: t.speaker || t.role, role: t.role, heading: "", at: t.occurredAt ?? "" }));
      return { conversation: r.conversation, document: null, pieces, total: r.total, offset: r.offset };
    }
    const r = await this.#rpc.call("memory.document", { id: this.id, ...at }, { signal });
    const pieces = r.chunks.map((c) => ({ id: c.id, seq: c.seq, text: c.text, speaker: "", role: "", heading: c.heading ?? "", at: "" }));
    return { conversation: null, document: r.document, pieces, total: r.total, offset: r.offset };
  }
}
