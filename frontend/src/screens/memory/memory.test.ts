import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { Upload } from "../../lib/rpc/upload.svelte";
import { conversation, doc, embedding, fake, job, memory, preview, stats, until } from "./fixtures";
import { nav } from "../../lib/ui/state";
import { Importing, isLargeArchive } from "./importing.svelte";
import { bestMatch, linkPath } from "./links";
import { MemoryScreen } from "./memory.svelte";

function setup() {
  let all = [memory("a", { content: "First", tags: ["x"] }), memory("b", { content: "Second" })];
  let binned: typeof all = [];
  const said: string[] = [];
  let undo: (() => Promise<unknown> | void) | null = null;
  const change = (id: string, over: object) => {
    all = all.map((m) => (m.id === id ? { ...m, ...over, version: m.version + 1 } : m));
    return all.find((m) => m.id === id)!;
  };
  const rpc = fake({
    "memory.list": () => ({ items: all, total: all.length }),
    "memory.get": (p: { id: string }) => {
      const m = all.find((x) => x.id === p.id);
      if (!m) throw new RpcError({ kind: "not_found", message: "Memory not found." });
      return m;
    },
    "memory.update": (p: { id: string; version: number; content?: string }) => {
      const m = all.find((x) => x.id === p.id)!;
      if (m.version !== p.version) throw new RpcError({ kind: "conflict", message: "Changed meanwhile.", details: m });
      const { id, version, ...over } = p;
      void version;
      return change(id, over);
    },
    "memory.delete": (p: { ids: string[] }) => {
      binned = all.filter((m) => p.ids.includes(m.id)).map((m) => ({ ...m, deletedAt: "2026-05-01T00:00:00Z" }));
      all = all.filter((m) => !p.ids.includes(m.id));
      return { count: p.ids.length, undoToken: "token" };
    },
    "memory.undo": () => {
      all = [...binned.map(({ deletedAt: _, ...m }) => m as (typeof all)[number]), ...all];
      binned = [];
      return { count: 1 };
    },
    "memory.pin": (p: { ids: string[]; on: boolean }) => ({ items: p.ids.map((id) => change(id, { pinned: p.on })) }),
    "memory.set_salience": (p: { ids: string[]; tier: string }) => ({ items: p.ids.map((id) => change(id, { salienceTier: p.tier })) }),
    "memory.tag": (p: { ids: string[]; add: string[]; remove: string[] }) => ({ items: p.ids.map((id) => change(id, { tags: p.add })) }),
    "memory.history": () => ({ revisions: [{ version: 1, content: "Before", tags: [], editedAt: "2026-01-01T00:00:00Z", origin: "person" }] }),
    "memory.related": () => ({ results: [] }),
    "memory.stats": () => stats({ total: 2, memories: 2, byMonth: [{ value: "2026-03", count: 2 }, { value: "", count: 1 }], tags: [{ value: "x", count: 1 }] }),
    "memory.embedding_status": () => embedding(),
    "memory.reembed": (p: { pause?: boolean }) => embedding({ paused: p.pause === true }),
    "memory.conversations": () => ({ conversations: [conversation("c1")], total: 1 }),
    "memory.conversation": (p: { aroundSeq?: number; offset?: number; limit: number }) => {
      const offset = p.offset ?? Math.max(0, (p.aroundSeq ?? 0) - 10);
      const turns = Array.from({ length: 100 }, (_, i) => ({ id: `t${i}`, seq: i, role: "user", text: `turn ${i}` }));
      return { conversation: conversation("c1"), turns: turns.slice(offset, offset + p.limit), total: 100, offset };
    },
    "memory.list_documents": () => ({ documents: [doc("d1", { occurredAt: "2026-03-10T00:00:00Z" })], total: 1 }),
    "memory.delete_conversation": () => ({ count: 1, undoToken: "t" }),
    "memory.set_untrusted": () => ({ count: 1 }),
    "memory.add": (p: { content: string }) => ({ item: memory("n", { content: p.content }), deduplicated: p.content === "Known" }),
    "memory.imports": () => ({ jobs: [job("i0", { status: "completed" })], total: 1 }),
    "memory.import_preview": () => preview(),
    "memory.import": () => ({ jobId: "i1" }),
    "memory.import_status": (p: { jobId: string }) => job(p.jobId),
    "memory.import_cancel": (p: { jobId: string }) => job(p.jobId, { status: "cancelled" }),
  });
  const screen = new MemoryScreen(rpc as never, {
    ok: (title) => said.push(title),
    add: (t) => said.push(t.title),
    error: (e, title = "") => said.push(title || (e as Error).message),
    undo: (title, restore) => {
      said.push(title);
      undo = restore;
    },
  });
  return { rpc, screen, said, undo: async () => undo?.(), change, all: () => all };
}

