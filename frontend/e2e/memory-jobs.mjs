// The Memory screen while work goes on: meaning search that is paused, an import that is stopped
// and taken up again, no model at all, a file that is dropped, several things deleted and brought
// back, filters dropped one by one, and one memory changed in two windows.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { openPage, until } from "./lib/page.mjs";
import { body, box, inspector, rows, sheet, tab, toast } from "./memory.mjs";

export default async function (t) {
  const dir = await mkdtemp(path.join(tmpdir(), "helix-memory-"));
  try {
    await t.go("memory");
    await dropped(t);
    await paused(t);
    await stopped({ ...t, dir });
    await stoppedBelow({ ...t, dir });
    await several(t);
    await filters(t);
    await windows(t);
    await noModel(t);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

const note = (i) => `Note ${i}: the ${["heron", "kettle", "lantern", "meadow", "quarry"][i % 5]} of day ${i} and what was said about it that evening by the water`;
const lines = (from, n) => Array.from({ length: n }, (_, i) => JSON.stringify({ content: note(from + i) })).join("\n") + "\n";
const line = (page) => page.getByRole("group", { name: "Semantic search" });
const status = (page) => page.getByRole("contentinfo", { name: "Status" });

/** A dropped file is uploaded and shown; a dropped place is read where it is. */
async function dropped({ page, check, looks }) {
  await page.getByText("Import your ChatGPT, Claude or Obsidian history").waitFor();
  const drop = (on, type, data) =>
    page.evaluate(
      ([on, type, data]) => {
        const d = new DataTransfer();
        if (type === "file") d.items.add(new File(["The heron came back to the pond."], data));
        else d.setData(type, data);
        const target = document.querySelector(on);
        const over = new DragEvent("dragover", { dataTransfer: d, bubbles: true, cancelable: true });
        target.dispatchEvent(over);
        target.dispatchEvent(new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true }));
        return over.defaultPrevented;
      },
      [on, type, data],
    );
  check(await drop("main h1", "file", "note.txt"), "the browser does not leave the page for the file");
  await sheet(page).getByText("note.txt").first().waitFor();
  await sheet(page).getByText("The heron came back to the pond.").waitFor();
  await looks("dropped");
  await sheet(page).getByRole("button", { name: "Choose something else" }).click();
  const field = sheet(page).getByLabel("File or folder on the computer that runs Helix");
  await until(() => field.evaluate((e) => e === document.activeElement), "the field for the path has the focus");
  // Some do say it.
  await drop("[role=dialog]", "text/uri-list", "file:///nowhere/my%20chats.zip");
  await sheet(page).getByText("Couldn't read it.").waitFor();
  await sheet(page).getByRole("button", { name: "Choose something else" }).click();
  await until(async () => (await field.inputValue()) === "/nowhere/my chats.zip", "the path is taken over");
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
  check(!(await drop("body", "text/plain", "hello")), "a text is left to the browser");
}

/** Meaning search is paused, stays so, and goes on where it was. */
async function paused({ page, rpc, check, looks }) {
  const items = Array.from({ length: 4000 }, (_, i) => ({ content: note(i) }));
  for (let i = 0; i < items.length; i += 1000) await rpc("memory.add_batch", { items: items.slice(i, i + 1000) });
  await line(page).getByRole("button", { name: "Pause" }).click();
  await line(page).getByText("paused").waitFor();
  check((await rpc("memory.embedding_status")).paused, "it is paused");
  // What was begun may still end.
  let ready = -1;
  await until(async () => ready === (ready = (await rpc("memory.embedding_status")).ready) && ready >= 0, "nothing more is made ready");
  check(ready < 4000, `it was paused before its end, at ${ready}`);
  await looks("paused");
  await page.reload();
  await line(page).getByText("paused").waitFor();
  await line(page).getByRole("button", { name: "Continue" }).click();
  await line(page).getByRole("button", { name: "Pause" }).waitFor();
  await until(async () => (await rpc("memory.embedding_status")).ready > ready, "it goes on");
  // The rest of this suite has no need of it.
  await rpc("memory.reembed", { pause: true });
}

