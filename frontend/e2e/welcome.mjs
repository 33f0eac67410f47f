// The first start: three steps with a sample diary, each works in one click and the page does not come back; recent commands and a backup from the palette.
import { until } from "./lib/page.mjs";

const palette = (page) => page.getByRole("combobox", { name: "Command" });

export default async function (t) {
  await firstStart(t);
  await tryATool(t);
  await goneOnceUsed(t);
  await sampleInsight(t);
  await removeSample(t);
  await buildASkill(t);
  await importConversations(t);
  await recents(t);
  await backUp(t);
}

async function open(page, name) {
  await page.keyboard.press("Control+k");
  await palette(page).fill(name);
  await page.keyboard.press("Enter");
}

async function firstStart({ page, looks }) {
  await page.getByRole("heading", { name: "Welcome to Helix", level: 1 }).waitFor();
  await page.getByText("Helix is a private assistant on your own computer").waitFor();
  for (const name of ["1. Import conversations", "2. Try a tool", "3. See what your memories say", "Build a skill"]) await page.getByRole("heading", { name, level: 3 }).waitFor();
  await looks("first");
}

async function tryATool({ page, rpc, check, looks }) {
  await page.getByRole("button", { name: "Run it" }).click();
  await page.getByText("longestWord").waitFor();
  await looks("tool");
  const { tools } = await rpc("tools.list", {});
  check(tools.length === 1 && page.url().includes(`tools/${tools[0].id}/run`), "the tool that ran is open");
  check((await rpc("tools.usage", {})).entries[0].status === "success", "it has run");
}

/** Another start leads to the first screen; the palette still has the page. */
async function goneOnceUsed({ page, check }) {
  await page.evaluate(() => (location.hash = ""));
  await page.reload();
  await page.getByRole("navigation", { name: "Screens" }).waitFor();
  await until(async () => /#\/\w/.test(page.url()), "an address");
  check(!page.url().includes("welcome"), "the page does not come back");
  await page.evaluate(() => localStorage.removeItem("helix.welcomed")); // another browser
  await page.evaluate(() => (location.hash = ""));
  await page.reload();
  await page.getByRole("navigation", { name: "Screens" }).waitFor();
  await until(async () => /#\/\w/.test(page.url()), "an address");
  check(!page.url().includes("welcome"), "nor in another browser");
  await open(page, "welcome");
  await page.getByRole("heading", { name: "Welcome to Helix", level: 1 }).waitFor();
}

/** The steps follow in the status bar; a sample diary shows an insight with its sentences. */
async function sampleInsight({ page, rpc, check, looks }) {
  await page.getByRole("button", { name: "Add a sample diary" }).click();
  await page.getByRole("button", { name: "Remove the sample diary" }).waitFor();
  await page.getByRole("region", { name: "Import conversations" }).getByRole("img", { name: "Done" }).waitFor();
  const { total } = await rpc("memory.list", { filters: { tagsAny: ["sample-diary"] }, limit: 1 });
  check(total > 90, "the diary is in the memory");
  await looks("steps");
  await page.getByRole("region", { name: "See what your memories say" }).getByRole("button", { name: "Find patterns" }).click();
  await until(async () => /insights\/[0-9a-f-]{36}/.test(page.url()), "an insight is open");
  await page.getByText(/You tend to sound happier when you write about/).first().waitFor();
  await page.getByText(/pottery/i).first().waitFor();
  await looks("insight");
}

/** It is gone with one click, with everything found in it, and returns with Undo. */
async function removeSample({ page, rpc, check }) {
  const diary = async () => (await rpc("memory.list", { filters: { tagsAny: ["sample-diary"] }, limit: 1 })).total;
  const patterns = async () => (await rpc("memory.list_patterns", { limit: 1 })).total;
  const before = await diary();
  await page.getByRole("contentinfo", { name: "Status" }).getByRole("link", { name: "Sample diary" }).click();
  await page.getByRole("button", { name: "Remove the sample diary" }).click();
  const removed = page.getByText(`${before} entries of the sample diary removed`);
  await removed.waitFor();
  check((await diary()) === 0, "no entry is left");
  await until(async () => (await patterns()) === 0, "no insight is left");
  await page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Undo" }).first().click();
  await until(async () => (await diary()) === before, "the entries are back");
  await until(async () => (await patterns()) > 0, "the insights are back");
  await open(page, "remove the sample diary");
  await until(async () => (await diary()) === 0, "it is removed for good");
}

async function buildASkill({ page, rpc, check }) {
  await page.getByRole("button", { name: "Open a skill" }).click();
  await until(async () => /skills\/[^/]+\/edit/.test(page.url()), "the builder is open");
  check((await rpc("skills.list_composite", {})).total === 1, "a skill is there");
}

async function importConversations({ page }) {
  await open(page, "welcome page");
  await page.getByRole("button", { name: "Choose a file…" }).click();
  await page.getByRole("dialog").getByLabel("File or folder on the computer that runs Helix").waitFor();
  await page.keyboard.press("Escape");
}

async function recents({ page, go, looks, check }) {
  await go("activity");
  await page.getByRole("heading", { name: "Activity", level: 1 }).waitFor();
  await open(page, "go to approvals");
  await page.getByRole("heading", { name: "Approvals", level: 1 }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Approvals", level: 1 }).waitFor();
  await page.keyboard.press("Control+k");
  const recent = page.getByRole("group", { name: "Recent" });
  await recent.waitFor();
  await until(async () => (await recent.getByRole("option").allTextContents()).map((x) => x.trim())[0]?.startsWith("Go to Approvals"), "the latest command is first");
  await until(async () => (await page.getByRole("option", { name: /Go to Approvals/ }).count()) === 1, "it is listed once");
  await looks("palette");
  await page.keyboard.press("Escape");
}

async function backUp({ page, rpc, check }) {
  await open(page, "back up now");
  await page.getByRole("region", { name: "Messages" }).getByText(/Backed up/).waitFor();
  check((await rpc("storage.backups", {})).backups.length === 1, "there is a backup");
}
