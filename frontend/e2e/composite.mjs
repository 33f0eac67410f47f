// The Skills screen: a skill of real tools, run with input, watched live, approved, restarted
// from a step, replayed and rehearsed; a run that waits and is canceled; a crash in the middle
// of an effect; versions compared and rolled back; the history; a file out and in; deleted,
// brought back, deleted for good.
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { armed, until } from "./lib/page.mjs";

const TOOLS = {
  "Split words": ["export default async (p: { text: string }) => p.text.split(' ').filter(Boolean)", { type: "object", required: ["text"], properties: { text: { type: "string" } } }],
  Shout: ["export default async (p: { word: string }) => { if (p.word === 'bad') throw new Error('this word is not shouted'); return p.word.toUpperCase() + '!'; }", { type: "object", required: ["word"], properties: { word: { type: "string" } } }],
  Flaky: ["export default async () => { throw new Error('nobody answers'); }", { type: "object" }],
};

const DIGEST = (ids) => ({
  name: "Word digest",
  description: "Splits a text, shouts each word, and sends it when you agree.",
  tags: ["text"],
  inputSchema: {
    type: "object",
    required: ["text"],
    properties: { text: { type: "string", title: "Text", description: "What is shouted" }, quiet: { type: "boolean", title: "Quiet" } },
  },
  outputMapping: { words: "$.each", note: "$.ask.data.note" },
  steps: [
    { stepId: "split", toolType: "custom", toolId: ids["Split words"], inputMapping: { text: "$.input.text" } },
    { stepId: "each", toolType: "map", items: "$.split", concurrency: 2, onItemError: "skip", steps: [{ stepId: "shout", toolType: "custom", toolId: ids.Shout, inputMapping: { word: "$.item" } }] },
    { stepId: "flaky", toolType: "custom", toolId: ids.Flaky, errorHandling: "retry", maxRetries: 1, onExhausted: "continue", description: "Fails, so that there is something to try again." },
    {
      stepId: "tone",
      toolType: "branch",
      cases: [{ when: "$.input.quiet == true", steps: [{ stepId: "softly", toolType: "transform", value: "quiet" }] }],
      else: [{ stepId: "loudly", toolType: "transform", value: { $concat: ["loud, ", "$.each[0]"] } }],
    },
    {
      stepId: "ask",
      toolType: "approval",
      title: "Send the digest?",
      message: { $concat: ["It begins with ", "$.each[0]"] },
      show: ["$.each"],
      form: { type: "object", required: ["note"], properties: { note: { type: "string", title: "Note" } } },
    },
    { stepId: "time", toolType: "builtin", toolName: "time.now" },
  ],
});

export default async function (t) {
  const ids = {};
  await empty(t);
  for (const [name, [code, parameters]] of Object.entries(TOOLS)) ids[name] = (await t.rpc("tools.create", { name, code, parameters, language: "typescript" })).tool.id;
  await list(t, ids);
  await first(t);
  await steps(t);
  await restart(t);
  await dry(t);
  await canceled(t);
  await failed(t, ids);
  await permission(t);
  await crash(t);
  await versions(t);
  await history(t);
  await many(t, ids);
  await sharing(t);
  await remove(t);
}

const inspector = (page) => page.getByRole("complementary", { name: "Skill" });
const sheet = (page) => page.getByRole("dialog");
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text, { exact: false }).first();
const skills = (page) => page.getByRole("listbox", { name: "Skills" });
const timeline = (page) => inspector(page).getByRole("tree", { name: "Steps of the run" });
const row = (page, name) => timeline(page).getByRole("treeitem", { name });
const state = (page, word) => inspector(page).getByRole("status").getByText(word, { exact: true });
const tab = async (page, name) => inspector(page).getByRole("tab", { name }).click();
const choose = async (page, name) => skills(page).getByRole("option", { name }).click();
const title = (page) => page.getByRole("heading", { name: "Skills", level: 1 }).click();

async function empty({ page, go, looks, check }) {
  await go("skills");
  await page.getByText("Chain your tools into one action").waitFor();
  check((await page.getByRole("searchbox").count()) === 0, "nothing to search in an empty list");
  await looks("empty");
  await page.getByRole("button", { name: "Templates" }).click();
  await sheet(page).getByRole("button", { name: /^Use/ }).nth(5).waitFor();
  await looks("templates");
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
}

