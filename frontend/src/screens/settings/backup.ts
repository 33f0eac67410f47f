import type { Rpc } from "../../lib/rpc";
import { format, type Notify } from "../../lib/ui/state";
import { t } from "./messages";

/**
 * Creates a backup in the backups folder, with everything that can be restored without a passphrase on this
 * computer.
 */
export async function backUpNow(rpc: Rpc, notify: Pick<Notify, "ok" | "error">): Promise<void> {
  try {
    const r = await rpc.call("storage.backup", {});
    notify.ok(t.backedUp(format.bytes(r.sizeBytes)), r.path);
  } catch (e) {
    notify.error(e, t.backupFailed);
  }
}
