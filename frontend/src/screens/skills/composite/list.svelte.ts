import type { Rpc } from "../../../lib/rpc";
import { Paged } from "../../../lib/ui/state";
import type { Meta, Schedule } from "./types";

export type EnabledFilter = "any" | "enabled" | "disabled";

const TYPING_MS = 200;

/** The composite skills of the user: searched, filtered, which one is chosen, and what starts them by itself. */
export class CompositeList {
  query = $state("");
  enabled = $state<EnabledFilter>("any");
  selectedId = $state<string | null>(null);
  readonly page: Paged<Meta>;
  /** Schedules by the id and by the lower-case name of the skill that they start. */
  schedules = $state.raw<ReadonlyMap<string, readonly Schedule[]>>(new Map());
  #hidden = $state.raw<ReadonlySet<string>>(new Set());
  #typing: ReturnType<typeof setTimeout> | undefined;
  #soon: ReturnType<typeof setTimeout> | undefined;
  #later: ReturnType<typeof setTimeout> | undefined;
  readonly #rpc: Rpc;
  readonly #offs: (() => void)[] = [];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.page = new Paged<Meta>(async (offset, limit, signal) => {
      const query = this.query.trim();
      const r = await rpc.call(
        "skills.list_composite",
        { ...(query === "" ? {} : { query }), ...(this.enabled === "any" ? {} : { enabled: this.enabled === "enabled" }), limit, offset },
        { signal },
      );
      return { items: r.skills, total: r.total };
    });
  }

  readonly rows = $derived.by(() => this.page.items.filter((s) => !this.#hidden.has(s.skillId)));
  readonly total = $derived.by(() => Math.max(0, this.page.total - this.page.items.filter((s) => this.#hidden.has(s.skillId)).length));
  readonly filtered = $derived(this.query.trim() !== "" || this.enabled !== "any");
  readonly selected = $derived(this.rows.find((s) => s.skillId === this.selectedId) ?? null);
  /** There is nothing that could be searched or filtered. */
  readonly bare = $derived.by(() => this.rows.length === 0 && !this.filtered && !this.page.first && !this.page.error);

  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs.push(
      this.#rpc.on("skills.changed", () => this.soon()),
      // A run begins or ends: what the row says about the last one changes.
      this.#rpc.on("skills.run_event", (e) => {
        if (e.type === "run.created" || e.type === "run.started" || e.type === "run.finished" || e.type === "run.waiting") this.soon(300);
      }),
      this.#rpc.onReload(() => {
        void this.page.reload();
        void this.readSchedules();
      }),
      this.#rpc.on("schedules.changed", () => {
        clearTimeout(this.#later);
        this.#later = setTimeout(() => void this.readSchedules(), 100);
      }),
    );
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
    clearTimeout(this.#typing);
    clearTimeout(this.#soon);
    clearTimeout(this.#later);
  }

  /** Reads the list and the schedules. */
  async load(): Promise<void> {
    await Promise.all([this.page.reload(), this.readSchedules()]);
  }

  /** What starts a skill by itself. */
  schedulesOf(skill: Pick<Meta, "skillId" | "name">): readonly Schedule[] {
    return this.schedules.get(skill.skillId) ?? this.schedules.get(skill.name.toLowerCase()) ?? [];
  }

  async readSchedules(): Promise<void> {
    if (!this.#rpc.can("schedules.list")) return;
    try {
      const map = new Map<string, Schedule[]>();
      for (let offset = 0; ; ) {
        const { schedules, total } = await this.#rpc.call("schedules.list", { kind: "skill", limit: 100, offset });
        for (const s of schedules) {
          const key = s.target.id ?? s.target.name?.toLowerCase();
          if (key) map.set(key, [...(map.get(key) ?? []), s]);
        }
        offset += schedules.length;
        if (schedules.length === 0 || offset >= total) break;
      }
      this.schedules = map;
    } catch {
      // The Schedules screen says why; here only the badges are missing.
    }
  }

  /** Reads again in a moment; several changes in a row are one read. */
  soon(ms = 50): void {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => void this.page.reload(), ms);
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
    const at = this.rows.findIndex((s) => s.skillId === id);
    this.#hidden = new Set(this.#hidden).add(id);
    if (at >= 0 && this.selectedId === id) this.selectedId = this.rows[Math.min(at, this.rows.length - 1)]?.skillId ?? null;
  }

  /** Lets a hidden row be seen again and reads where it belongs. */
  async unhide(id: string): Promise<void> {
    await this.page.reload();
    const hidden = new Set(this.#hidden);
    hidden.delete(id);
    this.#hidden = hidden;
  }
}