async function list({ page, rpc, looks, check }, ids) {
  const digest = await rpc("skills.create_composite", { skill: DIGEST(ids) });
  check(digest.valid && digest.isEnabled, "the skill is valid");
  await skills(page).getByRole("option", { name: /Word digest/ }).waitFor();
  const cadence = { type: "cron", expression: "0 7 * * *", timezone: "UTC" };
  await rpc("schedules.create", { name: "Each morning", target: { kind: "skill", id: digest.skillId, input: { text: "good morning" } }, cadence });
  await skills(page).getByText("07:00", { exact: false }).first().waitFor();
  await looks("list");
  // The switch of a row, with Undo.
  const row = skills(page).getByRole("option", { name: /Word digest/ });
  await row.locator("[data-switch]").click();
  await toast(page, "Disabled Word digest").waitFor();
  check(!(await rpc("skills.list_composite", {})).skills[0].isEnabled, "it is disabled");
  await page.keyboard.press("Control+z");
  await page.waitForFunction(() => document.querySelector("[role=option] .switch-track.on") !== null);
}

async function first({ page, check, looks, go }) {
  // By keyboard: the list takes the first row, Enter goes to its form.
  await skills(page).focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await inspector(page).getByRole("heading", { name: "Word digest", level: 2 }).waitFor();
  const text = inspector(page).getByLabel(/^Text/);
  await text.waitFor();
  await looks("form");
  await page.keyboard.press("Control+Enter");
  check(new URL(page.url()).hash.endsWith("/run"), "it does not run without its text");
  await text.fill("hello big bad world");
  await page.keyboard.press("Control+Enter");
  await timeline(page).waitFor();
  // The run goes on when the screen is left; the bar at the foot leads back to it.
  await go("tools");
  const job = page.getByRole("contentinfo", { name: "Status" }).getByRole("button", { name: /^Running Word digest/ });
  await job.waitFor();
  await page.getByRole("contentinfo", { name: "Status" }).getByText("waiting for your approval").waitFor();
  await job.click();
  const card = inspector(page).getByRole("region", { name: "Question from ask" });
  await card.getByText("Send the digest?").waitFor();
  await card.getByText("It begins with HELLO!").waitFor();
  check((await card.getByRole("button", { name: "Approve" }).getAttribute("aria-disabled")) === "true", "nothing is approved without its note");
  await looks("approval");
  await card.getByLabel(/^Note/).fill("to everybody");
  await card.getByRole("button", { name: "Approve" }).click();
  await state(page, "Succeeded").waitFor();
  await inspector(page).getByText('"to everybody"').first().waitFor();
  await looks("completed");
}

async function steps({ page, check, looks }) {
  await until(async () => (await timeline(page).getByRole("treeitem").count()) >= 7, "each step is a row, with the arms of the branch");
  await until(async () => (await row(page, /^flaky/).locator(".backoff").count()) === 1 && (await row(page, /^flaky/).locator(".attempt.failed").count()) === 2, "two attempts and a pause between them");
  // Opened by keyboard: the map, an item, and the step inside.
  await row(page, /^split/).click();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await row(page, /^Item 3.*Failed/).waitFor();
  await until(async () => (await timeline(page).getByRole("treeitem", { name: /^Item/ }).count()) === 4, "four items");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await inspector(page).getByRole("region", { name: "Step shout" }).getByText("HELLO!").waitFor();
  await looks("step");
  await row(page, /^flaky/).click();
  await inspector(page).getByText("nobody answers").first().waitFor();
  await inspector(page).getByText(/Pause before the next attempt/).waitFor();
  await looks("attempts");
  await page.keyboard.press("Escape");
  await inspector(page).getByRole("button", { name: "Run actions" }).click();
  await page.getByRole("menuitem", { name: "Replay" }).click();
  await inspector(page).getByText(/^Identical:/).waitFor();
  await looks("replay");
}

