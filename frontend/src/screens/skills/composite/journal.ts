/** The timeline rows of a run, built from its events one by one. Pure. */
import { isOpen } from "../../../lib/run/states";
import { t } from "../messages";
import type { Body, ExecuteResult, Failure, RunEvent, Step, StepResult } from "./types";


/** A time range in a row. */
export interface Bar {
  kind: "attempt" | "backoff" | "wait";
  from: number;
  /** Epoch ms; null while it continues. */
  to: number | null;
  /** Starts at 1; 0 for a wait. */
  attempt: number;
  state: "running" | "ok" | "failed" | "unknown" | "stopped";
  /** Why the attempt failed. */
  error?: Failure | undefined;
  /** For a delay: when the next attempt is due. */
  due?: number;
}

/** A step, or one item of a map, in one iteration. */
export interface Row {
  key: string;
  /** Ids of the enclosing steps and of the step, joined by a slash. */
  path: string;
  iteration: string;
  stepId: string;
  /** What it calls, or "". */
  tool: string;
  /** Kind of the step; `item` for one item of a map. */
  kind: string;
  /** Position among its siblings. */
  order: number;
  depth: number;
  status: string;
  /** Why it was skipped. */
  reason: string;
  reused: boolean;
  bars: Bar[];
  attempts: number;
  input: unknown;
  output: unknown;
  error: Failure | undefined;
  unknown: boolean;
  /** The kind of its last question: approval, unknown_outcome, permission or timer. */
  asked: string;
  tier: string;
  toolHash: string;
  /** For a map: how many items, how many ended, how many failed. */
  count: number;
  done: number;
  failed: number;
  /** Of a dry run. */
  source: string;
  wouldDo: { tier: string; rights: readonly string[]; input: unknown } | undefined;
  parent: Row | null;
  children: Row[];
}

type Data = Record<string, unknown>;

interface Place {
  step: Step;
  order: number;
  map: boolean;
}

/** The state of a run after its events so far. `apply` takes them in order of their number. */
export class Journal {
  /** Incremented with each change. */
  version = 0;
  status = "queued";
  startedAt = 0;
  finishedAt = 0;
  /** Data of run.created. */
  created: Data = {};
  readonly top: Row[] = [];
  readonly #rows = new Map<string, Row>();
  readonly #places = new Map<string, Place>();
  /** Names of the callables, by step id. */
  readonly #tools = new Map<string, string>();
  /** Rows with an unfinished bar. */
  readonly #open = new Set<Row>();

  constructor(body?: Body | undefined) {
    if (body) this.#index(body.steps, "", null);
    for (const step of body?.steps ?? []) this.#row(step.stepId, "");
  }

  get size(): number {
    return this.#rows.size;
  }

