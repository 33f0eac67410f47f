import { RpcError, type Item, type Result, type Rpc } from "../lib/rpc";
import { Load, toasts } from "../lib/ui";

export type ServiceInfo = Item<"services.list", "services">;

/** Long work that the status bar shows. */
export interface Job {
  id: string;
  title: string;
  /** 0..1, or undefined when the length is not known. */
  progress: number | undefined;
  since: number;
  cancel?: () => void;
}

/** What the frame knows about the program: services, warnings, running jobs, the number of waiting approvals. */
export class System {
  readonly status = new Load<Result<"system.status">>();
  readonly services = new Load<ServiceInfo[]>();
  readonly storage = new Load<Result<"storage.status">>();
  jobs = $state.raw<readonly Job[]>([]);
  waiting = $state(0);
  lowSpace = $state(false);
  recovery = $state(false);
  stopping = $state(false);
  restarting = $state("");
  #rpc: Rpc;
  #off: (() => void)[] = [];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Loads and follows events until stop. */
  start(): void {
    const rpc = this.#rpc;
    this.#off = [
      rpc.on("storage.low_space", () => (this.lowSpace = true)),
      rpc.on("storage.recovery", () => void this.load()),
      rpc.on("system.stopping", () => (this.stopping = true)),
      rpc.on("approvals.changed", (e) => (this.waiting = e.pendingCount)),
      rpc.onReload(() => void this.load()),
    ];
    void this.load();
  }

  stop(): void {
    for (const off of this.#off.splice(0)) off();
  }

  async load(): Promise<void> {
    const rpc = this.#rpc;
    this.stopping = false;
    await Promise.all([
      this.status.run((signal) => rpc.call("system.status", {}, { signal })),
      this.loadServices(),
      rpc.can("storage.status") ? this.storage.run((signal) => rpc.call("storage.status", {}, { signal })) : undefined,
      this.#count(),
    ]);
    this.recovery = this.status.data?.recovery === true;
  }

  loadServices(): Promise<void> {
    return this.services.run(async (signal) => (await this.#rpc.call("services.list", {}, { signal })).services);
  }

  async #count(): Promise<void> {
    if (!this.#rpc.can("approvals.list")) return;
    try {
      this.waiting = (await this.#rpc.call("approvals.list", { limit: 1 })).pendingCount;
    } catch {
      // The Approvals screen shows why; the frame only lacks its number.
    }
  }

  async restart(name: string): Promise<void> {
    this.restarting = name;
    try {
      await this.#rpc.call("services.restart", { name });
      toasts.ok(`${name} was restarted`);
    } catch (e) {
      // Restarting the gateway ends the very connection that asked for it.
      if (!(name === "gateway" && e instanceof RpcError && e.kind === "unavailable")) toasts.error(e, `${name} could not be restarted`);
    } finally {
      this.restarting = "";
      void this.loadServices();
    }
  }

  async copyURL(): Promise<void> {
    const port = this.services.data?.find((s) => s.name === "gateway")?.port;
    if (!port) return void toasts.add({ title: "The gateway has no address now", tone: "warn" });
    const url = `http://127.0.0.1:${port}/`;
    await navigator.clipboard.writeText(url);
    toasts.ok("Copied", url);
  }

  async openInBrowser(): Promise<void> {
    try {
      const { url } = await this.#rpc.call("sessions.ticket", {});
      open(url, "_blank", "noopener");
    } catch (e) {
      toasts.error(e, "No ticket could be made");
    }
  }
}