/** Chooses a path, looks inside and starts. */
async function start(page, file) {
  await page.keyboard.press("Control+i");
  await sheet(page).getByLabel("File or folder on the computer that runs Helix").fill(file);
  await page.keyboard.press("Enter");
  await sheet(page).getByRole("button", { name: /^Import \d/ }).click();
}

/** Stopped in the sheet: what came in stays, and the same file again brings the rest. */
async function stopped({ page, rpc, dir, check, looks, shot }) {
  const file = path.join(dir, "many.jsonl");
  const n = 30_000;
  await writeFile(file, lines(10_000, n));
  const before = (await rpc("memory.stats")).memories;
  await start(page, file);
  await sheet(page).getByRole("progressbar", { name: "Import progress" }).waitFor();
  await sheet(page).getByRole("status").getByText(/[1-9][\d,]* records? read/).waitFor();
  await shot("importing");
  // It goes on in the background, and the same sheet is there again.
  await sheet(page).getByRole("button", { name: "Continue in background" }).click();
  await sheet(page).waitFor({ state: "hidden" });
  await body(page);
  await page.keyboard.press("Control+i");
  await sheet(page).getByRole("button", { name: "Cancel import" }).click();
  await sheet(page).getByText("The import was stopped.").waitFor();
  await sheet(page).getByText("What was saved stays").waitFor();
  await until(() => sheet(page).getByRole("button", { name: "Done" }).evaluate((e) => e === document.activeElement), "the focus is on the next button");
  await looks("stopped");
  const kept = (await rpc("memory.stats")).memories - before;
  const told = Number((await sheet(page).locator("dt", { hasText: "Added" }).locator("xpath=following-sibling::dd[1]").innerText()).replace(/,/g, ""));
  check(kept === told && kept > 0 && kept < n, `what is told is what is kept: ${told} told, ${kept} kept of ${n}`);
  await sheet(page).getByRole("button", { name: "Import something else" }).click();
  await sheet(page).getByText("Canceled").waitFor();
  await page.keyboard.press("Escape");
  await start(page, file);
  await sheet(page).getByText("Imported many.jsonl").waitFor({ timeout: 900_000 }); // it is much
  const after = await rpc("memory.stats");
  check(after.memories - before === n, `the total is exact: ${after.memories - before} of ${n}`);
  const [last] = (await rpc("memory.imports", { limit: 1 })).jobs;
  check(last.added === n - kept && last.skipped === kept, `the second import added the rest: ${last.added} added, ${last.skipped} known`);
  await sheet(page).getByRole("button", { name: "Done" }).click();
}

/** Stopped in the line at the foot, from another screen. */
async function stoppedBelow({ page, rpc, go, dir, check, shot }) {
  const file = path.join(dir, "more.jsonl");
  await writeFile(file, lines(100_000, 40_000));
  await start(page, file);
  await sheet(page).getByRole("button", { name: "Continue in background" }).click();
  await go("activity");
  await status(page).getByRole("progressbar", { name: /Importing more\.jsonl/ }).waitFor();
  await shot("importing-below");
  await status(page).getByRole("button", { name: /^Cancel: Importing more\.jsonl/ }).click();
  await toast(page, "Stopped the import of more.jsonl").waitFor();
  await page.getByRole("region", { name: "Messages" }).getByText(/[\d,]+ added.*What was already added stays\./).first().waitFor();
  await status(page).getByRole("button", { name: /^Cancel: Importing/ }).waitFor({ state: "detached" });
  const [last] = (await rpc("memory.imports", { limit: 1 })).jobs;
  check(last.status === "cancelled" && last.added < 40_000, "it was stopped");
  await page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Show" }).click();
  await go("memory");
  await sheet(page).getByText("The import was stopped.").waitFor();
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
}

