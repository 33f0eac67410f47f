import type { Rpc } from "../../lib/rpc";

const eachMs = 60_000;

/**
 * Tells the backend when the window has the focus, and each minute while it has it, so that notifications
 * go to a channel only while nobody is there.
 */
export function reportFocus(rpc: Rpc): () => void {
  const report = (): void => {
    if (document.hasFocus() && rpc.can("app.focused")) void rpc.call("app.focused", {}).catch(() => undefined);
  };
  const timer = setInterval(report, eachMs);
  addEventListener("focus", report);
  addEventListener("blur", leave);
  // The window had the focus until now.
  function leave(): void {
    if (rpc.can("app.focused")) void rpc.call("app.focused", {}).catch(() => undefined);
  }
  report();
  const off = rpc.onReload(report);
  return () => {
    clearInterval(timer);
    removeEventListener("focus", report);
    removeEventListener("blur", leave);
    off();
  };
}