async function opened() {
  const s = setup();
  s.screen.start();
  await until(() => s.screen.list.loaded && s.screen.stats.data !== undefined);
  nav.go("memory/list/memory/a");
  s.screen.show(s.screen.place);
  await until(() => s.screen.inspector.memory.data !== undefined);
  return s;
}

describe("acts", () => {
  it("moves to the trash, goes to the next, and Undo brings it back", async () => {
    const { screen, said, undo, rpc } = await opened();
    await screen.remove(["a"]);
    expect(nav.path.join("/")).toBe("memory/list/memory/b");
    expect(said.at(-1)).toBe("Moved “First” to the trash");
    await undo();
    expect(rpc.sent("memory.undo")).toEqual([{ undoToken: "token" }]);
    rpc.emit("memory.changed", { ids: ["a"], op: "restore" });
    await until(() => screen.list.row("a") !== null);
    screen.stop();
  });

  it("pins all one way, sets tiers and tags", async () => {
    const { screen, rpc, said } = await opened();
    await screen.togglePin(["a", "b"]);
    await screen.togglePin(["a", "b"]);
    expect(rpc.sent("memory.pin").map((p) => p.on)).toEqual([true, false]);
    await screen.setTier(["a"], "critical");
    expect(screen.list.row("a")?.tier).toBe("critical");
    expect(screen.inspector.memory.data?.salienceTier).toBe("critical");
    await screen.tag(["a", "b"], ["y"], []);
    expect(said.at(-1)).toBe("Changed the tags of 2 memories");
    rpc.failNext("memory.tag", new RpcError({ message: "no" }));
    expect(await screen.tag(["a"], ["z"], [])).toBe(false);
    screen.stop();
  });

  it("reads the counts once for many changes", async () => {
    const { screen, rpc } = await opened();
    const before = rpc.sent("memory.stats").length;
    for (let i = 0; i < 20; i++) rpc.emit("memory.changed", { ids: ["b"], op: "add" });
    await until(() => rpc.sent("memory.stats").length > before);
    expect(rpc.sent("memory.stats").length).toBe(before + 1);
    screen.stop();
  });
});

