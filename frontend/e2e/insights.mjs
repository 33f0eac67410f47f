// The Insights screen: nothing yet, patterns found, evidence, answers with Undo, a second run that
// adds nothing, the map, the analyses, and a schedule.
import { startModel } from "./lib/model.mjs";
import { until } from "./lib/page.mjs";

export default async function (t) {
  await empty(t);
  await find(t);
  await read(t);
  await answer(t);
  await again(t);
  await map(t);
  await people(t);
  await analyses(t);
  await withModel(t);
}

const rows = (page) => page.getByRole("listbox", { name: "Insights" });
const panel = (page) => page.getByRole("complementary", { name: "Pattern" });
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text, { exact: false }).first();

/** Half a year of notes with plans, people and moods in them. */
function notes() {
  const day = (n) => new Date(Date.UTC(2026, 0, 5 + n, 18, (n * 7) % 60)).toISOString();
  const out = [];
  const add = (n, content) => out.push({ content, occurredAt: day(n) });
  for (let i = 0; i < 8; i++) {
    add(i * 9, `Marathon training in the rain, kilometre ${10 + i}: the knee holds and I am happy with the run.`);
    add(i * 9 + 1, `My sister Nora helped me with the move, box number ${i + 1}.`);
    add(i * 9 + 2, `Argued with Ben about the budget again, meeting ${i + 1}; I am sad and angry.`);
    add(i * 9 + 3, `Baked sourdough bread, loaf ${i + 1}, with a crisp crust.`);
  }
  add(80, "I plan to run a marathon in Hamburg in October.");
  add(81, "I am afraid of losing my job at the agency.");
  add(82, "I've always wanted to see the northern lights.");
  return out;
}

async function empty({ page, go, looks, check }) {
  await go("insights");
  await page.getByText("Not enough memories yet: 0 of about 30").waitFor();
  await page.getByRole("button", { name: "Import conversations…" }).click();
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await go("insights");
  check((await page.getByRole("searchbox").count()) === 0, "nothing to search before there is a pattern");
  await looks("empty");
}

async function find({ page, rpc, check, looks }) {
  await rpc("memory.add_batch", { items: notes() });
  await until(async () => (await rpc("memory.embedding_status", {})).queued === 0, "everything is indexed");
  await page.getByText("See what your memories say about you").waitFor();
  await page.getByRole("button", { name: "Find patterns" }).first().click();
  await toast(page, "new pattern").waitFor();
  const list = await rpc("memory.list_patterns", { limit: 100 });
  check(list.total >= 5, `there are ${list.total} patterns`);
  await rows(page).getByRole("option").nth(4).waitFor();
  for (const type of ["goal", "fear", "aspiration"]) check(list.patterns.some((p) => p.type === type), `a ${type} was found`);
  await looks("patterns");
}

async function read({ page, rpc, check, looks }) {
  await rows(page).getByRole("option", { name: /run a marathon in Hamburg/ }).click();
  await panel(page).getByRole("heading", { name: "Plan" }).waitFor();
  await panel(page).getByText("I plan to run a marathon in Hamburg in October.").waitFor();
  await panel(page).getByText("Clarity").waitFor();
  await panel(page).getByText("Stayed on this computer").waitFor();
  await looks("pattern");
  // Enter goes from the row to its evidence, and from there to Memory.
  await rows(page).focus();
  await page.keyboard.press("Enter");
  await until(() => page.evaluate(() => document.activeElement?.textContent?.includes("Open in Memory")), "Enter reaches the evidence");
  await page.keyboard.press("Enter");
  await until(() => page.url().includes("#/memory/list/memory/"), "the evidence opens in Memory");
  await page.getByRole("complementary").getByText("I plan to run a marathon in Hamburg in October.").first().waitFor();
  await page.goBack();
  await panel(page).getByRole("heading", { name: "Plan" }).waitFor();
  const state = panel(page).getByRole("combobox", { name: "State" });
  if ((await state.count()) > 0) {
    await state.click();
    await page.getByRole("option", { name: "Working on it" }).click();
    await until(async () => (await rpc("memory.list_recommendations", { status: "working_on" })).total === 1, "the recommendation is in progress");
  } else check(false, "the plan has a recommendation");
}

async function answer({ page, rpc, check }) {
  const id = page.url().split("/").pop();
  await page.keyboard.press("x");
  await toast(page, "Rejected").waitFor();
  await until(async () => (await rpc("memory.get_pattern", { id })).status === "rejected", "it is rejected");
  await panel(page).getByText("You rejected this.").waitFor();
  await page.getByRole("region", { name: "Messages" }).getByRole("button", { name: /Undo/ }).first().click();
  await until(async () => (await rpc("memory.get_pattern", { id })).status === "active", "Undo takes it back");
  await panel(page).getByRole("button", { name: "That's right" }).click();
  await panel(page).getByText("You confirmed this.").waitFor();
  check((await rpc("memory.get_pattern", { id })).userConfirmed === true, "it is confirmed");
  await panel(page).getByRole("button", { name: "Edit note…" }).click();
  await panel(page).getByRole("textbox", { name: "Note" }).fill("Since the summer");
  await panel(page).getByRole("button", { name: "Save note" }).click();
  await panel(page).getByText("Since the summer").waitFor();
}

