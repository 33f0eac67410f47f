import type { Rpc } from "../lib/rpc";
import type { ScreenDef, Starter } from "../lib/ui/screen";

const key = "helix.welcomed";
const stepsKey = "helix.steps";

/** The starters of the screens: the first steps in their order, and the others. */
export function startersOf(screens: readonly ScreenDef[]): { steps: ScreenDef[]; others: ScreenDef[] } {
  const all = screens.filter((s) => s.starter);
  const steps = all.filter((s) => s.starter!.step !== undefined).sort((a, b) => a.starter!.step! - b.starter!.step!);
  return { steps, others: all.filter((s) => s.starter!.step === undefined) };
}

/**
 * The page of the first start. It opens by itself until one of its starters has been used, and never again
 * afterwards; what is left of the first steps then stays in the status bar until they are done or hidden.
 */
export class Welcome {
  /** The running starter. */
  busy = $state.raw<Starter | null>(null);
  /** What has been done. */
  done = $state.raw<ReadonlySet<Starter>>(new Set());
  /** The steps are offered in the status bar. */
  following = $state(false);
  readonly #store: Pick<Storage, "getItem" | "setItem">;

  constructor(store: Pick<Storage, "getItem" | "setItem">) {
    this.#store = store;
    this.following = store.getItem(stepsKey) === "open";
  }

  /** Whether this is a first start. Data that cannot be read does not delay the start. */
  async due(rpc: Rpc, screens: readonly ScreenDef[]): Promise<boolean> {
    const starters = screens.flatMap((s) => s.starter ?? []);
    if (starters.length === 0 || this.#store.getItem(key)) return false;
    const used = await Promise.all(starters.map((s) => s.used(rpc).catch(() => true)));
    if (!used.includes(true)) return true;
    this.#store.setItem(key, "1");
    return false;
  }

  /** Reads what has been done. A step whose data cannot be read keeps its state. */
  async read(rpc: Rpc, screens: readonly ScreenDef[]): Promise<void> {
    const starters = screens.flatMap((s) => s.starter ?? []);
    const used = await Promise.all(starters.map((s) => s.used(rpc).catch(() => this.done.has(s))));
    this.done = new Set(starters.filter((_, i) => used[i]));
    if (this.following && starters.every((s) => s.step === undefined || this.done.has(s))) this.hide();
  }

  async use(s: Starter, run: () => unknown = () => s.run()): Promise<void> {
    if (this.busy) return;
    this.busy = s;
    if (!this.#store.getItem(key)) this.#follow(true);
    this.#store.setItem(key, "1");
    try {
      await run();
    } finally {
      this.busy = null;
    }
  }

  /** Removes the steps from the status bar. The page remains in the command palette. */
  hide(): void {
    this.#follow(false);
  }

  #follow(on: boolean): void {
    this.following = on;
    this.#store.setItem(stepsKey, on ? "open" : "done");
  }
}
