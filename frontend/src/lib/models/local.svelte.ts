import { common } from "../i18n/common";
import type { Item, Params, Rpc } from "../rpc";
import { toasts } from "../ui/state";

export type Detected = Item<"providers.detect", "found">;

/** Finds model servers on this computer, and sets up one of their models. */
export class LocalModels {
  found = $state.raw<readonly Detected[] | null>(null);
  busy = $state(false);
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  async detect(): Promise<void> {
    this.busy = true;
    try {
      this.found = (await this.#rpc.call("providers.detect", {})).found;
    } catch (e) {
      toasts.error(e);
    } finally {
      this.busy = false;
    }
  }

  /** Sets up a model of a detected server for chats. */
  async use(f: Detected, model: string): Promise<void> {
    const name = nameFor(f);
    if (!(await saveModels(this.#rpc, "providers.set", { name, entry: { type: f.type, baseUrl: f.baseUrl } }))) return;
    await saveModels(this.#rpc, "providers.set_role", { role: "chat", chain: [`${name}/${model}`] });
  }
}

/** Saves a provider or the models of a role; on failure it reports why and returns false. */
export async function saveModels<M extends "providers.set" | "providers.set_role">(rpc: Rpc, method: M, params: Params<M>): Promise<boolean> {
  try {
    await rpc.call(method, params);
    return true;
  } catch (e) {
    toasts.error(e, common.modelsNotSaved);
    return false;
  }
}

/** The name of an entry for a detected server. */
export const nameFor = (f: Detected): string => f.product.toLowerCase().replaceAll(/[^a-z0-9_-]+/g, "-").replace(/^[^a-z]+/, "") || "local";
