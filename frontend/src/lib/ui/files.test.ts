import { describe, expect, it } from "vitest";
import { asOne, chosenFolder, dropped, filesOf, isFullPath } from "./files";

const file = (name: string, webkitRelativePath = ""): File => Object.defineProperty(new File([name], name), "webkitRelativePath", { value: webkitRelativePath });

/** An entry of a drop; a folder gives its own entries two at a time, as a browser gives a hundred. */
type Entry = File | { dir: string; has: Entry[] };
function entry(e: Entry): unknown {
  if (!("dir" in e)) return { isDirectory: false, name: e.name, file: (done: (f: File) => void) => done(e) };
  return {
    isDirectory: true,
    name: e.dir,
    createReader: () => {
      const rest = [...e.has];
      return { readEntries: (done: (some: unknown[]) => void) => done(rest.splice(0, 2).map(entry)) };
    },
  };
}
const drop = (...all: Entry[]): DataTransfer => ({ items: all.map((e) => ({ kind: "file", webkitGetAsEntry: () => entry(e), getAsFile: () => ("dir" in e ? null : e) })) }) as never;
const paths = (what: unknown): unknown => (what as { files: { path: string }[] }).files.map((f) => f.path);

describe("a chosen folder", () => {
  it("has its name and the paths below it, without hidden files", () => {
    const f = chosenFolder([file("a.md", "vault/a.md"), file("b.md", "vault/sub/b.md"), file("x", "vault/.git/x"), file(".DS_Store", "vault/.DS_Store")]);
    expect([f.name, paths(f)]).toEqual(["vault", ["a.md", "sub/b.md"]]);
  });
});

describe("what was dropped", () => {
  it("is files, and folders with everything below them", async () => {
    const what = await dropped(drop(file("one.md"), { dir: "vault", has: [file("a.md"), file("b.md"), file(".hidden"), { dir: "sub", has: [file("c.md")] }, { dir: ".obsidian", has: [file("app.json")] }] }));
    expect([what.length, what[0]!.name, what[1]!.name, paths(what[1])]).toEqual([2, "one.md", "vault", ["a.md", "b.md", "sub/c.md"]]);
    expect(filesOf(what).map((f) => f.name)).toEqual(["one.md", "a.md", "b.md", "c.md"]);
  });

  it("becomes one upload without a name when it is several things", async () => {
    expect(asOne([])).toBeNull();
    const one = await dropped(drop(file("one.md")));
    expect(asOne(one)).toBe(one[0]);
    const all = asOne(await dropped(drop(file("one.md"), { dir: "vault", has: [file("a.md")] })))!;
    expect([all.name, paths(all)]).toEqual(["", ["one.md", "vault/a.md"]]);
  });

  it("fails when a folder can't be read", async () => {
    const broken = { items: [{ kind: "file", getAsFile: () => null, webkitGetAsEntry: () => ({ isDirectory: true, name: "x", createReader: () => ({ readEntries: (_: unknown, fail: (e: unknown) => void) => fail(new Error("gone")) }) }) }] } as never;
    await expect(dropped(broken)).rejects.toThrow("gone");
  });
});

describe("a typed path", () => {
  it("begins at the root, a home folder or a drive", () => {
    expect(["/a", "~/a", "~", "~ada/a", "C:\\a", "c:/a"].map(isFullPath)).toEqual([true, true, true, true, true, true]);
    expect(["a", "./a", "../a", "", "pick:1", "a~/b"].map(isFullPath)).toEqual([false, false, false, false, false, false]);
  });
});
