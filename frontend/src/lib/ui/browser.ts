import { common as t } from "../i18n/common";
import { rpc } from "../rpc";
import { toasts } from "./toasts.svelte";

interface WailsRuntime {
  BrowserOpenURL?(url: string): void;
}

/** Opens an address in the user's browser, even from the desktop window. */
export function openURL(url: string): void {
  const runtime = (globalThis as { runtime?: WailsRuntime }).runtime;
  if (runtime?.BrowserOpenURL) runtime.BrowserOpenURL(url);
  else open(url, "_blank", "noopener");
}

/** Creates a ticket and opens Helix in the browser with it. */
export async function openInBrowser(): Promise<void> {
  try {
    openURL((await rpc.call("sessions.ticket", {})).url);
  } catch (e) {
    toasts.error(e, t.linkFailed);
  }
}

/** Copies text to the clipboard and confirms it. */
export async function copy(text: string, what = t.copied): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toasts.ok(what);
  } catch {
    toasts.add({ title: t.clipboardMissing, text: t.clipboardHelp, tone: "warn" });
  }
}

/** Saves a text or a blob as a file, where the page can: in the window use `copy`. */
export function download(name: string, content: string | Blob, type = "application/json"): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
