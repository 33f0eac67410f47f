import type { Item, Params, Rpc } from "../../lib/rpc";
import { Load, type Notify } from "../../lib/ui/state";
import { t } from "./messages";

export type Catalog = Item<"discovery.catalogs", "catalogs">;

/** The folders and lists in which APIs are looked for, too. */
export class Catalogs {
  open = $state(false);
  address = $state("");
  /** What is being done: "add", or the id of a catalog. */
  busy = $state("");
  readonly list = new Load<readonly Catalog[]>();
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  readonly #changed: () => void;

  constructor(rpc: Rpc, notify: Notify, changed: () => void) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.#changed = changed;
  }

  show(): void {
    this.open = true;
    void this.read();
  }
  read(): Promise<void> {
    return this.list.run(async (signal) => (await this.#rpc.call("discovery.catalogs", {}, { signal })).catalogs);
  }
  async add(p: Params<"discovery.catalog_add">): Promise<void> {
    if (await this.#act("add", () => this.#rpc.call("discovery.catalog_add", p), t.catalogs.addFailed)) this.address = "";
  }
  async refresh(c: Catalog): Promise<void> {
    await this.#act(c.catalogId, () => this.#rpc.call("discovery.catalog_refresh", { catalogId: c.catalogId }), t.catalogs.refreshFailed);
  }
  async remove(c: Catalog): Promise<void> {
    await this.#act(c.catalogId, () => this.#rpc.call("discovery.catalog_remove", { catalogId: c.catalogId }), t.catalogs.removeFailed);
  }

  async #act(what: string, call: () => Promise<unknown>, failed: string): Promise<boolean> {
    if (this.busy !== "") return false;
    this.busy = what;
    try {
      await call();
      await this.read();
      this.#changed();
      return true;
    } catch (e) {
      this.#notify.error(e, failed);
      return false;
    } finally {
      this.busy = "";
    }
  }
}
