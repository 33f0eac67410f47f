import { ListState, route } from "../../../lib/list/state";
import type { Rpc } from "../../../lib/rpc";
import type { Meta, Schedule } from "./types";

/** The user's skills, and the schedules that run them. */
export class SkillList extends ListState<Meta, { state: string }> {
  /** Schedules by the id and by the lower-case name of the skill that they run. */
  schedules = $state.raw<ReadonlyMap<string, readonly Schedule[]>>(new Map());
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    super({
      id: (s) => s.skillId,
      route: route("skills", ["wasm", "new", "run", "shared"]),
      filters: { state: "any" },
      read: async ({ query, filters, offset, limit, signal }) => {
        const r = await rpc.call("skills.list_composite", { ...(query && { query }), ...(filters.state !== "any" && { enabled: filters.state === "enabled" }), limit, offset }, { signal });
        return { items: r.skills, total: r.total };
      },
    });
    this.#rpc = rpc;
  }

  /** Listens to events that change the rows. */
  listen(): void {
    this.start(
      this.#rpc,
      ["skills.changed"],
      // A run starts or ends: the row's information about the last run changes.
      this.#rpc.on("skills.run_event", (e) => {
        if (e.type === "run.created" || e.type === "run.started" || e.type === "run.finished" || e.type === "run.waiting") this.soon(300);
      }),
      this.#rpc.onReload(() => void this.readSchedules()),
      this.#rpc.on("schedules.changed", () => {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => void this.readSchedules(), 100);
      }),
    );
  }

  override stop(): void {
    super.stop();
    clearTimeout(this.#timer);
  }

  /** Reads the list and the schedules. */
  async load(): Promise<void> {
    await Promise.all([this.page.reload(), this.readSchedules()]);
  }

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
      // The Schedules screen shows the error; only the badges are missing here.
    }
  }
}