async function restart({ page, check, looks, rpc }) {
  // A step without a result before it is named.
  await row(page, /^tone/).click();
  await inspector(page).getByRole("button", { name: "Restart from here" }).click();
  await sheet(page).getByRole("heading", { name: "Restart from tone" }).waitFor();
  await sheet(page).getByRole("button", { name: "Restart", exact: true }).click();
  await sheet(page).getByRole("alert").getByText(/flaky/).waitFor();
  await looks("restart-refused");
  await page.keyboard.press("Escape");
  await row(page, /^flaky/).click();
  await inspector(page).getByRole("button", { name: "Restart from here" }).click();
  await sheet(page).getByRole("heading", { name: "Restart from flaky" }).waitFor();
  await looks("restart");
  await sheet(page).getByRole("button", { name: "Restart", exact: true }).click();
  await toast(page, "Restarted from flaky").waitFor();
  const card = inspector(page).getByRole("region", { name: "Question from ask" });
  await card.getByLabel(/^Note/).fill("again");
  await card.getByRole("button", { name: "Approve" }).click();
  await state(page, "Succeeded").waitFor();
  await row(page, /^split/).click();
  await inspector(page).getByText("Reused from an earlier run.").waitFor();
  const { executions } = await rpc("skills.history", {});
  check(executions.length === 2 && executions[0].restartedFrom === executions[1].executionId, "the new run knows which one it goes on from");
  await looks("restarted");
}

async function dry({ page, check, looks, rpc }) {
  await title(page);
  await page.keyboard.press("r");
  await inspector(page).getByLabel(/^Text/).fill("just a try");
  await inspector(page).getByRole("switch", { name: "Dry run" }).click();
  await looks("dry-form");
  const before = (await rpc("tools.executions", {}).catch(() => ({ total: 0 }))).total;
  await inspector(page).getByRole("button", { name: "Dry run" }).click();
  await inspector(page).getByText("Dry run", { exact: true }).first().waitFor();
  await timeline(page).waitFor();
  await row(page, /^split/).click();
  await inspector(page).getByText("A real run would").waitFor();
  check((await rpc("tools.executions", {}).catch(() => ({ total: 0 }))).total === before, "no tool was called");
  await looks("dry");
  await tab(page, "Run");
  await inspector(page).getByRole("switch", { name: "Dry run" }).click();
}

/** A skill that waiting for its time, without input. */
async function canceled({ page, rpc, check, looks }) {
  await rpc("skills.create_composite", { skill: { name: "Long wait", steps: [{ stepId: "now", toolType: "builtin", toolName: "time.now" }, { stepId: "pause", toolType: "builtin", toolName: "wait", parameters: { seconds: 3600 } }, { stepId: "later", toolType: "builtin", toolName: "time.now" }] } });
  await choose(page, /Long wait/);
  await inspector(page).getByRole("heading", { name: "Long wait", level: 2 }).waitFor();
  const json = inspector(page).getByLabel("Input as JSON");
  await json.fill("{ no");
  await inspector(page).getByText(/Not valid JSON/).first().waitFor();
  await json.fill("");
  await inspector(page).getByRole("button", { name: /^Run/ }).click();
  await inspector(page).getByText("for its time").first().waitFor();
  await row(page, /^pause.*Waiting/).waitFor();
  await looks("waiting");
  await page.keyboard.press("Control+.");
  await state(page, "Canceled").waitFor();
  check((await rpc("skills.history", { status: "cancelled" })).executions.length === 1, "it is canceled");
  await looks("canceled");
}

async function failed({ page, rpc, looks, check }, ids) {
  await rpc("skills.create_composite", { skill: { name: "Stops early", steps: [{ stepId: "now", toolType: "builtin", toolName: "time.now" }, { stepId: "call", toolType: "custom", toolId: ids.Flaky }, { stepId: "after", toolType: "transform", value: 1 }] } });
  await choose(page, /Stops early/);
  await inspector(page).getByRole("heading", { name: "Stops early", level: 2 }).waitFor();
  await tab(page, "Run");
  await inspector(page).getByRole("button", { name: /^Run/ }).click();
  await state(page, "Failed").waitFor();
  await inspector(page).getByText(/step "call": .*nobody answers/).waitFor();
  await until(async () => await inspector(page).getByRole("button", { name: "Restart from call" }).isVisible(), "it can go on from the step that failed");
  await looks("failed");
}

