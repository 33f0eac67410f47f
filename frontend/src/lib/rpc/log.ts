/** One frame in the RPC log. Secrets are already masked in `text`. */
export interface LogEntry {
  n: number;
  at: number;
  direction: "in" | "out";
  /** Method or event name; for a response, the method it answers. */
  name: string;
  kind: "call" | "result" | "error" | "event" | "notification";
  bytes: number;
  text: string;
}

const mask = "•••";
const secretKey = /^(token|ticket|sessionToken|passphrase|password|privateKey|apiKey|authorization|secret|recoveryCode|sig)$/i;

/** Methods in which every text is a secret, in the request or the response. */
const secretMethods = new Set([
  "secrets.set",
  "tools.secret_set",
  "keys.export_recovery",
  "keys.import_recovery",
  "tokens.create",
  "tokens.rotate_root",
  "sessions.ticket",
  "blobs.url",
]);
const plainKeys = new Set(["name", "id", "jsonrpc", "method", "scopes", "expiresAt", "kind", "code", "message"]);

function masked(value: unknown, all: boolean, key = ""): unknown {
  if (typeof value === "string") {
    if (secretKey.test(key) || (all && !plainKeys.has(key))) return mask;
    return value.replace(/([#?&](?:ticket|sig|token)=)[^&\s"]+/g, `$1${mask}`);
  }
  if (Array.isArray(value)) return value.map((v) => masked(v, all, key));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, masked(v, all, k)]));
  }
  return value;
}

/** The last frames of this session, newest last, at most `size`. */
export class FrameLog {
  #entries: LogEntry[] = [];
  #next = 1;
  #listeners = new Set<() => void>();

  constructor(readonly size = 200) {}

  get entries(): readonly LogEntry[] {
    return this.#entries;
  }

  /** Calls fn after each frame; returns a function that stops it. */
  watch(fn: () => void): () => void {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  }

  add(direction: "in" | "out", frame: unknown, name: string, kind: LogEntry["kind"], bytes: number): void {
    const shown = JSON.stringify(masked(frame, secretMethods.has(name))) ?? "";
    const text = shown.length > 4000 ? shown.slice(0, 4000) + "…" : shown;
    this.#entries = [...this.#entries.slice(1 - this.size), { n: this.#next++, at: Date.now(), direction, name, kind, bytes, text }];
    for (const fn of this.#listeners) fn();
  }
}
