// The Memory screen by keyboard only, from an import to what the palette finds; and what is shown
// when something is gone.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { until } from "./lib/page.mjs";
import { inspector, rows, sheet, toast } from "./memory.mjs";

export default async function (t) {
  const dir = await mkdtemp(path.join(tmpdir(), "helix-memory-"));
  try {
    await keyboard({ ...t, lines: path.join(dir, "lines.jsonl") });
    await failures(t);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Import, search, open, edit, undo, trash and restore without a pointer. */
async function keyboard({ page, rpc, go, lines, check }) {
  const key = (k, n = 1) => (async () => { for (let i = 0; i < n; i++) await page.keyboard.press(k); })();
  await go("activity");
  await key("g");
  await key("m");
  await page.getByRole("heading", { name: "Memory", level: 1 }).waitFor();
  await writeFile(lines, `{"content":"The pump behind the barn sticks in frost"}\n{"content":"The ladder is lent to Olaf"}\n`);
  await key("Control+i");
  await sheet(page).getByLabel("File or folder on the computer that runs Helix").waitFor();
  await page.keyboard.type(lines);
  await key("Enter");
  const start = sheet(page).getByRole("button", { name: /^Import \d+ items?/ });
  await start.waitFor();
  await tabTo(page, start);
  await key("Enter");
  const done = sheet(page).getByRole("button", { name: "Done" });
  await done.waitFor();
  await tabTo(page, done);
  await key("Enter");
  await sheet(page).waitFor({ state: "hidden" });
  await rows(page).getByRole("option", { name: /pump behind the barn/ }).waitFor();
  await key("/");
  await page.keyboard.type("pump barn");
  await rows(page).getByRole("option", { name: /pump behind the barn/ }).waitFor();
  await key("Enter");
  await rows(page).getByRole("option", { selected: true, name: /pump behind the barn/ }).waitFor();
  await key("Enter");
  await inspector(page).getByRole("heading", { name: /pump behind the barn/, level: 2 }).waitFor();
  await until(() => page.evaluate(() => document.activeElement?.closest("aside") !== null), "the focus is in what was opened");
  await key("e");
  await inspector(page).getByRole("textbox", { name: "Text", exact: true }).waitFor();
  await key("Control+a");
  await page.keyboard.type("The pump behind the barn is mended");
  await key("Control+Enter");
  await toast(page, "Saved").waitFor();
  await key("Control+z");
  await inspector(page).getByRole("heading", { name: /sticks in frost/, level: 2 }).waitFor();
  await key("p");
  await inspector(page).getByText("Pinned", { exact: true }).waitFor();
  await key("Delete");
  await toast(page, "to the trash").waitFor();
  check((await rpc("memory.list", { trash: true })).total === 1, "it is in the trash");
  await key("Control+k");
  await page.keyboard.type("deleted memor");
  await page.getByRole("option", { name: /Deleted memories/ }).first().waitFor();
  await key("Enter");
  await page.getByRole("listbox", { name: "Trash" }).getByRole("option", { name: /pump/ }).waitFor();
  await key("j");
  await page.getByRole("button", { name: "Restore", exact: true }).waitFor();
  await key("r");
  await toast(page, "Restored").waitFor();
  const back = (await rpc("memory.list", {})).items.find((m) => m.content.includes("pump"));
  check(back?.pinned, "it is back, with its pin");
  // The palette finds memories too.
  await key("Control+k");
  await page.keyboard.type("ladder olaf");
  await page.getByRole("option", { name: /Memory: The ladder is lent/ }).waitFor();
  await key("Enter");
  await inspector(page).getByRole("heading", { name: /ladder is lent/, level: 2 }).waitFor();
  await go("memory");
}

/** What is shown when reading fails, and while it takes long. */
async function failures({ page, go, looks }) {
  await go("memory/list/memory/00000000-0000-7000-8000-000000000000");
  await inspector(page).getByText("Couldn't load this memory.").waitFor();
  await looks("gone");
  await page.keyboard.press("Escape");
}

/** Presses Tab until a control has the focus. */
async function tabTo(page, control) {
  for (let i = 0; i < 60; i++) {
    if (await control.evaluate((e) => e === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error("Tab does not reach it");
}
