import { ListState, route } from "../../lib/list/state";
import { lookup } from "../../lib/i18n";
import { asError, type Params, type Rpc } from "../../lib/rpc";
import { JobList } from "../../lib/ui/jobs.svelte";
import { Load, nav, type Notify } from "../../lib/ui/state";
import { ModelRequest } from "./modelRequest.svelte";
import { t } from "./messages";
import type { Analysis, ClusterMap, Detail, Job, Pattern, People, Recommendation, Schedule, View } from "./types";

/** All matching texts are read: patterns need more than the last hundred. */
const everything = 10_000;
const historyRows = 50;
/** The maximum number of texts in a map. */
const mapTexts = 5000;
const mostPeople = 500;

export function patternList(rpc: Rpc): ListState<Pattern, { layer: string; type: string; status: string; sort: string }> {
  return new ListState({
    id: (p) => p.id ?? "",
    route: route("insights", ["map", "people", "analyses"]),
    filters: { layer: "", type: "", status: "", sort: "variety" },
    read: async ({ query, filters, offset, limit, signal }) => {
      const params: Params<"memory.list_patterns"> = { limit, offset, sort: filters.sort };
      if (query !== "") params.query = query;
      if (filters.layer !== "") params.layer = Number(filters.layer);
      if (filters.type !== "") params.patternType = filters.type;
      if (filters.status !== "") params.status = filters.status;
      const r = await rpc.call("memory.list_patterns", params, { signal });
      return { items: r.patterns, total: r.total };
    },
  });
}

