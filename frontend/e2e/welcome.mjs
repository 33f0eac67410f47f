// The first start: what is offered works in one click, and is gone once it was used; recent commands and a backup from the palette.
import { until } from "./lib/page.mjs";

const palette = (page) => page.getByRole("combobox", { name: "Command" });

export default async function (t) {
  await firstStart(t);
  await tryATool(t);
  await goneOnceUsed(t);
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
  for (const name of ["Try a tool", "Build a skill", "Import conversations"]) await page.getByRole("heading", { name, level: 3 }).waitFor();
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
