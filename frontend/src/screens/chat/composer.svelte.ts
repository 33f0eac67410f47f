import { inWindow, type Rpc, type Uploaded } from "../../lib/rpc";
import type { Notify } from "../../lib/ui/state";
import { t } from "./messages";

/** Where drafts are kept. `localStorage` fits; tests give a map. */
export interface Keep {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

export interface Attached {
  blob: string;
  name: string;
  bytes: number;
}

interface Draft {
  text: string;
  files: readonly Attached[];
  /** "": that of the role chat */
  model: string;
  /** Of a new chat. */
  mode: string;
  /** The most that a turn may cost in millionths of a dollar; 0: no limit of its own. */
  maxCostMicros: number;
}

const blank: Draft = { text: "", files: [], model: "", mode: "ask", maxCostMicros: 0 };
export const maxFiles = 4;
export const maxFileBytes = 10_000_000;

/** What is being written in a chat. It is kept until it is sent, also when the program ends. */
export class Composer {
  draft = $state.raw<Draft>(blank);
  /** The name of the file that is being sent, or "". */
  attaching = $state("");
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

  /** Puts a text in place of a range. */
  insert(text: string, from: number, to: number): void {
    this.set({ text: this.draft.text.slice(0, from) + text + this.draft.text.slice(to) });
  }

  drop(f: Attached): void {
    this.set({ files: this.draft.files.filter((x) => x !== f) });
  }

  /** Stores files one after another. What can't be attached is named; the others stay. */
  async attach(rpc: Rpc, files: readonly File[], upload: (f: File) => Promise<Uploaded | null>, notify: Pick<Notify, "error" | "add">): Promise<void> {
    for (const f of files) {
      if (this.draft.files.length >= maxFiles || f.size > maxFileBytes) {
        notify.add({ title: t.cannotAttach(f.name), text: f.size > maxFileBytes ? t.fileTooLarge : t.tooManyFiles, tone: "warn" });
        continue;
      }
      this.attaching = f.name;
      try {
        const from = inWindow ? { base64: await base64(f) } : { token: (await upload(f))?.token ?? "" };
        const { blob, bytes } = await rpc.call("chat.attach", { name: f.name, ...from });
        this.set({ files: [...this.draft.files, { blob, name: f.name, bytes }] });
      } catch (e) {
        notify.error(e, t.cannotAttach(f.name));
      }
    }
    this.attaching = "";
  }
}

async function base64(f: Blob): Promise<string> {
  const bytes = new Uint8Array(await f.arrayBuffer());
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}
