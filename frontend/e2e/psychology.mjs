// The Psychology screen: empty layers, an entry by form, its forecast with planned reviews, pin with Undo,
// a date moved by keys and by dragging, trust, emotions with lasso, slider and quarters, changes, the
// circles of purpose, what fades, a proposal, the soul over a reload, settings.
import { until } from "./lib/page.mjs";

export default async function (t) {
  await overview(t);
  await entry(t);
  await forecast(t);
  await lanes(t);
  await people(t);
  await emotions(t);
  await changes(t);
  await stories(t);
  await purpose(t);
  await fading(t);
  await proposal(t);
  await soul(t);
  await settings(t);
}

const panel = (page) => page.getByRole("complementary", { name: "Details" });
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text, { exact: false }).first();
const undo = (page, text = "") => page.getByRole("region", { name: "Messages" }).getByRole("status").filter({ hasText: text }).getByRole("button", { name: /Undo/ }).last();

async function overview({ page, go, looks, check }) {
  await go("psychology");
  await page.getByRole("heading", { name: "Psychology" }).waitFor();
  const rows = page.getByRole("region", { name: "Overview" }).getByRole("row");
  await rows.nth(7).waitFor();
  check((await rows.count()) === 8, "seven layers and a head");
  check((await page.getByText("empty", { exact: true }).count()) === 7, "no layer has an entry that nobody made");
  await page.getByText("No proposals").waitFor();
  await looks("overview");
}

async function entry({ page, rpc, looks, check }) {
  await page.keyboard.press("4");
  await page.getByText("No goals, hopes or fears yet").waitFor();
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog", { name: "New: Goal" });
  await dialog.getByRole("button", { name: "Save" }).waitFor();
  await dialog.getByLabel("Title *").fill("Run a marathon");
  await dialog.getByLabel("Target date").fill("2020-10-04");
  await dialog.getByLabel("Progress").fill("200");
  await dialog.getByText("Enter a number from 0 to 100.").first().waitFor();
  await dialog.getByLabel("Progress").fill("40");
  await dialog.getByRole("button", { name: "Add milestone" }).click();
  await dialog.getByRole("group", { name: "Milestones" }).getByRole("textbox", { name: "Title" }).fill("Half marathon");
  await dialog.getByLabel("Date of Half marathon").fill("2020-05-01");
  await looks("form");
  await dialog.getByRole("button", { name: "Save" }).click();
  await panel(page).getByRole("heading", { name: "Run a marathon" }).waitFor();
  const all = await rpc("psychology.get_layer", { layerNumber: 4 });
  check(all.entries.length === 1 && all.entries[0].data.progress === 0.4, "the entry is stored");
  const [stone] = all.entries[0].data.milestones;
  check(stone.title === "Half marathon" && stone.date === "2020-05-01", "with its milestone");
  await page.locator(".stone").waitFor();
  await page.getByText("past due", { exact: true }).waitFor();
  await looks("goal");
}

