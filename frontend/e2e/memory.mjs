// The Memory screen: an empty one, importing a ChatGPT export and an Obsidian folder, searching,
// opening what was found where it stands, editing with Undo and a conflict, history, tags, pins,
// and the trash.
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { until } from "./lib/page.mjs";

export default async function (t) {
  const dir = await mkdtemp(path.join(tmpdir(), "helix-memory-"));
  try {
    const files = await sources(dir);
    await empty(t);
    await chatgpt({ ...t, files });
    await obsidian({ ...t, files });
    await broken({ ...t, files });
    await uploads({ ...t, files });
    await search(t);
    await evidence(t);
    await add(t);
    await edit(t);
    await conflict(t);
    await marks(t);
    await trash(t);
    await views(t);
    await nothing(t);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

export const sheet = (page) => page.getByRole("dialog");
export const inspector = (page) => page.getByRole("complementary", { name: "Memory" });
export const rows = (page, name = "Memories") => page.getByRole("listbox", { name });
export const box = (page) => page.getByRole("searchbox", { name: "Search memories" });
export const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text, { exact: false }).first();
export const tab = (page, name) => page.getByRole("tablist", { name: "Memory views" }).getByRole("tab", { name });
export const part = (page, name) => page.getByRole("tablist", { name: "Memory views" }).getByRole("tab", { name });
export const body = (page) => page.getByRole("heading", { name: "Memory", level: 1 }).click();

const talks = [
  ["Dinner before the move", "2024-03-02T18:00:00Z", [
    ["user", "We need a place for dinner before we move to Bergen."],
    ["assistant", "What kind of food do you like?"],
    ["user", "Something small and quiet. Ada wants pasta."],
    ["assistant", "Then try Trattoria Lucia in Market Street: seven tables, handmade tagliatelle, and quiet on Tuesdays."],
    ["user", "Trattoria Lucia it is. Book it for four."],
    ["assistant", "Tell them about the nut allergy when you book."],
  ]],
  ["Fixing the bicycle", "2024-05-11T09:30:00Z", [
    ["user", "The chain of my bicycle slips under load."],
    ["assistant", "A worn cassette or a stretched chain does that. Measure the chain first."],
    ["user", "It is 0.9 percent longer than new."],
    ["assistant", "Then replace both the chain and the cassette."],
  ]],
  ["Planning the garden", "2025-01-20T20:15:00Z", Array.from({ length: 90 }, (_, i) => [i % 2 ? "assistant" : "user", i === 44 ? "The quince tree needs a sheltered corner facing south." : `Thought ${i + 1} about beds, paths and where the water goes.`])],
];

/** An export as ChatGPT writes it, a folder as Obsidian keeps it, and a file with bad lines. */
async function sources(dir) {
  const list = talks.map(([title, at, turns], n) => {
    const start = Date.parse(at) / 1000;
    const mapping = { root: { id: "root", message: null, parent: null, children: ["t0"] } };
    turns.forEach(([role, text], i) => {
      mapping[`t${i}`] = { id: `t${i}`, parent: i ? `t${i - 1}` : "root", children: i + 1 < turns.length ? [`t${i + 1}`] : [], message: { id: `m${n}-${i}`, author: { role }, create_time: start + i * 60, content: { content_type: "text", parts: [text] }, metadata: {} } };
    });
    return { id: `c${n}`, conversation_id: `c${n}`, title, create_time: start, update_time: start + turns.length * 60, mapping, current_node: `t${turns.length - 1}` };
  });
  const chat = path.join(dir, "conversations.json");
  await writeFile(chat, JSON.stringify(list));
  const vault = path.join(dir, "vault");
  await mkdir(path.join(vault, ".obsidian"), { recursive: true });
  await mkdir(path.join(vault, "People"));
  await writeFile(path.join(vault, ".obsidian", "app.json"), "{}");
  await writeFile(path.join(vault, "People", "Ada.md"), "---\ntags: [people, friends]\ndate: 2024-02-01\n---\n# Ada\n\nMet at the choir. Allergic to nuts.\n\n## Gifts\n\nLikes botanical prints and old maps.\n");
  await writeFile(path.join(vault, "Bread.md"), "---\ntags: [recipes]\ndate: 2023-11-05\n---\n# Bread\n\nFlour, water, salt, time. #baking\n\nSee [[Ada]].\n");
  const lines = path.join(dir, "lines.jsonl");
  await writeFile(lines, [`{"content":"The key of the shed hangs behind the clock","tags":["home"],"timestamp":"2024-07-01T10:00:00Z"}`, "{not json", `{"content":"Ring the chimney sweep in October","type":"procedural"}`, ""].join("\n"));
  const picked = path.join(dir, "picked.txt");
  await writeFile(picked, "The cellar light switch is behind the shelf.");
  return { chat, vault, lines, picked };
}

async function empty({ page, go, looks }) {
  await go("memory");
  await page.getByRole("heading", { name: "Memory", level: 1 }).waitFor();
  await page.getByText("Import your ChatGPT, Claude or Obsidian history").waitFor();
  await looks("empty");
  for (const [name, text] of [["Timeline", "No dates yet"], ["Conversations", "No conversations yet"], ["Documents", "No documents yet"]]) {
    await tab(page, name).click();
    await page.getByText(text).waitFor();
  }
  await tab(page, "List").click();
}

/** Chooses a path and waits for what it would bring. */
async function look(page, file) {
  await page.keyboard.press("Control+i");
  await sheet(page).getByLabel("File or folder on the computer that runs Helix").fill(file);
  await page.keyboard.press("Enter");
}

async function chatgpt({ page, rpc, files, check, looks }) {
  await page.keyboard.press("Control+i");
  await sheet(page).getByRole("heading", { name: "Import", level: 2 }).waitFor();
  await looks("import-choose");
  const field = sheet(page).getByLabel("File or folder on the computer that runs Helix");
  await field.fill("conversations.json");
  await sheet(page).getByText("Enter a full path").waitFor();
  await field.fill(files.chat + ".missing");
  await page.keyboard.press("Enter");
  await sheet(page).getByText("Couldn't read it.").waitFor();
  await looks("import-missing");
  await sheet(page).getByRole("button", { name: "Choose something else" }).click();
  await field.fill(files.chat);
  await page.keyboard.press("Enter");
  await sheet(page).getByText("ChatGPT export").first().waitFor();
  await sheet(page).getByText(/^\d+ samples$/).waitFor();
  await sheet(page).getByLabel("Tags for all items").fill("old chats");
  await looks("import-preview");
  check((await rpc("memory.stats")).total === 0, "a preview stores nothing");
  await sheet(page).getByRole("button", { name: /^Import \d+ items?$/ }).click();
  await sheet(page).getByText("Imported conversations.json").waitFor();
  await looks("import-done");
  await sheet(page).getByRole("button", { name: "Done" }).click();
  const stats = await rpc("memory.stats");
  check(stats.conversations === 3 && stats.turns === 100, `three conversations with 100 messages, and not ${stats.conversations} with ${stats.turns}`);
  // The same file again adds nothing.
  await look(page, files.chat);
  await sheet(page).getByText("nothing new in it").waitFor();
  await sheet(page).getByRole("button", { name: /^Import \d+ items?$/ }).click();
  await sheet(page).getByText("Everything was already imported.").waitFor();
  await sheet(page).getByRole("button", { name: "Done" }).click();
  check((await rpc("memory.stats")).turns === 100, "importing twice adds nothing");
}

async function obsidian({ page, rpc, files, check, looks }) {
  await look(page, files.vault);
  await sheet(page).getByText("Markdown or Obsidian folder").first().waitFor();
  await sheet(page).getByLabel("Layer", { exact: true }).click();
  await page.getByRole("option", { name: /Narrative core/ }).getByText("Your life story and its themes").waitFor();
  await page.keyboard.press("Escape");
  // Notes of one's own are trusted.
  await sheet(page).getByLabel("Written by").click();
  await page.getByRole("option", { name: /^Me/ }).click();
  await looks("import-folder");
  await sheet(page).getByRole("button", { name: /^Import \d+ items?$/ }).click();
  await sheet(page).getByText("Imported vault").waitFor();
  await sheet(page).getByRole("button", { name: "Show documents" }).click();
  await rows(page, "Documents").getByRole("option", { name: /Bread/ }).waitFor();
  await looks("imported");
  const { documents } = await rpc("memory.list_documents", {});
  check(documents.length === 2 && documents.every((d) => !d.untrusted), "each note is a document that is trusted");
  await tab(page, "List").click();
}

/** A bad line is told with its number, and the others come in. */
async function broken({ page, files, looks, check }) {
  await look(page, files.lines);
  await sheet(page).getByText("JSON lines").first().waitFor();
  await sheet(page).getByRole("button", { name: /^Import \d+ items?/ }).click();
  await sheet(page).getByText("Imported lines.jsonl").waitFor();
  const errors = sheet(page).getByRole("list", { name: "Import errors" }).getByRole("listitem");
  await errors.first().waitFor();
  check((await errors.count()) === 1 && /line 2/.test(await errors.first().innerText()), "the bad line is named");
  await looks("import-errors");
  await sheet(page).getByRole("button", { name: "Import something else" }).click();
  await sheet(page).getByText("Earlier imports").waitFor();
  await sheet(page).getByRole("button", { name: /vault/ }).waitFor();
  await looks("import-former");
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
}

/** A session that may not name paths imports a file that was picked, cancels one, and drops one. */
async function uploads({ browser, helix, rpc, files, check }) {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(180_000);
    await page.goto(await helix.ticket("--scopes", "read,write,approve"));
    await page.getByRole("navigation", { name: "Screens" }).waitFor();
    await page.evaluate(() => (location.hash = "#/memory"));
    await page.getByRole("heading", { name: "Memory", level: 1 }).waitFor();
    const dialog = sheet(page);
    const pick = async (file) => {
      const chooser = page.waitForEvent("filechooser");
      await dialog.getByRole("button", { name: "Choose a file…" }).click();
      await (await chooser).setFiles(file);
    };
    const take = async (name) => {
      await dialog.getByRole("button", { name: /^Import \d+ items?$/ }).click();
      await dialog.getByText(`Imported ${name}`).waitFor();
      await dialog.getByRole("button", { name: "Done" }).click();
    };
    await page.keyboard.press("Control+i");
    await dialog.getByRole("button", { name: "Choose a file…" }).waitFor();
    check((await dialog.getByLabel("File or folder on the computer that runs Helix").count()) === 0, "no path is asked for");
    await pick(files.picked);
    await dialog.getByText("picked.txt").first().waitFor();
    await take("picked.txt");

    // The server has no answer until the upload was canceled.
    await page.route("**/upload?name=*", () => {}, { times: 1 });
    await page.keyboard.press("Control+i");
    await pick(files.chat);
    await dialog.getByRole("progressbar", { name: "Upload of conversations.json" }).waitFor();
    await dialog.getByRole("button", { name: "Cancel upload" }).click();
    await dialog.getByRole("button", { name: "Choose a file…" }).waitFor();
    check((await dialog.getByRole("alert").count()) === 0, "a canceled upload is no error");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });

    const data = await page.evaluateHandle(() => {
      const d = new DataTransfer();
      d.items.add(new File(["The attic window sticks in wet weather."], "dropped.txt", { type: "text/plain" }));
      return d;
    });
    await page.dispatchEvent("body", "dragover", { dataTransfer: data });
    await page.dispatchEvent("body", "drop", { dataTransfer: data });
    await dialog.getByText("dropped.txt").first().waitFor();
    await take("dropped.txt");
    for (const query of ["cellar", "attic"]) check((await rpc("memory.search", { query, mode: "keyword" })).results.length === 1, `${query} was imported`);
    check((await readdir(path.join(helix.dir, "cache", "uploads"))).length === 0, "no upload is left");
  } finally {
    await context.close();
  }
}

