import { maxFiles, Sending, type Attached, type Transfer } from "./files.svelte";

/** Where drafts are kept. `localStorage` fits; tests give a map. */
export interface Keep {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

interface Draft {
  text: string;
  /** "": that of the role chat */
  model: string;
  /** Of a new chat. */
  mode: string;
  /** Who answers in a new chat; "": the default agent. */
  agentName: string;
  /** The most that a turn may cost in millionths of a dollar; 0: no limit of its own. */
  maxCostMicros: number;
  files: readonly Attached[];
}

const blank: Draft = { text: "", model: "", mode: "ask", agentName: "", maxCostMicros: 0, files: [] };

/** What is being written in a chat. It is kept until it is sent, also when the program ends. */
export class Composer {
  draft = $state.raw<Draft>(blank);
  /** Files on their way to the backend. */
  sending = $state.raw<readonly Sending[]>([]);
  readonly #key: string;
  readonly #keep: Keep;

  /** `id` is the chat; "new" for one that does not exist yet. */
  constructor(keep: Keep, id: string) {
    this.#keep = keep;
    this.#key = `helix.chat.${id}`;
    try {
      this.draft = { ...blank, ...(JSON.parse(keep.getItem(this.#key) ?? "{}") as Partial<Draft>) };
    } catch {
      // A draft that can't be read is lost; the next one replaces it.
    }
  }

  get empty(): boolean {
    return this.draft.text.trim() === "" && this.draft.files.length === 0;
  }

  set(change: Partial<Draft>): void {
    this.draft = { ...this.draft, ...change };
    if (JSON.stringify(this.draft) === JSON.stringify(blank)) this.#keep.removeItem(this.#key);
    else this.#keep.setItem(this.#key, JSON.stringify(this.draft));
  }

  /** What was written has been sent; the choices stay. */
  sent(): void {
    this.set({ text: "", files: [] });
  }

  /** A message can have another file. */
  get hasRoom(): boolean {
    return this.draft.files.length + this.sending.length < maxFiles;
  }

  /** Sends a file to the backend; it goes with the message that is written. */
  async attach(file: File, transfer: Transfer): Promise<void> {
    const s = new Sending(file, transfer);
    this.sending = [...this.sending, s];
    try {
      const done = await s.done;
      if (done && !this.draft.files.some((f) => f.blob === done.blob)) this.set({ files: [...this.draft.files, done] });
    } finally {
      this.sending = this.sending.filter((x) => x !== s);
    }
  }

  remove(blob: string): void {
    this.set({ files: this.draft.files.filter((f) => f.blob !== blob) });
  }

  /** Another chat is shown: what is not sent whole is given up. */
  stop(): void {
    for (const s of this.sending) s.cancel();
  }

  /** Puts a text in place of a range. */
  insert(text: string, from: number, to: number): void {
    this.set({ text: this.draft.text.slice(0, from) + text + this.draft.text.slice(to) });
  }
}