/** What lacks a right says so before it runs, and waits for the answer in the middle. */
async function permission({ page, rpc, looks, check }) {
  const { tool } = await rpc("tools.create", { name: "Counter", language: "typescript", capabilities: ["state"], code: "export default async (p, helix: Helix) => { const n = ((await helix.state.get('n')) as number ?? 0) + 1; await helix.state.set('n', n); return n; }" });
  await rpc("skills.create_composite", { skill: { name: "Counts", steps: [{ stepId: "count", toolType: "custom", toolId: tool.id }] } });
  await choose(page, /Counts/);
  await inspector(page).getByRole("heading", { name: "Counts", level: 2 }).waitFor();
  await tab(page, "Run");
  await inspector(page).getByRole("region", { name: "Missing permissions" }).waitFor();
  await looks("permissions");
  await inspector(page).getByRole("button", { name: /^Run/ }).click();
  const card = inspector(page).getByRole("region", { name: "Question from count" });
  await card.getByText("“count” needs a permission").waitFor();
  await looks("permission");
  await card.getByRole("button", { name: "Answer the request…" }).click();
  const prompt = page.getByRole("dialog", { name: /Allow this|Trust this/ });
  await armed(page);
  await prompt.getByRole("radio", { name: /Always/ }).check();
  await prompt.getByRole("button", { name: /^(Allow|Trust this version)$/ }).click();
  await state(page, "Succeeded").waitFor();
  check((await rpc("skills.history", { status: "completed" })).executions[0].skillName === "Counts", "it went on once it was allowed");
  await tab(page, "Run");
  await inspector(page).getByRole("region", { name: "Missing permissions" }).waitFor({ state: "detached" });
}

/** The program dies while a tool changes something: nothing is done twice unasked. */
async function crash({ page, rpc, helix, looks, check, go }) {
  const code = "export default async (p, helix: Helix) => { await helix.state.set('sent', true); await new Promise((r) => setTimeout(r, 25000)); return 'sent'; }";
  const { tool } = await rpc("tools.create", { name: "Slow sender", language: "typescript", capabilities: ["state"], code });
  await rpc("skills.create_composite", { skill: { name: "Sends", steps: [{ stepId: "send", toolType: "custom", toolId: tool.id, parameters: { to: "ada@example.org", text: "hello" }, timeoutMs: 60000 }, { stepId: "after", toolType: "transform", value: "$.send" }] } });
  await choose(page, /Sends/);
  await inspector(page).getByRole("heading", { name: "Sends", level: 2 }).waitFor();
  await tab(page, "Run");
  await inspector(page).getByRole("button", { name: /^Run/ }).click();
  const card = inspector(page).getByRole("region", { name: "Question from send" });
  await card.getByRole("button", { name: "Answer the request…" }).click();
  const prompt = page.getByRole("dialog", { name: /Allow this|Trust this/ });
  await armed(page);
  await prompt.getByRole("radio", { name: /Always/ }).check();
  await prompt.getByRole("button", { name: /^(Allow|Trust this version)$/ }).click();
  await row(page, /^send.*Running/).waitFor();
  const ended = new Promise((resolve) => helix.process.once("exit", resolve));
  helix.process.kill("SIGKILL");
  await ended;
  helix.forget();
  await helix.start();
  // The session ended with the program; a new link opens the page again.
  await page.goto("about:blank");
  await page.goto(await helix.ticket());
  await page.getByRole("navigation", { name: "Screens" }).waitFor();
  let executions;
  await until(async () => (executions = (await rpc("skills.history", { status: "waiting" })).executions).length === 1, "the run waits");
  check(executions[0].waitReason === "unknown_outcome", `the run waits for an answer, and not for ${executions[0].waitReason}`);
  await go(`skills/run/${executions[0].executionId}`);
  await inspector(page).getByText("Did “send” happen?").waitFor();
  await card.getByText("ada@example.org").waitFor();
  await looks("unknown");
  await card.getByRole("button", { name: "It happened…" }).click();
  await card.getByLabel("Its result, as JSON").fill('"sent by hand"');
  await card.getByRole("button", { name: "It happened, continue" }).click();
  await state(page, "Succeeded").waitFor();
  await inspector(page).getByText("sent by hand").first().waitFor();
  const after = await rpc("skills.get_execution", { executionId: executions[0].executionId });
  check(after.status === "completed" && after.finalOutput === "sent by hand", `the run goes on after the answer, and is not ${after.status} with ${JSON.stringify(after.finalOutput)}`);
  await go("skills");
}

