import { asError, type Rpc } from "../../lib/rpc";
import { Load, type Notify } from "../../lib/ui/state";
import { t } from "./messages";
import { Player } from "./player.svelte";
import type { Memo, Transcript, Version } from "./types";
import { decode, type Peaks, type Range } from "./wave";

export interface Wave {
  peaks: Peaks;
  /** The part that the peaks are of. */
  range: Range;
  silences: readonly (readonly number[])[];
}

/** Fetches the bytes of a recording. */
export type Fetch = (url: string, signal: AbortSignal) => Promise<Blob>;
export const fetchBlob: Fetch = async (url, signal) => {
  const r = await fetch(url, { signal });
  if (!r.ok) throw new Error(t.audioFailedCode(r.status));
  return r.blob();
};

/** The open memo: its sound, its waveform, and its text with the times of the words. */
export class OpenMemo {
  readonly memo = new Load<Memo>();
  readonly transcript = new Load<Transcript>();
  readonly wave = new Load<Wave>();
  /** What is played. */
  sound = $state<"original" | "denoised">("original");
  readonly audio = new Load<Blob>();
  readonly player = new Player();
  /** The text while it is edited, or null. */
  draft = $state<string | null>(null);
  saving = $state(false);
  /** The version that is compared with the current one. */
  compared = $state.raw<Version | null>(null);
  /** The part of the waveform that is shown. */
  range = $state.raw<Range>({ from: 0, to: 0 });
  #id: string | null = null;
  #reading: Promise<void> = Promise.resolve();
  /** The recordings that changed while the memo was read, and it was not known yet which is its own. */
  #changed = new Set<string>();
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  readonly #fetch: Fetch;

  constructor(rpc: Rpc, notify: Notify, fetch: Fetch = fetchBlob) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.#fetch = fetch;
  }

  get id(): string | null {
    return this.#id;
  }
  get recordingId(): string {
    return this.memo.data?.recordingId ?? "";
  }

  /** Shows a memo, or none. A moment of 0 or later is where it starts to play. */
  async show(id: string | null, moment = -1): Promise<void> {
    if (id === this.#id) {
      if (moment >= 0) this.player.seek(moment);
      return;
    }
    this.#id = id;
    this.#changed.clear();
    for (const load of [this.memo, this.transcript, this.wave, this.audio]) load.clear();
    this.draft = this.compared = null;
    this.range = { from: 0, to: 0 };
    this.player.reset(0);
    this.sound = "original";
    if (id === null) return;
    await this.read();
    const memo = this.memo.data;
    if (this.#id !== id || !memo) return;
    if (moment >= 0) this.player.seek(moment);
    if (memo.hasAudio) await this.#load(id, memo.recordingId);
  }

  async #load(id: string, recordingId: string): Promise<void> {
    const as = this.sound;
    await this.audio.run(async (signal) => this.#fetch((await this.#rpc.call("voice.audio_url", { recordingId, as }, { signal })).url, signal));
    if (this.audio.error && this.#id === id) this.player.playing = false;
  }

  /** Plays the recording as it is, or without background noise, from the same moment on. */
  async listen(sound: "original" | "denoised"): Promise<void> {
    const [id, memo, at] = [this.#id, this.memo.data, this.player.ms];
    this.sound = sound;
    if (id === null || !memo?.hasAudio) return;
    await this.#load(id, memo.recordingId);
    if (this.#id === id) this.player.seek(at);
  }

  /** Reads the memo and its transcript again. Resolves when the latest read has ended, which replaces those before it. */
  async read(): Promise<void> {
    this.#reading = this.#read();
    for (let last; last !== this.#reading; ) await (last = this.#reading);
  }

  async #read(): Promise<void> {
    const id = this.#id;
    if (id === null) return;
    await this.memo.run((signal) => this.#rpc.call("voice.get_memo", { memoId: id }, { signal }));
    const recordingId = this.recordingId;
    if (this.#id !== id || recordingId === "") return;
    if (this.#changed.delete(recordingId)) return void this.changed(recordingId);
    this.#sized(this.memo.data?.durationMs ?? 0);
    await this.transcript.run((signal) => this.#rpc.call("voice.get_transcript", { recordingId }, { signal }));
  }

  /** The duration is known as soon as the recording has been decoded. */
  #sized(total: number): void {
    if (total > 0) this.player.total = total;
    if (this.range.to === 0) this.range = { from: 0, to: total };
  }

  /** The status of a recording changed. */
  changed(recordingId: string): void {
    if (recordingId === this.recordingId) void this.read();
    else if (this.#id !== null && this.recordingId === "") this.#changed.add(recordingId);
  }

  /** Reads the waveform of the shown part, with one value per pixel. */
  readWave(range: Range, pixels: number): Promise<void> {
    const recordingId = this.recordingId;
    const params = { recordingId, fromMs: Math.floor(range.from), toMs: Math.ceil(range.to), buckets: Math.min(4000, Math.max(1, pixels)) };
    return this.wave.run(async (signal) => {
      const w = await this.#rpc.call("voice.waveform", params, { signal });
      if (range.to === 0) {
        this.#sized(w.durationMs);
        range = this.range;
      }
      return { peaks: decode(w), range, silences: w.silences };
    });
  }

  /** Saves the edited text as a new version. */
  async save(): Promise<void> {
    const text = this.draft;
    if (text === null || this.saving) return;
    await this.#edit(text.trim(), t.textSaved);
  }

  /** Makes the text of another version the current one. */
  use(v: Version): Promise<void> {
    return this.#edit(v.text, t.versionUsed);
  }

  async #edit(text: string, done: string): Promise<void> {
    const before = this.transcript.data?.text ?? "";
    const recordingId = this.recordingId;
    this.saving = true;
    try {
      this.transcript.data = await this.#rpc.call("voice.edit_transcript", { recordingId, text });
      this.draft = this.compared = null;
      this.#notify.undo(done, async () => {
        const back = await this.#rpc.call("voice.edit_transcript", { recordingId, text: before });
        if (recordingId === this.recordingId) this.transcript.data = back;
      });
    } catch (e) {
      this.#notify.error(e, t.textNotSaved);
    } finally {
      this.saving = false;
    }
  }

  /** Transcribes the recording again; the previous texts are kept. */
  async transcribe(engine: string): Promise<void> {
    try {
      await this.#rpc.call("voice.transcribe", { recordingId: this.recordingId, ...(engine === "" ? {} : { engine }) });
      await this.read();
    } catch (e) {
      this.#notify.error(asError(e), t.transcribeFailed);
    }
  }
}
