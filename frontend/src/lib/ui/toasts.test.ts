import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../rpc/errors";
import { nav } from "./nav.svelte";
import { Toasts } from "./toasts.svelte";

describe("Toasts", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("takes an act back within 10 s, not after", async () => {
    const t = new Toasts();
    const restore = vi.fn();
    t.undo("Deleted", restore);
    await vi.advanceTimersByTimeAsync(9_500);
    expect(t.list[0]!.left).toBe(1);
    expect(t.undoLast()).toBe(true);
    expect(restore).toHaveBeenCalledTimes(1);
    expect(t.list).toEqual([]);
    t.undo("Deleted", restore);
    await vi.advanceTimersByTimeAsync(10_500);
    expect(t.undoLast()).toBe(false);
    expect(restore).toHaveBeenCalledTimes(1);
  });

  it("takes back what is still being done once it is done, and not what was done before", async () => {
    const t = new Toasts();
    const [before, restore] = [vi.fn(), vi.fn()];
    t.undo("Renamed", before);
    const act = async (fails: boolean): Promise<void> => {
      await Promise.resolve();
      if (fails) throw new Error("it failed");
      t.undo("Deleted", restore);
    };
    const deletion = t.during(() => act(false));
    expect([t.undoable, t.undoLast()]).toEqual([true, true]);
    expect(restore).not.toHaveBeenCalled();
    await deletion;
    expect([restore.mock.calls.length, before.mock.calls.length, t.list.map((x) => x.title)]).toEqual([1, 0, ["Renamed"]]);
    // What failed has nothing to undo, and the next one is not undone for it.
    const failure = t.during(() => act(true));
    t.undoLast();
    await expect(failure).rejects.toThrow("it failed");
    await t.during(() => act(false));
    expect([restore.mock.calls.length, t.list.map((x) => x.title)]).toEqual([1, ["Renamed", "Deleted"]]);
  });

  it("leads to the Trash when the time to undo a deletion has passed, but not after an undo", async () => {
    const t = new Toasts();
    t.undo("Moved Digest to Trash", () => {}, "", true);
    t.undoLast();
    expect(t.undoable).toBe(false);
    t.undo("Moved Digest to Trash", () => {}, "", true);
    await vi.advanceTimersByTimeAsync(10_500);
    expect([t.undoable, t.undoLast(), t.undoLast()]).toEqual([true, false, false]);
    expect(t.list.map((x) => x.text)).toEqual(["Moved Digest to Trash. You can restore it there."]);
    t.list[0]!.action!.run();
    expect(nav.screen).toBe("trash");
    t.undo("Renamed", () => {});
    await vi.advanceTimersByTimeAsync(500);
    expect(t.undoLast()).toBe(true);
  });

  it("does a deferred act after 10 s, at once when dismissed, never after Undo", async () => {
    const t = new Toasts();
    const commit = vi.fn();
    const revert = vi.fn();
    t.deferred({ title: "Revoked", commit, revert });
    await vi.advanceTimersByTimeAsync(10_500);
    expect(commit).toHaveBeenCalledTimes(1);
    const id = t.deferred({ title: "Revoked", commit, revert });
    t.dismiss(id);
    expect(commit).toHaveBeenCalledTimes(2);
    t.deferred({ title: "Revoked", commit, revert });
    t.undoLast();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(commit).toHaveBeenCalledTimes(2);
    expect(revert).toHaveBeenCalledTimes(1);
  });

  it("puts the screen back and says so when a deferred act fails", async () => {
    const t = new Toasts();
    const revert = vi.fn();
    t.deferred({ title: "Revoked", commit: () => Promise.reject(new RpcError({ message: "No." })), revert });
    t.flush();
    await vi.advanceTimersByTimeAsync(0);
    expect(revert).toHaveBeenCalledTimes(1);
    expect(t.list.map((x) => x.title)).toEqual(["No."]);
  });

  it("waits while it is held", async () => {
    const t = new Toasts();
    const commit = vi.fn();
    const id = t.deferred({ title: "Revoked", commit, revert: () => {} });
    t.hold(id, true);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(commit).not.toHaveBeenCalled();
    t.hold(id, false);
    await vi.advanceTimersByTimeAsync(10_500);
    expect(commit).toHaveBeenCalledTimes(1);
  });

  it("shows an error once, and a cancelled call not at all", () => {
    const t = new Toasts();
    const e = new RpcError({ message: "The disk is full. Nothing was changed.", kind: "limit" });
    t.error(e, "Not saved");
    t.error(e, "Not saved");
    t.error(new RpcError({ message: "Canceled.", kind: "canceled" }));
    t.error(new DOMException("aborted", "AbortError"));
    expect(t.list.map((x) => [x.title, x.text])).toEqual([["Not saved", "The disk is full. Nothing was changed."]]);
  });
});