describe("changing in place", () => {
  it("keeps a draft while something else is looked at", async () => {
    const { screen } = await opened();
    const m = screen.inspector.memory.data!;
    screen.edit.begin(m);
    screen.edit.draft.content = "Half";
    screen.edit.leave();
    expect(screen.edit.open).toBe(false);
    expect(screen.edit.has("a")).toBe(true);
    screen.edit.begin(m);
    expect(screen.edit.draft.content).toBe("Half");
    const back = screen.edit.discard()!;
    expect(screen.edit.has("a")).toBe(false);
    back();
    expect(screen.edit.draft.content).toBe("Half");
    screen.stop();
  });

  it("saves only what changed, and Undo writes what was there", async () => {
    const { screen, rpc, undo } = await opened();
    screen.edit.begin(screen.inspector.memory.data!);
    screen.edit.draft.content = "Changed";
    expect(await screen.save()).toBe(true);
    expect(rpc.sent("memory.update")[0]).toEqual({ id: "a", version: 1, content: "Changed" });
    await undo();
    expect(rpc.sent("memory.update")[1]).toMatchObject({ version: 2, content: "First" });
    expect(screen.inspector.memory.data?.content).toBe("First");
    screen.stop();
  });

  it("shows both texts of a conflict, and loses none", async () => {
    const { screen, change, rpc } = await opened();
    screen.edit.begin(screen.inspector.memory.data!);
    screen.edit.draft.content = "Mine";
    change("a", { content: "Theirs" });
    expect(await screen.save()).toBe(false);
    expect(screen.edit.theirs?.content).toBe("Theirs");
    expect(screen.edit.draft.content).toBe("Mine");
    expect(await screen.save(true)).toBe(true);
    expect(rpc.sent("memory.update").at(-1)).toMatchObject({ version: 2, content: "Mine" });
    screen.edit.begin(screen.inspector.memory.data!);
    screen.edit.draft.content = "Again";
    change("a", { content: "Other" });
    await screen.save();
    const back = screen.edit.takeTheirs()!;
    expect(screen.edit.open).toBe(false);
    back();
    expect(screen.edit.draft.content).toBe("Again");
    screen.stop();
  });

  it("refuses what cannot be stored before it is sent", async () => {
    const { screen, rpc } = await opened();
    screen.edit.begin(screen.inspector.memory.data!);
    screen.edit.draft.content = "  ";
    expect(screen.edit.problem).toBe("Write something first");
    await screen.save();
    screen.edit.draft.content = "x".repeat(70_000);
    expect(screen.edit.problem).toBe("Longer than 64 KiB: import it as a document");
    await screen.save();
    expect(rpc.sent("memory.update")).toEqual([]);
    screen.stop();
  });

  it("brings back an earlier text, with Undo", async () => {
    const { screen, undo } = await opened();
    screen.inspector.setTab("history");
    await until(() => screen.inspector.history.data !== undefined);
    await screen.restoreRevision(screen.inspector.history.data![0]!);
    expect(screen.inspector.memory.data?.content).toBe("Before");
    await undo();
    expect(screen.inspector.memory.data?.content).toBe("First");
    screen.stop();
  });
});

describe("reading in place", () => {
  it("opens around what was found and reads on both sides", async () => {
    const { screen } = setup();
    const { inspector } = screen;
    inspector.show({ kind: "turn", id: "t50", parentId: "c1", seq: 50 }, null);
    await until(() => inspector.reader.pieces.length > 0);
    const { reader } = inspector;
    expect(reader.pieces.some((p) => p.seq === 50)).toBe(true);
    await reader.earlier();
    expect(reader.before).toBe(0);
    expect(reader.pieces[0]?.seq).toBe(0);
    await reader.later();
    await reader.later();
    expect(reader.after).toBe(0);
    expect(reader.pieces.map((p) => p.seq)).toEqual(Array.from({ length: 100 }, (_, i) => i));
    // Another hit in the same conversation needs no reading.
    inspector.show({ kind: "turn", id: "t3", parentId: "c1", seq: 3 }, null);
    expect(reader.busy).toBe("");
    expect(reader.focus).toBe(3);
  });

  it("says that something is gone", async () => {
    const { screen } = setup();
    screen.inspector.show({ kind: "memory", id: "gone", parentId: "", seq: -1 }, null);
    await until(() => screen.inspector.memory.error !== undefined);
    expect(screen.inspector.memory.error?.kind).toBe("not_found");
  });
});