  #index(steps: readonly Step[], prefix: string, _parent: Step | null): void {
    for (const step of steps) {
      const path = prefix + step.stepId;
      this.#places.set(path, { step, order: this.#places.size, map: step.toolType === "map" });
      for (const arm of step.cases ?? []) this.#index(arm.steps, `${path}/`, step);
      if (step.else) this.#index(step.else, `${path}/`, step);
      if (step.steps) this.#index(step.steps, `${path}/`, step);
    }
  }

  /** The row of a step in an iteration, or undefined if it is unknown. */
  get(path: string, iteration = ""): Row | undefined {
    return this.#rows.get(`${path}@${iteration}`);
  }

  /** The state of each step over all its iterations, by path: states that need attention come first. */
  states(): ReadonlyMap<string, string> {
    const order = ["waiting", "running", "retrying", "failed", "cancelled", "completed"];
    const rank = (status: string): number => (order.includes(status) ? order.indexOf(status) : order.length);
    const out = new Map<string, string>();
    for (const row of this.#rows.values()) {
      const known = out.get(row.path);
      if (row.kind !== "item" && (known === undefined || rank(row.status) < rank(known))) out.set(row.path, row.status);
    }
    return out;
  }

  byKey(key: string): Row | undefined {
    return this.#rows.get(key);
  }

  /** The definition of a step, if the run contains it. */
  step(path: string): Step | undefined {
    return this.#places.get(path)?.step;
  }

  #make(key: string, over: Pick<Row, "path" | "iteration" | "stepId" | "kind" | "tool" | "order">, parent: Row | null): Row {
    const row: Row = {
      key,
      ...over,
      depth: parent === null ? 0 : parent.depth + 1,
      status: "pending",
      reason: "",
      reused: false,
      bars: [],
      attempts: 0,
      input: undefined,
      output: undefined,
      error: undefined,
      unknown: false,
      asked: "",
      tier: "",
      toolHash: "",
      count: 0,
      done: 0,
      failed: 0,
      source: "",
      wouldDo: undefined,
      parent,
      children: [],
    };
    this.#rows.set(key, row);
    const siblings = parent === null ? this.top : parent.children;
    let at = siblings.length;
    while (at > 0 && siblings[at - 1]!.order > row.order) at--;
    siblings.splice(at, 0, row);
    return row;
  }

  #row(path: string, iteration: string): Row {
    const key = `${path}@${iteration}`;
    const known = this.#rows.get(key);
    if (known) return known;
    const place = this.#places.get(path);
    const cut = path.lastIndexOf("/");
    let parent: Row | null = null;
    if (cut > 0) {
      const outer = path.slice(0, cut);
      parent = this.#places.get(outer)?.map && iteration !== "" ? this.#item(outer, iteration) : (this.#rows.get(`${outer}@${iteration}`) ?? this.#row(outer, iteration));
    }
    return this.#make(
      key,
      { path, iteration, stepId: path.slice(cut + 1), kind: place?.step.toolType ?? "", tool: this.#tools.get(path.slice(cut + 1)) ?? place?.step.toolName ?? "", order: place?.order ?? this.#rows.size + 10_000 },
      parent,
    );
  }

  /** The row of one item of a map; `iteration` is that of the steps inside. */
  #item(mapPath: string, iteration: string): Row {
    const key = `${mapPath}@${iteration}#`;
    const known = this.#rows.get(key);
    if (known) return known;
    const dot = iteration.lastIndexOf(".");
    const index = Number(iteration.slice(dot + 1));
    const map = this.#row(mapPath, dot < 0 ? "" : iteration.slice(0, dot));
    return this.#make(key, { path: mapPath, iteration, stepId: `${index + 1}`, kind: "item", tool: "", order: index }, map);
  }

  /** Applies the next event. */
  apply(e: RunEvent): void {
    this.version++;
    const at = Date.parse(e.at);
    const d = (typeof e.data === "object" && e.data !== null ? e.data : {}) as Data;
    if (this.startedAt === 0) this.startedAt = at;
    switch (e.type) {
      case "run.created":
        this.#begun(d);
        return;
      case "run.started":
        this.startedAt = at;
        this.status = "running";
        return;
      case "run.waiting":
        this.status = "waiting";
        return;
      case "run.resumed":
        this.status = "running";
        return;
      case "run.finished":
        this.#finish(at, String(d["status"] ?? "completed"));
        return;
      case "map.item":
        this.#itemEnded(e, at, d);
        return;
    }
    if (!e.stepPath) return;
    const row = this.#row(e.stepPath, e.iteration ?? "");
    if (row.parent?.kind === "item") this.#begin(row.parent, at);
    switch (e.type) {
      case "step.intent":
        this.#intent(row, e, at, d);
        break;
      case "step.outcome":
        this.#outcome(row, e, at, d);
        break;
      case "step.retry":
        this.#shut(row, at, "failed");
        row.status = "retrying";
        this.#push(row, { kind: "backoff", from: at, to: null, attempt: e.attempt ?? row.attempts, state: "running", due: at + Number(d["delayMs"] ?? 0) });
        break;
      case "step.skipped":
        this.#shut(row, at, "stopped");
        row.status = "skipped";
        row.reason = String(d["reason"] ?? "");
        row.error = (d["error"] as Failure | undefined) ?? row.error;
        break;
      case "step.reused":
        row.status = String(d["status"] ?? "completed");
        row.reused = true;
        row.output = d["output"];
        break;
      case "approval.requested":
        this.#shut(row, at, d["reason"] === "unknown_outcome" ? "unknown" : "stopped");
        row.status = "waiting";
        row.asked = String(d["reason"] ?? "");
        this.#push(row, { kind: "wait", from: at, to: null, attempt: 0, state: "running" });
        break;
      case "approval.answered":
        this.#answered(row, at, d);
        break;
    }
  }

  /** What the steps call, as resolved when the run started. */
  #begun(d: Data): void {
    this.created = d;
    const tools = (d["tools"] ?? {}) as Record<string, { name?: string } | undefined>;
    for (const [id, t] of Object.entries(tools)) if (t?.name) this.#tools.set(id, t.name);
    for (const row of this.#rows.values()) row.tool = this.#tools.get(row.stepId) ?? row.tool;
  }

  #intent(row: Row, e: RunEvent, at: number, d: Data): void {
    this.#shut(row, at, "ok");
    row.status = "running";
    row.attempts = Math.max(row.attempts, e.attempt ?? 1);
    if (d["input"] !== undefined) row.input = d["input"];
    if (typeof d["tier"] === "string") row.tier = d["tier"];
    if (typeof d["toolHash"] === "string") row.toolHash = d["toolHash"];
    if (typeof d["count"] === "number") row.count = d["count"];
    this.#push(row, { kind: "attempt", from: at, to: null, attempt: e.attempt ?? 1, state: "running" });
  }

  #outcome(row: Row, e: RunEvent, at: number, d: Data): void {
    const error = d["error"] as Failure | undefined;
    const state = d["unknown"] === true ? "unknown" : error ? "failed" : d["unmocked"] === true ? "stopped" : "ok";
    if (!this.#shut(row, at, state, error)) {
      // Steps without an intent end at the moment when they start.
      const took = Number(d["tookMs"] ?? 0);
      row.bars.push({ kind: "attempt", from: at - took, to: at, attempt: e.attempt ?? 1, state, error });
    }
    row.attempts = Math.max(row.attempts, e.attempt ?? 1);
    if (error) this.#failed(row, error);
    else {
      row.status = d["unmocked"] === true ? "unmocked" : "completed";
      row.error = undefined;
      row.output = d["output"];
    }
    row.unknown = d["unknown"] === true;
    if (typeof d["source"] === "string") row.source = d["source"];
  }

  /** An answer ends the step, unless it will be retried. */
  #answered(row: Row, at: number, d: Data): void {
    const decision = String(d["decision"] ?? "");
    const fail = (kind: string, message: string): void => {
      this.#shut(row, at, "failed");
      this.#failed(row, { kind, message });
    };
    if (decision === "retry") {
      this.#shut(row, at, "ok");
      row.status = "running";
    } else if (decision === "decline") fail("denied", t.answered.declined);
    else if (decision === "fail") row.asked === "unknown_outcome" ? fail("internal", t.answered.unknown) : fail("denied", t.answered.refused);
    else if (decision === "timeout" && row.asked !== "timer") fail("timeout", t.answered.timeout);
    else {
      this.#shut(row, at, "ok");
      row.status = "completed";
      row.output = decision === "approve" ? { decision, data: d["data"] ?? null } : d["output"];
    }
    if (row.asked === "unknown_outcome" && decision === "fail") row.unknown = true;
  }

  #failed(row: Row, error: Failure): void {
    row.error = error;
    row.output = undefined;
    const skip = this.#places.get(row.path)?.step.errorHandling === "skip" && row.kind !== "item";
    row.status = skip ? "skipped" : "failed";
    row.reason = skip ? "error" : "";
  }

  /** Applies the run's own state of its steps, once events cannot add more. */
  settle(results: readonly StepResult[]): void {
    for (const r of results) {
      const row = this.get(r.stepPath, r.iteration ?? "");
      if (!row) continue;
      if (r.toolName) row.tool = r.toolName;
      if (!row.reused) row.status = r.status;
      row.reason = r.reason ?? row.reason;
      row.error = r.error ?? row.error;
      if (r.output !== undefined) row.output = r.output;
      row.unknown = r.unknown === true;
      row.attempts = Math.max(row.attempts, r.attempts);
    }
    this.version++;
  }

  #begin(item: Row, at: number): void {
    if (item.bars.length > 0) return;
    item.status = "running";
    this.#push(item, { kind: "attempt", from: at, to: null, attempt: 1, state: "running" });
  }

  #itemEnded(e: RunEvent, at: number, d: Data): void {
    if (!e.stepPath) return;
    const iteration = `${e.iteration ? `${e.iteration}.` : ""}${Number(d["index"] ?? 0)}`;
    const item = this.#item(e.stepPath, iteration);
    const error = d["error"] as Failure | undefined;
    this.#begin(item, at);
    this.#shut(item, at, error ? "failed" : "ok", error);
    item.status = error ? "failed" : "completed";
    item.error = error;
    item.output = d["output"];
    const map = item.parent;
    if (map === null) return;
    map.done++;
    if (error) map.failed++;
  }

  #finish(at: number, status: string): void {
    this.status = status;
    this.finishedAt = at;
    for (const row of [...this.#open]) {
      this.#shut(row, at, "stopped");
      if (isOpen(row.status)) row.status = status === "cancelled" ? "cancelled" : "failed";
    }
  }

  #push(row: Row, bar: Bar): void {
    row.bars.push(bar);
    this.#open.add(row);
  }

  /** Ends the unfinished bar; returns false if there is none. */
  #shut(row: Row, at: number, state: Bar["state"], error?: Failure): boolean {
    const last = row.bars.at(-1);
    if (!last || last.to !== null) return false;
    last.to = Math.max(at, last.from);
    last.state = last.kind === "backoff" ? "ok" : state;
    if (error) last.error = error;
    this.#open.delete(row);
    return true;
  }

  /** Rows built from results, for runs whose events are not on this device and for dry runs. */
  static fromResults(run: Pick<ExecuteResult, "stepResults" | "status">, body?: Body): Journal {
    const j = new Journal(body);
    let clock = 0;
    for (const r of run.stepResults) {
      const row = j.#row(r.stepPath, r.iteration ?? "");
      row.kind = r.toolType || row.kind;
      row.tool = r.toolName || row.tool;
      row.status = r.status;
      row.reason = r.reason ?? "";
      row.reused = r.reason === "reused";
      row.output = r.output;
      row.error = r.error;
      row.unknown = r.unknown === true;
      row.attempts = r.attempts;
      row.source = r.source ?? "";
      row.wouldDo = r.wouldDo;
      if (r.wouldDo) {
        row.input = r.wouldDo.input;
        row.tier = r.wouldDo.tier;
      }
      const from = r.startedAt ? Date.parse(r.startedAt) : clock;
      const to = r.finishedAt ? Date.parse(r.finishedAt) : from + r.executionTimeMs;
      clock = Math.max(clock, to);
      if (r.status !== "skipped" && r.attempts > 0) row.bars.push({ kind: "attempt", from, to, attempt: r.attempts, state: r.unknown ? "unknown" : r.success ? "ok" : r.status === "unmocked" ? "stopped" : "failed", error: r.error });
      if (row.parent?.kind === "item") {
        const first = row.parent.bars[0];
        if (first) first.to = Math.max(first.to ?? to, to);
        else row.parent.bars.push({ kind: "attempt", from, to, attempt: 1, state: "ok" });
        if (!r.success && row.parent.status !== "failed") row.parent.status = r.skipped ? "completed" : "failed";
        else if (row.parent.status === "pending") row.parent.status = "completed";
      }
    }
    for (const row of j.#rows.values()) if (row.kind === "map") row.count = row.done = row.children.length;
    j.status = run.status;
    const all = [...j.#rows.values()].flatMap((r) => r.bars);
    j.startedAt = Math.min(...all.map((b) => b.from), Number.MAX_SAFE_INTEGER);
    if (all.length === 0) j.startedAt = 0;
    j.finishedAt = Math.max(0, ...all.map((b) => b.to ?? b.from));
    j.version = 1;
    return j;
  }

  /** The visible rows: maps and their items are folded unless they are in `toggled`, branches the other way round. */
  visible(toggled: ReadonlySet<string>): Row[] {
    const out: Row[] = [];
    const add = (rows: readonly Row[]): void => {
      for (const row of rows) {
        out.push(row);
        if (row.children.length > 0 && isExpanded(row, toggled)) add(row.children);
      }
    };
    add(this.top);
    return out;
  }

  /** Time ranges in which something was executed, for the scale. */
  busy(now: number): [number, number][] {
    const out: [number, number][] = [];
    for (const row of this.#rows.values()) {
      if (row.kind === "item" || row.kind === "map" || row.kind === "branch") continue;
      for (const b of row.bars) if (b.kind === "attempt") out.push([b.from, b.to ?? now]);
    }
    return out;
  }
}

/** A snapshot of a row; the journal continues to change its own. */
export const view = (row: Row): Row => ({ ...row, bars: row.bars.map((b) => ({ ...b })) });

/** Whether the rows below a row are shown. */
export const isExpanded = (row: Row, toggled: ReadonlySet<string>): boolean => (row.kind === "branch") !== toggled.has(row.key);

/** The id of the top-level step that a row belongs to. */
export const topStep = (row: Row): string => row.path.split("/")[0] ?? row.path;
