import { describe, expect, it, vi } from "vitest";
import { Commands, chord, keycaps, score } from "./commands.svelte";

const press = (key: string, more: Partial<KeyboardEvent> = {}): KeyboardEvent =>
  ({ key, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, target: null, preventDefault: vi.fn(), ...more }) as unknown as KeyboardEvent;
const inside = (selector: string): EventTarget => ({ closest: (s: string) => (s.includes(selector) ? {} : null) }) as unknown as EventTarget;

describe("Commands", () => {
  it("runs the command whose keys were pressed", () => {
    const c = new Commands();
    const run = vi.fn();
    const stop = c.add([{ id: "a", title: "A", keys: ["j", "mod+shift+a"], run }]);
    c.key(press("j"));
    c.key(press("A", { ctrlKey: true, shiftKey: true }));
    c.key(press("J", { shiftKey: true }));
    expect(run).toHaveBeenCalledTimes(2);
    stop();
    c.key(press("j"));
    expect(run).toHaveBeenCalledTimes(2);
  });

  it("keeps single keys silent while the user types, in menus, on buttons and in dialogs", () => {
    const c = new Commands();
    const plain = vi.fn();
    const mod = vi.fn();
    const enter = vi.fn();
    c.add([
      { id: "plain", title: "", keys: "d", run: plain },
      { id: "mod", title: "", keys: "mod+s", run: mod },
      { id: "enter", title: "", keys: "Enter", run: enter },
    ]);
    c.key(press("d", { target: inside("input") }));
    c.key(press("d", { target: inside("[role=menu]") }));
    c.key(press("d", { target: inside("[data-select-content]") }));
    c.key(press("Enter", { target: inside("button") }));
    const close = c.openModal();
    c.key(press("d"));
    c.key(press("s", { ctrlKey: true, target: inside("input") }));
    close();
    expect(plain).not.toHaveBeenCalled();
    expect(enter).not.toHaveBeenCalled();
    expect(mod).toHaveBeenCalledTimes(1);
    c.key(press("d"));
    expect(plain).toHaveBeenCalledTimes(1);
  });

  it("reacts in a list of a screen, except to what the list has taken", () => {
    const c = new Commands();
    const run = vi.fn();
    c.add([
      { id: "new", title: "", keys: "n", run },
      { id: "go", title: "", keys: "g t", run },
      { id: "open", title: "", keys: "Enter", run },
    ]);
    const list = inside("[role=listbox]");
    c.key(press("n", { target: list }));
    c.key(press("g", { target: list }));
    c.key(press("t", { target: list }));
    expect(run).toHaveBeenCalledTimes(2);
    c.key(press("Enter", { target: list, defaultPrevented: true }));
    expect(run).toHaveBeenCalledTimes(2);
  });

  it("knows sequences, and forgets a first key that leads nowhere", () => {
    const c = new Commands();
    const go = vi.fn();
    const a = vi.fn();
    c.add([
      { id: "go", title: "", keys: "g a", run: go },
      { id: "a", title: "", keys: "a", run: a },
    ]);
    c.key(press("g"));
    c.key(press("a"));
    c.key(press("a"));
    c.key(press("g"));
    c.key(press("x"));
    c.key(press("a"));
    expect(go).toHaveBeenCalledTimes(1);
    expect(a).toHaveBeenCalledTimes(2);
  });

  it("offers only what may run, and the newest of two with one id", () => {
    const c = new Commands();
    let on = false;
    const first = vi.fn();
    const second = vi.fn();
    c.add([
      { id: "x", title: "X", run: first },
      { id: "y", title: "Y", run: first, when: () => on },
    ]);
    c.add([{ id: "x", title: "X2", run: second }]);
    expect(c.all.map((x) => x.title)).toEqual(["X2"]);
    on = true;
    expect(c.all.map((x) => x.title)).toEqual(["X2", "Y"]);
    expect(c.run("x")).toBe(true);
    expect(c.run("none")).toBe(false);
    expect(second).toHaveBeenCalledTimes(1);
  });

  it("asks sources, of which one may fail", async () => {
    const c = new Commands();
    c.addSource((q) => [{ id: q, title: `Run ${q}`, run: () => {} }]);
    c.addSource(() => Promise.reject(new Error("no")));
    expect((await c.find("q")).map((x) => x.title)).toEqual(["Run q"]);
  });

  it("writes keys as each system does", () => {
    expect(keycaps("mod+shift+a", false)).toEqual(["Ctrl", "Shift", "A"]);
    expect(keycaps("mod+shift+a", true)).toEqual(["⌘", "⇧", "A"]);
    expect(keycaps("Ctrl+Super+PageUp", false)).toEqual(["Ctrl", "Super", "Page Up"]);
    expect(keycaps("Alt+Left", false)).toEqual(["Alt", "←"]);
    expect(chord(press("?", { shiftKey: true }), false)).toBe("?");
    expect(chord(press("k", { metaKey: true }), true)).toBe("mod+k");
    expect(chord(press(" "), false)).toBe("space");
  });

  it("puts the best title first", () => {
    const titles = ["Go to Activity", "Show services", "Restart gateway", "Revoke all rights"];
    const best = (q: string): string => [...titles].sort((a, b) => score(q, b) - score(q, a))[0]!;
    expect(best("activity")).toBe("Go to Activity");
    expect(best("rest")).toBe("Restart gateway");
    expect(best("gta")).toBe("Go to Activity");
    expect(score("zzz", "Go to Activity")).toBe(0);
    expect(score("theme", "Use dark appearance", "theme colour")).toBeGreaterThan(0);
  });
});
