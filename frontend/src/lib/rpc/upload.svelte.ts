import { common } from "../i18n/common";
import { bridge } from "./bridge";
import { asError, canceled, fromWire, RpcError } from "./errors";
import { sessionToken } from "./session";

/** An uploaded file. `token` replaces its path in methods that read a file. */
export interface Uploaded {
  token: string;
  name: string;
  size: number;
}

/** A chosen folder: its files with their paths below it. Without a name the files have no common folder. */
export interface Folder {
  readonly name: string;
  readonly files: readonly { readonly path: string; readonly file: File }[];
}

/** Files that a person chose or dropped. */
export type Chosen = File | Folder;

/** Larger files and folders, and folders with more files, are refused before the upload. */
export const MAX_UPLOAD = 4 * 1024 ** 3;
export const MAX_FILES = 100_000;

/** The display name of an upload. */
const nameOf = (what: Chosen): string => what.name || common.severalFiles;

/** Uploads files to the server that delivered the page. The window has file dialogs instead. */
export const http = {
  send(what: Chosen, signal: AbortSignal, progress: (part: number) => void): Promise<Uploaded> {
    return new Promise((resolve, reject) => {
      const x = new XMLHttpRequest(); // fetch does not report upload progress
      const folder = "files" in what;
      x.open("POST", `/upload?name=${encodeURIComponent(what.name)}${folder ? "&folder=true" : ""}`);
      x.setRequestHeader("Authorization", `Bearer ${sessionToken() ?? ""}`);
      if (!folder) x.setRequestHeader("Content-Type", "application/octet-stream");
      x.upload.onprogress = (e) => progress(e.total > 0 ? e.loaded / e.total : 0);
      x.onload = () => {
        const body = parse(x.responseText);
        if (x.status === 201) resolve(body as unknown as Uploaded);
        else reject(fromWire(body.error ?? { code: 0, message: `${nameOf(what)} was refused (${x.status}).` }));
      };
      x.onerror = () => reject(new RpcError({ message: `The connection was lost while ${nameOf(what)} was being sent.`, kind: "unavailable", code: "UNAVAILABLE" }));
      x.onabort = () => reject(canceled());
      signal.addEventListener("abort", () => x.abort());
      x.send(folder ? form(what) : what);
    });
  },
  async discard(token: string): Promise<void> {
    await fetch(`/upload?token=${encodeURIComponent(token)}`, { method: "DELETE", headers: { Authorization: `Bearer ${sessionToken() ?? ""}` }, keepalive: true });
  },
};

/** The body of a folder upload: the name of each part is its path. The browser reads the files while it sends them. */
function form(folder: Folder): FormData {
  const body = new FormData();
  for (const { path, file } of folder.files) body.append("file", file, path);
  return body;
}

function parse(text: string): { error?: { code: number; message: string; data?: unknown } } {
  try {
    return (JSON.parse(text) as ReturnType<typeof parse> | null) ?? {};
  } catch {
    return {};
  }
}

/** Removes an upload for a method that will not be called. Other paths are ignored. */
export function giveUp(path: string | undefined): void {
  if (path?.startsWith("pick:") && bridge() === null) void http.discard(path).catch(() => {}); // otherwise it is removed after an hour
}

/** One upload at a time, with its progress. */
export class Upload {
  /** The file or folder that is being uploaded, or "". */
  name = $state("");
  /** The fraction that has been sent, 0 to 1. */
  part = $state(0);
  error = $state.raw<RpcError | null>(null);
  #abort: AbortController | null = null;
  #token = "";

  constructor(private readonly to: Pick<typeof http, "send" | "discard"> = http) {}

  get busy(): boolean {
    return this.name !== "";
  }

  /**
   * Uploads a file, or the files of a folder that `keep` accepts. Returns null if it was canceled, or failed
   * with `error`.
   */
  async send(chosen: Chosen, keep: (path: string) => boolean = () => true): Promise<Uploaded | null> {
    this.cancel();
    this.drop();
    const folder = "files" in chosen;
    const what = folder ? { name: chosen.name, files: chosen.files.filter((f) => keep(f.path)) } : chosen;
    const size = "files" in what ? what.files.reduce((n, f) => n + f.file.size, 0) : what.size;
    const count = "files" in what ? what.files.length : 1;
    const name = nameOf(what);
    const refusal = count === 0 ? common.uploadNothing(name) : count > MAX_FILES ? common.uploadTooMany(name) : size > MAX_UPLOAD ? common.uploadTooLarge(name) : "";
    this.error = refusal === "" ? null : new RpcError({ message: refusal, kind: "limit", code: "LIMIT" });
    if (refusal !== "") return null;
    const abort = new AbortController();
    this.#abort = abort;
    this.name = name;
    this.part = 0;
    try {
      const sent = await this.to.send(what, abort.signal, (part) => {
        if (this.#abort === abort) this.part = part;
      });
      if (this.#abort !== abort) {
        void this.to.discard(sent.token).catch(() => {}); // otherwise it is removed after an hour
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

  /** Cancels the upload. The server discards it. */
  cancel(): void {
    const abort = this.#abort;
    this.#end();
    abort?.abort();
  }

  /** The upload is no longer needed, for example because something else was chosen. */
  drop(): void {
    if (this.#token !== "") void this.to.discard(this.#token).catch(() => {});
    this.#token = "";
  }

  /** Whether a path is the token of the upload. */
  holds(path: string): boolean {
    return path !== "" && path === this.#token;
  }

  /** A method has used the upload. */
  taken(): void {
    this.#token = "";
  }

  #end(): void {
    this.#abort = null;
    this.name = "";
    this.part = 0;
  }
}
