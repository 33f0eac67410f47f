import { asError, type RpcError } from "../../lib/rpc/errors";
import { Load } from "../../lib/ui/load.svelte";
import type { Rpc } from "../../lib/rpc";
import { resourceProblem } from "../../lib/run/capabilities";
import { t } from "./messages";
import type { SecretInfo } from "./types";

/** The secrets that tools may use by name. A value is only sent, never read. */
export class ToolSecrets {
  open = $state(false);
  name = $state("");
  value = $state("");
  hosts = $state("");
  toolIds = $state.raw<readonly string[]>([]);
  /** The secret that is being replaced; empty for a new one. */
  editing = $state("");
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  readonly list = new Load<readonly SecretInfo[]>();

  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly hostList = $derived(
    this.hosts
      .split(/[\s,]+/)
      .map((h) => h.trim().toLowerCase())
      .filter((h) => h !== ""),
  );

  /** What is still missing, in words; empty if it can be saved. */
  readonly problem = $derived.by(() => {
    if (!/^[A-Za-z0-9_.-]{1,64}$/.test(this.name.trim())) return t.secretName;
    if (this.value === "") return t.secretValue;
    if (this.hostList.length === 0) return t.secretHosts;
    for (const h of this.hostList) {
      const p = resourceProblem("network:https", h);
      if (p !== null) return `${h}: ${p}`;
    }
    return "";
  });

  begin(): void {
    this.open = true;
    this.edit(null);
    void this.read();
  }

  close(): void {
    this.open = false;
    this.value = "";
  }

  async read(): Promise<void> {
    await this.list.run(async (signal) => (await this.#rpc.call("tools.secrets", {}, { signal })).secrets);
  }

  /** Fills the form with a secret, without its value; null empties the form. */
  edit(s: SecretInfo | null): void {
    this.editing = s?.name ?? "";
    this.name = s?.name ?? "";
    this.hosts = (s?.hosts ?? []).join(", ");
    this.toolIds = s?.toolIds ?? [];
    this.value = "";
    this.error = null;
  }

  /** Stores the secret. The value is discarded here at once, even if it was refused. */
  async save(): Promise<boolean> {
    if (this.problem !== "" || this.busy) return false;
    this.busy = true;
    this.error = null;
    const params = { name: this.name.trim(), value: this.value, hosts: [...this.hostList], toolIds: [...this.toolIds] };
    try {
      await this.#rpc.call("tools.secret_set", params);
      this.edit(null);
      await this.read();
      return true;
    } catch (e) {
      this.error = asError(e);
      return false;
    } finally {
      params.value = "";
      this.busy = false;
    }
  }

  async remove(name: string): Promise<boolean> {
    try {
      await this.#rpc.call("tools.secret_delete", { name });
      if (this.editing === name) this.edit(null);
      await this.read();
      return true;
    } catch (e) {
      this.error = asError(e);
      return false;
    }
  }
}
