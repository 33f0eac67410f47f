import type { Result, Rpc } from "../../lib/rpc";
import { Load, format, toasts } from "../../lib/ui/state";
import { t } from "./messages";

export type SandboxStatus = Result<"sandbox.status">;

/** Weakest first. */
const isolations = ["inprocess", "process", "process+landlock", "process+landlock+bwrap"];

/** The status of the engine, live, and clearing its cache. */
export class SandboxState {
  readonly status = new Load<SandboxStatus>();
  clearing = $state(false);
  readonly #rpc: Rpc;
  readonly #off: (() => void)[];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#off = [
      rpc.on("sandbox.status_changed", (e) => {
        this.status.cancel();
        this.status.data = e.status;
      }),
      rpc.onReload(() => void this.load()),
    ];
  }

  stop(): void {
    for (const off of this.#off) off();
  }

  load(): Promise<void> {
    return this.status.run((signal) => this.#rpc.call("sandbox.status", {}, { signal }));
  }

  /** Why third-party modules cannot run here now, or "". */
  get refused(): string {
    const st = this.status.data;
    if (!st) return "";
    const t1 = st.tiers.find((x) => x.tier === "t1");
    if (isolations.indexOf(st.isolation) < isolations.indexOf(st.minIsolation)) return t.tooWeak;
    if (t1 && !t1.available) return t.neverUnsandboxed;
    return "";
  }

  /** Deletes compiled code, which contains no user data. */
  async clear(): Promise<void> {
    if (this.clearing) return;
    this.clearing = true;
    try {
      const r = await this.#rpc.call("sandbox.clear_cache", {});
      if (r.modules === 0) toasts.ok(t.nothingToClear);
      else toasts.ok(t.cleared(format.bytes(r.bytes)), t.clearedText);
      await this.load();
    } catch (e) {
      toasts.error(e, t.clearFailed);
    } finally {
      this.clearing = false;
    }
  }
}
