import { common as t } from "../i18n/common";
import { rpc } from "../rpc";
import { toasts } from "./toasts.svelte";

interface WailsRuntime {
  BrowserOpenURL?(url: string): void;
}

/** Opens an address in the user's browser, also from the desktop window. */
export function openURL(url: string): void {
  const runtime = (globalThis as { runtime?: WailsRuntime }).runtime;
  if (runtime?.BrowserOpenURL) runtime.BrowserOpenURL(url);
  else open(url, "_blank", "noopener");
}

/** Makes a ticket and opens Helix in the browser with it. */
export async function openInBrowser(): Promise<void> {
  try {
    openURL((await rpc.call("sessions.ticket", {})).url);
  } catch (e) {
    toasts.error(e, t.linkFailed);
  }
}

/** Puts text on the clipboard and says so. */
export async function copy(text: string, what = t.copied): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toasts.ok(what);
  } catch {
    toasts.add({ title: t.clipboardMissing, text: t.clipboardHelp, tone: "warn" });
  }
}

/** Gives a text to the person as a file, where the page can: in the window `copy` does it. */
export function download(name: string, text: string, type = "application/json"): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
