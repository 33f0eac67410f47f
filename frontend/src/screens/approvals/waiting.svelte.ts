import type { Rpc } from "../../lib/rpc";

/** The number of requests that wait for an answer. */
export class Waiting {
  count = $state(0);

  start(rpc: Rpc): void {
    rpc.on("approvals.changed", (e) => (this.count = e.pendingCount));
    rpc.onReload(() => void this.#read(rpc));
    void this.#read(rpc);
  }

  async #read(rpc: Rpc): Promise<void> {
    try {
      this.count = (await rpc.call("approvals.list", { limit: 1 })).pendingCount;
    } catch {
      // The Approvals screen shows the error; the frame only lacks the number.
    }
  }
}

export const waiting = new Waiting();