describe("importing a file of this computer", () => {
  it("sends it, looks inside, and gives it back when something else is chosen", async () => {
    const { rpc, said } = setup();
    const discarded: string[] = [];
    const upload = new Upload({ send: async (f) => ({ token: `pick:${f.name}`, name: f.name, size: 1 }), discard: async (t) => void discarded.push(t) });
    const importing = new Importing(rpc as never, { done: (title) => said.push(title), error: () => {} }, upload);
    const file = (name: string) => Object.assign(new Blob(["x"]), { name }) as File;
    await importing.send(file("a.zip"));
    expect([importing.step, importing.name, importing.path]).toEqual(["preview", "a.zip", "pick:a.zip"]);
    importing.chooseAnother();
    expect(discarded).toEqual(["pick:a.zip"]);
    expect(importing.path).toBe("");
    await importing.send(file("b.zip"));
    expect(await importing.run()).toBe(true);
    expect(rpc.sent("memory.import").map((p) => p.path)).toEqual(["pick:b.zip"]);
    importing.reset();
    expect(discarded).toEqual(["pick:a.zip"]);
  });

  it("says why it was not sent", async () => {
    const { rpc } = setup();
    const upload = new Upload({ send: async () => Promise.reject(new RpcError({ message: "The disk is full." })), discard: async () => {} });
    const importing = new Importing(rpc as never, { done: () => {}, error: () => {} }, upload);
    await importing.send(Object.assign(new Blob(["x"]), { name: "a.zip" }) as File);
    expect([importing.step, importing.upload.error?.message]).toEqual(["choose", "The disk is full."]);
    expect(rpc.sent("memory.import_preview")).toEqual([]);
  });
});

describe("importing", () => {
  it("looks first, starts, follows and ends", async () => {
    const { screen, rpc } = setup();
    const { importing } = screen;
    importing.start();
    importing.begin();
    await importing.choose("relative.zip");
    expect(importing.step).toBe("choose");
    expect(importing.pathProblem).not.toBe("");
    await importing.choose("/home/me/chats.zip");
    expect(importing.preview.data?.items).toBe(10);
    expect(rpc.sent("memory.import")).toEqual([]);
    importing.tags = "Old, #Chats";
    expect(await importing.run()).toBe(true);
    expect(rpc.sent("memory.import")).toEqual([{ path: "/home/me/chats.zip", format: "chatgpt", untrusted: true, tags: ["old", "chats"] }]);
    await until(() => importing.job !== null);
    rpc.emit("memory.import_progress", job("i1", { progress: 0.7 }));
    expect(importing.job?.progress).toBe(0.7);
    rpc.emit("memory.import_done", job("i1", { status: "completed", progress: 1 }));
    rpc.emit("memory.import_progress", job("i1", { progress: 0.9 }));
    expect(importing.job?.status).toBe("completed");
    importing.stop();
  });

  it("tells the end once when nobody looks, and goes on with what runs", async () => {
    const { screen, rpc, said } = setup();
    const { importing } = screen;
    importing.start();
    rpc.emit("memory.import_progress", job("i7"));
    importing.begin();
    expect(importing.jobId).toBe("i7");
    importing.open = false;
    rpc.emit("memory.import_done", job("i7", { status: "completed" }));
    rpc.emit("memory.import_done", job("i7", { status: "completed" }));
    rpc.emit("memory.import_done", job("i9", { status: "cancelled" }));
    expect(said).toEqual(["Imported chats.zip", "Stopped the import of chats.zip"]);
    await importing.cancel("i8");
    expect(rpc.sent("memory.import_cancel")).toEqual([{ jobId: "i8" }]);
    importing.stop();
  });

  it("asks before a large archive is unpacked", async () => {
    const { screen, rpc } = setup();
    const { importing } = screen;
    rpc.failNext("memory.import_preview", new RpcError({ kind: "limit", message: "It would unpack to 2.0 GiB.", details: { code: "large_archive" } }));
    await importing.choose("/home/me/chats.zip");
    expect(isLargeArchive(importing.preview.error)).toBe(true);
    expect(importing.preview.data).toBeUndefined();
    await importing.allowArchive();
    expect(importing.preview.data?.items).toBe(10);
    await importing.run();
    const source = { path: "/home/me/chats.zip", allowLarge: true };
    expect(rpc.sent("memory.import_preview")).toEqual([{ path: source.path, format: "auto" }, { ...source, format: "auto" }]);
    expect(rpc.sent("memory.import")).toEqual([{ ...source, format: "chatgpt", untrusted: true }]);
    // The answer is about this archive only.
    await importing.choose("/home/me/other.zip");
    expect(importing.allowLarge).toBe(false);
  });

  it("keeps what was chosen when it cannot start", async () => {
    const { screen, rpc } = setup();
    const { importing } = screen;
    await importing.choose("/home/me/chats.zip");
    rpc.failNext("memory.import", new RpcError({ kind: "limit", message: "The disk is full. Nothing was changed." }));
    expect(await importing.run()).toBe(false);
    expect(importing.error?.message).toContain("disk is full");
    expect(importing.step).toBe("preview");
  });
});