async function again({ page, rpc, check }) {
  const before = await rpc("memory.list_patterns", { limit: 1 });
  await page.getByRole("button", { name: "Find patterns" }).first().click();
  await toast(page, "Nothing new found").waitFor();
  const after = await rpc("memory.list_patterns", { limit: 1 });
  check(after.total === before.total, `a second run adds nothing: ${before.total}, then ${after.total}`);
  await page.getByRole("searchbox").fill("northern");
  await until(async () => (await rows(page).getByRole("option").count()) === 1, "the search narrows the list");
  await page.getByRole("searchbox").fill("");
}

async function map({ page, looks, check }) {
  await page.getByRole("tab", { name: "Map" }).click();
  const plane = page.getByRole("application", { name: /Map of 3\d texts/ });
  await plane.waitFor();
  const list = page.getByRole("listbox", { name: "Texts on the map" });
  await list.getByRole("option").first().waitFor();
  const all = Number((await page.getByRole("status").getByText(/^\d+ texts$/).innerText()).split(" ")[0]);
  check(all >= 35, `each text is listed: ${all}`);
  await looks("map");
  // A topic narrows the list by keyboard.
  const topic = page.getByRole("group", { name: "Topics" }).getByRole("button").first();
  await topic.focus();
  await page.keyboard.press("Enter");
  await page.getByText(new RegExp(`^\\d+ of ${all} texts$`)).waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByRole("status").getByText(`${all} texts`, { exact: true }).waitFor();
  // A lasso around the left half does, too.
  const box = await plane.boundingBox();
  const at = (x, y) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(0.01, 0.1));
  await page.mouse.down();
  for (const [x, y] of [[0.5, 0.1], [0.5, 0.99], [0.01, 0.99]]) await page.mouse.move(...at(x, y), { steps: 4 });
  await page.mouse.up();
  await page.getByText(new RegExp(`^\\d+ of ${all} texts$`)).waitFor();
  await looks("map-lasso");
  await plane.focus();
  await page.keyboard.press("Escape");
  await page.getByRole("status").getByText(`${all} texts`, { exact: true }).waitFor();
  await page.keyboard.press("+");
  await page.keyboard.press("0");
  // Enter opens what the arrow keys have reached.
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await until(() => page.url().includes("#/memory/list/memory/"), "the point opens in Memory");
  await page.goBack();
}

/** Merges two people, takes it back, merges again and splits them. */
async function people({ page, rpc, looks, check }) {
  await page.getByRole("tab", { name: "People" }).click();
  const table = page.getByRole("region", { name: "People" });
  const row = (name) => table.getByRole("row").filter({ hasText: name });
  await row("Nora").waitFor();
  const names = async () => (await rpc("memory.list_people", {})).people.map((p) => p.name);
  const merge = async (first) => {
    for (const name of ["Nora", "Ben"]) await table.getByRole("checkbox", { name: `Choose ${name}`, exact: true }).check();
    await page.getByRole("button", { name: "Merge 2…" }).click();
    const dialog = page.getByRole("dialog", { name: "Merge people" });
    await dialog.getByRole("textbox", { name: "Name" }).fill("Nora B.");
    if (first) await looks("people-merge");
    await dialog.getByRole("button", { name: "Merge" }).click();
    await toast(page, "Merged as Nora B.").waitFor();
    await row("Nora B.").waitFor();
  };
  await looks("people");
  await merge(true);
  check(!(await names()).includes("Ben"), "they are one person");
  await page.keyboard.press("Control+z");
  await table.getByRole("checkbox", { name: "Choose Ben", exact: true }).waitFor();
  check((await names()).includes("Ben"), "Undo makes them two again");
  await merge(false);
  await row("Nora B.").getByRole("button", { name: "Split…" }).click();
  const dialog = page.getByRole("dialog", { name: "Split Nora B." });
  await dialog.getByRole("checkbox", { name: "Ben" }).check();
  await dialog.getByRole("button", { name: "Split" }).click();
  await toast(page, "are two people now").waitFor();
  await table.getByRole("checkbox", { name: "Choose Ben", exact: true }).waitFor();
  check((await names()).includes("Ben"), "Ben is somebody else again");

  const choose = async (name, item) => {
    await table.getByRole("button", { name: `More for ${name}` }).click();
    await page.getByRole("menuitem", { name: item }).click();
  };
  await choose("Ben", "Not a person");
  await table.getByRole("button", { name: "Restore Ben as a person" }).waitFor();
  check(!(await names()).includes("Ben"), "Ben is not a person");
  await looks("people-dismissed");
  await table.getByRole("button", { name: "Restore Ben as a person" }).click();
  await table.getByRole("checkbox", { name: "Choose Ben", exact: true }).waitFor();
  await choose("Ben", "Rename…");
  const rename = page.getByRole("dialog", { name: "Rename Ben" });
  await rename.getByRole("textbox", { name: "Name" }).fill("Benjamin");
  await rename.getByRole("button", { name: "Rename" }).click();
  await toast(page, "Renamed to Benjamin").waitFor();
  check((await names()).includes("Benjamin"), "Ben is called Benjamin");
  await page.keyboard.press("Control+z");
  await table.getByRole("checkbox", { name: "Choose Ben", exact: true }).waitFor();
}

