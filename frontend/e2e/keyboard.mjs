// The first ten minutes with the keyboard alone: a tool, a skill, an import, an insight, a memo and sync. After each key
// something other than the page itself has the focus, and shows it.
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { until } from "./lib/page.mjs";
import { speech, tones } from "./lib/sound.mjs";

export default async function (t) {
  await t.page.getByRole("button", { name: "Run it" }).waitFor();
  await tool(t);
  await skill(t);
  await importing(t);
  await insight(t);
  await memo(t);
  await sync(t);
}

/** What has the focus, for the report of a failure; "" if nothing has it or it doesn't show. */
const focused = (page) =>
  page.evaluate(() => {
    const el = document.activeElement;
    return el === null || el === document.body || !el.matches(":focus-visible") ? "" : `${el.tagName} ${el.getAttribute("aria-label") ?? el.textContent.trim().slice(0, 40)}`;
  });

/** Presses keys one after the other; after each the focus is somewhere. */
async function press(page, ...keys) {
  for (const key of keys) {
    await page.keyboard.press(key);
    await until(async () => (await focused(page)) !== "", `something has the focus and shows it after ${key} at ${page.url()}`);
  }
}

/** Presses Tab until a control has the focus. */
async function tabTo(page, control) {
  await control.waitFor();
  for (let i = 0; i < 80; i++) {
    if (await control.evaluate((e) => e === document.activeElement)) return;
    await press(page, "Tab");
  }
  throw new Error(`Tab does not reach ${control}, but ${await focused(page)}`);
}

/** Chooses a command in the palette. */
async function command(page, text, name) {
  await press(page, "Control+k");
  await page.getByRole("combobox", { name: "Command" }).waitFor();
  await page.keyboard.type(text);
  await page.getByRole("option", { name, selected: true }).waitFor();
  await press(page, "Enter");
}

async function tool({ page, shot }) {
  await tabTo(page, page.getByRole("button", { name: "Run it" }));
  await press(page, "Enter");
  await page.getByText("longestWord").waitFor();
  await shot("tool");
}

async function skill({ page, rpc, check, shot }) {
  await command(page, "welcome", /Welcome/);
  const open = page.getByRole("button", { name: "Open a skill" });
  await tabTo(page, open);
  await press(page, "Enter");
  await page.locator(".svelte-flow__node").first().waitFor();
  await press(page, "Control+Enter");
  await tabTo(page, page.getByRole("dialog", { name: "Run this skill" }).getByRole("button", { name: "Run", exact: true }));
  await press(page, "Enter");
  await page.getByRole("region", { name: "Run on the canvas" }).getByText("Succeeded").waitFor();
  await shot("skill");
  check((await rpc("skills.list_composite", {})).total === 1, "there is a skill");
  await press(page, "g", "k");
  await page.getByRole("heading", { name: "Skills", level: 1 }).waitFor();
  await press(page, "j", "Escape");
}

async function importing({ page, helix, shot }) {
  const about = ["I watered the tomatoes in the garden before breakfast", "I ran five kilometers along the river this morning", "The tomato seedlings in the garden need more compost", "My running shoes are worn out after the long run", "We planted beans and tomatoes in the garden bed", "The evening run along the river was cold but good"];
  const lines = Array.from({ length: 60 }, (_, i) => JSON.stringify({ content: `${about[i % about.length]}, day ${i}.`, occurredAt: new Date(Date.UTC(2026, 0, 1 + i, 8)).toISOString() }));
  const file = path.join(helix.dir, "notes.jsonl");
  await writeFile(file, lines.join("\n"));
  await press(page, "g", "m");
  await page.getByRole("heading", { name: "Memory", level: 1 }).waitFor();
  await press(page, "Control+i");
  const sheet = page.getByRole("dialog");
  await sheet.getByLabel("File or folder on the computer that runs Helix").waitFor();
  await page.keyboard.type(file);
  await press(page, "Enter");
  await tabTo(page, sheet.getByRole("button", { name: /^Import \d+ items?/ }));
  await press(page, "Enter");
  await tabTo(page, sheet.getByRole("button", { name: "Done" }));
  await press(page, "Enter");
  await sheet.waitFor({ state: "hidden" });
  await press(page, "/");
  await page.keyboard.type("tomatoes");
  await page.getByRole("listbox", { name: "Memories" }).getByRole("option", { name: /tomatoes/ }).first().waitFor();
  await press(page, "Enter", "Enter", "Escape");
  await shot("import");
}

async function insight({ page, shot }) {
  await press(page, "g", "i");
  await page.getByRole("heading", { name: "Insights", level: 1 }).waitFor();
  await press(page, "r");
  const rows = page.getByRole("listbox", { name: "Insights" }).getByRole("option");
  await rows.first().waitFor();
  await press(page, "j");
  await page.getByRole("complementary").getByRole("heading", { level: 2 }).first().waitFor();
  await press(page, "c");
  await page.getByRole("region", { name: "Messages" }).getByRole("status").first().waitFor();
  await shot("insight");
  await press(page, "Escape");
}

async function memo({ page, helix, shot }) {
  const sound = (await speech("Remember to water the tomatoes tomorrow.", helix.dir)) ?? tones([440, 900]);
  await press(page, "g", "v");
  await page.getByRole("heading", { name: "Voice", level: 1 }).waitFor();
  await command(page, "import audio", /Import audio/);
  const choose = page.getByRole("dialog").getByRole("button", { name: "Choose a file…" });
  await tabTo(page, choose);
  const chooser = page.waitForEvent("filechooser");
  await page.keyboard.press("Enter");
  await (await chooser).setFiles({ name: "Garden.wav", mimeType: "audio/wav", buffer: sound });
  await page.getByRole("complementary", { name: "Memo" }).getByRole("heading", { name: "Garden" }).waitFor();
  await until(async () => (await focused(page)) !== "", "the focus is in the page after the dialog");
  await shot("memo");
  await press(page, "Escape");
}

async function sync({ page, shot }) {
  await press(page, "g", "y");
  await tabTo(page, page.getByRole("button", { name: "Connect a hub" }));
  await press(page, "Enter");
  const sheet = page.getByRole("dialog");
  await sheet.getByLabel(/Connection string/).waitFor();
  await page.keyboard.type("what?");
  await press(page, "Enter");
  await tabTo(page, sheet.getByRole("button", { name: "Connect", exact: true }));
  await press(page, "Enter");
  await sheet.getByText("not a connection string").waitFor();
  await shot("sync");
  await press(page, "Escape");
  await sheet.waitFor({ state: "hidden" });
  await until(async () => /Connect a hub/.test(await focused(page)), "the focus is back on the button that opened it");
}
