import type { Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import { sameItem, type Item } from "./address";
import { Reader } from "./reader.svelte";
import type { Hit, Memory, Revision } from "./types";

export type InspectorTab = "text" | "why" | "history" | "related" | "details";

/** The content of the inspector: one memory, message, part, conversation or document. */
export class ItemInspector {
  item = $state.raw<Item | null>(null);
  tab = $state<InspectorTab>("text");
  /** The search hit; null if it was not opened from one. */
  hit = $state.raw<Hit | null>(null);
  readonly memory = new Load<Memory>();
  readonly reader: Reader;
  readonly history = new Load<readonly Revision[]>();
  readonly related = new Load<readonly Hit[]>();
  /** The revision that is compared with the current text. */
  revision = $state<number | null>(null);
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.reader = new Reader(rpc);
  }

  readonly isMemory = $derived(this.item?.kind === "memory");
  readonly tabs = $derived.by((): InspectorTab[] => {
    const isPart = this.item !== null && this.item.kind !== "conversation" && this.item.kind !== "document";
    return ["text", ...(this.hit?.parts ? (["why"] as const) : []), ...(this.isMemory ? (["history"] as const) : []), ...(isPart ? (["related"] as const) : []), "details"];
  });

  /** Shows an item, starting with the known data. The tab stays if the new item has it too. */
  show(item: Item | null, hit: Hit | null, known?: Memory | null): void {
    this.hit = hit ?? (sameItem(item, this.item) ? this.hit : null);
    if (item !== null && sameItem(item, this.item) && item.seq === this.item?.seq) return;
    this.item = item;
    this.memory.cancel();
    this.history.cancel();
    this.related.cancel();
    this.memory.data = known?.id === item?.id ? (known ?? undefined) : undefined;
    this.memory.error = undefined;
    this.history.data = this.history.error = undefined;
    this.related.data = this.related.error = undefined;
    this.revision = null;
    if (item === null) return this.reader.close();
    if (item.kind === "memory") {
      this.reader.close();
      void this.read();
    } else if (item.kind === "turn" && item.parentId !== "") void this.reader.open("conversation", item.parentId, item.seq);
    else if (item.kind === "chunk" && item.parentId !== "") void this.reader.open("document", item.parentId, item.seq);
    else if (item.kind === "conversation") void this.reader.open("conversation", item.id);
    else if (item.kind === "document") void this.reader.open("document", item.id);
    if (!this.tabs.includes(this.tab)) this.tab = "text";
    this.#readTab();
  }

  setTab(tab: InspectorTab): void {
    this.tab = tab;
    this.#readTab();
  }

  #readTab(): void {
    if (this.tab === "history" && !this.history.data) void this.readHistory();
    if (this.tab === "related" && !this.related.data) void this.readRelated();
  }

  /** Reads the memory. With `touch` the person opened it, which counts as one recall. */
  read(touch = false): Promise<void> {
    const { item } = this;
    if (item?.kind !== "memory") return Promise.resolve();
    return this.memory.run((signal) => this.#rpc.call("memory.get", { id: item.id, ...(touch ? { touch } : {}) }, { signal }));
  }

  readHistory(): Promise<void> {
    const { item } = this;
    if (item?.kind !== "memory") return Promise.resolve();
    return this.history.run(async (signal) => (await this.#rpc.call("memory.history", { id: item.id }, { signal })).revisions);
  }

  readRelated(): Promise<void> {
    const { item } = this;
    if (item === null) return Promise.resolve();
    return this.related.run(async (signal) => (await this.#rpc.call("memory.related", { id: item.id, limit: 10 }, { signal })).results);
  }

  /** Reads the shown item again if a change is about it. */
  touched(ids: readonly string[] | null, op: string): void {
    const { item } = this;
    if (item === null) return;
    if (item.kind === "memory") {
      if (ids !== null && !ids.includes(item.id)) return;
      void this.read();
      this.related.data = undefined;
      if (this.tab === "history") void this.readHistory();
      else this.history.data = undefined;
    } else if (op === "import" || op === "documents" || ids === null || ids.includes(this.reader.id)) void this.reader.reload();
  }

  /** Shows the backend's answer. */
  put(m: Memory): void {
    if (this.item?.id === m.id) this.memory.data = m;
  }
}