async function analyses({ page, rpc, looks, check }) {
  await page.getByRole("tab", { name: "Analyses" }).click();
  const card = page.getByRole("article", { name: "Plans and wishes" });
  await card.getByRole("button", { name: "Run" }).click();
  await card.getByText("Last run:").waitFor();
  check((await rpc("memory.synthesis_history", { type: "prospective_self" })).total === 1, "the analysis ran once");
  await card.getByText("Takes about 1.0 s").waitFor();
  await page.getByRole("cell", { name: "Stayed on this computer" }).first().waitFor();
  await looks("analyses");
  await card.getByRole("button", { name: "Repeat…" }).click();
  await page.getByRole("menuitem", { name: "Sundays at 03:00" }).click();
  await toast(page, "repeats").waitFor();
  const s = await rpc("schedules.list", { kind: "synthesis" });
  await card.getByText(/^Takes about .* · Repeats, next /).waitFor();
  check(s.total === 1 && s.schedules[0].status === "active" && s.schedules[0].target.name === "prospective_self", "there is a schedule");
}

/** An analysis by a language model: none yet, one on this computer, one elsewhere that is not sent. */
async function withModel({ page, go, rpc, looks, check }) {
  const card = page.getByRole("article", { name: "Plans and wishes" });
  const dialog = page.getByRole("dialog", { name: "Plans and wishes, using a language model" });
  const text = dialog.getByLabel("Text to send");
  await card.getByRole("button", { name: "With a model…" }).click();
  await dialog.getByText("Choose a model first").waitFor();
  await looks("no-model");
  await page.keyboard.press("Escape");

  const model = await startModel();
  try {
    await rpc("providers.set", { name: "suite", entry: { type: "openai", baseUrl: model.url } });
    await rpc("providers.set_role", { role: "synthesis", chain: ["suite/one"] });
    await card.getByRole("button", { name: "With a model…" }).click();
    await dialog.getByRole("combobox", { name: "Texts from" }).click();
    await page.getByRole("option", { name: "all time" }).click();
    await dialog.getByRole("status").getByText("on this computer").waitFor();
    await text.getByText("northern lights").waitFor();
    const id = /"id":"(t\d+)"[^\n]*northern lights/.exec(await text.innerText())[1];
    await dialog.getByLabel("Names to hide").fill("Nora, Ben");
    await dialog.getByLabel("Names to hide").press("Tab");
    await text.getByText(/My sister \[name \d\] helped/).first().waitFor();
    check(!(await text.innerText()).includes("Nora"), "a hidden name is in the text");
    await looks("model");
    const answer = (quote) => JSON.stringify({ patterns: [{ type: "aspiration", layer: 4, description: "You wish to see an aurora.", subjects: ["Aurora"], confidence: 0.9, evidence: [{ id, quote }], recommendations: [] }] });
    model.say(answer("words that nobody wrote"));
    await dialog.getByRole("button", { name: "Find patterns" }).click();
    const newest = async () => (await rpc("memory.synthesis_history", {})).jobs[0];
    await until(async () => (await newest()).engine === "llm" && (await newest()).completedAt, "the analysis has ended");
    check(model.requests.length === 1 && !JSON.stringify(model.requests[0]).includes("Nora"), "the model got what was shown");
    check((await newest()).insights.warnings?.length === 1, "a made-up quote is rejected with its reason");

    await rpc("providers.set", { name: "far", apiKey: "suite-key-0123456789", entry: { type: "openai", baseUrl: "https://models.example.com", skipCatalogValidation: true } });
    await rpc("providers.set_role", { role: "synthesis", chain: ["far/one"] });
    await card.getByRole("button", { name: "With a model…" }).click();
    await dialog.getByText("this computer and go to far/one").waitFor();
    await dialog.getByRole("button", { name: "Send this text" }).waitFor();
    await looks("model-elsewhere");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    check((await rpc("memory.synthesis_history", {})).jobs[0].engine === "llm" && model.requests.length === 1, "nothing was sent");

    // What starts without a person asks in Approvals.
    await rpc("memory.synthesize", { synthesisType: "prospective_self", engine: "llm", hideNames: ["Nora"], waitMs: 10_000 });
    await go("approvals");
    await page.getByRole("option", { name: /Search for patterns/ }).click();
    await page.getByText("Send 35 conversations to far/one at models.example.com?").first().waitFor();
    await looks("approval");
    await page.getByRole("button", { name: "Don't send" }).click();
    await until(async () => (await rpc("approvals.list", {})).approvals.length === 0, "the question is answered");
  } finally {
    model.stop();
  }
}