describe("other views", () => {
  it("reads a month of the timeline when it is looked at", async () => {
    const { screen, rpc } = setup();
    rpc.handle({ "memory.list": () => ({ items: [memory("a", { occurredAt: "2026-03-05T00:00:00Z" })], total: 1 }) });
    screen.timeline.set([{ value: "2026-03", count: 3 }, { value: "2025-12", count: 1 }, { value: "", count: 4 }]);
    expect(screen.timeline.lines.map((l) => l.kind)).toEqual(["month", "wait", "month", "wait"]);
    screen.timeline.ensure("2026-03");
    await until(() => screen.timeline.lines.length > 4);
    expect(screen.timeline.lines.flatMap((l) => (l.kind === "row" ? [l.row.id] : []))).toEqual(["d1", "a", "c1"]);
    expect(rpc.sent("memory.list")[0]).toMatchObject({ sort: "occurred", filters: { from: "2026-03-01T00:00:00.000Z", to: "2026-04-01T00:00:00.000Z" } });
    expect(screen.timeline.years).toEqual(["2026", "2025"]);
    screen.timeline.drop(["a"]);
    expect(screen.timeline.lines.some((l) => l.key === "a")).toBe(false);
  });

  it("reads a month again only when it is looked at again", async () => {
    const { screen, rpc } = setup();
    const { timeline } = screen;
    const months = [{ value: "2026-03", count: 3 }, { value: "2025-12", count: 1 }];
    timeline.set(months);
    timeline.ensure("2026-03");
    timeline.ensure("2025-12");
    await until(() => timeline.lines.every((l) => l.kind !== "wait"));
    const asked = rpc.sent("memory.list").length;
    const shown = timeline.lines.length;
    timeline.set([...months]);
    timeline.set([...months]);
    expect(timeline.lines).toHaveLength(shown);
    timeline.ensure("2025-12");
    timeline.ensure("2025-12");
    await new Promise((r) => setTimeout(r, 20));
    expect(rpc.sent("memory.list")).toHaveLength(asked + 1);
    timeline.ensure("2025-12");
    expect(rpc.sent("memory.list")).toHaveLength(asked + 1);
  });

  it("shows at once what the list knows of a memory", async () => {
    const { screen } = setup();
    const known = memory("a", { content: "First" });
    screen.inspector.show({ kind: "memory", id: "a", parentId: "", seq: -1 }, null, known);
    expect(screen.inspector.memory.data).toBe(known);
    screen.inspector.show({ kind: "memory", id: "b", parentId: "", seq: -1 }, null, known);
    expect(screen.inspector.memory.data).toBeUndefined();
    await until(() => screen.inspector.memory.data?.id === "b");
  });

  it("knows how far meaning search is", async () => {
    const { screen, rpc } = setup();
    const { embedding: e } = screen;
    await e.read();
    expect(e.unfinished).toBe(true);
    expect(Math.round(e.done * 100)).toBe(62);
    e.progress({ ready: 80, queued: 20, ratePerSec: 10 });
    expect(e.status.data?.etaSeconds).toBe(2);
    await e.pause(true);
    expect(e.status.data?.paused).toBe(true);
    rpc.handle({ "memory.embedding_status": () => embedding({ available: false, reason: "The sentence encoder is not in this build.", queued: 0 }) });
    await e.read();
    expect(e.missing).toBe(true);
  });
});