/** Several at once go to the trash, and one key brings all of it back. */
async function several({ page, rpc, check, looks }) {
  const made = [];
  for (let i = 0; i < 12; i++) made.push(await rpc("memory.add", { content: `Shelf ${i} holds the **${["red", "blue", "green"][i % 3]}** jars`, occurredAt: new Date().toISOString(), tags: ["shelf", `n${i}`], pinned: i === 3, salienceTier: i === 4 ? "high" : "medium" }));
  await rows(page).getByRole("option", { name: /Shelf 11 holds the green jars/ }).click();
  await body(page);
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press("x");
    if (i < 11) await page.keyboard.press("j");
  }
  await page.getByText("12 selected").waitFor();
  await page.keyboard.press("Delete");
  await toast(page, "Moved 12 memories to the trash").hover(); // it stays while the pointer is on it, however long the looks take
  await rows(page).getByRole("option", { name: /Shelf/ }).first().waitFor({ state: "detached" });
  const shelf = async () => (await rpc("memory.list", { filters: { tagsAll: ["shelf"] }, limit: 50 })).items;
  check((await shelf()).length === 0, "all are gone");
  check((await rpc("memory.search", { query: "shelf jars", mode: "keyword" })).results.every((r) => !r.tags.includes("shelf")), "and not found");
  await looks("deleted-several");
  await page.keyboard.press("Control+z");
  await rows(page).getByRole("option", { name: /Shelf 11/ }).waitFor();
  const back = await shelf();
  check(back.length === 12 && back.every((m) => m.tags.length === 2), "all are back, with their tags");
  check(back.find((m) => m.content.startsWith("Shelf 3 "))?.pinned === true && back.find((m) => m.content.startsWith("Shelf 4 "))?.salienceTier === "high", "pins and salience too");
  check(made.every((m) => back.some((b) => b.id === (m.id ?? m.item?.id))), "they are the same ones");
}

