import { asError, canceled, fromWire, RpcError } from "./errors";
import { sessionToken } from "./session";

/** A file that was sent. `token` stands for its path in methods that read a file. */
export interface Uploaded {
  token: string;
  name: string;
  size: number;
}

/** Larger files are refused before they are sent. */
export const MAX_UPLOAD = 4 * 1024 ** 3;

type Sent = Blob & { readonly name: string };

/** Sends files to the server that delivered the page. The window has file dialogs instead. */
export const http = {
  send(file: Sent, signal: AbortSignal, progress: (part: number) => void): Promise<Uploaded> {
    return new Promise((resolve, reject) => {
      const x = new XMLHttpRequest(); // fetch does not say how much has been sent
      x.open("POST", `/upload?name=${encodeURIComponent(file.name)}`);
      x.setRequestHeader("Authorization", `Bearer ${sessionToken() ?? ""}`);
      x.setRequestHeader("Content-Type", "application/octet-stream");
      x.upload.onprogress = (e) => progress(e.total > 0 ? e.loaded / e.total : 0);
      x.onload = () => {
        const body = parse(x.responseText);
        if (x.status === 201) resolve(body as unknown as Uploaded);
        else reject(fromWire(body.error ?? { code: 0, message: `${file.name} was refused (${x.status}).` }));
      };
      x.onerror = () => reject(new RpcError({ message: `The connection was lost while ${file.name} was being sent.`, kind: "unavailable", code: "UNAVAILABLE" }));
      x.onabort = () => reject(canceled());
      signal.addEventListener("abort", () => x.abort());
      x.send(file);
    });
  },
  async discard(token: string): Promise<void> {
    await fetch(`/upload?token=${encodeURIComponent(token)}`, { method: "DELETE", headers: { Authorization: `Bearer ${sessionToken() ?? ""}` }, keepalive: true });
  },
};

function parse(text: string): { error?: { code: number; message: string; data?: unknown } } {
  try {
    return (JSON.parse(text) as ReturnType<typeof parse> | null) ?? {};
  } catch {
    return {};
  }
}

/** One upload at a time, with its progress. */
export class Upload {
  /** The file that is being sent, or "". */
  name = $state("");
  /** How much of it has been sent, 0 to 1. */
  part = $state(0);
  error = $state.raw<RpcError | null>(null);
  #abort: AbortController | null = null;
  #token = "";

  constructor(private readonly to: Pick<typeof http, "send" | "discard"> = http) {}

  get busy(): boolean {
    return this.name !== "";
  }

  /** Sends a file. Null: it was canceled, or `error` says why it failed. */
  async send(file: Sent): Promise<Uploaded | null> {
    this.cancel();
    this.drop();
    this.error = null;
    if (file.size > MAX_UPLOAD) {
      this.error = new RpcError({ message: `${file.name} is larger than 4 GiB. Nothing was sent.`, kind: "limit", code: "LIMIT" });
      return null;
    }
    const abort = new AbortController();
    this.#abort = abort;
    this.name = file.name;
    this.part = 0;
    try {
      const sent = await this.to.send(file, abort.signal, (part) => {
        if (this.#abort === abort) this.part = part;
      });
      if (this.#abort !== abort) {
        void this.to.discard(sent.token).catch(() => {}); // else it goes by itself after an hour
        return null;
      }
      this.#token = sent.token;
      return sent;
    } catch (e) {
      if (this.#abort === abort) this.error = asError(e);
      return null;
    } finally {
      if (this.#abort === abort) this.#end();
    }
  }

  /** Stops sending. The server keeps nothing of it. */
  cancel(): void {
    const abort = this.#abort;
    this.#end();
    abort?.abort();
  }

  /** What was sent is not needed any more, for example because something else was chosen. */
  drop(): void {
    if (this.#token !== "") void this.to.discard(this.#token).catch(() => {});
    this.#token = "";
  }

  /** A method has taken what was sent. */
  taken(): void {
    this.#token = "";
  }

  #end(): void {
    this.#abort = null;
    this.name = "";
    this.part = 0;
  }
}