/** The Insights screen: patterns, the details of the selected one, the map, and the analyses. */
export class InsightsScreen {
  readonly list: ReturnType<typeof patternList>;
  readonly pattern = new Load<Detail>();
  readonly advice = new Load<readonly Recommendation[]>();
  readonly history = new Load<readonly Job[]>();
  readonly map = new Load<ClusterMap>();
  readonly people = new Load<People>();
  readonly schedules = new Load<readonly Schedule[]>();
  /** The number of texts to analyze. */
  readonly texts = new Load<number>();
  readonly jobs = new JobList();
  readonly request: ModelRequest;
  /** The running job, or null. */
  job = $state.raw<Job | null>(null);
  view = $state<View>("patterns");
  /** The note that is being written, or null. */
  note = $state<string | null>(null);
  /** The panel focuses the evidence as soon as it is loaded. */
  reading = $state(false);
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  #id: string | null = null;
  /** The job that was started here and not yet announced, or "". */
  #started = "";
  #opens = false;
  /** The job that ended last. */
  #ended: Job | null = null;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.list = patternList(rpc);
    this.request = new ModelRequest(rpc);
  }

  start(): void {
    this.list.start(
      this.#rpc,
      ["memory.patterns_changed"],
      this.#rpc.on("memory.synthesis_progress", (e) => this.#progress(e.jobId, e.stage, e.progress)),
      this.#rpc.on("memory.synthesis_done", (e) => this.#end(e)),
      this.#rpc.on("memory.patterns_changed", (e) => {
        if (this.#id !== null && (e.ids.length === 0 || e.ids.includes(this.#id))) void this.#read();
      }),
      this.#rpc.on("memory.changed", () => void this.readTexts()),
      this.#rpc.on("schedules.changed", () => void this.readSchedules()),
      this.#rpc.onReload(() => void this.readHistory()),
    );
    void this.list.page.reload();
    void this.readHistory();
    void this.readTexts();
  }

  stop(): void {
    this.list.stop();
  }

  /** Shows a part of the screen and reads its data. */
  show(view: View, id: string | null): void {
    this.view = view;
    if (view === "map") void this.readMap();
    if (view === "people") void this.readPeople();
    if (view === "analyses") void Promise.all([this.readHistory(), this.readSchedules()]);
    if (id === this.#id) return;
    this.#id = id;
    this.note = null;
    this.pattern.data = undefined;
    this.advice.data = undefined;
    void this.#read();
  }

  async #read(): Promise<void> {
    const id = this.#id;
    if (id === null) return;
    await Promise.all([
      this.pattern.run((signal) => this.#rpc.call("memory.get_pattern", { id }, { signal })),
      this.advice.run(async (signal) => (await this.#rpc.call("memory.list_recommendations", { limit: 100 }, { signal })).recommendations.filter((r) => r.patternId === id)),
    ]);
  }

  readMap(): Promise<void> {
    return this.map.run((signal) => this.#rpc.call("memory.cluster_map", { limit: mapTexts }, { signal }));
  }

  readHistory(): Promise<void> {
    return this.history.run(async (signal) => {
      const jobs = (await this.#rpc.call("memory.synthesis_history", { limit: historyRows }, { signal })).jobs;
      this.#show(jobs.find((j) => j.status === "running") ?? jobs.find((j) => j.status === "pending") ?? null);
      return jobs;
    });
  }

  readPeople(): Promise<void> {
    return this.people.run((signal) => this.#rpc.call("memory.list_people", { limit: mostPeople }, { signal }));
  }

  /** Merges several people into one, with Undo. */
  merge(ids: readonly string[], name: string): Promise<boolean> {
    return this.#correct(async () => {
      const r = await this.#rpc.call("memory.merge_people", { ids: [...ids], name });
      return { title: t.people.merged(r.person.name), undoToken: r.undoToken };
    });
  }

  /** Splits some names off from a person, with Undo. */
  split(name: string, aliases: readonly string[]): Promise<boolean> {
    return this.#correct(async () => {
      const r = await this.#rpc.call("memory.split_person", { name, aliases: [...aliases] });
      return { title: t.people.wereSplit(r.person.name, r.split.name), undoToken: r.undoToken };
    });
  }

  /** Renames a person, with Undo. */
  rename(name: string, to: string): Promise<boolean> {
    return this.#correct(async () => {
      const r = await this.#rpc.call("memory.rename_person", { name, to });
      return { title: t.people.renamed(r.person.name), undoToken: r.undoToken };
    });
  }

  /** Marks a name as not a person, or with restore reverts that, with Undo. */
  dismiss(name: string, restore = false): Promise<boolean> {
    return this.#correct(async () => {
      const r = await this.#rpc.call("memory.dismiss_people", { names: [name], restore });
      return { title: restore ? t.people.restored(name) : t.people.dismissed(r.names), undoToken: r.undoToken };
    });
  }

  async #correct(act: () => Promise<{ title: string; undoToken: string }>): Promise<boolean> {
    try {
      const { title, undoToken } = await act();
      this.#notify.undo(title, async () => {
        await this.#rpc.call("memory.undo", { undoToken });
        await this.readPeople();
      }, t.people.nextRun);
      await this.readPeople();
      return true;
    } catch (e) {
      this.#notify.error(e, t.people.cannotChange);
      return false;
    }
  }

  readTexts(): Promise<void> {
    return this.texts.run(async (signal) => (await this.#rpc.call("memory.stats", {}, { signal })).total);
  }

  readSchedules(): Promise<void> {
    return this.schedules.run(async (signal) => (await this.#rpc.call("schedules.list", { kind: "synthesis" }, { signal })).schedules);
  }

  /** The schedule that repeats an analysis. */
  schedule(kind: Analysis): Schedule | undefined {
    return this.schedules.data?.find((s) => s.target.name === kind && s.status === "active");
  }

  /** The last finished job of an analysis. */
  last(kind: Analysis): Job | undefined {
    return this.history.data?.find((j) => j.synthesisType === kind && j.completedAt);
  }

  /** Repeats a failed analysis with the same options: one by a model is previewed and approved again. */
  again(job: Job): void {
    const kind = job.synthesisType as Analysis;
    if (job.engine === "llm") this.request.open(kind);
    else void this.run(kind);
  }

  /** Runs an analysis. With `open`, the pattern that says most about the mood is opened when it ends. */
  async run(kind: Analysis, open = false): Promise<void> {
    this.#opens = open;
    try {
      const { jobId } = await this.#rpc.call("memory.synthesize", { synthesisType: kind, limit: everything, waitMs: 0 });
      await this.#follow(jobId);
    } catch (e) {
      this.#notify.error(e, t.cannotStart);
    }
  }

  /** Runs the analysis in the dialog. */
  async runModel(): Promise<void> {
    const jobId = await this.request.send();
    if (jobId !== "") await this.#follow(jobId);
  }

  async #follow(jobId: string): Promise<void> {
    // A short job can end before its start has returned.
    if (this.#ended?.jobId === jobId) this.#announce(this.#ended);
    else this.#started = jobId;
    await this.readHistory();
  }

  async cancel(): Promise<void> {
    const job = this.job;
    if (!job) return;
    try {
      await this.#rpc.call("memory.synthesis_cancel", { jobId: job.jobId });
    } catch (e) {
      this.#notify.error(e, t.cannotCancel);
    }
  }

  #show(job: Job | null): void {
    if (job && job.jobId === this.#ended?.jobId) job = null; // read before it ended
    if (this.job && this.job.jobId !== job?.jobId) this.jobs.remove(this.job.jobId);
    this.job = job;
    if (!job) return;
    this.jobs.put({ id: job.jobId, title: nameOf(job.synthesisType), step: lookup(t.stages, job.stage ?? ""), progress: job.progress, target: "insights/analyses", cancel: () => void this.cancel() });
  }

  #progress(jobId: string, stage: string, progress: number): void {
    if (this.job?.jobId === jobId) this.#show({ ...this.job, stage, progress, status: "running" });
    else void this.readHistory();
  }

  #end(job: Job): void {
    this.#ended = job;
    if (this.job?.jobId === job.jobId) this.#show(null);
    void this.readHistory();
    if (this.view === "map") void this.readMap();
    if (this.#started === job.jobId) this.#announce(job);
  }

  #announce(job: Job): void {
    this.#started = "";
    const { created, updated, summary } = job.insights;
    if (this.#opens) void this.#open();
    if (job.status === "completed") this.#notify.ok(t.done(created, updated), summary ?? "");
    else if (job.status === "cancelled") this.#notify.add({ title: t.runCanceled });
    else this.#notify.add({ title: t.runFailed, text: job.error ?? "", tone: "danger" });
  }

  async #open(): Promise<void> {
    this.#opens = false;
    try {
      const { patterns } = await this.#rpc.call("memory.list_patterns", { limit: 50, sort: "confidence" });
      const best = patterns.find((p) => p.type === "emotional_trigger") ?? patterns[0];
      if (best?.id && nav.screen === "insights" && this.#id === null) nav.go(`insights/${best.id}`);
    } catch {
      // The list shows the error.
    }
  }

  /** Confirms or rejects a pattern, or clears the feedback. */
  async answer(p: Pattern | Detail, verdict: "confirm" | "reject" | "clear"): Promise<void> {
    const id = p.id ?? "";
    try {
      const r = await this.#rpc.call("memory.pattern_feedback", { id, verdict });
      this.#put(r.pattern);
      this.#notify.undo({ confirm: t.confirmedToast, reject: t.rejectedToast, clear: t.clearedToast }[verdict], async () => {
        await this.#rpc.call("memory.undo", { undoToken: r.undoToken });
        await this.list.page.reload();
      });
    } catch (e) {
      this.#notify.error(e, t.cannotSave);
    }
  }

  async saveNote(): Promise<void> {
    const p = this.pattern.data;
    if (!p || this.note === null) return;
    try {
      const verdict = p.userConfirmed === undefined ? "clear" : p.userConfirmed ? "confirm" : "reject";
      const r = await this.#rpc.call("memory.pattern_feedback", { id: p.id ?? "", verdict, note: this.note });
      this.note = null;
      this.#put(r.pattern);
      this.#notify.ok(t.noteSaved);
    } catch (e) {
      this.#notify.error(e, t.cannotSave);
    }
  }

  #put(p: Pattern): void {
    this.list.put(p);
    if (this.#id === p.id) void this.#read();
  }

  async setAdvice(r: Recommendation, status: string): Promise<void> {
    try {
      const now = await this.#rpc.call("memory.update_recommendation", { id: r.id ?? "", status });
      this.advice.data = this.advice.data?.map((x) => (x.id === now.id ? now : x));
    } catch (e) {
      this.#notify.error(e, t.cannotSetState);
    }
  }

  /** Creates, changes or deletes the schedule of an analysis. */
  async repeat(kind: Analysis, cron: string): Promise<void> {
    try {
      const enabled = cron !== "";
      await this.#rpc.call("memory.synthesis_schedule", { synthesisType: kind, cron: cron || "0 20 * * *", enabled });
      await this.readSchedules();
      this.#notify.ok((enabled ? t.repeats : t.repeatStopped)(nameOf(kind)));
    } catch (e) {
      this.#notify.error(asError(e), t.cannotRepeat);
    }
  }
}

