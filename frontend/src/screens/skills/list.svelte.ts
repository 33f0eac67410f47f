import type { Rpc } from "../../lib/rpc";
import { Paged } from "../../lib/ui/state";
import type { Skill } from "./types";

export type EnabledFilter = "any" | "enabled" | "disabled";

const TYPING_MS = 200;

/** The WASM skills of the user: searched, filtered, and which one is chosen. */
export class WasmList {
  query = $state("");
  enabled = $state<EnabledFilter>("any");
  selectedId = $state<string | null>(null);
  readonly page: Paged<Skill>;
  #hidden = $state.raw<ReadonlySet<string>>(new Set());
  #typing: ReturnType<typeof setTimeout> | undefined;
  #soon: ReturnType<typeof setTimeout> | undefined;
  readonly #rpc: Rpc;
  readonly #offs: (() => void)[] = [];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.page = new Paged<Skill>(async (offset, limit, signal) => {
      const query = this.query.trim();
      const r = await rpc.call(
        "skills.list_wasm",
        { ...(query === "" ? {} : { query }), ...(this.enabled === "any" ? {} : { enabled: this.enabled === "enabled" }), limit, offset },
        { signal },
      );
      return { items: r.skills, total: r.total };
    });
  }

  readonly rows = $derived.by(() => this.page.items.filter((s) => !this.#hidden.has(s.id)));
  readonly total = $derived.by(() => Math.max(0, this.page.total - this.page.items.filter((s) => this.#hidden.has(s.id)).length));
  readonly filtered = $derived(this.query.trim() !== "" || this.enabled !== "any");
  readonly selected = $derived(this.rows.find((s) => s.id === this.selectedId) ?? null);
  /** There is nothing that could be searched or filtered. */
  readonly bare = $derived.by(() => this.rows.length === 0 && !this.filtered && !this.page.first && !this.page.error);

  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs.push(
      this.#rpc.on("skills.wasm_changed", () => this.soon()),
      this.#rpc.on("sandbox.status_changed", () => this.soon()),
      this.#rpc.onReload(() => void this.page.reload()),
    );
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
    clearTimeout(this.#typing);
    clearTimeout(this.#soon);
  }

  /** Reads again in a moment; several changes in a row are one read. */
  soon(): void {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => void this.page.reload(), 50);
  }

  search(text: string): void {
    this.query = text;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.page.restart(), TYPING_MS);
  }

  setEnabled(filter: EnabledFilter): void {
    this.enabled = filter;
    void this.page.restart();
  }

  clearFilters(): void {
    clearTimeout(this.#typing);
    this.query = "";
    this.enabled = "any";
    void this.page.restart();
  }

  /** Takes a row out at once, before the backend has answered; the row after it is chosen. */
  hide(id: string): void {
    const at = this.rows.findIndex((s) => s.id === id);
    this.#hidden = new Set(this.#hidden).add(id);
    if (at >= 0 && this.selectedId === id) this.selectedId = this.rows[Math.min(at, this.rows.length - 1)]?.id ?? null;
  }

  /** Lets a hidden row be seen again and reads where it belongs. */
  async unhide(id: string): Promise<void> {
    await this.page.reload();
    const hidden = new Set(this.#hidden);
    hidden.delete(id);
    this.#hidden = hidden;
  }
}
