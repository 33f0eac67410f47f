import { render } from "svelte/server";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../rpc/errors";
import { nav } from "../ui/nav.svelte";
import demo from "./demo/Demo.svelte?raw";
import Demo from "./demo/Demo.svelte";
import { PlantState, type Plant } from "./demo/plants.svelte";

const plants: Plant[] = [
  { id: "1", name: "Fern", place: "garden" },
  { id: "2", name: "Moss", place: "pot of Helix" },
];
vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {} });

async function setup(all = plants): Promise<{ s: PlantState; text: () => string }> {
  const s = new PlantState(all, { error: () => {}, undo: () => {} });
  return { s, text: () => render(Demo, { props: { plants: s } }).body.replace(/<!--.*?-->/gs, "") };
}

beforeEach(() => nav.go("plants"));

describe("a list screen in a few lines", () => {
  it("takes at most 30 lines", () => {
    expect(demo.trimEnd().split("\n").length).toBeLessThanOrEqual(30);
  });

  it("shows that it loads, then its rows, filters and actions", async () => {
    const { s, text } = await setup();
    expect(text()).toContain('aria-label="Loading plants"');
    await s.list.page.reload();
    const html = text();
    for (const part of [">Plants</h1>", "New plant", 'aria-label="Search plants"', 'aria-label="Place: anywhere"', 'role="listbox"', 'aria-label="Plants"']) expect(html).toContain(part);
    expect(html).not.toContain("Keep your plants alive");
    expect(html).not.toContain("complementary");
  });

  it("shows the inspector of the row that the address names", async () => {
    const { s, text } = await setup();
    await s.list.page.reload();
    nav.go("plants/1");
    expect(text()).toMatch(/<aside[^>]*aria-label="Plant"/);
    expect(text()).toContain(">Fern</h2>");
  });

  it("teaches how to begin, without filters", async () => {
    const { s, text } = await setup([]);
    await s.list.page.reload();
    expect(text()).toContain("Keep your plants alive");
    expect(text()).not.toContain("Search plants");
  });

  it("says that nothing matches, and offers to clear the filters", async () => {
    const { s, text } = await setup();
    s.list.query = "zebra";
    await s.list.page.reload();
    expect(text()).toContain("No matching plants");
    expect(text()).toContain("Clear filters");
  });

  it("says what is wrong and what is safe, and keeps rows that it has", async () => {
    const { s, text } = await setup();
    s.fail = new RpcError({ message: "The disk is full." });
    await s.list.page.reload();
    expect(text()).toContain("Couldn't load plants.");
    expect(text()).toContain("The disk is full. They keep growing.");
    await s.list.page.reload();
    s.fail = new RpcError({ message: "The disk is full." });
    await s.list.page.reload();
    expect(text()).toContain("This list may be out of date.");
    expect(text()).toContain('role="listbox"');
  });
});
