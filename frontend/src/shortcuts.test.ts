import { expect, it } from "vitest";

const guide = import.meta.glob<string>("../../docs/guide/keyboard.md", { query: "?raw", import: "default", eager: true });
const sources = import.meta.glob<string>(["./**/*.{ts,svelte}", "!./**/*.test.ts", "!./**/messages*.ts", "!./lib/list/demo/**", "!./lib/rpc/**"], { query: "?raw", import: "default", eager: true });

it("are all in the guide", () => {
  const text = Object.values(guide).join();
  const named = new Set([...text.matchAll(/`([^`]+)`/g)].map((m) => m[1]!.toLowerCase()));
  const missing = Object.entries(sources).flatMap(([file, source]) =>
    [...source.matchAll(/\bkeys: (?:"([^"]+)"|\[("[^\]]+)\])/g)]
      .flatMap((m) => m[1] ?? [...m[2]!.matchAll(/"([^"]+)"/g)].map((k) => k[1]!))
      .filter((keys) => {
        const parts = keys.toLowerCase().replace(/\bmod\b/g, "ctrl");
        return !named.has(parts) && !/^arrow(down|up)$/.test(parts) && !/^[a-z]+\.[a-z]/.test(parts);
      })
      .map((keys) => `${keys} of ${file}`),
  );
  expect(missing).toEqual([]);
  expect(named.size).toBeGreaterThan(60);
});
