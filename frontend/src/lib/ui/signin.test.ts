import { describe, expect, it, vi } from "vitest";
import { SignIn } from "./signin.svelte";
import type { Notify } from "./toasts.svelte";

function setup() {
  const notify = { error: vi.fn(), add: vi.fn() };
  const opened: string[] = [];
  return { notify, opened, signIn: new SignIn(notify as unknown as Notify, (url) => void opened.push(url)) };
}

const flow = (authUrl: string) => () => Promise.resolve({ authUrl, expiresAt: "2026-05-01T10:00:00Z" });

describe("a sign-in in the browser", () => {
  it("opens the page, also again until it has ended", async () => {
    const { opened, signIn } = setup();
    await signIn.begin(flow("https://as.example/authorize"), "failed");
    signIn.again();
    expect(opened).toEqual(["https://as.example/authorize", "https://as.example/authorize"]);
    signIn.ended("", "failed");
    signIn.again();
    expect(opened).toHaveLength(2);
    expect(signIn.url).toBe("");
  });
  it.each(["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", " https.evil"])("doesn't open %s", async (url) => {
    const { notify, opened, signIn } = setup();
    await signIn.begin(flow(url), "failed");
    expect(opened).toEqual([]);
    expect(signIn.url).toBe("");
    expect(signIn.busy).toBe(false);
    expect(notify.error).toHaveBeenCalledOnce();
  });
  it("prepares one at a time, and another after a failure", async () => {
    const { notify, opened, signIn } = setup();
    let refuse = (_: Error): void => undefined;
    const first = signIn.begin(() => new Promise((_, reject) => (refuse = reject)), "failed");
    await signIn.begin(flow("https://other.example"), "failed");
    expect(opened).toEqual([]);
    refuse(new Error("no"));
    await first;
    expect(notify.error).toHaveBeenCalledOnce();
    await signIn.begin(flow("https://other.example"), "failed");
    expect(opened).toEqual(["https://other.example"]);
  });
  it("tells why it failed only if it was begun here", async () => {
    const { notify, signIn } = setup();
    signIn.ended("declined", "failed");
    expect(notify.add).not.toHaveBeenCalled();
    await signIn.begin(flow("https://as.example"), "failed");
    signIn.ended("declined", "failed");
    expect(notify.add).toHaveBeenCalledWith({ title: "failed", text: "declined", tone: "danger" });
  });
});