/** The name of an analysis. */
export const nameOf = (kind: string): string => t.analyses[kind as Analysis]?.name ?? kind;
export const percent = (confidence: number): number => Math.round(100 * confidence);
/** The color of a confidence: high above 80 %, medium above 60 %. */
export const toneOf = (confidence: number): "ok" | "warn" | "danger" => (confidence > 0.8 ? "ok" : confidence > 0.6 ? "warn" : "danger");
/** A description in parts: those at odd indexes are terms, which are between asterisks. */
export const termsOf = (description: string): string[] => description.split("*");
export const plainText = (description: string): string => description.replaceAll("*", "");

/** Whether the values of a chart are numbers of texts; otherwise they are moods, from -1 to 1. */
export const countsOnly = (points: readonly { value: number }[]): boolean => points.every((p) => Number.isInteger(p.value) && p.value >= 0);
/** The stages of a job in order, and its position: those before `at` are done. */
export function stagesOf(job: Pick<Job, "engine" | "stage">): { names: readonly string[]; at: number } {
  const names = job.engine === "llm" ? ["load", "model", "write"] : ["load", "valence", "temporal", "semantic", "emotional", "relational", "prospective", "narrative", "write"];
  return { names, at: Math.max(0, names.indexOf(job.stage ?? "")) };
}
/**
 * The expected duration of an analysis of the given number of texts, based on completed ones of its kind,
 * else of any kind; null if there are none.
 */
export function expected(jobs: readonly Job[], kind: Analysis, texts: number): number | null {
  const done = jobs.filter((j) => j.status === "completed" && j.engine === "local" && j.startedAt && j.completedAt && j.insights.texts > 0);
  const of = done.filter((j) => j.synthesisType === kind);
  const rates = (of.length > 0 ? of : done.filter((j) => j.synthesisType === "full_synthesis")).map((j) => (Date.parse(j.completedAt!) - Date.parse(j.startedAt!)) / j.insights.texts).sort((a, b) => a - b);
  const rate = rates[rates.length >> 1];
  return rate === undefined || texts === 0 ? null : rate * texts;
}
