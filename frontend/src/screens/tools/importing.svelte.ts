import { asError, type RpcError } from "../../lib/rpc/errors";
import type { Rpc } from "../../lib/rpc";
import { t } from "./messages";
import type { ImportItem, Tool } from "./types";

/** The source of an import. */
export type ImportSource = { bundle: unknown; name: string } | { url: string } | { shareId: string };
export type OnConflict = "rename" | "replace" | "skip";

/** Larger bundles are refused before they are sent. */
export const MAX_BUNDLE = 5 * 1024 * 1024;

/**
 * Importing in two steps: a review of what would be added, then adding exactly that. Nothing is stored before
 * the second step, and what is added is disabled.
 */
export class ToolImport {
  open = $state(false);
  source = $state.raw<ImportSource | null>(null);
  items = $state.raw<readonly ImportItem[]>([]);
  onConflict = $state<OnConflict>("rename");
  /** The item whose code is shown. */
  shown = $state(0);
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  /** Fingerprints that the user has confirmed. */
  confirmed = $state.raw<ReadonlySet<string>>(new Set());
  /** The source had changed when it was read again. */
  changed = $state(false);

  readonly #rpc: Rpc;
  #turn = 0;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly blocked = $derived(this.items.some((i) => i.signature.state === "invalid" || i.action === "blocked"));
  readonly adding = $derived(this.items.filter((i) => i.action !== "skip" && i.action !== "blocked"));
  /** Unknown keys whose fingerprint is not confirmed yet. */
  readonly unconfirmed = $derived(
    this.adding.filter((i) => i.signature.state === "valid_unknown" && !this.confirmed.has(i.signature.fingerprint ?? "")),
  );
  readonly canAdd = $derived(this.adding.length > 0 && !this.blocked && !this.busy && this.unconfirmed.length === 0);

  /** The label of the confirm button: it names what happens. */
  readonly verb = $derived.by(() => {
    const replaced = this.adding.filter((i) => i.action === "replace").length;
    return t.importVerb(this.adding.length - replaced, replaced);
  });

  /** Opens the sheet without a source, so that one can be chosen. */
  begin(): void {
    this.reset();
    this.open = true;
  }

  /** Reads the text of a bundle. Invalid JSON is refused here, with the position of the error. */
  async readText(text: string, name: string): Promise<void> {
    this.open = true;
    if (text.length > MAX_BUNDLE) {
      this.error = asError(new Error(t.tooLarge(name)));
      return;
    }
    let bundle: unknown;
    try {
      bundle = JSON.parse(text);
    } catch {
      this.error = asError(new Error(t.notJson(name)));
      return;
    }
    await this.review({ bundle, name });
  }

  /** Reads a URL or a `helix://tools/shared/…` link. */
  async readLink(link: string): Promise<void> {
    const text = link.trim();
    const share = /^helix:\/\/tools\/shared\/([0-9a-fA-F-]{36})$/.exec(text);
    if (share) return this.review({ shareId: share[1]! });
    if (/^[0-9a-fA-F-]{36}$/.test(text)) return this.review({ shareId: text });
    if (/^https:\/\//.test(text)) return this.review({ url: text });
    this.open = true;
    this.error = asError(new Error(t.notALink));
  }

  /** Requests the review, and shows it. */
  async review(source: ImportSource): Promise<void> {
    const turn = ++this.#turn;
    this.open = true;
    this.source = source;
    this.busy = true;
    this.error = null;
    try {
      const r = await this.#rpc.call("tools.import", { ...wire(source), dryRun: true, onConflict: this.onConflict });
      if (turn !== this.#turn) return;
      this.items = r.items;
      this.shown = 0;
    } catch (e) {
      if (turn !== this.#turn) return;
      this.items = [];
      this.error = asError(e);
    } finally {
      if (turn === this.#turn) this.busy = false;
    }
  }

  /** Sets what happens if a name is taken; the review is updated. */
  async setOnConflict(c: OnConflict): Promise<void> {
    this.onConflict = c;
    if (this.source !== null) await this.review(this.source);
  }

  /** The user has compared a fingerprint with the author's. */
  confirm(fingerprint: string, yes: boolean): void {
    const set = new Set(this.confirmed);
    if (yes) set.add(fingerprint);
    else set.delete(fingerprint);
    this.confirmed = set;
  }

  /** Removes the signatures of a bundle, after which its tools count as unsigned. */
  async asUnsigned(): Promise<void> {
    const s = this.source;
    if (s === null || !("bundle" in s)) return;
    await this.review({ bundle: withoutSignatures(s.bundle), name: s.name });
  }

  /** Adds exactly what was reviewed. Returns the new tools, or null if it was refused. */
  async add(): Promise<Tool[] | null> {
    const source = this.source;
    if (source === null || !this.canAdd) return null;
    this.busy = true;
    this.error = null;
    try {
      const r = await this.#rpc.call(
        "tools.import",
        { ...wire(source), dryRun: false, onConflict: this.onConflict },
        { idempotencyKey: crypto.randomUUID() },
      );
      this.reset();
      return r.tools;
    } catch (e) {
      const error = asError(e);
      this.busy = false;
      if (error.kind === "conflict") {
        await this.review(source);
        this.changed = true;
      }
      this.error = error;
      return null;
    }
  }

  /** Closes the sheet; nothing was added. */
  reset(): void {
    this.#turn++;
    this.open = false;
    this.source = null;
    this.items = [];
    this.shown = 0;
    this.busy = false;
    this.error = null;
    this.confirmed = new Set();
    this.changed = false;
    this.onConflict = "rename";
  }
}

function wire(s: ImportSource) {
  if ("bundle" in s) return { bundle: s.bundle };
  return s;
}

/** A bundle, or a single tool in the older format, without its signatures. */
export function withoutSignatures(bundle: unknown): unknown {
  if (typeof bundle !== "object" || bundle === null) return bundle;
  const strip = (t: unknown) => {
    if (typeof t !== "object" || t === null) return t;
    const { signature: _signature, ...rest } = t as Record<string, unknown>;
    return rest;
  };
  const b = bundle as Record<string, unknown>;
  if (Array.isArray(b["tools"])) return { ...b, tools: b["tools"].map(strip) };
  return strip(b);
}
