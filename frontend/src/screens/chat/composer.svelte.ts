import { maxFiles, Sending, type Attached, type Transfer } from "./files.svelte";

/** Where drafts are stored, such as `localStorage`; tests pass a map. */
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
  /** The agent of a new chat; "": the default agent. */
  agentName: string;
  /** The maximum cost of a turn in millionths of a dollar; 0: no limit of its own. */
  maxCostMicros: number;
  files: readonly Attached[];
}

const blank: Draft = { text: "", model: "", mode: "ask", agentName: "", maxCostMicros: 0, files: [] };

/** The draft of a chat. It is kept until it is sent, even when the program ends. */
export class Composer {
  draft = $state.raw<Draft>(blank);
  /** Files that are being sent to the backend. */
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
      // An unreadable draft is lost; the next one replaces it.
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

  /** This has been sent; the options stay, and what was written since. */
  sent(text: string, files: readonly Attached[]): void {
    const now = this.draft;
    this.set({ text: now.text.startsWith(text) ? now.text.slice(text.length).trimStart() : now.text, files: now.files.filter((f) => !files.includes(f)) });
  }

  /** Whether another file can be attached. */
  get hasRoom(): boolean {
    return this.draft.files.length + this.sending.length < maxFiles;
  }

  /** Sends a file to the backend, as an attachment of the draft. */
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

  /** Another chat is shown: incomplete uploads are canceled. */
  stop(): void {
    for (const s of this.sending) s.cancel();
  }

  /** Replaces a range with a text. */
  insert(text: string, from: number, to: number): void {
    this.set({ text: this.draft.text.slice(0, from) + text + this.draft.text.slice(to) });
  }
}