/** Found as it is typed, with facets to narrow it. */
async function search({ page, rpc, check, looks }) {
  await until(async () => (await rpc("memory.embedding_status")).queued === 0, "everything is ready for meaning search");
  await body(page);
  await page.keyboard.press("/");
  await page.keyboard.type("trattoria lucia");
  const first = rows(page).getByRole("option").first();
  await first.locator("mark").getByText("Lucia").first().waitFor();
  await page.getByText(/\d+ results? in/).waitFor();
  await looks("search");
  // Older answers never overtake: only what was typed last is shown.
  await box(page).fill("bicycle");
  await box(page).fill("quince");
  await first.getByText("quince").first().waitFor();
  await box(page).fill("ada");
  await first.waitFor();
  await page.getByRole("button", { name: "Source: any" }).click();
  await page.getByRole("menuitem", { name: /Markdown/ }).click();
  await page.getByRole("button", { name: "Source: Markdown" }).waitFor();
  let shown = "";
  await until(async () => {
    shown = (await rows(page).getByRole("option").allInnerTexts()).join("\n");
    return /See Ada\./.test(shown) && !/Trattoria|ChatGPT/.test(shown);
  }, "only notes are left");
  check(!/^#|[#*\]] |\[\[/m.test(shown.replace(/^(#\w+\s*)+$/gm, "")), `texts are shown without the signs of Markdown, and not as ${shown}`);
  check((await rows(page).locator("mark").allInnerTexts()).every((w) => /^ada$/i.test(w)), "the marks are on the words");
  await looks("filtered");
  await page.getByRole("button", { name: "Clear filters" }).click();
  // A question in other words than the text has.
  await box(page).fill("that restaurant we talked about before the move");
  await until(async () => /Lucia|dinner/i.test((await rows(page).getByRole("option").allInnerTexts()).slice(0, 3).join()), "the restaurant is among the first");
}

/** What was found stands in its conversation, with neighbours, and says why it was found. */
async function evidence({ page, looks, check }) {
  await box(page).fill("quince tree sheltered corner");
  const first = rows(page).getByRole("option").first();
  await first.getByText("quince").first().waitFor();
  await first.click();
  await inspector(page).getByRole("heading", { name: "Planning the garden", level: 2 }).waitFor();
  const focus = inspector(page).locator("[aria-current=true]");
  await focus.getByText("The quince tree").waitFor();
  await until(async () => (await focus.locator("mark").count()) > 0, "the words are marked in it");
  await inspector(page).getByText("Thought 44 ").waitFor();
  await inspector(page).getByText("Thought 46 ").waitFor();
  await looks("evidence");
  // In the smallest window too, search and views have room beside what is open.
  await page.setViewportSize({ width: 800, height: 600 });
  const [field, last, text] = [await box(page).boundingBox(), await tab(page, "Documents").boundingBox(), await focus.boundingBox()];
  check(field.width > 300 && last.x + last.width < 800 && text.width > 300, `nothing is cut at 800 × 600: the search has ${field.width}`);
  await page.setViewportSize({ width: 1200, height: 800 });
  // Scrolling to an end reads further.
  const region = inspector(page).getByRole("region", { name: "Planning the garden" });
  await until(async () => {
    await region.evaluate((e) => e.scrollTo(0, e.scrollHeight));
    return (await inspector(page).getByText("Thought 90 ").count()) > 0;
  }, "scrolling reads to the end");
  await part(page, "Why").click();
  await inspector(page).getByText("Why it was found").waitFor();
  await inspector(page).getByText("place 1").first().waitFor();
  await looks("why");
  await part(page, "Related").click();
  await inspector(page).getByRole("heading", { name: "Related" }).waitFor();
  await part(page, "Details").click();
  await inspector(page).getByText("Participants").or(inspector(page).getByText("Who", { exact: true })).first().waitFor();
  await looks("details");
  await part(page, "Text").click();
  // A part of a document opens among the others.
  await box(page).fill("botanical prints");
  await first.getByText("botanical").first().waitFor();
  await first.click();
  await inspector(page).getByText("old maps").first().waitFor();
  await looks("document-hit");
  await page.keyboard.press("Escape");
  await box(page).fill("");
}

async function add({ page, rpc, check, looks }) {
  await body(page);
  await page.keyboard.press("n");
  await sheet(page).getByRole("heading", { name: "New memory" }).waitFor();
  await page.keyboard.press("Control+Enter");
  await sheet(page).getByText("Write something first").waitFor();
  await page.keyboard.type("Grace plays the cello in the Tuesday quartet.");
  await sheet(page).getByLabel("Tags").fill("Music, People");
  await sheet(page).getByLabel("Date").fill("2024-09-03");
  await sheet(page).getByLabel("Time of day").fill("19:30");
  await looks("add");
  // Put away and taken up again: nothing is lost.
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
  await toast(page, "Your text is kept").waitFor();
  await page.keyboard.press("n");
  await until(async () => (await sheet(page).getByLabel("Text", { exact: true }).inputValue()).startsWith("Grace plays"), "the draft is kept");
  await sheet(page).getByRole("button", { name: "Save memory" }).click();
  await toast(page, "Saved").waitFor();
  await inspector(page).getByRole("heading", { name: /^Grace plays/, level: 2 }).waitFor();
  await rows(page).getByRole("option", { name: /Grace plays/ }).waitFor();
  const { items } = await rpc("memory.list", {});
  const made = items.find((m) => m.content.startsWith("Grace"));
  check(made && made.tags.sort().join() === "music,people" && made.source === "manual" && !made.untrusted, "it is stored as it was written");
  await looks("memory");
  // The same once more is the same memory.
  await page.keyboard.press("n");
  await sheet(page).getByLabel("Text", { exact: true }).fill("Grace plays the cello in the Tuesday quartet.");
  await page.keyboard.press("Control+Enter");
  await toast(page, "You already have this").waitFor();
  await sheet(page).waitFor({ state: "hidden" });
  for (const content of ["The spare key is with Mrs. Holm next door.", "Water the ficus on Fridays.", "The flat in Bergen has a view of the harbour."]) await rpc("memory.add", { content });
}

async function edit({ page, rpc, check, looks }) {
  await rows(page).getByRole("option", { name: /Grace plays/ }).click();
  await body(page);
  await page.keyboard.press("e");
  const area = inspector(page).getByRole("textbox", { name: "Text", exact: true });
  await area.fill("Grace plays the viola in the Tuesday quartet.");
  await looks("edit");
  // Looking at something else keeps the draft.
  await rows(page).getByRole("option", { name: /Water the ficus/ }).click();
  await inspector(page).getByRole("heading", { name: /Water the ficus/, level: 2 }).waitFor();
  await rows(page).getByRole("option", { name: /Grace plays/ }).click();
  await inspector(page).getByText("You have unsaved changes to this.").waitFor();
  await inspector(page).getByRole("button", { name: "Continue" }).click();
  await until(async () => (await area.inputValue()).includes("viola"), "the draft is kept");
  await page.keyboard.press("Control+Enter");
  await toast(page, "Saved").waitFor();
  await inspector(page).getByRole("heading", { name: /viola/, level: 2 }).waitFor();
  await rows(page).getByRole("option", { name: /viola/ }).waitFor();
  // Undo takes it back; the history has both.
  await body(page);
  await page.keyboard.press("Control+z");
  await inspector(page).getByRole("heading", { name: /cello/, level: 2 }).waitFor();
  await part(page, "History").click();
  await inspector(page).getByRole("button", { name: /viola/ }).click();
  await inspector(page).getByRole("region", { name: "Change in the text" }).waitFor();
  await looks("history");
  await inspector(page).getByRole("button", { name: "Restore" }).click();
  await inspector(page).getByRole("heading", { name: /viola/, level: 2 }).waitFor();
  await page.keyboard.press("Control+z");
  await inspector(page).getByRole("heading", { name: /cello/, level: 2 }).waitFor();
  const { results } = await rpc("memory.search", { query: "cello quartet" });
  check(results[0]?.snippet.includes("cello"), "the search follows the text");
  await part(page, "Text").click();
}

/** Changed elsewhere meanwhile: both texts, and nothing is lost. */
async function conflict({ page, rpc, check, looks }) {
  await page.keyboard.press("e");
  const area = inspector(page).getByRole("textbox", { name: "Text", exact: true });
  await area.fill("Grace plays the double bass.");
  const { items } = await rpc("memory.list", {});
  const now = items.find((m) => m.content.startsWith("Grace"));
  await rpc("memory.update", { id: now.id, version: now.version, content: "Grace plays the violin." });
  await inspector(page).getByRole("button", { name: "Save", exact: true }).click();
  await inspector(page).getByText("This was changed elsewhere in the meantime.").waitFor();
  const both = inspector(page).getByRole("region", { name: "Both texts" });
  check(/violin/.test(await both.innerText()) && /double bass/.test(await both.innerText()), "both texts are shown");
  await looks("conflict");
  await inspector(page).getByRole("button", { name: "Save mine" }).click();
  await inspector(page).getByRole("heading", { name: /double bass/, level: 2 }).waitFor();
  const { revisions } = await rpc("memory.history", { id: now.id });
  check(revisions.some((r) => r.content.includes("violin")), "the other text is in the history");
}

/** Pin, salience and tags, of one and of several. */
async function marks({ page, rpc, check, looks }) {
  await body(page);
  await page.keyboard.press("p");
  await inspector(page).getByText("Pinned", { exact: true }).waitFor();
  await page.keyboard.press("1");
  await inspector(page).getByText("Critical salience").first().waitFor({ state: "attached" });
  await page.keyboard.press("t");
  await sheet(page).getByLabel("Add", { exact: true }).fill("quartet");
  await looks("tags");
  await page.keyboard.press("Enter");
  await sheet(page).waitFor({ state: "hidden" });
  await inspector(page).getByRole("group", { name: "Tags" }).getByText("#quartet").waitFor();
  await inspector(page).getByRole("button", { name: "Remove tag music" }).click();
  await inspector(page).getByText("#music").waitFor({ state: "detached" });
  const made = (await rpc("memory.list", {})).items.find((m) => m.content.startsWith("Grace"));
  check(made.pinned && made.salienceTier === "critical" && made.tags.includes("quartet") && !made.tags.includes("music"), "it is stored");
  await page.getByRole("button", { name: "Pinned", exact: true }).click();
  await until(async () => (await rows(page).getByRole("option").count()) === 1, "one is pinned");
  await page.getByRole("button", { name: "Pinned", exact: true }).click();
  await rows(page).getByRole("option", { name: /ficus/ }).waitFor();
  // Several at once.
  await rows(page).getByRole("option", { name: /ficus/ }).click();
  await body(page);
  await page.keyboard.press("x");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByText("2 selected").waitFor();
  await looks("selected");
  await page.keyboard.press("t");
  await sheet(page).getByLabel("Add", { exact: true }).fill("chores");
  await page.keyboard.press("Enter");
  await toast(page, "Changed the tags of 2 memories").waitFor();
  check((await rpc("memory.list", { filters: { tagsAll: ["chores"] } })).total === 2, "both have the tag");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
}

async function trash({ page, rpc, check }) {
  await rows(page).getByRole("option", { name: /ficus/ }).click();
  await body(page);
  await page.keyboard.press("Delete");
  await toast(page, "to the trash").waitFor();
  await rows(page).getByRole("option", { name: /ficus/ }).waitFor({ state: "detached" });
  check((await rpc("memory.search", { query: "ficus" })).results.length === 0, "the search forgets it at once");
  await page.keyboard.press("Control+z");
  await rows(page).getByRole("option", { name: /ficus/ }).waitFor();
  check((await rpc("memory.list", { filters: { tagsAll: ["chores"] } })).total === 2, "Undo brings back its tags");
  await rows(page).getByRole("option", { name: /ficus/ }).click();
  await body(page);
  await page.keyboard.press("Delete");
  await rows(page).getByRole("option", { name: /ficus/ }).waitFor({ state: "detached" });
  await page.keyboard.press("Control+z");
  await rows(page).getByRole("option", { name: /ficus/ }).waitFor();
  const key = (await rpc("memory.list", {})).items.find((m) => m.content.includes("Mrs. Holm"));
  await rpc("memory.purge", { ids: [key.id] });
}

async function views({ page, rpc, check, looks }) {
  await tab(page, "Timeline").click();
  await rows(page, "Timeline").getByRole("option", { name: /Planning the garden/ }).waitFor();
  await rows(page, "Timeline").getByText("January 2025").waitFor();
  await looks("timeline");
  await page.getByRole("navigation", { name: "Years" }).getByRole("button", { name: "2024" }).click();
  await rows(page, "Timeline").getByRole("option", { name: /Grace plays/ }).waitFor();
  await tab(page, "Conversations").click();
  const talks = rows(page, "Conversations");
  await talks.getByRole("option", { name: /Dinner before the move/ }).click();
  await inspector(page).getByText("Tell them about the nut allergy").waitFor();
  await looks("conversation");
  await part(page, "Details").click();
  await inspector(page).getByRole("switch", { name: "Untrusted" }).click();
  await until(async () => !(await rpc("memory.conversations", { query: "Dinner" })).conversations[0].untrusted, "the conversation is trusted");
  await part(page, "Text").click();
  await page.getByRole("searchbox", { name: "Search conversations by title" }).fill("bicy");
  await until(async () => (await talks.getByRole("option").count()) === 1, "one title fits");
  await talks.getByRole("option").click();
  await body(page);
  await page.keyboard.press("Delete");
  await toast(page, "Moved “Fixing the bicycle” to the trash").waitFor();
  await until(async () => (await rpc("memory.search", { query: "cassette" })).results.length === 0, "its messages are not found");
  await page.keyboard.press("Control+z");
  await talks.getByRole("option", { name: /bicycle/ }).waitFor();
  await page.getByRole("searchbox", { name: "Search conversations by title" }).fill("");
  await tab(page, "Documents").click();
  await rows(page, "Documents").getByRole("option", { name: /Ada/ }).click();
  await inspector(page).getByText("Met at the choir").waitFor();
  await looks("document");
  // Links lead from one document to another, and nothing else is fetched.
  await rows(page, "Documents").getByRole("option", { name: /Bread/ }).click();
  await inspector(page).getByRole("button", { name: "Ada" }).click();
  await inspector(page).getByRole("heading", { name: "Ada", level: 2 }).waitFor();
  await page.keyboard.press("Escape");
}

/** No hit offers to drop one filter at a time. */
async function nothing({ page, looks }) {
  await tab(page, "List").click();
  await body(page);
  await page.keyboard.press("/");
  await page.keyboard.type("harbour");
  await rows(page).getByRole("option", { name: /Bergen/ }).first().waitFor();
  await page.getByRole("button", { name: "When: any" }).click();
  await page.getByRole("menuitem", { name: "From … to …" }).click();
  await page.getByLabel("to", { exact: true }).fill("2001-01-01");
  await page.keyboard.press("Tab");
  await page.getByText("No results").waitFor();
  await looks("no-hit");
  await page.getByRole("button", { name: /^Without “Until/ }).click();
  await rows(page).getByRole("option", { name: /Bergen/ }).first().waitFor();
  await box(page).fill("");
}
