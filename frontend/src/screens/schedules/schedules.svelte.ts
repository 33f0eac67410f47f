import { common } from "../../lib/i18n/common";
import { asError, type Rpc } from "../../lib/rpc";
import { when } from "../../lib/run/when";
import { promptOf, type PermissionPrompt } from "../../lib/run/prompt.svelte";
import { Load, type Notify } from "../../lib/ui/state";
import { CalendarState } from "./calendar.svelte";
import { ScheduleForm } from "./form.svelte";
import { scheduleRuns, type ScheduleRuns } from "./history";
import { RunDetail, ScheduleInspector } from "./inspector.svelte";
import { scheduleList } from "./list.svelte";
import { t } from "./messages";
import type { Run, Schedule, Status, Template } from "./types";
import { isOpen } from "../../lib/run/states";

/** The duration of "Pause all". */
export type PauseFor = "hour" | "tomorrow" | "resume";

/** The end of a pause; undefined: until it is resumed. */
export function pauseEnd(length: PauseFor, now = Date.now()): string | undefined {
  if (length === "resume") return undefined;
  if (length === "hour") return new Date(now + 3_600_000).toISOString();
  const d = new Date(now);
  return new Date(d.getFullYear(), d.getMonth(), d.getDate() + 1).toISOString();
}

/**
 * The Schedules screen as a whole. It outlives the component, so that a sheet keeps its input when another
 * screen is shown.
 */