/** Nothing found: each filter can be dropped by itself. */
async function filters({ page, looks, check }) {
  await box(page).fill("shelf jars");
  await rows(page).getByRole("option", { name: /Shelf/ }).first().waitFor();
  const choose = async (chip, item) => {
    await page.getByRole("button", { name: `${chip}: any` }).click();
    await page.getByRole("menuitem", { name: item }).click();
  };
  await choose("Tag", /#n7/);
  await choose("When", "Last 7 days");
  await choose("Kind", /^Messages/);
  await page.getByRole("button", { name: "Pinned", exact: true }).click();
  await page.getByText("No results").waitFor();
  const ways = page.getByRole("button", { name: /^Without “/ });
  await until(async () => (await ways.count()) === 4, "each filter can be dropped");
  await looks("no-hit-filters");
  await page.getByRole("button", { name: "Without “Messages”" }).click();
  await until(async () => (await ways.count()) === 3, "only that one is dropped");
  await page.getByText("No results").waitFor();
  await page.getByRole("button", { name: "Without “Pinned”" }).click();
  await rows(page).getByRole("option", { name: /Shelf 7 / }).waitFor();
  await until(async () => (await rows(page).getByRole("option").count()) === 1, "the other filters still hold");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await rows(page).getByRole("option", { name: /Shelf 8 / }).waitFor();
  await box(page).fill("");
}

/** Both windows change the same memory: the later one sees both texts and loses nothing. */
async function windows({ page, rpc, browser, helix, go, check, looks, axe }) {
  const { items } = await rpc("memory.list", { filters: { tagsAll: ["n0"] } });
  const [m] = items;
  const other = await openPage(browser, helix, "memory-jobs");
  try {
    for (const open of [go, other.go]) await open(`memory/list/memory/${m.id}`);
    for (const p of [page, other.page]) await inspector(p).getByRole("heading", { name: /Shelf 0/, level: 2 }).waitFor();
    await body(page);
    await page.keyboard.press("e");
    await inspector(page).getByRole("textbox", { name: "Text", exact: true }).fill("Shelf 0 holds plum jam");
    await body(other.page);
    await other.page.keyboard.press("e");
    await inspector(other.page).getByRole("textbox", { name: "Text", exact: true }).fill("Shelf 0 holds cherry jam");
    await other.page.keyboard.press("Control+Enter");
    await inspector(other.page).getByRole("heading", { name: /cherry/, level: 2 }).waitFor();
    // What the other window stored shows here, and the draft stays.
    await inspector(page).getByRole("heading", { name: /cherry/, level: 2 }).waitFor();
    check((await inspector(page).getByRole("textbox", { name: "Text", exact: true }).inputValue()).includes("plum"), "the draft stays");
    await inspector(page).getByRole("button", { name: "Save", exact: true }).click();
    const both = inspector(page).getByRole("region", { name: "Both texts" });
    await both.waitFor();
    check(/cherry/.test(await both.innerText()) && /plum/.test(await both.innerText()), "both texts are shown");
    await looks("two-windows");
    await inspector(page).getByRole("button", { name: "Use the stored text" }).click();
    await toast(page, "Using the stored text").waitFor();
    await body(page);
    await page.keyboard.press("Control+z");
    await until(async () => (await inspector(page).getByRole("textbox", { name: "Text", exact: true }).inputValue()).includes("plum"), "the draft can be brought back");
    check((await rpc("memory.get", { id: m.id })).content.includes("cherry"), "nothing was overwritten");
    await axe("two windows, draft again");
    if (other.complaints.length > 0) throw new Error(other.complaints.join("\n"));
  } finally {
    await other.close();
  }
}

/** Without the model, search goes by words and says so. The answers about the model are changed on their way. */
async function noModel({ browser, helix, check }) {
  const asked = new Map();
  const other = await openPage(browser, helix, "memory-jobs", (page) =>
    page.routeWebSocket(/\/ws$/, (ws) => {
      const server = ws.connectToServer();
      ws.onMessage((frame) => {
        const m = JSON.parse(frame);
        asked.set(m.id, m);
        if (m.method === "memory.search_enhanced" && m.params.mode === "vector") {
          ws.send(JSON.stringify({ jsonrpc: "2.0", id: m.id, error: { code: -32000, message: "Search by meaning is not available.", data: { kind: "unavailable" } } }));
        } else server.send(m.method === "memory.search_enhanced" ? JSON.stringify({ ...m, params: { ...m.params, mode: "keyword" } }) : frame);
      });
      server.onMessage((frame) => {
        const m = JSON.parse(frame);
        const method = asked.get(m.id)?.method;
        if (m.result && method === "memory.embedding_status") Object.assign(m.result, { available: false, reason: "The sentence encoder is damaged.", models: [], ready: 0, queued: 0 });
        if (m.result && method === "memory.search_enhanced") Object.assign(m.result, { mode: "hybrid", degraded: "no_vectors" });
        ws.send(JSON.stringify(m));
      });
    }),
  );
  const { page, looks } = other;
  try {
    await other.go("memory");
    const banner = page.getByRole("status").filter({ hasText: "Search uses keywords only." });
    await banner.getByText("The sentence encoder is damaged.").waitFor();
    await box(page).fill("cherry jam");
    await rows(page).getByRole("option", { name: /cherry jam/ }).first().waitFor();
    await page.getByText(/\d+ results? in .*keywords only/).waitFor();
    await looks("no-model");
    await page.getByLabel("Search by: words and meaning").click();
    check((await page.getByRole("option", { name: /^meaning/ }).getAttribute("data-disabled")) !== null, "search by meaning cannot be chosen");
    await page.keyboard.press("Escape");
    await tab(page, "Timeline").click();
    check(await banner.isVisible(), "the banner stays in the other views");
    if (other.complaints.length > 0) throw new Error(other.complaints.join("\n"));
  } finally {
    await other.close();
  }
}
