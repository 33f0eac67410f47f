import type { Notify } from "./toasts.svelte";
import { openURL } from "./browser";

/** A sign-in that a method of the backend has prepared. */
export interface SignInFlow {
  authUrl: string;
  expiresAt: string;
}

/** A sign-in in the browser: its page is opened, and an event tells when it has ended. */
export class SignIn {
  /** The page of the sign-in in progress, or "". */
  url = $state("");
  busy = $state(false);
  readonly #notify: Notify;
  readonly #open: (url: string) => void;

  constructor(notify: Notify, open: (url: string) => void = openURL) {
    this.#notify = notify;
    this.#open = open;
  }

  /** Prepares a sign-in and opens its page. */
  async begin(start: () => Promise<SignInFlow>, failed: string): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      const { authUrl } = await start();
      // Only what a browser shows as a page may be opened, whatever a server said.
      if (!/^https?:/i.test(authUrl)) throw new Error(authUrl);
      this.url = authUrl;
      this.#open(authUrl);
    } catch (e) {
      this.#notify.error(e, failed);
    } finally {
      this.busy = false;
    }
  }

  /** Opens the page of the sign-in in progress again, for example if the browser blocked it. */
  again(): void {
    if (this.url !== "") this.#open(this.url);
  }

  /** The sign-in has ended; why is not empty if it failed. */
  ended(why: string, failed: string): void {
    if (why !== "" && this.url !== "") this.#notify.add({ title: failed, text: why, tone: "danger" });
    this.url = "";
  }
}
