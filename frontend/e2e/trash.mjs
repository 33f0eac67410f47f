// The trash: one of each kind is deleted, found, restored and deleted permanently, by pointer and by keyboard.
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { until } from "./lib/page.mjs";

const echo = fileURLToPath(new URL("../../backend/tools/testdata/wasm/echo.wasm", import.meta.url));

export default async function (t) {
  await empty(t);
  await deleteOneOfEach(t);
  await filter(t);
  await restoreOne(t);
  await restoreSelected(t);
  await purge(t);
  await emptyAll(t);
}

const rows = (page) => page.getByRole("listbox", { name: "Trash" });
const row = (page, name) => rows(page).getByRole("option", { name });
const panel = (page) => page.getByRole("complementary", { name: "Deleted item" });
const dialog = (page) => page.getByRole("dialog");
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text);
const count = async (rpc, p = {}) => (await rpc("trash.list", p)).total;

async function empty({ page, go, looks }) {
  await go("trash");
  await page.getByText("The trash is empty").waitFor();
  await looks("empty");
}

/** Makes one item of each kind and deletes it; the list follows without a reload. */
async function deleteOneOfEach({ page, helix, rpc, check, looks }) {
  const { tool } = await rpc("tools.create", { name: "Word counter", description: "Counts the words of a text", code: "export default () => 1" });
  const { skill: wasm } = await rpc("skills.create_wasm", { name: "Echo module", wasm: (await readFile(echo)).toString("base64"), origin: "import" });
  const skill = await rpc("skills.create_composite", { skill: { name: "Morning digest", description: "Collects what happened", steps: [{ stepId: "a", toolType: "transform", value: 1 }] } });
  const schedule = await rpc("schedules.create", { name: "Every morning", target: { kind: "skill", id: skill.skillId }, cadence: { type: "interval", everySecs: 86400 } });
  const { item: memory } = await rpc("memory.add", { content: "The spare key is with Nora." });
  const { documentId } = await rpc("memory.upsert_chunks", { source: { uri: "note:tides", title: "Tides" }, text: "The tide comes in twice a day." });
  const { session } = await rpc("chat.create", { title: "Plans for the garden" });
  await rpc("schedules.delete", { scheduleId: schedule.scheduleId });
  await rpc("skills.delete_composite", { skillId: skill.skillId });
  await rpc("tools.delete", { toolId: tool.id });
  await rpc("skills.delete_wasm", { skillId: wasm.id });
  await rpc("memory.delete", { ids: [memory.id] });
  await rpc("memory.delete_document", { documentId });
  await helix.cli("rpc", "chat.delete", JSON.stringify({ sessionId: session.id }));
  for (const name of [/Word counter/, /Echo module/, /Morning digest/, /Every morning/, /spare key/, /Tides/, /Plans for the garden/]) await row(page, name).waitFor();
  check((await rows(page).getByRole("option").count()) === 7, "each is listed once");
  await row(page, /Plans for the garden/).getByText("you, in a terminal").waitFor();
  await looks("full");
}

async function filter({ page, go, looks }) {
  await page.getByRole("searchbox", { name: "Search the trash" }).fill("words of a");
  await until(async () => (await rows(page).getByRole("option").count()) === 1, "the description is searched too");
  await page.getByRole("searchbox", { name: "Search the trash" }).fill("nothing like it");
  await page.getByText("No matching items").waitFor();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await go("trash/memory");
  await row(page, /Tides/).waitFor();
  await until(async () => (await rows(page).getByRole("option").count()) === 2, "memories and documents alone");
  await looks("filtered");
  await page.getByRole("button", { name: /memories…/ }).waitFor();
  await page.getByRole("combobox", { name: /^Show/ }).click();
  await page.getByRole("option", { name: "everything" }).click();
}

/** Restoring asks for no name: one that was taken meanwhile gets a number. */
async function restoreOne({ page, rpc, check, looks }) {
  await rpc("tools.create", { name: "Word counter", code: "export default () => 2" });
  await row(page, /Word counter/).click();
  await panel(page).getByText("Counts the words of a text").waitFor();
  await panel(page).getByText("Kept until").waitFor();
  await looks("item");
  await panel(page).getByRole("button", { name: "Restore" }).click();
  await toast(page, "Restored “Word counter”").waitFor();
  await row(page, /Word counter/).waitFor({ state: "detached" });
  const names = (await rpc("tools.list", {})).tools.map((x) => x.name).sort();
  check(names.join() === "Word counter,Word counter 2", `the name is free: ${names}`);
  await page.keyboard.press("Control+z");
  await row(page, /Word counter 2/).waitFor();
}

/** Several are selected with X and restored together. */
async function restoreSelected({ page, rpc, looks }) {
  for (const name of [/Morning digest/, /Every morning/]) {
    await row(page, name).click();
    await page.keyboard.press("x");
  }
  await page.getByText("2 selected").waitFor();
  await looks("selected");
  await page.getByRole("button", { name: "Restore 2" }).click();
  await toast(page, "Restored 2 items").waitFor();
  await until(async () => (await rpc("skills.list_composite", {})).total === 1, "the skill is back");
}

async function purge({ page, rpc, check, looks }) {
  await row(page, /spare key/).click();
  await page.keyboard.press("Delete");
  await dialog(page).getByText("It can't be restored after this.").waitFor();
  await dialog(page).getByRole("button", { name: "Keep" }).click();
  check((await count(rpc, { kinds: ["memory"] })) === 1, "it is kept");
  await page.keyboard.press("Delete");
  await looks("purge");
  await dialog(page).getByRole("button", { name: "Delete permanently" }).click();
  await toast(page, "Deleted 1 item permanently").waitFor();
  await row(page, /spare key/).waitFor({ state: "detached" });
  check((await count(rpc, { kinds: ["memory"] })) === 0, "it is gone");
}

async function emptyAll({ page, rpc, check, looks }) {
  await page.getByRole("button", { name: "Empty trash…" }).click();
  await dialog(page).getByText(/1 tool, 1 WASM tool, 1 document,? and 1 chat can't be restored/).waitFor();
  await looks("empty-confirm");
  await dialog(page).getByRole("button", { name: "Delete permanently" }).click();
  await page.getByText("The trash is empty").waitFor();
  check((await count(rpc)) === 0, "nothing is left");
  check((await rpc("skills.list_composite", {})).total === 1, "what is not in the trash stays");
}