async function forecast({ page, rpc, looks, check }) {
  const id = page.url().split("/").pop();
  const curve = panel(page).getByRole("application", { name: /Forecast for “Run a marathon/ });
  await curve.waitFor();
  await panel(page).getByRole("listitem").filter({ hasText: /^Below 0.30 on/ }).waitFor();
  // A planned review is a mark and a later curve, and nothing is stored.
  const before = await curve.getAttribute("aria-label");
  const later = new Date(Date.now() + 80 * 86_400_000).toISOString().slice(0, 10);
  await panel(page).getByLabel("Review on").fill(later);
  await panel(page).getByRole("group", { name: "Planned reviews" }).getByRole("button").waitFor();
  await until(async () => (await curve.getAttribute("aria-label")) !== before, "the review lifts the curve");
  await panel(page).locator("svg .mark").waitFor({ state: "attached" });
  check((await rpc("psychology.get_layer", { layerNumber: 4 })).entries[0].reinforcementCount === 0, "a planned review stores nothing");
  await looks("forecast");
  const plans = async () => (await rpc("psychology.forecast", { id })).plannedReviews ?? [];
  check((await plans()).length === 0, "the review is only tried out");
  await panel(page).getByRole("button", { name: "Apply" }).click();
  await until(async () => (await plans()).length === 1, "the review is planned");
  await undo(page, "review planned").waitFor(); // the page has been told too
  await page.keyboard.press("Control+z");
  await until(async () => (await plans()).length === 0, "Undo takes the plan back");
  await until(async () => (await curve.getAttribute("aria-label")) === before, "without it the curve is as it was");
  // The values can be read by keys and as a table.
  await curve.focus();
  await page.keyboard.press("Home");
  await panel(page).getByText(/: 1$/).first().waitFor({ state: "attached" });
  await panel(page).getByText("Show as table").click();
  await until(async () => (await panel(page).getByRole("row").count()) === 240, "the table has all values");
  // What is only tried out is not stored.
  await panel(page).getByRole("button", { name: "Pin" }).last().click();
  await panel(page).getByText("It won't fall below 0.7 in the next 90 days.").waitFor();
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

/** Moves the date of a goal by keys and by dragging. */
async function lanes({ page, rpc, looks, check }) {
  await rpc("psychology.upsert_entry", { layerNumber: 4, kind: "hope", data: { title: "See the northern lights", targetDate: "2030-02-01", milestones: [{ title: "Save up", date: "2029-02-01", done: true }] } });
  await page.keyboard.press("Escape");
  const timeline = page.getByRole("group", { name: /Timeline of 2 hopes, goals and fears/ });
  const goal = timeline.getByRole("button", { name: /Goal: Run a marathon/ });
  await goal.waitFor();
  await looks("goals");
  const due = async () => (await rpc("psychology.get_layer", { layerNumber: 4 })).entries.find((e) => e.kind === "goal").data.targetDate;
  await goal.focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Shift+ArrowRight");
  check((await due()) === "2020-10-04", "nothing is stored before Enter");
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await until(async () => (await due()) === "2020-10-05", "Enter stores the day");
  await undo(page).click();
  await until(async () => (await due()) === "2020-10-04", "Undo takes the date back");
  await timeline.getByRole("button", { name: /Goal: Run a marathon, 4 Oct 2020|Goal: Run a marathon, Oct 4, 2020/ }).waitFor();
  const box = await goal.boundingBox();
  await page.mouse.move(box.x + 8, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + 120, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
  await until(async () => (await due()) > "2020-12-01", "dragging moves the date");
  check((await rpc("psychology.get_layer", { layerNumber: 4 })).entries.find((e) => e.kind === "goal").data.progress === 0.4, "the rest of the goal is as it was");
}

async function people({ page, rpc, looks }) {
  const ada = await rpc("psychology.upsert_entry", { layerNumber: 3, kind: "person", data: { name: "Ada", relationship: "sister" } });
  await rpc("psychology.upsert_entry", { layerNumber: 3, kind: "person", data: { name: "Ben" } });
  await page.keyboard.press("3");
  await page.getByRole("img", { name: /Map of 2 people/ }).waitFor();
  await page.getByRole("button", { name: /Person: Ada/ }).click();
  await panel(page).getByText("Needs 10 more interactions and 0.05 more trust for: early trust").waitFor();
  await panel(page).getByRole("button", { name: "Record what happened…" }).click();
  await panel(page).getByRole("textbox", { name: "Note" }).fill("Helped me move");
  await panel(page).getByRole("button", { name: "Save" }).click();
  await panel(page).getByText("Helped me move").waitFor();
  await panel(page).getByText(/^Needs 9 more interactions and 0.0\d more trust for: early trust$/).waitFor();
  await until(async () => (await rpc("psychology.trust_map", { personId: ada.id })).interactions.length === 1, "it is recorded");
  await looks("people");
}

async function emotions({ page, rpc, looks, check }) {
  for (const [emotion, valence, arousal, lastFelt] of [["calm", 0.6, 0.2, "2026-01-10"], ["dread", -0.7, 0.8, "2026-03-01"], ["pride", 0.8, 0.7, "2026-05-20"]]) await rpc("psychology.upsert_entry", { layerNumber: 2, kind: "emotion", data: { emotion, valence, arousal, intensity: 0.7, lastFelt } });
  await page.keyboard.press("Escape");
  await page.keyboard.press("2");
  const map = page.getByRole("application", { name: /Map of 3 emotions/ });
  await map.waitFor();
  const row = (name) => page.getByRole("button", { name: new RegExp(`Emotion: ${name}`) });
  await row("dread").waitFor();
  await looks("emotions");
  // A lasso around the right half leaves two of the list, Escape lists all again.
  const box = await map.boundingBox();
  const at = (x, y) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(0.55, 0.02));
  await page.mouse.down();
  for (const [x, y] of [[0.99, 0.02], [0.99, 0.98], [0.55, 0.98]]) await page.mouse.move(...at(x, y), { steps: 4 });
  await page.mouse.up();
  await row("dread").waitFor({ state: "detached" });
  await page.getByText("2 of 3 entries").waitFor();
  await looks("lasso");
  await map.focus();
  await page.keyboard.press("Escape");
  await row("dread").waitFor();
  // Quarters do the same by keyboard.
  await page.getByRole("button", { name: "Pleasant, calm", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByText("1 of 3 entries").waitFor();
  await row("calm").waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  // The slider narrows by time.
  await page.getByRole("slider", { name: "From" }).focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press("PageUp");
  await row("calm").waitFor({ state: "detached" });
  await page.getByRole("slider", { name: "To" }).focus();
  await page.keyboard.press("PageDown");
  await row("pride").waitFor({ state: "detached" });
  await page.getByRole("application", { name: /Map of 1 emotion/ }).waitFor();
  await page.getByRole("slider", { name: "To" }).press("End");
  await page.getByRole("slider", { name: "From" }).press("Home");
  // Arrow keys reach the points.
  await map.focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await panel(page).waitFor();
  check(page.url().includes("psychology/layers/2/"), "Enter opens the point");
}

async function changes({ page, rpc, looks, check }) {
  await page.keyboard.press("Escape");
  await page.keyboard.press("6");
  await page.getByText("No changes yet").waitFor();
  await rpc("psychology.upsert_entry", { layerNumber: 6, kind: "transformation", data: { title: "From banker to teacher", phase: "change", impact: "major", startedAt: "2025-02-01", before: "A job that bored me", after: "Teaching dance" } });
  await rpc("psychology.upsert_entry", { layerNumber: 6, kind: "transformation", data: { title: "Living openly", phase: "refreeze", impact: "minor", startedAt: "2024-01-01", endedAt: "2025-06-01" } });
  await rpc("psychology.upsert_entry", { layerNumber: 6, kind: "transformation", data: { title: "Resting" } });
  const band = page.getByRole("button", { name: /From banker to teacher, Changing, major, since Feb 2025/ });
  await band.waitFor();
  await band.getByText("A job that bored me → Teaching dance").waitFor();
  check((await page.locator(".band").count()) === 2, "a change without a date has no band");
  await looks("changes");
  await band.focus();
  await page.keyboard.press("Enter");
  await panel(page).getByRole("heading", { name: "From banker to teacher" }).waitFor();
  await page.keyboard.press("Escape");
}

/** A story of the first layer stands in its time, too. */
async function stories({ page, rpc, looks }) {
  await rpc("psychology.upsert_entry", { layerNumber: 1, kind: "narrative", data: { title: "Finding my people", summary: "From hiding to helping", period: { start: "2024-06-01", end: "2026-03-10" } } });
  await page.keyboard.press("1");
  await page.getByRole("button", { name: /Finding my people, Story, Jun 2024 – Mar 2026/ }).waitFor();
  await looks("stories");
}

async function purpose({ page, rpc, looks, check }) {
  await page.keyboard.press("7");
  const circles = page.getByRole("group", { name: /Four circles with 0 entries/ });
  await circles.waitFor();
  await looks("purpose-empty");
  const now = page.getByRole("group", { name: /Four circles with/ });
  for (const [circle, text] of [["What I love", "Teaching"], ["What I'm good at", "Teaching"], ["What pays", "Bank work"]]) {
    await now.getByRole("button", { name: `Add to: ${circle}` }).click();
    await now.getByRole("textbox", { name: circle }).fill(text);
    await page.keyboard.press("Enter");
    await now.getByRole("textbox").waitFor({ state: "detached" });
  }
  // What is in two circles stands where they overlap.
  await now.getByRole("button", { name: "Passion: Teaching" }).waitFor();
  await now.getByRole("button", { name: "What pays: Bank work" }).waitFor();
  check((await rpc("psychology.get_layer", { layerNumber: 7 })).entries.length === 3, "three entries are stored");
  await rpc("psychology.upsert_entry", { layerNumber: 7, kind: "meaning_source", data: { text: "Being a parent", strength: 0.9 } });
  for (const [score, at] of [[0.4, "2026-01-01"], [0.6, "2026-02-01"], [0.7, "2026-03-01"]]) await rpc("psychology.upsert_entry", { layerNumber: 7, kind: "wellness", data: { dimension: "Sleep", score, at } });
  await page.getByRole("application", { name: /Wellness over time in 1 dimension/ }).waitFor();
  await page.getByRole("heading", { name: "Sources of meaning" }).click(); // no tooltip stays open
  await looks("purpose");
  await now.getByRole("button", { name: "Passion: Teaching" }).click();
  await panel(page).getByRole("heading", { name: "Teaching" }).waitFor();
  await page.keyboard.press("Escape");
}

async function fading({ page, rpc, looks, check }) {
  await page.keyboard.press("f");
  const calm = page.getByRole("listitem").filter({ hasText: "calm" });
  await calm.waitFor();
  await calm.getByText(/halves in about 5 days/).waitFor();
  await looks("fading");
  await calm.getByRole("button", { name: "Let go" }).click();
  await calm.waitFor({ state: "detached" });
  await undo(page, "Moved to the trash").click();
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
  await page.getByRole("button", { name: "What would change?" }).click();
  await page.getByText(/^\d+ of \d+ items would change/).waitFor();
  await page.getByRole("button", { name: "Show proposals" }).click();
  const row = page.getByRole("listitem").filter({ hasText: "cello" });
  await row.waitFor();
  await row.getByText("I plan to learn the cello next year.").waitFor();
  await page.getByRole("combobox", { name: "Sort" }).click();
  await page.getByRole("option", { name: "last seen" }).click();
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
  await page.getByRole("application", { name: /Forecast for “How a layer 1 memory/ }).waitFor();
  await page.getByRole("checkbox", { name: "6 Transformation" }).click();
  await until(async () => (await rpc("psychology.get_settings", {})).layers["6"] === false, "the layer does not fade any more");
  await page.getByRole("switch", { name: "Let trust fade" }).click();
  await until(async () => (await rpc("psychology.get_settings", {})).trustDecay, "the setting is stored");
  await looks("settings");
  await page.getByRole("button", { name: "Delete all entries…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await until(async () => (await rpc("psychology.overview", {})).layers.every((l) => l.entries === 0), "all entries are in the trash");
  await undo(page, "Moved to the trash").click();
  await until(async () => (await rpc("psychology.overview", {})).layers.some((l) => l.entries > 0), "Undo brings them back");
}
