import { common } from "../i18n/common";
import type { Item, Params, Rpc } from "../rpc";
import { toasts } from "../ui/state";

export type Detected = Item<"providers.detect", "found">;

/** Finds servers of models on this computer, and takes a model of one into use. */
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

  /** Takes a model of a detected server for chats. */
  async use(f: Detected, model: string): Promise<void> {
    const name = nameFor(f);
    if (!(await saveModels(this.#rpc, "providers.set", { name, entry: { type: f.type, baseUrl: f.baseUrl } }))) return;
    await saveModels(this.#rpc, "providers.set_role", { role: "chat", chain: [`${name}/${model}`] });
  }
}

/** Saves a service of models or the models of a role; says why not and is false then. */
export async function saveModels<M extends "providers.set" | "providers.set_role">(rpc: Rpc, method: M, params: Params<M>): Promise<boolean> {
  try {
    await rpc.call(method, params);
    return true;
  } catch (e) {
    toasts.error(e, common.modelsNotSaved);
    return false;
  }
}

/** The name of an entry for a server that was found. */
export const nameFor = (f: Detected): string => f.product.toLowerCase().replaceAll(/[^a-z0-9_-]+/g, "-").replace(/^[^a-z]+/, "") || "local";
