import { describe, expect, it } from "vitest";

const sources = import.meta.glob<string>(["./**/*.{ts,svelte}"], { query: "?raw", import: "default", eager: true });

/** The part of the interface that a file belongs to: a screen, the frame, or a folder of its own. */
const partOf = (file: string): string => /^src\/(screens\/[^/]+|[^/]+)\//.exec(file)?.[1] ?? "root";

/** Which parts the file imports from, its own left out. */
function importsOf(file: string, source: string): string[] {
  const paths = [...source.matchAll(/\b(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map((m) => new URL(m[1]!, `file:///${file}`).pathname.slice(1));
  return [...new Set(paths.map(partOf))].filter((part) => part !== partOf(file));
}

/** Why a part may not import another; "" where it may. */
function forbidden(from: string, to: string): string {
  if (from === "lib") return to === "lib" ? "" : "what all share knows no screen and no frame";
  if (from.startsWith("screens/") && to.startsWith("screens/")) return "what two screens need goes to lib";
  if (from.startsWith("screens/") && to === "frame") return "the frame shows screens, which don't know it";
  return from === "frame" && to.startsWith("screens/") ? "screens contribute through ScreenDef" : "";
}

describe("imports", () => {
  it("go from screens to lib, never from one screen to another", () => {
    const found = Object.entries(sources).flatMap(([path, source]) => {
      const file = path.replace("./", "src/");
      return importsOf(file, source).flatMap((to) => {
        const why = forbidden(partOf(file), to);
        return why ? [`${file} imports ${to}: ${why}`] : [];
      });
    });
    expect(found).toEqual([]);
  });

  it("are read from static and dynamic imports", () => {
    const source = `import { a } from "../settings/a";\nconst b = () => import("../../lib/b");\nimport "./own";`;
    expect(importsOf("src/screens/chat/Start.svelte", source)).toEqual(["screens/settings", "lib"]);
  });
});
