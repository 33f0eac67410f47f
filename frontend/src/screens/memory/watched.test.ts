import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { Upload } from "../../lib/rpc/upload.svelte";
import { fake, job, preview, until } from "./fixtures";
import { Importing } from "./importing.svelte";
import { WatchedFolders, type WatchedFolder } from "./watched.svelte";

const folder = (over: Partial<WatchedFolder> = {}): WatchedFolder => ({ watchId: "w1", path: "/home/me/Notes", format: "markdown", state: "watching", files: 2, trashed: 0, tags: ["notes"], untrusted: false, createdAt: "2026-01-01T00:00:00Z", ...over });

function setup(folders = [folder()]) {
  let now = folders;
  const rpc = fake({
    "memory.watch_list": () => ({ folders: now }),
    "memory.watch_add": (p: { path: string }) => ((now = [...now, folder({ watchId: "w2", path: p.path })]), now.at(-1)),
    "memory.watch_remove": (p: { watchId: string }) => ((now = now.filter((w) => w.watchId !== p.watchId)), folder()),
    "memory.watch_pause": () => ((now = now.map((w) => ({ ...w, state: "paused" }))), now[0]),
    "memory.watch_resume": () => ((now = now.map((w) => ({ ...w, state: "watching" }))), now[0]),
    "memory.imports": () => ({ jobs: [], total: 0 }),
    "memory.import": () => ({ jobId: "i1" }),
    "memory.import_status": () => job("i1", {}),
    "memory.import_preview": (p: { path: string }) => preview({ format: p.path.endsWith(".zip") ? "chatgpt" : "markdown", folder: !p.path.endsWith(".md") }),
  });
  const said: string[] = [];
  let undo: () => unknown = () => {};
  const watched = new WatchedFolders(rpc as never, {
    ok: () => {},
    add: () => {},
    error: (_e, title = "") => void said.push(title),
    undo: (title, restore) => {
      said.push(title);
      undo = restore;
    },
  });
  const upload = new Upload({ send: async (f) => ({ token: "pick:1", name: f.name, size: 1 }), discard: async () => {} });
  const importing = new Importing(rpc as never, { done: (title) => void said.push(title), error: () => {} }, upload, watched);
  return { rpc, watched, importing, said, undo: () => undo(), set: (f: WatchedFolder[]) => void (now = f) };
}
const states = (w: WatchedFolders): unknown => w.list.data?.map((f) => f.state);

describe("watched folders", () => {
  it("are read at the start and with each change, until they are no longer followed", async () => {
    const { rpc, watched, set } = setup();
    watched.start();
    watched.start();
    await until(() => watched.list.data !== undefined);
    set([folder({ state: "missing", message: "Folder not found." })]);
    rpc.emit("memory.watch_changed", { watchId: "w1" });
    await until(() => watched.broken.length === 1);
    watched.stop();
    rpc.emit("memory.watch_changed", { watchId: "w1" });
    expect(rpc.sent("memory.watch_list")).toHaveLength(2);
  });

  it("are paused and continued", async () => {
    const { watched } = setup();
    await watched.pause(folder(), true);
    expect([states(watched), watched.busy]).toEqual([["paused"], ""]);
    await watched.pause(folder(), false);
    expect(states(watched)).toEqual(["watching"]);
  });

  it("are removed with Undo, which watches the folder again as before", async () => {
    const { rpc, watched, said, undo } = setup();
    await watched.remove(folder());
    expect([states(watched), said]).toEqual([[], ["No longer watching Notes"]]);
    await undo();
    expect(rpc.sent("memory.watch_add")).toEqual([{ path: "/home/me/Notes", format: "markdown", tags: ["notes"], untrusted: false }]);
    expect(states(watched)).toEqual(["watching"]);
  });

  it("say why they can't be changed", async () => {
    const { rpc, watched, said } = setup();
    rpc.failNext("memory.watch_remove", new RpcError({ message: "no" }));
    await watched.remove(folder());
    expect(said).toEqual(["Couldn't change Notes"]);
  });
});

describe("importing a folder", () => {
  it("can have it watched in place of importing it once", async () => {
    const { rpc, importing } = setup([]);
    await importing.choose("/home/me/Vault");
    expect(importing.watchable).toBe(true);
    importing.watch = true;
    importing.untrusted = false;
    importing.tags = "Work";
    expect(await importing.run()).toBe(true);
    expect(rpc.sent("memory.watch_add")).toEqual([{ path: "/home/me/Vault", format: "markdown", untrusted: false, tags: ["work"] }]);
    expect([rpc.sent("memory.import"), importing.step, importing.watch]).toEqual([[], "choose", false]);
  });

  it("stays where it is when that is refused", async () => {
    const { rpc, importing } = setup([]);
    await importing.choose("/home/me/Vault");
    importing.watch = true;
    rpc.failNext("memory.watch_add", new RpcError({ message: "It is watched already." }));
    expect(await importing.run()).toBe(false);
    expect([importing.step, importing.error?.message, importing.starting]).toEqual(["preview", "It is watched already.", false]);
  });

  it("offers no watching for a file, an export or an uploaded copy", async () => {
    const { importing } = setup([]);
    for (const path of ["/home/me/note.md", "/home/me/chats.zip"]) {
      await importing.choose(path);
      expect(importing.watchable).toBe(false);
    }
    await importing.send({ name: "Vault", files: [{ path: "a.md", file: new File(["x"], "a.md") }] });
    expect([importing.step, importing.watchable]).toEqual(["preview", false]);
  });

  it("doesn't announce what a watched folder imports", async () => {
    const { rpc, importing, said } = setup();
    importing.start();
    rpc.emit("memory.import_done", job("i9", { status: "completed", watchId: "w1" }));
    expect(said).toEqual([]);
    rpc.emit("memory.import_done", job("i8", { status: "completed" }));
    expect(said).toHaveLength(1);
    importing.stop();
  });
});
