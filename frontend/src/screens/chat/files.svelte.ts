import { bridge, http, type Result, type Rpc } from "../../lib/rpc";
import { base64 } from "../../lib/ui/state";

/** A file attached to a message. */
export interface Attached {
  blob: string;
  name: string;
  mime: string;
  bytes: number;
}

export const maxFiles = 4;
export const maxFileBytes = 10 * 1000 * 1000;

/** Sends a file to the backend. It reports the progress if that is known. */
export type Transfer = (file: File, signal: AbortSignal, progress: (part: number) => void) => Promise<Attached>;

/** The transfer for this page: the browser uploads files, the window passes their content. */
export function transferOf(rpc: Rpc, upload: Pick<typeof http, "send"> = http): Transfer {
  return async (file, signal, progress) => {
    if (bridge()) return rpc.call("chat.attach", { name: file.name, base64: base64(new Uint8Array(await file.arrayBuffer())) }, { signal });
    const { token } = await upload.send(file, signal, progress);
    return rpc.call("chat.attach", { name: file.name, path: token }, { signal });
  };
}

/** Creates a chat from a file. An upload may be larger than an attachment. */
export async function importChat(rpc: Rpc, file: File, transfer: Transfer, upload: Pick<typeof http, "send"> = http): Promise<Result<"chat.import">> {
  const never = new AbortController().signal;
  if (bridge()) return rpc.call("chat.import", { blob: (await transfer(file, never, () => {})).blob });
  return rpc.call("chat.import", { path: (await upload.send(file, never, () => {})).token });
}

/** A file that is being sent. */
export class Sending {
  /** The fraction that was sent, 0 to 1. */
  part = $state(0);
  readonly name: string;
  readonly #abort = new AbortController();
  /** Null: it was canceled. */
  readonly done: Promise<Attached | null>;

  constructor(file: File, transfer: Transfer) {
    this.name = file.name;
    this.done = transfer(file, this.#abort.signal, (part) => (this.part = part)).catch((e: unknown) => {
      if (this.#abort.signal.aborted) return null;
      throw e;
    });
  }

  cancel(): void {
    this.#abort.abort();
  }
}

/** An address that shows an image of a chat. Release it with `URL.revokeObjectURL`. */
export async function imageURL(rpc: Rpc, blob: string, mime: string): Promise<string> {
  const { url } = await rpc.call("blobs.url", { sha256: blob });
  const r = await fetch(url);
  if (!r.ok) throw new Error(r.statusText);
  return URL.createObjectURL(new Blob([await r.arrayBuffer()], { type: mime }));
}
