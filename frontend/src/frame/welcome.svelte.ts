import type { Rpc } from "../lib/rpc";
import type { ScreenDef, Starter } from "../lib/ui/screen";

const key = "helix.welcomed";

/** The page of the first start. It is shown until one of its starters has been used, and never again afterwards. */
export class Welcome {
  /** The running starter. */
  busy = $state.raw<Starter | null>(null);
  readonly #store: Pick<Storage, "getItem" | "setItem">;

  constructor(store: Pick<Storage, "getItem" | "setItem">) {
    this.#store = store;
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

  async use(s: Starter): Promise<void> {
    if (this.busy) return;
    this.busy = s;
    this.#store.setItem(key, "1");
    try {
      await s.run();
    } finally {
      this.busy = null;
    }
  }
}
