import type { Result, Rpc } from "../../lib/rpc";
import { Load, format, toasts } from "../../lib/ui/state";

export type SandboxStatus = Result<"sandbox.status">;

/** From the weakest to the strongest. */
const isolations = ["inprocess", "process", "process+landlock", "process+landlock+bwrap"];

/** What the engine says about itself, live, and clearing its cache. */
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

  /** Why modules of others do not run here now, or "". */
  get refused(): string {
    const st = this.status.data;
    if (!st) return "";
    const t1 = st.tiers.find((t) => t.tier === "t1");
    if (isolations.indexOf(st.isolation) < isolations.indexOf(st.minIsolation)) return "Third-party modules don't run: this computer's isolation is weaker than the setting below requires.";
    if (t1 && !t1.available) return "Third-party modules don't run: they never run unsandboxed.";
    return "";
  }

  /** Deletes compiled code. Nothing that a person made is in it. */
  async clear(): Promise<void> {
    if (this.clearing) return;
    this.clearing = true;
    try {
      const r = await this.#rpc.call("sandbox.clear_cache", {});
      toasts.ok(r.modules === 0 ? "Nothing to clear" : `Cleared ${format.bytes(r.bytes)}`, r.modules === 0 ? "" : "Modules are compiled again at their next start.");
      await this.load();
    } catch (e) {
      toasts.error(e, "Couldn't clear the cache");
    } finally {
      this.clearing = false;
    }
  }
}
