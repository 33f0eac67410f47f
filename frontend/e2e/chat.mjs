// The Chat screen against a model server of this suite: setting it up, sending, streaming, tools with an approval,
// stop, retry, fork, search, files, budgets, a restart in the middle, and a long chat.
import { readFile } from "node:fs/promises";
import { startModel } from "./lib/model.mjs";
import { armed, until } from "./lib/page.mjs";

export default async function (t) {
  const model = await startModel();
  try {
    await setUp(t, model);
    await talk(t, model);
    await tool(t, model);
    await stopAndRetry(t, model);
    await queue(t, model);
    await keys(t, model);
    await find(t);
    await drafts(t);
    await sessions(t);
    await inspector(t);
    await budget(t, model);
    await restart(t, model);
    await long(t);
    await files(t, model);
  } finally {
    model.stop();
  }
}

const box = (page) => page.getByRole("textbox", { name: "Message", exact: true });
const said = (page) => page.getByRole("region", { name: "Conversation" });

async function setUp({ page, go, looks, rpc }, model) {
  await go("chat");
  await page.getByText("Choose a model", { exact: true }).waitFor();
  await looks("no-model");
  await page.getByRole("button", { name: "Add a service with a key" }).click();
  await page.getByRole("button", { name: "Add a service" }).click();
  const form = page.getByRole("dialog", { name: "Add a service" });
  await form.getByLabel("Name").fill("suite");
  await form.getByLabel("Address").fill(model.url);
  await looks("add-service");
  await form.getByRole("button", { name: "Save" }).click();
  const chat = page.getByRole("group", { name: "Chat" });
  for (const name of ["suite/one", "suite/two"]) {
    await chat.getByLabel("Add a model: Chat").fill(name);
    await page.getByRole("option").first().click();
    await chat.getByText(name, { exact: true }).waitFor();
  }
  await page.mouse.move(0, 0); // no tip of the last button stays open
  await looks("models");
  await rpc("memory.add_batch", { items: [{ content: "My sister Nora lives in Hamburg." }] });
}

async function talk({ page, go, looks, rpc, check }, model) {
  await go("chat");
  await page.getByText("Ask a question or give Helix a task.").waitFor();
  await page.getByRole("list", { name: "Suggestions to get started" }).getByRole("button").nth(2).waitFor();
  await looks("empty");
  model.say({ text: "Here is **a list**:\n\n- one\n- two\n\n```js\nconst x = 1;\n```\n\nAnd an ![image](https://example.com/x.png) that is not loaded. Grüße aus Köln 🙂.", hold: true });
  await box(page).fill("What can you do?");
  await page.keyboard.press("Enter");
  await said(page).getByText("a list").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await looks("streaming");
  model.go();
  await said(page).getByText("Grüße aus Köln").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  check((await said(page).locator("img").count()) === 0, "no image is loaded");
  await looks("answered");
  check((await rpc("chat.list")).total === 1, "one chat");
}

async function tool({ page, looks, check }, model) {
  model.say({ text: "I write it.", calls: [{ name: "file_write", args: { path: "/shared/note.txt", text: "hello" } }] }, "It is written.");
  await box(page).fill("Write a note");
  await page.keyboard.press("Enter");
  await armed(page);
  await looks("approval");
  await page.getByRole("button", { name: "Allow: This session" }).click();
  await said(page).getByText("It is written.").waitFor();
  await said(page).getByRole("button", { name: /file_write/ }).click();
  await looks("tool");
  await said(page).getByRole("button", { name: "Undo" }).click();
  await said(page).getByText("Undone").waitFor();
}

async function stopAndRetry({ page, looks, check, rpc }, model) {
  model.say({ text: "This answer is far too long to be read to its end.", hold: true });
  await box(page).fill("Tell me everything");
  await page.keyboard.press("Enter");
  await said(page).getByText("This answer is").waitFor();
  await page.keyboard.press("Escape");
  await said(page).getByText("You stopped this turn.").waitFor();
  await said(page).getByText("This answer is").waitFor(); // what was said stays
  await looks("stopped");
  model.say("The whole answer.");
  await said(page).locator("[data-kind=cancelled]").getByRole("button", { name: "Retry" }).click();
  await said(page).getByText("The whole answer.").waitFor();
  await said(page).getByText("This answer is").waitFor({ state: "detached" });
  await said(page).getByRole("button", { name: "Show it" }).click();
  await said(page).getByText("This answer is").waitFor();
  await said(page).getByRole("button", { name: "Hide it" }).click();
  const { sessions } = await rpc("chat.list");
  check((await rpc("chat.messages", { sessionId: sessions[0].id })).messages.some((m) => m.hidden), "nothing is rewritten");
}

