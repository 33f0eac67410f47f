// The Psychology screen: empty layers, an entry by form, its forecast, pin with Undo, trust, what
// fades, a proposal, the soul over a reload, settings.
import { until } from "./lib/page.mjs";

export default async function (t) {
  await overview(t);
  await entry(t);
  await forecast(t);
  await people(t);
  await emotions(t);
  await fading(t);
  await proposal(t);
  await soul(t);
  await settings(t);
}

const panel = (page) => page.getByRole("complementary", { name: "Details" });
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text, { exact: false }).first();
const undo = (page) => page.getByRole("region", { name: "Messages" }).getByRole("button", { name: /Undo/ }).first();

async function overview({ page, go, looks, check }) {
  await go("psychology");
  await page.getByRole("heading", { name: "Psychology" }).waitFor();
  const rows = page.getByRole("region", { name: "Overview" }).getByRole("row");
  await rows.nth(7).waitFor();
  check((await rows.count()) === 8, "seven layers and a head");
  check((await page.getByText("empty or off").count()) === 7, "no layer has an entry that nobody made");
  await page.getByText("No proposals.").waitFor();
  await looks("overview");
}

async function entry({ page, rpc, looks, check }) {
  await page.keyboard.press("4");
  await page.getByText("No entries yet").waitFor();
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog", { name: "New: Goal" });
  await dialog.getByRole("button", { name: "Save" }).waitFor();
  await dialog.getByLabel("Title *").fill("Run a marathon");
  await dialog.getByLabel("Target date").fill("2020-10-04");
  await dialog.getByLabel("Progress").fill("2");
  await dialog.getByText("0 to 1").first().waitFor();
  await dialog.getByLabel("Progress").fill("0.4");
  await looks("form");
  await dialog.getByRole("button", { name: "Save" }).click();
  await panel(page).getByRole("heading", { name: "Run a marathon" }).waitFor();
  const all = await rpc("psychology.get_layer", { layerNumber: 4 });
  check(all.entries.length === 1 && all.entries[0].data.progress === 0.4, "the entry is stored");
  await page.getByRole("tab", { name: "Goals" }).click();
  await page.getByText("past due").waitFor();
  await page.getByRole("button", { name: /Goal: Run a marathon/ }).click();
  await panel(page).getByRole("heading", { name: "Run a marathon" }).waitFor();
  await looks("goal");
}

async function forecast({ page, rpc, check }) {
  const id = page.url().split("/").pop();
  await panel(page).getByRole("img", { name: /Forecast of Run a marathon/ }).waitFor();
  await panel(page).getByRole("listitem").filter({ hasText: /^Below 0.30 on/ }).waitFor();
  // What is only tried out is not stored.
  await panel(page).getByRole("button", { name: "Pin" }).last().click();
  await panel(page).getByText("It doesn't fall below 0.7 within 90 days.").waitFor();
  check((await rpc("psychology.get_layer", { layerNumber: 4 })).entries[0].pinned === false, "trying out changes nothing");
  await panel(page).getByRole("button", { name: "Apply" }).click();
  await until(async () => (await rpc("psychology.get_layer", { layerNumber: 4 })).entries[0].pinned, "it is pinned");
  await undo(page).click();
  await until(async () => !(await rpc("psychology.get_layer", { layerNumber: 4 })).entries[0].pinned, "Undo takes the pin back");
  await panel(page).getByText("Revisited today").waitFor();
  await page.keyboard.press("p");
  await until(async () => (await rpc("psychology.get_layer", { layerNumber: 4 })).entries[0].pinned, "the key P pins");
  await page.reload();
  await panel(page).getByRole("button", { name: "Unpin" }).first().waitFor();
  check(page.url().endsWith(id), "the address keeps the place");
}

