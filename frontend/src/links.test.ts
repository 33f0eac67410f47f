import { describe, expect, it } from "vitest";
import { fromLink } from "./lib/ui/nav.svelte";
import { screens } from "./screens";

const id = "0198c5a2-7d00-7000-8000-000000000001";
const target = (link: string): string | null => fromLink(link, screens);

it("each screen has a shortcut of its own", () => {
  const keys = screens.flatMap((s) => s.keys ?? []);
  expect(keys.length).toBeGreaterThanOrEqual(screens.length);
  expect(keys.filter((k, i) => keys.indexOf(k) !== i)).toEqual([]);
});

describe("links", () => {
  it("open every screen, its things and its parts", () => {
    expect(screens.map((s) => s.id).sort()).toEqual(["activity", "approvals", "channels", "chat", "discovery", "insights", "mcp", "memory", "psychology", "schedules", "settings", "skills", "sync", "tools", "trash", "voice"]);
    for (const s of screens) {
      const links = [`helix://${s.id}`, ...(s.item ? [`helix://${s.id}/${id}`] : []), ...(s.parts ?? []).map((p) => `helix://${s.id}/${p}`)];
      expect(s.item !== undefined || (s.parts ?? []).length > 0, `${s.id} has nothing but its first page`).toBe(true);
      for (const link of links) expect(target(link)?.split("/")[0], link).toBe(s.id);
    }
  });
  it("understand those of the manual and nothing else", () => {
    expect(target(`helix://tools/${id}`)).toBe(`tools/${id}`);
    expect(target(`helix://tools/shared/${id}`)).toBe(`tools/shared/${id}`);
    expect(target(`helix://approvals/${id}`)).toBe(`approvals/${id}`);
    expect(target(`helix://skills/${id}`)).toBe(`skills/${id}`);
    expect(target(`helix://memory/${id}`)).toBe(`memory/${id}`);
    expect(target(`helix://runs/${id}`)).toBe(`activity/run/${id}`);
    expect(target("helix://settings/data")).toBe("settings/data");
    for (const bad of ["http://x", "helix://tools/1", `helix://tools/${id}?run=1`, `helix://tools/../${id}`, "helix://settings/a/b", "helix://settings/nowhere", "helix://elsewhere", "helix://", `helix://approvals/${id}/approve`, `helix://tools/${id}/run`, `helix://nowhere/${id}`, "helix://settings/" + "a".repeat(3000)]) {
      expect(target(bad), bad).toBeNull();
    }
  });
  it("lead to a known screen or nowhere, whatever they contain", () => {
    const parts = [...screens.flatMap((s) => [s.id, ...(s.parts ?? [])]), "runs", "shared", "new", "auth", "callback", id, id.toUpperCase(), "..", ".", "", "%2e%2e", "#", "?run=1", "a b", "\\", "javascript:", "//evil.example", "\u202e", "\0", "<script>"];
    let seed = 1;
    const random = (n: number): number => (seed = (seed * 48_271) % 2_147_483_647) % n;
    const heads = new Set([...screens.map((s) => s.id)]);
    let followed = 0;
    for (let i = 0; i < 20_000; i++) {
      let link = "helix://" + Array.from({ length: random(4) }, () => parts[random(parts.length)]).join("/");
      if (random(4) === 0) link = link.slice(0, random(link.length + 1)) + String.fromCharCode(random(0x250)) + link.slice(random(link.length + 1));
      const at = target(link);
      if (at === null) continue;
      followed++;
      expect(at, link).toMatch(/^[a-z0-9-]+(\/[a-zA-Z0-9-]+)*$/);
      expect(heads, link).toContain(at.split("/")[0]);
    }
    expect(followed).toBeGreaterThan(500);
  });
});
