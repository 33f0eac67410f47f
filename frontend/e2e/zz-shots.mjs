import { mkdtemp, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { makeTool, runUnattended } from "./lib/seed.mjs";
import { until } from "./lib/page.mjs";
export default async function ({ page, helix, rpc, go, shot }) {
  const dir = await mkdtemp("/tmp/helix-shots-");
  await mkdir(path.join(dir, "vault", ".obsidian"), { recursive: true });
  await writeFile(path.join(dir, "vault", "Ada.md"), "---\ntags: [people]\ndate: 2024-02-01\n---\n# Ada\n\nMet at the **choir**. Allergic to nuts.\n\n## Gifts\n\n- Likes botanical prints\n- and old maps\n\n- [ ] ask Olaf\n- [x] buy paper\n\n| what | where |\n|---|---|\n| maps | harbour |\n\n> Said once: *never lilies*.\n\nSee [[Bread]] and <https://example.org>. ![photo](https://example.org/p.png)\n\n```js\nconst a = 1;\n```\n");
  await writeFile(path.join(dir, "vault", "Bread.md"), "---\ntags: [recipes]\n---\n# Bread\n\nFlour, water, salt, time. See [[Ada]].\n");
  await helix.cli("memory", "import", path.join(dir, "vault"));
  for (const [content, more] of [["The spare key is with Mrs. Holm next door.", { tags: ["home"] }], ["Water the ficus on Fridays.", { type: "procedural", salienceTier: "high" }], ["**Bergen**: the flat has a view of the harbour, and the rent is due on the third of each month.", { layer: 3, pinned: true, tags: ["home", "bergen"] }]]) await rpc("memory.add", { content, ...more });
  const tool = await makeTool(helix, "Weather", "api.example.com");
  await runUnattended(helix, tool.id);
  await rpc("schedules.create", { name: "Morning", target: { kind: "tool", id: tool.id }, cadence: { type: "interval", everySecs: 86_400 } });
  await until(async () => (await rpc("memory.embedding_status")).queued === 0, "ready");
  const docs = (await rpc("memory.list_documents", {})).documents;
  const ada = docs.find((d) => d.title === "Ada").id;
  const mem = (await rpc("memory.list", {})).items.find((m) => m.content.includes("Bergen")).id;
  const trash = await rpc("memory.add", { content: "Old note to delete" });
  await rpc("memory.delete", { ids: [trash.item.id] });
  const entry = (await rpc("audit.list", { limit: 1 })).entries[0].seq;
  for (const lang of ["en", "de", "pseudo"]) {
    await page.evaluate((l) => localStorage.setItem("helix.language", l), lang);
    await page.reload();
    for (const [name, to] of [["list", "memory"], ["item", `memory/list/memory/${mem}`], ["timeline", "memory/timeline"], ["documents", `memory/documents/${ada}`], ["trash", `memory/trash/${trash.item.id}`], ["activity", "activity"], ["entry", `activity/${entry}`]]) {
      await go(to);
      await page.waitForTimeout(600);
      for (const [w, h] of lang === "pseudo" ? [[800, 600]] : [[1280, 800], [800, 600]]) {
        await page.setViewportSize({ width: w, height: h });
        await page.emulateMedia({ colorScheme: "light" });
        await page.waitForTimeout(150);
        await shot(`${lang}-${name}-${w}`);
      }
      await page.emulateMedia({ colorScheme: "dark" });
      await shot(`${lang}-${name}-dark`);
      await page.emulateMedia({ colorScheme: "light" });
      await page.setViewportSize({ width: 1280, height: 800 });
    }
    await go(`memory/list/memory/${mem}`);
    await page.waitForTimeout(300);
    await page.getByRole("tab").last().click();
    await page.waitForTimeout(300);
    await shot(`${lang}-details`);
    await page.getByRole("heading", { level: 1 }).click();
    await page.keyboard.press("Control+i");
    await page.waitForTimeout(300);
    await shot(`${lang}-import`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("n");
    await page.waitForTimeout(300);
    await shot(`${lang}-new`);
    await page.keyboard.press("Escape");
  }
}
