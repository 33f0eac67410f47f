/** Reading a module from a file and uploading it in parts. */
import type { Rpc } from "../../../lib/rpc";
import { base64 } from "../../../lib/ui/state";
import { t } from "./messages";

/** Larger modules are refused before they are sent. */
export const MAX_MODULE = 32 * 1024 * 1024;
/** Size of one part in bytes. */
export const PART = 4 * 1024 * 1024;

/** A chosen file. `File` of the browser is one. */
export interface ModuleFile {
  readonly name: string;
  readonly size: number;
  arrayBuffer(): Promise<ArrayBuffer>;
}

/** Why a file cannot be a module, in words; "" if it can be. */
export function fileProblem(file: Pick<ModuleFile, "name" | "size">): string {
  if (file.size === 0) return t.errors.emptyFile(file.name);
  return file.size > MAX_MODULE ? t.errors.tooLarge(file.name) : "";
}

/** Why bytes are not a module, before anything is sent; "" if they begin like one. */
export function headProblem(bytes: Uint8Array, name: string): string {
  if (bytes.length < 8 || bytes[0] !== 0 || bytes[1] !== 0x61 || bytes[2] !== 0x73 || bytes[3] !== 0x6d) {
    const text = new TextDecoder().decode(bytes.subarray(0, 64)).trimStart();
    return text.startsWith("(module") ? t.errors.isText(name) : t.errors.noModule(name);
  }
  return bytes[4] !== 1 || bytes[5] !== 0 ? t.errors.component(name) : "";
}

/** Uploads a module in parts of `size` bytes; returns its hash. `progress` is called with 0..1. */
export async function uploadModule(rpc: Rpc, bytes: Uint8Array, signal: AbortSignal, progress: (done: number) => void, size = PART): Promise<string> {
  let uploadId = "";
  let at = 0;
  for (;;) {
    const part = bytes.subarray(at, at + size);
    const done = at + part.length >= bytes.length;
    const r = await rpc.call("skills.upload_wasm", { ...(uploadId === "" ? {} : { uploadId }), offset: at, data: base64(part), ...(done ? { done } : {}) }, { signal });
    uploadId = r.uploadId;
    at += part.length;
    progress(at / bytes.length);
    if (done) return r.blobSha256 ?? "";
  }
}