export class SchedulesScreen {
  readonly list: ReturnType<typeof scheduleList>;
  readonly inspector: ScheduleInspector;
  readonly history: ScheduleRuns;
  readonly detail: RunDetail;
  readonly calendar: CalendarState;
  readonly form: ScheduleForm;
  readonly prompt: PermissionPrompt;
  readonly status = new Load<Status>();
  readonly templates = new Load<readonly Template[]>();
  /** Schedules that are being started manually. */
  starting = $state.raw<ReadonlySet<string>>(new Set());
  pausing = $state(false);
  /** The shown part of the screen, so that only that is read again. */
  view = $state<"list" | "calendar" | "history">("list");
  readonly running = $derived.by(() => (this.status.data?.lanes ?? []).reduce((n, l) => n + l.running, 0));
  readonly waiting = $derived.by(() => (this.status.data?.lanes ?? []).reduce((n, l) => n + l.waiting, 0));
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  #offs: (() => void)[] = [];
  #soon: ReturnType<typeof setTimeout> | undefined;
  /** Opens all waiting approvals; set by the page. */
  toApprovals: () => void = () => {};
  /** The schedule whose missing permission is being answered. */
  #asked: { approval: string; schedule: Schedule } | null = null;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.list = scheduleList(rpc);
    this.inspector = new ScheduleInspector(rpc);
    this.history = scheduleRuns(rpc);
    this.detail = new RunDetail(rpc);
    this.calendar = new CalendarState(rpc);
    this.form = new ScheduleForm(rpc);
    this.prompt = promptOf(rpc);
    this.prompt.onAnswer((a) => {
      const s = this.#asked?.approval === a.approvalId ? this.#asked.schedule : null;
      if (s) this.#asked = null;
      if (this.form.open) void this.form.readRights();
      if (s && a.approved) this.#notify.add({ title: t.allowed(s.name), tone: "ok", ms: 10_000, action: { label: t.runNow, run: () => void this.runNow(s) } });
    });
  }

  /** Starts listening; once for the lifetime of the screen's component. */
  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs = [
      this.#rpc.on("schedules.changed", (e) => this.#touched(e.scheduleId ?? null)),
      this.#rpc.on("schedules.run_event", (e) => {
        this.#touched(e.scheduleId);
        if (e.runId === this.detail.runId) void this.detail.read();
      }),
      this.#rpc.onReload(() => this.reload()),
    ];
    this.reload();
    void this.templates.run(async (signal) => (await this.#rpc.call("schedules.templates", {}, { signal })).templates);
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
    clearTimeout(this.#soon);
    this.list.stop();
    this.inspector.stop();
    this.history.stop();
    this.calendar.stop();
  }

  reload(): void {
    void this.readStatus();
    void this.list.page.reload();
    this.inspector.touched(null);
    this.#readView();
  }

  readStatus(): Promise<void> {
    return this.status.run((signal) => this.#rpc.call("schedules.status", {}, { signal }));
  }

  /** Shows another part of the screen. */
  show(view: "list" | "calendar" | "history"): void {
    if (this.view === view) return;
    this.view = view;
    this.#readView();
  }

  #readView(): void {
    if (this.view === "calendar") void this.calendar.read();
    else if (this.view === "history") void this.history.page.reload();
  }

  #touched(id: string | null): void {
    this.list.soon();
    this.inspector.touched(id);
    if (this.view === "history") this.history.soon(80);
    if (this.view === "calendar") this.calendar.soon();
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => void this.readStatus(), 60);
  }

  // — Actions —

  /** Opens the sheet for a new schedule; unsaved input is kept until then. */
  create(template?: Template): void {
    if (this.status.data) return this.form.begin(this.status.data, template);
    void this.readStatus().then(() => this.form.begin(this.status.data, template));
  }

  /** Creates or saves the schedule in the sheet. Returns it, or null if it was refused. */
  async save(): Promise<Schedule | null> {
    const before = this.form.base;
    const s = await this.form.save();
    if (!s) return null;
    this.#touched(s.scheduleId);
    this.#notify.ok((before ? t.saved : t.created)(s.name), s.status === "active" ? when(s) : t.createdPaused);
    return s;
  }

  /** Pauses a schedule, or resumes it. A schedule that Helix disabled starts anew. */
  async toggle(s: Schedule): Promise<void> {
    const on = s.status !== "active";
    const put = (x: Schedule): void => {
      this.list.put(x);
      if (this.inspector.id === x.scheduleId) this.inspector.schedule.data = x;
    };
    // Shown at once, so that the switch pressed again turns it back.
    put({ ...s, status: on ? "active" : "paused" });
    try {
      put(await this.#rpc.call(on ? "schedules.resume" : "schedules.pause", { scheduleId: s.scheduleId }, { inOrder: s.scheduleId }));
      this.#touched(s.scheduleId);
    } catch (e) {
      put(s);
      this.#notify.error(e, (on ? t.cannotResume : t.cannotPause)(s.name));
      this.list.soon();
    }
  }

  /** Starts its target now; its next time does not change. Returns the run, or "" if it was refused. */
  async runNow(s: Schedule): Promise<string> {
    if (this.starting.has(s.scheduleId)) return "";
    this.starting = new Set(this.starting).add(s.scheduleId);
    try {
      const r = await this.#rpc.call("schedules.run_now", { scheduleId: s.scheduleId });
      this.#touched(s.scheduleId);
      return r.runId;
    } catch (e) {
      this.#notify.error(e, t.cannotStart(s.name));
      return "";
    } finally {
      const rest = new Set(this.starting);
      rest.delete(s.scheduleId);
      this.starting = rest;
    }
  }

  async cancel(run: Run): Promise<void> {
    try {
      const now = await this.#rpc.call("schedules.cancel_run", { runId: run.runId });
      if (this.detail.runId === run.runId) this.detail.run.data = now;
      this.#touched(run.scheduleId);
    } catch (e) {
      this.#notify.error(e, t.cannotCancel);
    }
  }

  /** Deletes a schedule; Undo restores it. */
  async remove(s: Schedule): Promise<void> {
    if (s.system) return void this.#notify.add({ title: t.builtInKept(s.name), text: t.builtInKeptHelp, tone: "warn" });
    const params = { scheduleId: s.scheduleId };
    const deletion = {
      act: () => this.#rpc.call("schedules.delete", params),
      restore: () => this.#rpc.call("schedules.restore", params).then(() => this.#touched(null)),
      done: common.movedToTrash(s.name),
      trash: true,
      failed: t.cannotDelete(s.name),
    };
    if (await this.list.remove(s.scheduleId, deletion, this.#notify)) this.#touched(null);
  }

  async pauseAll(length: PauseFor): Promise<void> {
    await this.#pause(async () => {
      const until = pauseEnd(length);
      await this.#rpc.call("schedules.pause_all", until === undefined ? {} : { until });
    }, t.cannotPauseAll);
  }

  async resumeAll(): Promise<void> {
    await this.#pause(() => this.#rpc.call("schedules.resume_all", {}), t.cannotResumeAll);
  }

  async #pause(act: () => Promise<unknown>, failed: string): Promise<void> {
    this.pausing = true;
    try {
      await act();
      await this.readStatus();
      this.list.soon();
    } catch (e) {
      this.#notify.error(e, failed);
    } finally {
      this.pausing = false;
    }
  }

  /** Makes this device run it. */
  async takeOver(s: Schedule): Promise<void> {
    try {
      this.list.put(await this.#rpc.call("schedules.take_over", { scheduleId: s.scheduleId }));
      this.#touched(s.scheduleId);
      this.#notify.ok(t.takenOver(s.name));
    } catch (e) {
      this.#notify.error(e, t.cannotTakeOver(s.name));
    }
  }

  /** The approval that a run waits for or was refused with; null if there is none. */
  async #questionOf(run: Run): Promise<string | null> {
    if (!run.targetRunId) return null;
    const { error, waits } = await this.#rpc.call("skills.get_execution", { executionId: run.targetRunId });
    const id = error?.approvalId ?? waits.find((w) => w.request.reason === "permission")?.approvalId;
    if (id === undefined) return null;
    try {
      return (await this.#rpc.call("approvals.get", { id })).status === "pending" ? id : null;
    } catch (e) {
      if (asError(e).kind === "not_found") return null; // answered long ago
      throw e;
    }
  }

  /** Shows the approval of a run that could not ask. */
  async answer(run: Run): Promise<void> {
    try {
      const id = await this.#questionOf(run);
      if (id === null) return void this.#notify.add({ title: t.noRequest, text: t.noRequestHelp, ms: 10_000, action: { label: t.approvals, run: this.toApprovals } });
      const s = this.list.rows.find((x) => x.scheduleId === run.scheduleId) ?? this.inspector.schedule.data ?? null;
      this.#asked = s && !isOpen(run.status) ? { approval: id, schedule: s } : null;
      await this.prompt.show(id);
      // A grant for less than always does not help an unattended run.
      if (this.prompt.asked?.id === id && this.prompt.scopes.includes("always")) this.prompt.scope = "always";
    } catch (e) {
      this.#notify.error(asError(e), t.cannotAsk);
    }
  }
}
