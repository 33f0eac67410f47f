import { untrack } from "svelte";

/** The parts of an `<audio>` element that playing needs, so that tests can do without one. */
export interface Sound {
  src: string;
  currentTime: number;
  /** HTMLMediaElement.readyState: from 1 on the position can be set. */
  readonly readyState: number;
  playbackRate: number;
  readonly paused: boolean;
  play(): Promise<void>;
  pause(): void;
}

export const rates = ["0.5", "0.75", "1", "1.25", "1.5", "1.75", "2"] as const;
export type Rate = (typeof rates)[number];

/** Playback of one recording. The component passes it the element and its events. */
export class Player {
  /** The position in milliseconds. */
  ms = $state(0);
  playing = $state(false);
  /** The duration that the backend measured: some files do not state theirs. */
  total = $state(0);
  rate = $state<Rate>("1");
  /** The browser can't play this format. */
  failed = $state(false);
  #sound: Sound | null = null;
  /** A position to go to as soon as there is a sound. */
  #wanted = -1;

  /** Another recording is shown. */
  reset(total: number): void {
    this.#sound?.pause();
    this.ms = 0;
    this.playing = false;
    this.failed = false;
    this.total = total;
    this.#wanted = -1;
  }

  attach(sound: Sound | null): void {
    this.#sound = sound;
    // Play was pressed while the recording was being read.
    if (sound?.paused && untrack(() => this.playing)) void this.#play(sound);
  }

  /** The sound can be played. */
  loaded(): void {
    if (!this.#sound) return;
    this.#sound.playbackRate = Number(this.rate);
    if (this.#wanted >= 0) this.#sound.currentTime = this.#wanted / 1000;
    this.#wanted = -1;
  }

  /** Reads the position from the element, several times a second while it plays. */
  tick(): void {
    if (this.#sound && this.#wanted < 0) this.ms = Math.min(this.#sound.currentTime * 1000, this.total || Infinity);
  }

  seek(ms: number): void {
    const to = Math.min(Math.max(0, ms), this.total);
    this.ms = to;
    // Not its duration: a recording of the browser states none, and can be moved in all the same.
    if (this.#sound && this.#sound.readyState > 0) this.#sound.currentTime = to / 1000;
    else this.#wanted = to;
  }

  /** Plays or pauses. A recording that is still being read plays as soon as it is there. */
  async toggle(): Promise<void> {
    const sound = this.#sound;
    if (this.failed) return;
    if (!sound) return void (this.playing = !this.playing);
    if (!sound.paused) return sound.pause();
    if (this.total > 0 && this.ms >= this.total - 50) this.seek(0);
    await this.#play(sound);
  }

  async #play(sound: Sound): Promise<void> {
    try {
      await sound.play();
    } catch (e) {
      // Another recording was opened before this one could start.
      if ((e as Error).name !== "AbortError") this.fail();
    }
  }

  /** There is nothing to play. */
  fail(): void {
    this.failed = true;
    this.playing = false;
  }

  setRate(rate: Rate): void {
    this.rate = rate;
    if (this.#sound) this.#sound.playbackRate = Number(rate);
  }

  /** Half a step faster or slower. */
  faster(by: 1 | -1): void {
    this.setRate(rates[Math.min(Math.max(rates.indexOf(this.rate) + by, 0), rates.length - 1)]!);
  }
}
