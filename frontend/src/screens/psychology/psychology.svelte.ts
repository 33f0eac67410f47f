import type { EventName, Rpc } from "../../lib/rpc";
import { common } from "../../lib/i18n/common";
import { Load, type Notify } from "../../lib/ui/state";
import { nav } from "../../lib/ui/nav.svelte";
import { addressOf } from "./address";
import { t } from "./messages";
import type { DecayRun, Entry, Fading, Forecast, Layer, Overview, Pattern, People, Place, Settings, Soul, ViewEntry } from "./types";

/** Assumptions of the forecast, in addition to the current state. */
export interface WhatIf {
  pinned?: boolean;
  tier?: string;
  /** Days of reviews, as 2026-05-31. */
  reviews?: readonly string[];
}

export const proposable = ["goal", "aspiration", "fear", "possible_self", "value", "relationship", "attachment", "trust", "conflict", "support", "emotional_trigger", "emotional_regulation", "intensity_pattern", "narrative_theme", "growth_theme", "identity_development"];
/** The methods that return the entries of a layer in chronological order. */
const timedViews = { 2: "psychology.emotional_map", 4: "psychology.goals", 7: "psychology.purpose" } as const;

/** The time of a review that is planned for a day. */
const noon = (day: string): string => `${day}T12:00:00Z`;

const longestPast = 60 * 86_400_000;