async function queue({ page, looks }, model) {
  model.say({ text: "The first answer takes its time.", hold: true }, "And the second one.");
  await box(page).fill("First");
  await page.keyboard.press("Enter");
  await said(page).getByText("The first answer").waitFor();
  await box(page).fill("Second");
  await page.keyboard.press("Enter");
  await said(page).getByText("Waiting: Next turn").waitFor();
  await box(page).fill("Third");
  await page.keyboard.press("Enter");
  await said(page).getByRole("button", { name: "Remove from the queue" }).nth(1).click();
  await said(page).getByText("Third", { exact: true }).waitFor({ state: "detached" });
  await looks("queue");
  model.go();
  await said(page).getByText("And the second one.").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" }); // the answer is a message now, which keys reach
}

async function keys({ page, check }, model) {
  await box(page).fill("one");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("two");
  await until(async () => (await box(page).inputValue()) === "one\ntwo", "Shift+Enter starts a line");
  await box(page).fill("");
  await page.keyboard.press("ArrowUp");
  await until(async () => (await box(page).inputValue()) === "Second", "Up brings the last message back");
  await box(page).fill("/mode: read");
  await page.getByRole("option", { name: "Mode: Read" }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("combobox", { name: "Mode: Read" }).waitFor();
  await page.getByRole("combobox", { name: "Mode: Read" }).click();
  await page.getByRole("option", { name: /^Ask/ }).click();
  await box(page).fill("Remember @Nora");
  await page.getByRole("option", { name: /Nora lives in Hamburg/ }).click();
  await until(async () => /“My sister Nora.*\[memory /.test(await box(page).inputValue()), "a memory is referred to");
  await box(page).fill("");
  // Messages by keys, out of the composer.
  await page.keyboard.press("Escape");
  await page.keyboard.press("k");
  await page.keyboard.press("k");
  await said(page).locator("article[aria-current=true]").getByText("Second").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("c");
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === "And the second one.", "c copies");
  model.say("Once more.");
  await page.keyboard.press("r");
  await said(page).getByText("Once more.").waitFor();
}

async function find({ page, looks, check }) {
  await page.keyboard.press("Control+f");
  await page.getByRole("searchbox", { name: "Words in messages" }).fill("list");
  await page.getByRole("list", { name: "Words in messages" }).getByRole("button").first().waitFor();
  await looks("find");
  await page.keyboard.press("Enter");
  await said(page).locator("article[aria-current=true]").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.getByRole("searchbox", { name: "Words in messages" }).waitFor({ state: "detached" });
  await page.keyboard.press("Control+Shift+f");
  await page.getByRole("searchbox", { name: "Words in messages" }).fill("Hamburg everywhere");
  await page.getByText("No messages contain these words.").waitFor();
  check((await page.getByRole("list", { name: "Words in messages" }).count()) === 0, "no hits");
  await page.getByRole("button", { name: "Close search" }).click();
}

async function drafts({ page, go, check }) {
  await box(page).fill("Not yet sent");
  await go("memory");
  await page.getByRole("heading", { name: "Memory" }).waitFor();
  await page.reload();
  await page.getByRole("navigation", { name: "Screens" }).waitFor();
  await go("chat");
  await page.getByRole("option", { name: /What can you do/ }).click();
  await until(async () => (await box(page).inputValue()) === "Not yet sent", "the draft is there");
  await box(page).fill("");
  await until(async () => (await page.evaluate(() => Object.keys(localStorage).filter((k) => k.startsWith("helix.chat.")).length)) === 0, "nothing is kept of an empty draft");
}

async function sessions({ page, rpc, looks }) {
  const chats = page.getByRole("listbox", { name: "Chat" });
  const row = (name) => chats.getByRole("option", { name });
  const undo = page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Undo" });
  await rpc("chat.create", { title: "Another chat" });
  await row(/Another chat/).click();
  await row(/Another chat/).click({ button: "right" });
  await page.getByRole("menuitem", { name: "Rename…" }).click();
  await page.getByRole("dialog", { name: "Rename chat" }).getByLabel("Title").fill("Garden plans");
  await page.keyboard.press("Enter");
  await row(/Garden plans/).click({ button: "right" });
  await page.getByRole("menuitem", { name: "Pin", exact: true }).click();
  await chats.getByText("Pinned").waitFor();
  await looks("sessions");
  await row(/Garden plans/).click({ button: "right" });
  await page.getByRole("menuitem", { name: "Archive" }).click();
  await row(/Garden plans/).waitFor({ state: "detached" });
  await undo.waitFor();
  await page.keyboard.press("Control+z");
  await row(/Garden plans/).click({ button: "right" });
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await row(/Garden plans/).waitFor({ state: "detached" });
  await undo.waitFor();
  await page.keyboard.press("Control+z");
  await row(/Garden plans/).waitFor();
  await page.getByRole("searchbox", { name: "Search chats" }).fill("garden");
  await row(/What can you do/).waitFor({ state: "detached" });
  await page.getByRole("searchbox", { name: "Search chats" }).fill("");
  await row(/What can you do/).click();
}

async function inspector({ page, looks }) {
  await page.getByRole("button", { name: "Inspector" }).click();
  const pane = page.getByRole("complementary", { name: "Inspector" });
  for (const tab of await pane.getByRole("tab").allTextContents()) {
    await pane.getByRole("tab", { name: tab.trim() }).click();
    await page.getByRole("status", { name: /^Loading/ }).first().waitFor({ state: "detached" });
    await looks(`inspector-${tab.trim().toLowerCase()}`);
  }
  await pane.getByRole("tab", { name: "Log" }).click();
  await pane.getByRole("button", { name: "Verify by replay" }).click();
  await pane.getByText(/^Identical: \d+ requests/).waitFor();
  await pane.getByRole("tab", { name: "Tools" }).click();
  await pane.getByText("file_write", { exact: true }).waitFor();
  await pane.getByRole("button", { name: "Close inspector" }).click();
}

/** The chat stays at its end while the window changes, also if a scroll event comes before the list is told of its size. */
async function staysAtEnd(page) {
  const list = said(page);
  const atEnd = (what) => until(() => list.evaluate((e) => e.scrollTop + e.clientHeight >= e.scrollHeight - 2), `the chat is at its end in ${what}`);
  for (const height of ["200px", "", "300px", ""]) {
    await list.evaluate((e, h) => {
      e.parentElement.style.maxHeight = h;
      return e.scrollTop; // a layout now: its scroll event is the first of the next frame
    }, height);
    await atEnd(`a window of ${height || "all its height"}`);
  }
}

async function budget({ page, go, rpc, looks, check }, model) {
  await rpc("agent.set_budget", { scope: "day", maxTokens: 100 });
  const calls = model.requests.length;
  await box(page).fill("More");
  await page.keyboard.press("Enter");
  await said(page).getByText("The budget is used up.", { exact: false }).first().waitFor();
  check(model.requests.length === calls, "no call is made");
  await looks("budget");
  await staysAtEnd(page);
  await said(page).getByRole("button", { name: "Raise budget" }).click();
  await page.getByRole("textbox", { name: "Limit in dollars: Each day" }).waitFor();
  await looks("settings");
  await page.getByRole("textbox", { name: "Limit in dollars: Each day" }).fill("7.50");
  await page.keyboard.press("Enter");
  await until(async () => (await rpc("agent.budgets")).limits.some((l) => l.scope === "day" && l.maxCostMicros === 7_500_000), "the limit is stored");
  await rpc("agent.set_budget", { scope: "day", maxCostMicros: 7_500_000 }); // without the limit of tokens, which the page keeps
  await page.goBack();
  model.say("There is more.");
  await said(page).locator("[data-kind=budget]").getByRole("button", { name: "Retry" }).click();
  await said(page).getByText("There is more.").waitFor();
  // A turn with few steps goes on with more.
  const { sessions } = await rpc("chat.list");
  const id = sessions.find((s) => s.title === "What can you do?").id;
  model.say({ text: "", calls: [{ name: "file_list", args: {} }] });
  await rpc("chat.send", { sessionId: id, text: "Look around", budget: { maxTurns: 1 } });
  await said(page).getByText("This turn reached its step limit.").waitFor();
  model.say("Now I am done.");
  await said(page).getByRole("button", { name: "Continue with 10 more steps" }).click();
  await said(page).getByText("Now I am done.").waitFor();
}

async function restart({ page, go, helix }, model) {
  model.say({ text: "This answer is interrupted in the middle of it.", hold: true }, "This answer is whole.");
  await box(page).fill("Go on");
  await page.keyboard.press("Enter");
  await said(page).getByText("This answer is").waitFor();
  await helix.end();
  await page.getByText("Reconnecting", { exact: false }).first().waitFor();
  await helix.start();
  helix.forget();
  // The session ended with the program; a new link opens the page again.
  await page.goto("about:blank");
  await page.goto(await helix.ticket());
  await page.getByRole("navigation", { name: "Screens" }).waitFor();
  await go("chat");
  await page.getByRole("option", { name: /What can you do/ }).click();
  await said(page).getByText("This answer is whole.").waitFor();
  await until(async () => (await said(page).getByText("This answer is").count()) === 1, "the text is there once");
}

async function long({ page, rpc, check, shot }) {
  const { session } = await rpc("chat.create", { title: "A long chat" });
  const last = process.env.HELIX_LONG ? 500 : 60;
  for (let i = 1; i <= last; i++) {
    let sent;
    await until(async () => (sent = await rpc("chat.send", { sessionId: session.id, text: `Number ${i}` }).catch((e) => (/Too many/.test(e.message) ? null : Promise.reject(e)))), "a message is taken");
    await rpc("chat.wait", { turnId: sent.turnId, waitMs: 10_000 });
  }
  await page.getByRole("option", { name: /A long chat/ }).click();
  await said(page).getByText(`You said: Number ${last}`, { exact: true }).waitFor();
  // To the first message, as fast as it goes: what is read before keeps its place.
  const frames = await said(page).evaluate(async (el) => {
    const times = [];
    let last = performance.now();
    for (let i = 0; i < 3000 && !el.textContent.includes("You said: Number 1\n") && !/You said: Number 1(?!\d)/.test(el.textContent); i++) {
      el.scrollTop -= 400;
      await new Promise((r) => requestAnimationFrame(r));
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    return times.sort((a, b) => a - b);
  });
  await said(page).getByText("You said: Number 1", { exact: true }).waitFor();
  check((await said(page).locator("article").count()) < 60, "only what is seen is drawn");
  console.log(`chat: ${frames.length} frames, p50 ${frames[Math.floor(frames.length / 2)]?.toFixed(1)} ms, p95 ${frames[Math.floor(frames.length * 0.95)]?.toFixed(1)} ms`);
  await shot("long");
  await page.getByRole("button", { name: "Jump to the newest message" }).click();
  await said(page).getByText(`You said: Number ${last}`, { exact: true }).waitFor();
}

// A picture and a text are attached by the button, by paste and by drop, one is removed, and both are sent and shown;
// a file that is no text is refused by its name. The chat goes through a file.
async function files({ page, looks, check, rpc }, model) {
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC", "base64");
  const chosen = page.getByLabel("Files to attach");
  const list = page.getByRole("list", { name: "Attached files" });
  await page.getByRole("button", { name: "New chat" }).click();
  await page.waitForURL(/#\/chat$/);
  await chosen.setInputFiles([{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("Some notes") }, { name: "boat.md", mimeType: "text/plain", buffer: Buffer.from("# Boat") }]);
  for (const name of ["notes.txt", "boat.md"]) await list.getByRole("button", { name: `Remove ${name}` }).waitFor(); // a reload cancels uploads
  await page.reload();
  await list.getByText("notes.txt").waitFor(); // a draft survives a restart
  await list.getByRole("button", { name: "Remove notes.txt" }).click();
  await chosen.setInputFiles([{ name: "program.exe", mimeType: "text/plain", buffer: Buffer.from([77, 90, 0, 1]) }]);
  await page.getByText("program.exe can't be attached", { exact: false }).waitFor();
  await box(page).evaluate((area) => {
    const data = new DataTransfer();
    data.items.add(new File(["Pasted text"], "pasted.txt", { type: "text/plain" }));
    area.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await list.getByText("pasted.txt").waitFor();
  await box(page).evaluate((area) => {
    const data = new DataTransfer();
    data.items.add(new File(["Dropped text"], "dropped.txt", { type: "text/plain" }));
    area.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await list.getByText("dropped.txt").waitFor();
  await looks("attached");
  model.say("I have read them.");
  await box(page).fill("Read these");
  await page.keyboard.press("Enter");
  await said(page).getByText("I have read them.").waitFor();
  await said(page).getByText("boat.md", { exact: false }).waitFor();
  await looks("attachments");
  await until(async () => (await list.count()) === 0, "what was sent is no draft any more");
  await chosen.setInputFiles([{ name: "red.png", mimeType: "image/png", buffer: png }]);
  await list.locator("img").waitFor();
  await looks("picture");
  await list.getByRole("button", { name: "Remove red.png" }).click();
  const before = (await rpc("chat.list")).total;
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "More chat actions" }).click().then(() => page.getByRole("menuitem", { name: "Export for re-import" }).click())]);
  await page.getByLabel("Chat file").setInputFiles({ name: "chat.jsonl", mimeType: "text/plain", buffer: await readFile(await download.path()) });
  await said(page).getByText("I have read them.").waitFor();
  await page.getByText("Imported", { exact: true }).first().waitFor();
  check((await rpc("chat.list")).total === before + 1, "the import is a chat of its own");
  await looks("imported");
}