async function versions({ page, rpc, looks, check }) {
  const { skillId } = (await rpc("skills.list_composite", { query: "Word digest" })).skills[0];
  const digest = await rpc("skills.get_metadata", { skillId });
  const { tools } = await rpc("tools.list", { query: "Counter" });
  const steps = digest.steps.map((s) => (s.stepId === "split" ? { ...s, timeoutMs: 5000, description: "Takes the text apart." } : s));
  steps.splice(2, 0, { stepId: "count", toolType: "custom", toolId: tools[0].id });
  await rpc("skills.update_composite", { skill: { skillId: digest.skillId, steps: steps.filter((s) => s.stepId !== "time"), inputSchema: digest.inputSchema, outputMapping: digest.outputMapping }, note: "Counts the runs" });
  await choose(page, /Word digest/);
  await inspector(page).getByRole("heading", { name: "Word digest", level: 2 }).waitFor();
  await title(page);
  await page.keyboard.press("v");
  const versions = inspector(page).getByRole("listbox", { name: "Versions" });
  await versions.getByRole("option", { name: /Version 1\.0\.1, current/ }).waitFor();
  await inspector(page).getByText("also needs", { exact: false }).first().waitFor({ state: "attached" });
  const heads = await inspector(page).getByRole("heading", { level: 3 }).allTextContents();
  check(heads[0] === "Permissions", `rights come first, and not ${heads[0]}`);
  check(["count", "time", "split"].every((id) => heads.includes(id)), "each step that differs is shown");
  await looks("versions");
  await inspector(page).getByRole("button", { name: "Side by side" }).click();
  await sheet(page).getByRole("heading", { name: "1.0.0 and 1.0.1" }).waitFor();
  await looks("side-by-side");
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
  await versions.getByRole("option", { name: /Version 1\.0\.0/ }).click();
  await inspector(page).getByText("This is the first version.").waitFor();
  await inspector(page).getByRole("button", { name: "Roll back to 1.0.0" }).click();
  await toast(page, "Rolled back Word digest to 1.0.0").waitFor();
  await versions.getByRole("option", { name: /Version 1\.0\.2, current/ }).waitFor();
  const now = (await rpc("skills.get_metadata", { skillId: digest.skillId }));
  check(now.version === "1.0.2" && now.definitionHash === digest.definitionHash, "a new version with the old definition");
  await looks("rolled-back");
}

async function history({ page, rpc, looks, check }) {
  await title(page);
  await page.keyboard.press("h");
  const runs = inspector(page).getByRole("listbox", { name: "Runs" });
  await runs.getByRole("option").first().waitFor();
  await looks("history");
  await inspector(page).getByLabel("Result").click();
  await page.getByRole("option", { name: "failed" }).click();
  await inspector(page).getByText("No matching runs").waitFor();
  await inspector(page).getByRole("button", { name: "Clear filters" }).click();
  await runs.getByRole("option").first().click({ button: "right" });
  await page.getByRole("menuitem", { name: "Pin this run" }).click();
  await runs.getByText("kept", { exact: true }).waitFor();
  const { skillId } = (await rpc("skills.list_composite", { query: "Word digest" })).skills.find((s) => s.name === "Word digest");
  // The row shows it before the backend has it.
  await until(async () => (await rpc("skills.history", { skillId })).executions.filter((e) => e.pinned).length === 1, "one run is pinned");
  const kept = (await rpc("skills.history", { skillId })).executions;
  await inspector(page).getByRole("button", { name: "Remove…" }).click();
  await page.getByRole("menuitem", { name: "All finished runs" }).click();
  await toast(page, "Removing all finished runs").waitFor();
  await page.keyboard.press("Control+z");
  await runs.getByRole("option").nth(1).waitFor();
  check((await rpc("skills.history", { skillId: kept[0].skillId })).executions.length === kept.length, "Undo removed nothing");
}