describe("links between documents", () => {
  const at = (path: string, title = "") => doc(path, { sourceUri: `file:///vault/${path}`, title });

  it("name a path, without heading, ending and way there", () => {
    expect(["Ada", "People/Ada.md#Gifts", "../People/Ada%20B.md", "./a.markdown", "#Gifts"].map(linkPath)).toEqual(["ada", "people/ada", "people/ada b", "a", ""]);
  });

  it("find the document by its path, or its title, and the nearest of several", () => {
    const all = [at("a/Ada.md"), at("b/Ada.md"), at("b/Bread.md", "The best bread")];
    expect(bestMatch(all, "ada", "file:///vault/b/Bread.md")?.sourceUri).toBe("file:///vault/b/Ada.md");
    expect(bestMatch(all, "a/ada", "file:///vault/b/Bread.md")?.sourceUri).toBe("file:///vault/a/Ada.md");
    expect(bestMatch(all, "the best bread")?.sourceUri).toBe("file:///vault/b/Bread.md");
    expect(bestMatch(all, "da")).toBeUndefined();
  });

  it("find documents of an uploaded folder and of an archive by their paths in it", () => {
    const inside = ["markdown:My%20vault/House/boiler.md", "markdown:People/Ada.md", "markdown:100% sure.md"].map((sourceUri) => ({ sourceUri, title: "another title" }));
    const found = (link: string): string | undefined => bestMatch(inside, linkPath(link))?.sourceUri;
    expect([found("House/boiler.md"), found("../My%20vault/House/boiler.md"), found("People/Ada"), found("100% sure")]).toEqual([inside[0]!.sourceUri, inside[0]!.sourceUri, inside[1]!.sourceUri, inside[2]!.sourceUri]);
  });

  it("open it, or say that there is none", async () => {
    const { screen, rpc, said } = setup();
    rpc.handle({ "memory.list_documents": (p: { query: string }) => ({ documents: p.query === "ada" ? [at("Ada.md")] : [], total: 0 }) });
    nav.go("memory");
    await screen.openLink("Ada");
    expect(nav.path.slice(0, 2)).toEqual(["memory", "documents"]);
    await screen.openLink("Olaf");
    expect(said).toEqual(["No document is named “Olaf”"]);
  });
});

describe("the selection", () => {
  it("is the address, and a row that a held key passes is not shown", async () => {
    const { screen } = await opened();
    const b = screen.list.row("b")!;
    screen.select(b);
    expect(nav.path.at(-1)).toBe("b");
    screen.select(screen.list.row("a")!);
    expect([screen.selectedId, nav.path.at(-1)]).toEqual(["a", "b"]);
    screen.settle();
    expect([screen.selectedId, nav.path.at(-1)]).toEqual(["a", "a"]);
    screen.stop();
  });

  it("follows an import to what it added", () => {
    const { screen } = setup();
    for (const [format, path] of [["chatgpt", "memory/conversations"], ["markdown", "memory/documents"], ["jsonl", "memory"]]) {
      screen.showImported({ format: format! });
      expect(nav.path.join("/")).toBe(path);
    }
  });
});

describe("writing", () => {
  it("keeps the draft until it is stored, and knows what is there already", async () => {
    const { screen, rpc, said } = setup();
    const { form } = screen;
    form.begin();
    expect(await screen.add()).toBe("");
    expect(form.tried).toBe(true);
    form.content = "New";
    form.tags = "A, b,a";
    rpc.failNext("memory.add", new RpcError({ message: "no" }));
    expect(await screen.add()).toBe("");
    expect(form.content).toBe("New");
    expect(await screen.add()).toBe("n");
    expect(rpc.sent("memory.add").at(-1)).toEqual({ content: "New", type: "episodic", tags: ["a", "b"], source: "manual" });
    expect(form.content).toBe("");
    form.begin(true);
    form.content = "Known";
    await screen.add();
    expect(rpc.sent("memory.add").at(-1).source).toBe("note");
    expect(said).toEqual(["Saved", "You already have this"]);
    form.tags = Array.from({ length: 17 }, (_, i) => `t${i}`).join(",");
    expect(form.tagProblem).toBe("At most 16 tags");
  });
});
