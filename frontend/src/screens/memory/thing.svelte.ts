import type { Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import { sameThing, type Thing } from "./address";
import { Reader } from "./reader.svelte";
import type { Hit, Memory, Revision } from "./types";

export type ThingTab = "text" | "why" | "history" | "related" | "details";

/** What the inspector shows: one memory, message, part, conversation or document. */
export class ThingState {
  thing = $state.raw<Thing | null>(null);
  tab = $state<ThingTab>("text");
  /** How a search found it; null when it was not opened from one. */
  hit = $state.raw<Hit | null>(null);
  readonly memory = new Load<Memory>();
  readonly reader: Reader;
  readonly history = new Load<readonly Revision[]>();
  readonly related = new Load<readonly Hit[]>();
  /** The revision that is compared with what the memory says now. */
  revision = $state<number | null>(null);
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.reader = new Reader(rpc);
  }

  readonly isMemory = $derived(this.thing?.kind === "memory");
  readonly tabs = $derived.by((): { value: ThingTab; label: string }[] => {
    const out: { value: ThingTab; label: string }[] = [{ value: "text", label: "Text" }];
    if (this.hit?.parts) out.push({ value: "why", label: "Why" });
    if (this.isMemory) out.push({ value: "history", label: "History" });
    if (this.thing !== null && this.thing.kind !== "conversation" && this.thing.kind !== "document") out.push({ value: "related", label: "Related" });
    out.push({ value: "details", label: "Details" });
    return out;
  });

  /** Shows a thing, at once what is known of it. The tab stays where the new thing has it too. */
  show(thing: Thing | null, hit: Hit | null, known?: Memory | null): void {
    this.hit = hit ?? (sameThing(thing, this.thing) ? this.hit : null);
    if (thing !== null && sameThing(thing, this.thing) && thing.seq === this.thing?.seq) return;
    this.thing = thing;
    this.memory.cancel();
    this.history.cancel();
    this.related.cancel();
    this.memory.data = known?.id === thing?.id ? (known ?? undefined) : undefined;
    this.memory.error = undefined;
    this.history.data = this.history.error = undefined;
    this.related.data = this.related.error = undefined;
    this.revision = null;
    if (thing === null) return this.reader.close();
    if (thing.kind === "memory") {
      this.reader.close();
      void this.read();
    } else if (thing.kind === "turn" && thing.parentId !== "") void this.reader.open("conversation", thing.parentId, thing.seq);
    else if (thing.kind === "chunk" && thing.parentId !== "") void this.reader.open("document", thing.parentId, thing.seq);
    else if (thing.kind === "conversation") void this.reader.open("conversation", thing.id);
    else if (thing.kind === "document") void this.reader.open("document", thing.id);
    if (!this.tabs.some((t) => t.value === this.tab)) this.tab = "text";
    this.#readTab();
  }

  setTab(tab: ThingTab): void {
    this.tab = tab;
    this.#readTab();
  }

  #readTab(): void {
    if (this.tab === "history" && !this.history.data) void this.readHistory();
    if (this.tab === "related" && !this.related.data) void this.readRelated();
  }

  /** Reads the memory. With `touch` the person opened it, which counts as one recall. */
  read(touch = false): Promise<void> {
    const { thing } = this;
    if (thing?.kind !== "memory") return Promise.resolve();
    return this.memory.run((signal) => this.#rpc.call("memory.get", { id: thing.id, ...(touch ? { touch } : {}) }, { signal }));
  }

  readHistory(): Promise<void> {
    const { thing } = this;
    if (thing?.kind !== "memory") return Promise.resolve();
    return this.history.run(async (signal) => (await this.#rpc.call("memory.history", { id: thing.id }, { signal })).revisions);
  }

  readRelated(): Promise<void> {
    const { thing } = this;
    if (thing === null) return Promise.resolve();
    return this.related.run(async (signal) => (await this.#rpc.call("memory.related", { id: thing.id, limit: 10 }, { signal })).results);
  }

  /** Something changed: reads again what is shown. */
  touched(ids: readonly string[] | null, op: string): void {
    const { thing } = this;
    if (thing === null) return;
    if (thing.kind === "memory") {
      if (ids !== null && !ids.includes(thing.id)) return;
      void this.read();
      this.related.data = undefined;
      if (this.tab === "history") void this.readHistory();
      else this.history.data = undefined;
    } else if (op === "import" || op === "documents" || ids === null || ids.includes(this.reader.id)) void this.reader.reload();
  }

  /** Takes over what the backend answered. */
  put(m: Memory): void {
    if (this.thing?.id === m.id) this.memory.data = m;
  }
}