/** A thousand items: folded, and drawn only where they are seen. */
async function many({ page, rpc, looks, check }, ids) {
  const { skillId } = await rpc("skills.create_composite", { skill: { name: "Thousand", steps: [{ stepId: "each", toolType: "map", items: "$.input.list", concurrency: 8, steps: [{ stepId: "one", toolType: "transform", value: { n: "$.item" } }] }] } });
  void ids;
  const run = await rpc("skills.execute_composite", { skillId, input: { list: Array.from({ length: 1000 }, (_, i) => i) } });
  check(run.status === "completed", `the run of a thousand items completes, not ${run.status} ${run.error?.message}`);
  await choose(page, /Thousand/);
  await inspector(page).getByRole("heading", { name: "Thousand", level: 2 }).waitFor();
  await tab(page, "Timeline");
  await row(page, /^each.*1,000 of 1,000 items/).click();
  await page.keyboard.press("ArrowRight");
  await row(page, /^Item 1,/).waitFor();
  check((await timeline(page).getByRole("treeitem").count()) < 60, "only the rows that are seen are drawn");
  await page.keyboard.press("End");
  await row(page, /^Item 1000,/).waitFor();
  await looks("thousand");
}

async function sharing({ page, helix, rpc, looks, check }) {
  await choose(page, /Word digest/);
  await inspector(page).getByRole("heading", { name: "Word digest", level: 2 }).waitFor();
  await tab(page, "Details");
  await inspector(page).getByRole("region").getByText("Each morning").waitFor();
  await looks("details");
  await inspector(page).getByRole("button", { name: "Export…" }).click();
  await sheet(page).getByText("Include your tools that it calls").waitFor();
  await looks("export");
  const download = page.waitForEvent("download");
  await sheet(page).getByRole("button", { name: "Save file" }).click();
  const saved = path.join(helix.dir, "digest.helixskill.json");
  await (await download).saveAs(saved);
  await title(page);
  await page.keyboard.press("i");
  const broken = path.join(helix.dir, "broken.json");
  await writeFile(broken, "not json");
  await sheet(page).getByLabel("Skill file").setInputFiles(broken);
  await sheet(page).getByText("is not JSON", { exact: false }).waitFor();
  await looks("import-refused");
  await sheet(page).getByLabel("Skill file").setInputFiles(saved);
  await sheet(page).getByRole("heading", { name: "Word digest" }).waitFor();
  await sheet(page).getByText(/^Signed with a key that you trust|^Signed with a key that this/).waitFor();
  await looks("import");
  await sheet(page).getByRole("button", { name: "Add, disabled" }).click();
  await sheet(page).waitFor({ state: "hidden" });
  await inspector(page).getByRole("heading", { name: /^Word digest .+/, level: 2 }).waitFor();
  const found = (await rpc("skills.list_composite", { query: "Word digest" })).skills;
  check(found.length === 2 && found.some((s) => !s.isEnabled), "the imported skill is disabled");
}

async function remove({ page, rpc, looks, check }) {
  await choose(page, /Word digest, version/);
  await inspector(page).getByRole("heading", { name: "Word digest", level: 2, exact: true }).waitFor();
  const total = (await rpc("skills.list_composite", {})).total;
  const option = skills(page).getByRole("option", { name: /^Word digest, version/ });
  await title(page);
  await page.keyboard.press("Delete");
  await toast(page, "Moved Word digest to Trash").waitFor();
  await option.waitFor({ state: "detached" });
  await page.keyboard.press("Control+z");
  await option.waitFor();
  await inspector(page).getByRole("heading", { name: "Word digest", level: 2, exact: true }).waitFor();
  check((await rpc("skills.list_composite", {})).total === total, "Undo brought it back");
  await inspector(page).getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await option.waitFor({ state: "detached" });
  await looks("deleted");
  await page.reload();
  await skills(page).getByRole("option").first().waitFor();
  check((await option.count()) === 0, "it is gone after a reload");
}