async function people({ page, rpc, looks }) {
  const ada = await rpc("psychology.upsert_entry", { layerNumber: 3, kind: "person", data: { name: "Ada", relationship: "sister" } });
  await rpc("psychology.upsert_entry", { layerNumber: 3, kind: "person", data: { name: "Ben" } });
  await page.getByRole("tab", { name: "People" }).click();
  await page.getByRole("img", { name: /Map of 2 people/ }).waitFor();
  await page.getByRole("button", { name: /Person: Ada/ }).click();
  await panel(page).getByText("Needs 10 more interactions for: early trust").waitFor();
  await panel(page).getByRole("button", { name: "Record what happened…" }).click();
  await panel(page).getByRole("textbox", { name: "Note" }).fill("Helped me move");
  await panel(page).getByRole("button", { name: "Save" }).click();
  await panel(page).getByText("Helped me move").waitFor();
  await panel(page).getByText("Needs 9 more interactions for: early trust").waitFor();
  await until(async () => (await rpc("psychology.trust_map", { personId: ada.id })).interactions.length === 1, "it is recorded");
  await looks("people");
}

async function emotions({ page, rpc, looks }) {
  for (const [emotion, valence, arousal] of [["calm", 0.6, 0.2], ["dread", -0.7, 0.8]]) await rpc("psychology.upsert_entry", { layerNumber: 2, kind: "emotion", data: { emotion, valence, arousal, intensity: 0.7 } });
  await page.getByRole("tab", { name: "Emotions" }).click();
  await page.getByRole("img", { name: /Map of 2 emotions/ }).waitFor();
  await page.getByRole("button", { name: /Emotion: dread/ }).waitFor();
  await looks("emotions");
}

async function fading({ page, rpc, looks, check }) {
  await page.keyboard.press("f");
  const calm = page.getByRole("listitem").filter({ hasText: "calm" });
  await calm.waitFor();
  await calm.getByText(/halve in about 5 days/).waitFor();
  await looks("fading");
  await calm.getByRole("button", { name: "Let go" }).click();
  await calm.waitFor({ state: "detached" });
  await undo(page).click();
  await calm.waitFor();
  await calm.getByRole("button", { name: "Keep" }).click();
  await toast(page, "Kept").waitFor();
  check((await rpc("psychology.get_layer", { layerNumber: 2 })).entries.find((e) => e.data.emotion === "calm").reinforcementCount === 1, "it is reinforced");
}

async function proposal({ page, rpc, check, looks }) {
  const notes = Array.from({ length: 30 }, (_, i) => ({ content: `Watered the tomatoes, bed ${i + 1}, and swept the yard.` }));
  await rpc("memory.add_batch", { items: [...notes, { content: "I plan to learn the cello next year." }] });
  await until(async () => (await rpc("memory.embedding_status", {})).queued === 0, "everything is indexed");
  await rpc("memory.synthesize", { synthesisType: "full_synthesis", limit: 100, waitMs: 10000 });
  await page.getByRole("tab", { name: "Overview" }).click();
  const row = page.getByRole("listitem").filter({ hasText: "cello" });
  await row.waitFor();
  await looks("proposal");
  await row.getByRole("button", { name: "Accept" }).click();
  await row.waitFor({ state: "detached" });
  const goal = (await rpc("psychology.get_layer", { layerNumber: 4 })).entries.find((e) => e.origin === "synthesis");
  check(goal && goal.memoryIds.length === 1, "the proposal is an entry with its evidence");
}

async function soul({ page, rpc, looks, check }) {
  await page.getByRole("tab", { name: "Soul" }).click();
  const text = page.getByRole("textbox", { name: "Soul" });
  await text.fill("# Me\n\nBe brief.");
  await page.getByText("Not saved yet").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: /Version 1/ }).waitFor();
  await page.reload();
  await text.waitFor();
  check((await text.inputValue()) === "# Me\n\nBe brief.", "the soul is still there");
  check((await rpc("psychology.get_soul", {})).version === 1, "it is the first version");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("Be brief.").waitFor();
  await looks("soul");
}

async function settings({ page, rpc, looks }) {
  await page.getByRole("tab", { name: "Settings" }).click();
  await page.getByRole("img", { name: /Forecast of How a memory/ }).waitFor();
  await page.getByRole("switch", { name: "Let trust fade" }).click();
  await until(async () => (await rpc("psychology.get_settings", {})).trustDecay, "the setting is stored");
  await looks("settings");
  await page.getByRole("button", { name: "Delete all entries…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await until(async () => (await rpc("psychology.overview", {})).layers.every((l) => l.entries === 0), "all entries are in the trash");
  await undo(page).click();
  await until(async () => (await rpc("psychology.overview", {})).layers.some((l) => l.entries > 0), "Undo brings them back");
}
