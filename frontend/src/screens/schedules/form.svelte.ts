import { shipped } from "../../lib/i18n";
import { asError, type RpcError } from "../../lib/rpc/errors";
import { fieldErrors, isWithin } from "../../lib/rpc/fields";
import type { Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import { asCadence, CUSTOM, DAYS, inUnits, presetOf, presets, units, weeklyCron, weeklyOf, type CadenceSpec, type Preset, type Unit, type Weekly } from "./cadence";
import { t } from "./messages";
import type { MissedPolicy } from "./missed";
import { readRights, type Rights } from "./rights";
import { Targets } from "./targets.svelte";
import type { CreateParams, Preview, Schedule, Status, Template } from "./types";
import { dayText } from "./words";
import { ownZone } from "./zones";

const TYPING_MS = 250;

export type WhenKind = CadenceSpec["type"];

/** The fields of the request and where the form shows their errors. A field comes before the one that contains it. */
const places = {
  "cadence.timezone": "zone",
  cadence: "when",
  "target.input": "input",
  target: "target",
  name: "name",
  notifyWhen: "condition",
  graceSecs: "grace",
  maxRunMs: "maxRun",
  maxRuns: "maxRuns",
  jitterSecs: "jitter",
  "retry.max": "retries",
  "retry.baseSecs": "retryBase",
  "retry.capSecs": "retryCap",
  autoDisableAfter: "disableAfter",
  notifyAfterFailures: "notifyAfter",
  endsAt: "endsAt",
} as const;

/** Where the form shows an error; "" for below the form. */
export type Place = (typeof places)[keyof typeof places] | "";

/** Where the form shows an error about a field of the request. */
export const placeOf = (path: string): Place => Object.entries(places).find(([field]) => isWithin(path, field))?.[1] ?? "";

/** What is wrong with a typed number; empty if it is valid. */
export function numberError(text: string, min: number, max: number, whole = true): string {
  const n = Number(text);
  if (text.trim() === "" || !Number.isFinite(n) || (whole && !Number.isInteger(n))) return whole ? t.enterWhole : t.enterNumber;
  if (n < min) return t.atLeast(min);
  return n > max ? t.atMost(max) : "";
}

/**
 * The sheet that creates a schedule or edits one. Its input is kept until it is saved or canceled, whatever
 * the backend returns.
 */
export class ScheduleForm {
  open = $state(false);
  /** The edited schedule; null for a new one. */
  base = $state.raw<Schedule | null>(null);
  name = $state("");
  description = $state("");
  kind = $state("");
  targetId = $state("");
  input = $state<Record<string, unknown>>({});
  /** What is wrong in the input form; empty if it is valid. */
  inputProblem = $state("");
  when = $state<WhenKind>("cron");
  /** The chosen preset, or custom, which shows the cron field. */
  preset = $state<Preset>("daily");
  expression = $state("0 9 * * *");
  /** An IANA name; empty: that of this device, even if it changes. */
  zone = $state("UTC");
  every = $state("1");
  everyUnit = $state<Unit>("3600");
  /** Local, in the format of a date field and a time field. */
  onceDay = $state("");
  onceTime = $state("09:00");
  missed = $state<MissedPolicy>("once");
  grace = $state("1");
  graceUnit = $state<Unit>("86400");
  overlap = $state("skip");
  jitter = $state("0");
  retries = $state("2");
  retryBase = $state("60");
  retryCap = $state("3600");
  disableAfter = $state("5");
  notifyAfter = $state("3");
  notification = $state("conditional");
  notifyWhen = $state("");
  /** Minutes. */
  maxRun = $state("30");
  maxRuns = $state("");
  /** Local date and time, or empty. */
  startsAt = $state("");
  endsAt = $state("");
  takeover = $state(false);
  /** New ones only: created, but not started. */
  paused = $state(false);
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  /** The schedule was changed elsewhere while it was edited here. */
  stale = $state(false);
  readonly preview = new Load<Preview>();
  readonly rights = new Load<Rights>();
  readonly schema = new Load<{ schema: unknown }>();
  readonly targets: Targets;

  #named = false;
  #start = "{}";
  #anchor = "";
  #target: Schedule["target"] | null = null;
  #typing: ReturnType<typeof setTimeout> | undefined;
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.targets = new Targets(rpc);
  }

  // Getters, because they are also read outside components, where a derived value may be outdated.
  get editing() {
    return this.base !== null;
  }
  get needsTarget() {
    return this.kind === "skill" || this.kind === "tool";
  }
  get choices() {
    return this.targets.of(this.kind)?.data ?? [];
  }
  get nameError() {
    const n = this.name.trim();
    return n === "" ? t.enterName : [...n].length > 100 ? t.nameTooLong : "";
  }
  get everyError() {
    return this.when === "interval" ? numberError(this.every, 1, 10_000) : "";
  }
  get onceError() {
    if (this.when !== "once") return "";
    if (this.onceDay === "" || this.onceTime === "") return t.chooseTime;
    return this.base === null && new Date(`${this.onceDay}T${this.onceTime}`).getTime() < Date.now() ? t.pastTime : "";
  }
  get graceError() {
    return this.missed === "skip" ? "" : numberError(this.grace, 0, 100_000, false);
  }
  get limits() {
    return {
    maxRun: numberError(this.maxRun, 0.02, 525_600, false),
    maxRuns: this.maxRuns.trim() === "" ? "" : numberError(this.maxRuns, 1, 1_000_000),
    jitter: numberError(this.jitter, 0, 86_400),
    retries: numberError(this.retries, 0, 100),
    retryBase: numberError(this.retryBase, 1, 86_400),
    retryCap: numberError(this.retryCap, 1, 604_800),
    disableAfter: numberError(this.disableAfter, 0, 1000),
    notifyAfter: numberError(this.notifyAfter, 0, 1000),
    endsAt: this.startsAt !== "" && this.endsAt !== "" && this.endsAt <= this.startsAt ? t.endBeforeStart : "",
    };
  }
  /** The backend's message about a field, as long as the field still has the value that the message is about. */
  get refused(): Partial<Record<Place, string>> {
    const out: Partial<Record<Place, string>> = {};
    const seen = this.preview.error;
    if (seen && seen.kind === "invalid") out[placeOf(fieldErrors(seen)[0]?.path ?? "") === "zone" ? "zone" : "when"] = seen.message;
    if (this.error) {
      const fields = fieldErrors(this.error);
      for (const f of fields) out[placeOf(f.path)] ??= f.message;
      if (fields.length === 0 && this.error.kind !== "conflict") out[""] = this.error.message;
    }
    return out;
  }
  /** The part of the cron text that the backend refused, from 0; -1 for none. */
  get wrongPart() {
    for (const e of [this.preview.error, this.error]) {
      const part = e && fieldErrors(e).map((f) => /^cadence\.expression\[(\d+)\]$/.exec(f.path)?.[1]).find((n) => n !== undefined);
      if (part) return Number(part);
    }
    return -1;
  }
  /** Why it cannot be saved, for the button; "" if it can. */
  get blocked() {
    if (this.kind === "" || (this.needsTarget && this.targetId === "")) return t.chooseTarget;
    if (this.needsTarget && this.targetId !== this.#target?.id && this.schema.data === undefined && this.schema.error === undefined) return t.loadingInput;
    if (this.inputProblem !== "") return t.fillInput;
    if (this.preview.error?.kind === "invalid") return t.fixTimes;
    const wrong = this.nameError || this.everyError || this.onceError || this.graceError || Object.values(this.limits).find((e) => e !== "");
    return wrong ? t.fixFields : "";
  }
  /** Whether closing would lose input; also called just after the sheet was closed. */
  get dirty() {
    return this.kind !== "" && JSON.stringify(this.params()) !== this.#start;
  }

  /** Opens the sheet for a new schedule, or continues with an unsaved one. */
  begin(status: Status | undefined, template?: Template): void {
    this.reset();
    this.zone = status?.timezone || ownZone();
    const usable = Targets.kinds(status).filter((t) => !t.reason);
    this.kind = usable.find((t) => t.kind === "skill")?.kind ?? usable[0]?.kind ?? "";
    this.#setDay();
    if (template) {
      this.name = shipped(template.name);
      this.#named = true;
      this.description = shipped(template.description);
      this.#readTarget(template.target);
      this.#readCadence(asCadence(template.cadence));
    }
    this.#opened();
    if (template) this.#start = "{}";
  }

  /** Opens the sheet on a schedule. */
  edit(s: Schedule): void {
    this.reset();
    this.base = s;
    this.#fill(s);
    this.#opened();
  }

  /** Opens the sheet with a copy of a schedule, as a new one. */
  copy(s: Schedule): void {
    this.reset();
    this.#fill(s);
    this.name = t.copyOf(s.name).slice(0, 100);
    this.#opened();
    this.#start = "{}";
  }

  #fill(s: Schedule): void {
    this.#named = true;
    this.#setDay();
    this.name = s.name;
    this.description = s.description;
    this.#readTarget(s.target);
    this.#readCadence(asCadence(s.cadence));
    if (s.osZone) this.zone = "";
    this.missed = s.missedPolicy as MissedPolicy;
    const grace = inUnits(s.graceSecs);
    this.grace = String(grace.count);
    this.graceUnit = grace.unit;
    this.overlap = s.overlap;
    this.jitter = String(s.jitterSecs);
    this.retries = String(s.retry.max);
    this.retryBase = String(s.retry.baseSecs);
    this.retryCap = String(s.retry.capSecs);
    this.disableAfter = String(s.autoDisableAfter);
    this.notifyAfter = String(s.notifyAfterFailures);
    this.notification = s.notification;
    this.notifyWhen = s.notifyWhen ?? "";
    this.maxRun = String(s.maxRunMs / 60_000);
    this.maxRuns = s.maxRuns ? String(s.maxRuns) : "";
    this.startsAt = localText(s.startsAt);
    this.endsAt = localText(s.endsAt);
    this.takeover = s.placement.takeover;
  }

  #readTarget(t: Schedule["target"]): void {
    this.#target = t;
    this.kind = t.kind;
    this.targetId = t.id ?? "";
    this.input = typeof t.input === "object" && t.input !== null && !Array.isArray(t.input) ? { ...(t.input as Record<string, unknown>) } : {};
  }

  #readCadence(c: CadenceSpec | null): void {
    if (!c) return;
    this.when = c.type;
    this.#anchor = c.anchor ?? "";
    if (c.expression) this.expression = c.expression;
    this.preset = presetOf(this.expression);
    if (c.timezone) this.zone = c.timezone;
    if (c.everySecs) {
      const e = inUnits(c.everySecs);
      this.every = String(e.count);
      this.everyUnit = e.unit;
    }
    if (c.at) {
      const local = localText(c.at);
      this.onceDay = local.slice(0, 10);
      this.onceTime = local.slice(11);
    }
  }

  /** Tomorrow, the initial value for a single time. */
  #setDay(): void {
    const d = new Date();
    d.setDate(d.getDate() + 1);
    this.onceDay = localText(d.toISOString()).slice(0, 10);
  }

  #opened(): void {
    this.open = true;
    this.#start = JSON.stringify(this.params());
    if (this.kind !== "") void this.targets.read(this.kind).then(() => this.#targetChanged());
    void this.readPreview();
  }

  setKind(kind: string): void {
    this.kind = kind;
    this.targetId = "";
    this.input = {};
    this.inputProblem = "";
    this.schema.data = undefined;
    this.error = null;
    if (!this.needsTarget && !this.#named) this.name = "";
    void this.targets.read(kind).then(() => this.#targetChanged());
  }

  setTarget(id: string): void {
    if (id === this.targetId) return;
    this.targetId = id;
    this.input = {};
    this.inputProblem = "";
    this.schema.data = undefined;
    this.rights.data = undefined;
    this.error = null;
    if (!this.#named) this.name = this.choices.find((c) => c.id === id)?.name.slice(0, 100) ?? "";
    void this.#targetChanged();
  }

  setName(name: string): void {
    this.name = name;
    this.#named = name.trim() !== "";
  }

  setWhen(kind: WhenKind): void {
    this.when = kind;
    this.timesChanged();
  }

  setPreset(preset: Preset): void {
    this.preset = preset;
    if (preset === DAYS) {
      if (!weeklyOf(this.expression)) this.expression = "0 9 * * 1-5";
    } else if (preset !== CUSTOM) this.expression = presets[preset];
    this.timesChanged();
  }

  /** Sets the weekdays and the time of the expression. */
  setWeekly(w: Weekly): void {
    if (w.time === "") return;
    this.expression = weeklyCron(w);
    this.preset = DAYS;
    this.timesChanged();
  }

  setExpression(text: string): void {
    this.expression = text;
    this.timesChanged();
  }

  setZone(zone: string): void {
    this.zone = zone;
    this.timesChanged();
  }

  /** The times changed: they are updated in a moment. */
  timesChanged(): void {
    this.error = null;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.readPreview(), TYPING_MS);
  }

  async readPreview(): Promise<void> {
    clearTimeout(this.#typing);
    if (this.everyError !== "" || (this.when === "once" && this.onceDay === "")) return;
    const cadence = this.cadence();
    await this.preview.run((signal) => this.#rpc.call("schedules.preview", { cadence, count: 10 }, { signal }));
  }

  async #targetChanged(): Promise<void> {
    const { kind, targetId: id } = this;
    if (this.needsTarget && id === "") {
      this.rights.cancel();
      this.rights.data = undefined;
      return;
    }
    if (!this.#named && this.name === "") this.name = this.choices.find((c) => c.id === id)?.name.slice(0, 100) ?? "";
    await Promise.all([
      this.schema.run(async () => ({ schema: this.targets.schema(kind, id) })),
      this.rights.run((signal) => readRights(this.#rpc, kind, id, signal)),
    ]);
  }

  /** Reads the permissions again, after one was granted. */
  readRights(): Promise<void> {
    return this.rights.run((signal) => readRights(this.#rpc, this.kind, this.targetId, signal));
  }

  cadence(): CadenceSpec {
    if (this.when === "interval") return { type: "interval", everySecs: Number(this.every) * Number(this.everyUnit), ...(this.#anchor === "" ? {} : { anchor: this.#anchor }) };
    if (this.when === "once") return { type: "once", at: instant(`${this.onceDay}T${this.onceTime}`) ?? "" };
    return { type: "cron", expression: this.expression.trim(), ...(this.zone === "" ? {} : { timezone: this.zone }) };
  }

  /** The request for the backend. */
  params(): CreateParams {
    const secs = (text: string): number => Math.round(Number(text));
    return {
      name: this.name.trim(),
      description: this.description.trim(),
      target: {
        kind: this.kind,
        ...(this.targetId === "" ? {} : { id: this.targetId }),
        ...(this.#target && this.#target.id === this.targetId && this.#target.version ? { version: this.#target.version } : {}),
        input: $state.snapshot(this.input),
      },
      cadence: this.cadence(),
      ...optional("startsAt", instant(this.startsAt)),
      ...optional("endsAt", instant(this.endsAt)),
      ...optional("maxRuns", this.maxRuns.trim() === "" ? undefined : secs(this.maxRuns)),
      missedPolicy: this.missed,
      graceSecs: Math.round(Number(this.grace) * Number(this.graceUnit)),
      overlap: this.overlap,
      jitterSecs: secs(this.jitter),
      retry: { max: secs(this.retries), baseSecs: secs(this.retryBase), capSecs: secs(this.retryCap) },
      autoDisableAfter: secs(this.disableAfter),
      notifyAfterFailures: secs(this.notifyAfter),
      notification: this.notification,
      notifyWhen: this.notification === "conditional" ? this.notifyWhen.trim() : "",
      maxRunMs: Math.round(Number(this.maxRun) * 60_000),
    };
  }

  /** Only the differences to the stored schedule. A cleared field is null. */
  patch(): Record<string, unknown> {
    const before = JSON.parse(this.#start) as Record<string, unknown>;
    const now = this.params() as unknown as Record<string, unknown>;
    const out: Record<string, unknown> = {};
    for (const k of new Set([...Object.keys(before), ...Object.keys(now)])) if (JSON.stringify(before[k]) !== JSON.stringify(now[k])) out[k] = now[k] ?? null;
    if (this.base && this.takeover !== this.base.placement.takeover) out["placement"] = { ...this.base.placement, takeover: this.takeover };
    return out;
  }

  /** Creates the schedule or saves it. Returns it, or null if it was refused. */
  async save(): Promise<Schedule | null> {
    if (this.blocked !== "" || this.busy) return null;
    this.busy = true;
    this.error = null;
    const base = this.base;
    try {
      const s = base
        ? await this.#rpc.call("schedules.update", { scheduleId: base.scheduleId, patch: this.patch(), expectedRevision: base.revision })
        : await this.#rpc.call("schedules.create", { ...this.params(), ...(this.paused ? { paused: true } : {}), ...(this.takeover ? { placement: { takeover: true, here: true } } : {}) }, { idempotencyKey: crypto.randomUUID() });
      this.reset();
      return s;
    } catch (e) {
      this.error = asError(e);
      if (base && this.error.kind === "conflict") await this.#readAgain(base.scheduleId);
      return null;
    } finally {
      this.busy = false;
    }
  }

  /** It has been changed elsewhere: the input is kept, and saving again applies it to the new version. */
  async #readAgain(id: string): Promise<void> {
    try {
      const now = await this.#rpc.call("schedules.get", { scheduleId: id });
      if (now.revision === this.base?.revision) return;
      this.base = now;
      this.stale = true;
    } catch (e) {
      this.error = asError(e);
    }
  }

  /** Closes the sheet and discards its input. */
  reset(): void {
    clearTimeout(this.#typing);
    for (const load of [this.preview, this.rights, this.schema]) {
      load.cancel();
      load.data = undefined;
      load.error = undefined;
    }
    Object.assign(this, {
      open: false, base: null, name: "", description: "", kind: "", targetId: "", input: {}, inputProblem: "",
      when: "cron", preset: "daily", expression: "0 9 * * *", zone: ownZone(), every: "1", everyUnit: units[1], onceDay: "", onceTime: "09:00",
      missed: "once", grace: "1", graceUnit: units[2], overlap: "skip", jitter: "0", retries: "2", retryBase: "60", retryCap: "3600",
      disableAfter: "5", notifyAfter: "3", notification: "conditional", notifyWhen: "", maxRun: "30", maxRuns: "", startsAt: "", endsAt: "",
      takeover: false, paused: false, busy: false, error: null, stale: false,
    }); // prettier-ignore
    this.#named = false;
    this.#anchor = "";
    this.#target = null;
    this.#start = "{}";
  }
}

/** "2026-03-02T09:00" in local time; empty for nothing. */
function localText(iso: string | null | undefined): string {
  if (!iso) return "";
  const d = new Date(iso);
  return `${dayText(d)}T${d.toTimeString().slice(0, 5)}`;
}

function instant(local: string): string | undefined {
  const t = new Date(local);
  return local === "" || Number.isNaN(t.getTime()) ? undefined : t.toISOString();
}

const optional = <K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } => (value === undefined ? {} : ({ [key]: value } as { [P in K]?: V }));