/** The Psychology screen: layers, entries, forecasts, fading items, the soul and the settings. */
export class PsychologyScreen {
  readonly overview = new Load<Overview>();
  readonly layer = new Load<Layer>();
  readonly people = new Load<People>();
  readonly timed = new Load<readonly ViewEntry[]>();
  /** The history of the selected entry since it was last revisited. */
  readonly past = new Load<Forecast | null>();
  readonly fading = new Load<readonly Fading[]>();
  readonly proposals = new Load<readonly Pattern[]>();
  readonly soul = new Load<Soul>();
  readonly revisions = new Load<readonly { version: number; text: string; at: string }[]>();
  readonly forecast = new Load<Forecast>();
  /** The selected entry; null for a memory. */
  readonly entry = new Load<Entry | null>();
  place = $state.raw<Place>({ view: "overview", layer: 0, id: "" });
  /** The order of proposals. */
  sort = $state<"confidence" | "salience" | "recent">("confidence");
  /** What a check would change, until one runs. */
  dryRun = $state.raw<DecayRun | null>(null);
  whatIf = $state.raw<WhatIf>({});
  /** The edited soul; null: as stored. */
  draft = $state<string | null>(null);
  busy = $state(false);
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  #stop: (() => void)[] = [];

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
  }

  /** Starts following events, once. */
  start(): void {
    if (this.#stop.length > 0) return;
    const changed: EventName[] = ["psychology.changed", "memory.patterns_changed"];
    this.#stop = [
      ...changed.map((e) => this.#rpc.on(e, () => void this.read())),
      this.#rpc.on("psychology.decay_done", (e) => {
        void this.read();
        if (e.trashed > 0) this.#notify.undo(t.trashed(e.trashed), () => this.#rpc.call("psychology.restore_from_decay", { runId: e.runId }));
      }),
      this.#rpc.on("psychology.fading", (e) => this.#notify.add({ title: t.fadingSoon(e.count), action: { label: t.show, run: () => nav.go("psychology/fading") } })),
      this.#rpc.onReload(() => void this.read()),
    ];
  }

  show(place: Place): void {
    if (place.id !== this.place.id) this.whatIf = {};
    this.place = place;
    void this.read();
  }

  /** Reads the data of the current view. */
  async read(): Promise<void> {
    const { view, layer, id } = this.place;
    const call = this.#rpc;
    const reads: Promise<void>[] = [this.overview.run((signal) => call.call("psychology.overview", {}, { signal }))];
    if (view === "patterns" || view === "overview")
      reads.push(
        this.proposals.run(async (signal) => {
          const found = await call.call("memory.list_patterns", { status: "active", limit: 100, sort: this.sort }, { signal });
          return found.patterns.filter((p) => p.userConfirmed === undefined && proposable.includes(p.type));
        }),
      );
    if (layer > 0) reads.push(this.layer.run((signal) => call.call("psychology.get_layer", { layerNumber: layer }, { signal })));
    const timed = timedViews[layer as keyof typeof timedViews];
    if (timed) reads.push(this.timed.run(async (signal) => (await call.call(timed, {}, { signal })).entries));
    if (layer === 3) reads.push(this.people.run((signal) => call.call("psychology.trust_map", id === "" ? {} : { personId: id }, { signal })));
    if (view === "fading") reads.push(this.fading.run(async (signal) => (await call.call("psychology.fading", { limit: 100 }, { signal })).items));
    if (view === "soul") {
      reads.push(this.soul.run((signal) => call.call("psychology.get_soul", {}, { signal })));
      reads.push(this.revisions.run(async (signal) => (await call.call("psychology.soul_history", {}, { signal })).revisions));
    }
    if (id !== "") reads.push(this.readItem());
    await Promise.all(reads);
  }

  /** Reads the selected item and its forecast. */
  async readItem(): Promise<void> {
    const { id } = this.place;
    const { pinned, tier, reviews } = this.whatIf;
    await this.forecast.run((signal) =>
      this.#rpc.call(
        "psychology.forecast",
        { id, points: 240, whatIf: { ...(pinned === undefined ? {} : { pinned }), ...(tier ? { tier } : {}), ...(reviews ? { reinforceAt: reviews.map(noon) } : {}) } },
        { signal },
      ),
    );
    const item = this.forecast.data?.item;
    await this.entry.run(async (signal) => {
      if (!item || item.kind !== "entry") return null;
      const layer = await this.#rpc.call("psychology.get_layer", { layerNumber: item.layerNumber }, { signal });
      return layer.entries.find((e) => e.id === id) ?? null;
    });
    const since = this.entry.data?.lastReinforcedAt ?? this.entry.data?.createdAt;
    await this.past.run(async (signal) => {
      // A pinned item has no curve, and less than an hour is not visible.
      if (!since || item?.pinned || Date.now() - Date.parse(since) < 3_600_000) return null;
      const from = Math.max(Date.parse(since), Date.now() - longestPast);
      return this.#rpc.call("psychology.forecast", { id, from: new Date(from).toISOString(), to: new Date().toISOString(), points: 60 }, { signal });
    });
  }

  /** Recomputes the forecast with assumptions. */
  assume(w: WhatIf): void {
    this.whatIf = { ...this.whatIf, ...w };
    void this.readItem();
  }

  /** Saves the assumptions; each part has its own Undo. */
  async apply(): Promise<void> {
    const { id } = this.place;
    const { pinned, tier, reviews } = this.whatIf;
    this.whatIf = {};
    if (tier) await this.setTier(id, tier);
    if (pinned !== undefined) await this.pin(id, pinned);
    if (reviews) await this.#act(t.reviewsPlanned(reviews.length), () => this.#rpc.call("psychology.plan_reviews", { id, at: reviews.map(noon) }));
    await this.readItem();
  }

  close(): void {
    nav.go(addressOf({ ...this.place, id: "" }));
  }

  select(id: string): void {
    nav.go(addressOf({ ...this.place, id }));
  }

  async #act(title: string, act: () => Promise<{ undoToken?: string }>): Promise<boolean> {
    const done = async (): Promise<void> => {
      const { undoToken } = await act();
      if (undoToken) this.#notify.undo(title, () => this.#rpc.call("psychology.undo", { undoToken }));
      else this.#notify.ok(title);
    };
    try {
      await (this.#notify.during ? this.#notify.during(done) : done());
      await this.read();
      return true;
    } catch (e) {
      this.#notify.error(e, t.cannotSave);
      return false;
    }
  }

  keep(id: string): Promise<boolean> {
    return this.#act(t.kept, () => this.#rpc.call("psychology.reinforce", { ids: [id], kind: "review" }));
  }
  pin(id: string, on: boolean): Promise<boolean> {
    return this.#act(on ? t.pinned : t.unpinned, () => this.#rpc.call("psychology.pin", { ids: [id], on }));
  }
  setTier(id: string, tier: string): Promise<boolean> {
    return this.#act(t.tierSet, () => this.#rpc.call("psychology.set_salience", { ids: [id], tier }));
  }
  /** Moves an entry or a memory to the trash. */
  async letGo(id: string, kind: string): Promise<void> {
    const done = await this.#act(t.gone, () => (kind === "memory" ? this.#rpc.call("memory.delete", { ids: [id] }) : this.#rpc.call("psychology.delete_entry", { ids: [id] })));
    if (done && this.place.id === id) this.close();
  }

  /** Adds an entry or saves a changed one. Returns true if it was stored. */
  async save(e: { layerNumber: number; kind: string; data: Record<string, unknown>; id?: string; version?: number }): Promise<Entry | null> {
    try {
      const saved = await this.#rpc.call("psychology.upsert_entry", e as never);
      await this.read();
      return saved;
    } catch (err) {
      this.#notify.error(err, t.cannotSave);
      return null;
    }
  }

  /** Changes some fields of an entry, with Undo. */
  async change(e: Entry, change: Record<string, unknown>, done: string): Promise<void> {
    const before = e.data as Record<string, unknown>;
    const saved = await this.save({ layerNumber: e.layerNumber, kind: e.kind, data: { ...before, ...change }, id: e.id, version: e.version });
    if (!saved) return;
    this.#notify.undo(done, async () => {
      await this.#rpc.call("psychology.upsert_entry", { layerNumber: e.layerNumber, kind: e.kind, data: before, id: e.id, version: saved.version } as never);
    });
  }

  order(by: "confidence" | "salience" | "recent"): void {
    this.sort = by;
    void this.read();
  }

  async accept(p: Pattern): Promise<void> {
    try {
      const made = await this.#rpc.call("psychology.accept_proposal", { patternId: p.id ?? "" });
      this.#notify.undo(t.accepted, async () => {
        await this.#rpc.call("psychology.delete_entry", { ids: [made.id] });
        await this.#rpc.call("memory.pattern_feedback", { id: p.id ?? "", verdict: "clear" });
      });
      await this.read();
    } catch (e) {
      this.#notify.error(e, t.cannotSave);
    }
  }
  dismiss(p: Pattern): Promise<boolean> {
    return this.#act(t.dismissed, () => this.#rpc.call("psychology.dismiss_proposal", { patternId: p.id ?? "" }));
  }

  /** Evaluates decay, or only returns what it would change. */
  async check(dryRun: boolean): Promise<void> {
    this.busy = true;
    try {
      const r = await this.#rpc.call("psychology.decay_run", { dryRun });
      this.dryRun = dryRun ? r : null;
      if (!dryRun) this.#notify.ok(t.checked(r.changed));
      await this.read();
    } catch (e) {
      this.#notify.error(e);
    } finally {
      this.busy = false;
    }
  }

  async record(personId: string, evidence: number | null, salienceTier: string, note: string): Promise<boolean> {
    const two = (n: number): string => n.toFixed(2);
    try {
      const r = await this.#rpc.call("psychology.record_interaction", { personId, evidence, salienceTier, ...(note ? { note } : {}) } as never);
      this.#notify.ok(t.recorded(two(r.before), two(r.after)));
      await this.read();
      return true;
    } catch (e) {
      this.#notify.error(e, t.cannotSave);
      return false;
    }
  }

  async saveSoul(): Promise<void> {
    const soul = this.soul.data;
    if (!soul || this.draft === null) return;
    try {
      await this.#rpc.call("psychology.update_soul", { text: this.draft, version: soul.version });
      this.draft = null;
      this.#notify.ok(t.soulSaved);
      await this.read();
    } catch (e) {
      this.#notify.error(e, t.cannotSave);
    }
  }

  async set(change: Partial<Settings>): Promise<void> {
    try {
      await this.#rpc.call("psychology.update_settings", change);
      await this.read();
    } catch (e) {
      this.#notify.error(e, t.cannotSave);
      await this.read();
    }
  }

  async exportFiles(): Promise<void> {
    try {
      const r = await this.#rpc.call("psychology.export", {});
      this.#notify.ok(t.exported(r.entries, r.path ?? ""));
    } catch (e) {
      this.#notify.error(e);
    }
  }
  /** Imports from a folder that was chosen, uploaded or named; "" is the user's own folder. */
  async importFiles(path = ""): Promise<void> {
    try {
      this.#notify.ok(t.imported((await this.#rpc.call("psychology.import", path === "" ? {} : { path })).entries));
      await this.read();
    } catch (e) {
      this.#notify.error(e);
    }
  }
  async deleteAll(): Promise<void> {
    const all = await this.#rpc.call("psychology.get_all_layers", {});
    const ids = all.layers.flatMap((l) => l.entries.map((e) => e.id));
    await this.#act(t.gone, async () => {
      const tokens: string[] = [];
      for (let i = 0; i < ids.length; i += 1000) tokens.push((await this.#rpc.call("psychology.delete_entry", { ids: ids.slice(i, i + 1000) })).undoToken ?? "");
      return { undoToken: tokens.join(".") };
    });
  }
}

/** The title of an entry in a list. */
export function titleOf(e: Pick<Entry, "kind" | "data">): string {
  const d = (e.data ?? {}) as Record<string, unknown>;
  for (const k of ["title", "name", "emotion", "text", "dimension", "cadence"]) if (typeof d[k] === "string" && d[k] !== "") return d[k];
  return t.kinds[e.kind] ?? common.none;
}

/** A numeric field of an entry, or a default. */
export const numberOf = (e: Pick<Entry, "data">, name: string, or: number): number => {
  const v = ((e.data ?? {}) as Record<string, unknown>)[name];
  return typeof v === "number" && Number.isFinite(v) ? v : or;
};

/** A text field of an entry, or "". */
export const textOf = (e: Pick<Entry, "data">, name: string): string => {
  const v = ((e.data ?? {}) as Record<string, unknown>)[name];
  return typeof v === "string" ? v : "";
};

/** The date of an entry, as 2026-05-31, or "". */
export const dateOf = (e: Pick<Entry, "data">): string => ["targetDate", "lastFelt", "startedAt", "at"].map((name) => textOf(e, name)).find((v) => v !== "") ?? "";
