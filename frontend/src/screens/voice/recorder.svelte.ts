import type { EventData, Rpc } from "../../lib/rpc";
import { Load, nav, type Notify } from "../../lib/ui/state";
import { memoAt } from "./address";
import { t } from "./messages";
import type { Devices, RecordingMode, Status } from "./types";

type Partial = EventData<"voice.partial">;
type Level = EventData<"voice.level">;

/** How long the highest level stays marked. */
const holdMs = 1500;
/** The quietest level that the meter shows. */
const floorDb = -60;

/** A level in dBFS as a share of the meter. */
export const levelShare = (db: number): number => Math.min(1, Math.max(0, (db - floorDb) / -floorDb)) || 0;

/** The microphone: its state, its level, and the recording in progress, wherever that was started. */
export class Recorder {
  readonly status = new Load<Status>();
  readonly devices = new Load<Devices>();
  mode = $state<RecordingMode>("memo");
  level = $state.raw<Level | null>(null);
  /** The highest level of the last moments, in dBFS. */
  held = $state(-Infinity);
  busy = $state(false);
  /** What was said in the recording in progress: the final texts, and the one that may still change. */
  said = $state("");
  saying = $state("");
  #heard = "";
  #heldAt = 0;
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
  }

  start(): void {
    this.#rpc.on("voice.level", (e) => this.#measured(e));
    this.#rpc.on("voice.partial", (e) => this.#partial(e));
    this.#rpc.on("voice.state", (e) => {
      if (e.notice) this.#notify.add({ title: e.notice, tone: "warn" });
      void this.read();
    });
    this.#rpc.onReload(() => void this.read());
    void this.read();
  }

  read(): Promise<void> {
    return this.status.run(async (signal) => {
      const s = await this.#rpc.call("voice.status", {}, { signal });
      if (s.state !== "recording" && s.state !== "paused") this.level = null;
      return s;
    });
  }
  readDevices(): Promise<void> {
    return this.devices.run((signal) => this.#rpc.call("voice.devices", {}, { signal }));
  }

  get recording(): boolean {
    return this.status.data?.state === "recording";
  }
  get paused(): boolean {
    return this.status.data?.state === "paused";
  }
  /** A recording is in progress, or paused. */
  get active(): boolean {
    return this.recording || this.paused;
  }
  /** Why nothing can be recorded, or "". */
  get missing(): string {
    const m = this.status.data?.microphone;
    return m && !m.available ? (m.reason ?? t.noMicrophone) : "";
  }
  get elapsedMs(): number {
    return Math.max(this.level?.elapsedMs ?? 0, this.status.data?.elapsedMs ?? 0);
  }

  #partial(e: Partial): void {
    if (e.recordingId !== this.#heard) {
      this.#heard = e.recordingId;
      this.said = "";
    }
    if (e.isFinal) this.said = `${this.said} ${e.text}`.trim();
    this.saying = e.isFinal ? "" : e.text;
  }

  #measured(e: Level): void {
    const now = Date.now();
    if (e.peakDb >= this.held || now - this.#heldAt > holdMs) {
      this.held = e.peakDb;
      this.#heldAt = now;
    }
    this.level = e;
  }

  /** Starts a recording, or stops the one in progress and opens its memo. */
  async toggle(mode: RecordingMode = this.mode): Promise<void> {
    if (this.active) return this.stop();
    if (this.missing !== "") return;
    this.mode = mode;
    this.held = -Infinity;
    this.said = this.saying = "";
    await this.#act(async () => {
      await this.#rpc.call("voice.start", { mode, stream: true });
    }, t.startFailed);
  }
  stop(): Promise<void> {
    const command = this.status.data?.mode === "command";
    return this.#act(async () => {
      const r = await this.#rpc.call("voice.stop", {});
      if (r.status === "canceled") this.#notify.add({ title: t.tooShort });
      else if (r.memoId && !command && nav.screen === "voice") nav.go(memoAt(r.memoId));
    }, t.stopFailed);
  }
  pause(): Promise<void> {
    return this.#act(() => this.#rpc.call(this.paused ? "voice.resume" : "voice.pause", {}), t.pauseFailed);
  }
  cancel(): Promise<void> {
    return this.#act(async () => {
      const { undoToken } = await this.#rpc.call("voice.cancel", {});
      if (undoToken === "") return;
      this.#notify.undo(t.canceled, async () => {
        const memo = await this.#rpc.call("voice.undo_cancel", { undoToken });
        if (nav.screen === "voice") nav.go(memoAt(memo.id));
      });
    }, t.cancelFailed);
  }

  async #act(act: () => Promise<unknown>, failed: string): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      await act();
    } catch (e) {
      this.#notify.error(e, failed);
    } finally {
      this.busy = false;
      await this.read();
    }
  }
}
