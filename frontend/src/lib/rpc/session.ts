/**
 * Signing in from the browser. `helix ui` creates a ticket and puts it into the fragment of the URL; it is
 * exchanged once for a session token, which is kept in sessionStorage, so closing the tab discards it.
 */
import { RpcError } from "./errors";

const storageKey = "helix.session";

export type SignIn =
  | { state: "ready" }
  /** There is no session: `reason` is shown on the page that explains it. */
  | { state: "needed"; reason: "missing" | "refused" | "expired" | "unreachable" };

export function sessionToken(): string | null {
  return sessionStorage.getItem(storageKey);
}

export function forgetSession(): void {
  sessionStorage.removeItem(storageKey);
}

/** Parses `#ticket=…` and the target address in a fragment. */
export function parseFragment(hash: string): { ticket: string | null; path: string } {
  const text = hash.replace(/^#/, "");
  if (!text.includes("ticket=")) return { ticket: null, path: text };
  const q = new URLSearchParams(text);
  return { ticket: q.get("ticket"), path: q.get("path") ?? "" };
}

/** Redeems the ticket of the URL, if there is one, and clears it from the address. */
export async function signIn(fetcher: typeof fetch = fetch): Promise<SignIn> {
  const { ticket, path } = parseFragment(location.hash);
  if (!ticket) return sessionToken() ? { state: "ready" } : { state: "needed", reason: "missing" };
  history.replaceState(null, "", location.pathname + (path ? "#" + path : ""));
  let answer: Response;
  try {
    answer = await fetcher("/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ticket }),
      credentials: "omit",
    });
  } catch {
    return { state: "needed", reason: "unreachable" };
  }
  if (!answer.ok) return { state: "needed", reason: answer.status === 401 ? "refused" : "unreachable" };
  const body = (await answer.json()) as { token?: string };
  if (!body.token) throw new RpcError({ message: "The sign-in did not create a session." });
  sessionStorage.setItem(storageKey, body.token);
  return { state: "ready" };
}

/**
 * Calls `enter` when a link with a ticket is pasted into the open page. Listeners added later do not see the
 * ticket.
 */
export function onTicket(enter: () => Promise<void>): () => void {
  const onChange = (e: Event): void => {
    if (!parseFragment(location.hash).ticket) return;
    e.stopImmediatePropagation();
    void enter();
  };
  addEventListener("hashchange", onChange);
  return () => removeEventListener("hashchange", onChange);
}
