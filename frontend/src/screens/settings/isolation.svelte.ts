import type { Result, Rpc } from "../../lib/rpc";
import { missingWords } from "../../lib/run/isolation";
import { Load } from "../../lib/ui/state";

/** The layers that are missing around third-party modules. */
export class Isolation {
  readonly status = new Load<Result<"sandbox.status">>();

  /** In a few words, or "". */
  get missing(): string {
    return missingWords(this.status.data?.reasons ?? []);
  }

  start(rpc: Rpc): void {
    const read = (): void => void this.status.run((signal) => rpc.call("sandbox.status", {}, { signal }));
    rpc.on("sandbox.status_changed", (e) => (this.status.data = e.status));
    rpc.onReload(read);
    read();
  }
}

export const isolation = new Isolation();
