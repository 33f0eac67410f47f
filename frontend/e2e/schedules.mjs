// The Schedules screen: an empty installation, a schedule from a preset, its preview in another
// zone, bad cron texts, runs by hand, what a missing right does, the calendar, pausing all,
// changes, deletion with Undo, and notices.
import { armed, until } from "./lib/page.mjs";
import { makeTool } from "./lib/seed.mjs";

export default async function (t) {
  await empty(t);
  await create(t);
  await runNow(t);
  await skill(t);
  await denied(t);
  await list(t);
  await history(t);
  await calendar(t);
  await pauseAll(t);
  await edit(t);
  await remove(t);
  await failed(t);
  await away(t);
}

const sheet = (page) => page.getByRole("dialog");
const inspector = (page) => page.getByRole("complementary", { name: "Schedule" });
const rows = (page) => page.getByRole("listbox", { name: "Schedules" });
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text, { exact: false }).first();
const state = (page) => page.getByRole("status", { name: "Current activity" });
const hello = `export default async function (p) { await new Promise((r) => setTimeout(r, p.wait ?? 0)); return { hello: p.name }; }`;
const parameters = { type: "object", properties: { name: { type: "string", maxLength: 50, description: "Whom to greet" }, wait: { type: "integer", minimum: 0, maximum: 25_000 } }, required: ["name"] };

/** Nothing but what comes with Helix: it is shown, and not as the user's own. */
async function empty({ page, rpc, go, looks, check }) {
  const before = await rpc("schedules.list", {});
  check(before.schedules.every((s) => s.system), "a fresh installation has only system schedules");
  await go("schedules");
  await page.getByText("Automate something").waitFor();
  const names = await rows(page).getByRole("option").allInnerTexts();
  check(names.length === before.total, `only the ${before.total} system schedules are listed, and not ${names.length}`);
  check((await page.getByRole("searchbox").count()) === 0, "nothing to search in an empty list");
  await state(page).getByText("Nothing running").waitFor();
  await looks("empty");
  await go("schedules/history");
  await page.getByText("No runs yet").waitFor();
  await looks("history-empty");
  await go("schedules");
}

async function create({ page, rpc, check, looks }) {
  const { tool } = await rpc("tools.create", { name: "Say hello", code: hello, language: "typescript", description: "Greets somebody", parameters, capabilities: [] });
  await page.keyboard.press("n");
  await sheet(page).getByRole("heading", { name: "New schedule" }).waitFor();
  // The agent has no list to choose from, but a task.
  await sheet(page).getByLabel("Kind", { exact: true }).click();
  await page.getByRole("option", { name: "Agent turn" }).click();
  await sheet(page).getByLabel(/What to do/).fill("Sum up the new files.");
  await sheet(page).getByText("It can read.", { exact: false }).waitFor();
  await sheet(page).getByLabel("Kind", { exact: true }).click();
  await page.getByRole("option", { name: "Tool", exact: true }).click();
  await sheet(page).getByLabel("Tool", { exact: true }).fill("hel");
  await page.getByRole("option", { name: /Say hello/ }).click();
  await until(async () => (await sheet(page).getByLabel("Name", { exact: true }).inputValue()) === "Say hello", "the name comes from the tool");
  // Its input is asked for by its schema, and nothing is made before it fits.
  const make = sheet(page).getByRole("button", { name: "Create schedule" });
  await sheet(page).getByLabel("name *").waitFor();
  await until(async () => await make.getAttribute("aria-disabled"), "a required input is missing");
  await sheet(page).getByLabel("name *").fill("Ada");
  await sheet(page).getByText("Can run unattended: yes").waitFor();
  // A preset, and the same times of the clock elsewhere.
  await sheet(page).getByLabel("Times", { exact: true }).click();
  await page.getByRole("option", { name: "Weekdays at 09:00" }).click();
  await sheet(page).getByText(/^weekdays at 09:00/i).waitFor();
  // Days and a time, without cron.
  await sheet(page).getByLabel("Time of day").fill("08:30");
  await sheet(page).getByRole("button", { name: "Saturday" }).click();
  await sheet(page).getByText(/08:30/).first().waitFor();
  await looks("days");
  await sheet(page).getByRole("button", { name: "Saturday" }).click();
  await sheet(page).getByLabel("Time of day").fill("09:00");
  await sheet(page).getByText(/^weekdays at 09:00/i).waitFor();
  const times = sheet(page).getByRole("region", { name: "Next times" }).getByRole("listitem");
  await until(async () => (await times.count()) === 10, "ten times are shown");
  await zone(page, "tokyo", /Asia\/Tokyo/);
  await times.first().getByText("+09:00").waitFor();
  await zone(page, "new york", /America\/New York/);
  await times.first().getByText(/-0[45]:00/).waitFor();
  await looks("create");
  // Clock changes are told: Berlin skips 02:30 once a year, and shows it twice once a year.
  await zone(page, "berlin", /Europe\/Berlin/);
  await sheet(page).getByLabel("Times", { exact: true }).click();
  await page.getByRole("option", { name: "Custom…" }).click();
  const cron = sheet(page).getByLabel("Cron expression", { exact: true });
  await cron.fill("30 2 25-31 3 0");
  await sheet(page).getByText("clock change: runs at 03:00").first().waitFor();
  await looks("clock-change");
  // Bad texts say what is wrong with which part, and everything that was typed stays.
  for (const [text, said] of [
    ["60 * * * *", /field 1 \(minute\): 60 is outside/],
    ["0 9 * *", /5 fields, or 6 with seconds first; this one has 4/],
    ["0 9 * * 8", /field 5 .*8 is outside/],
    ["0 0 30 2 *", /this date never occurs/],
  ]) {
    await cron.fill(text);
    await sheet(page).getByText(said).first().waitFor();
    await until(async () => await make.getAttribute("aria-disabled"), `${text} is not made`);
    if (text.startsWith("60")) await looks("bad-cron");
  }
  check((await cron.inputValue()) === "0 0 30 2 *", "the text stays");
  check((await sheet(page).getByLabel("name *").inputValue()) === "Ada", "the input stays");
  await cron.fill("0 9 * * 1-5");
  await sheet(page).getByText(/^weekdays at 09:00/i).waitFor();
  // The rule for missed runs is told by its own times.
  await sheet(page).getByText(/Only the latest, .*09:00, runs immediately/).waitFor();
  await sheet(page).getByLabel("If the computer was asleep or Helix was closed").click();
  await page.getByRole("option", { name: /Skip missed runs/ }).click();
  await sheet(page).getByText("No catch-up runs").waitFor();
  await sheet(page).getByRole("button", { name: "Limits, overlap and retries" }).click();
  await sheet(page).getByLabel("Time limit (minutes)").fill("x");
  await sheet(page).getByText("Enter a number.").waitFor();
  await sheet(page).getByLabel("Time limit (minutes)").fill("2");
  await sheet(page).getByLabel("Time limit (minutes)").scrollIntoViewIfNeeded();
  await looks("limits");
  // Put away and taken up again: nothing is lost.
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
  await page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Continue" }).click();
  await until(async () => (await sheet(page).getByLabel("name *").inputValue()) === "Ada", "what was typed is still there");
  await sheet(page).getByLabel("Name", { exact: true }).fill("Morning hello");
  await make.click();
  await toast(page, "Created Morning hello").waitFor();
  await inspector(page).getByRole("heading", { name: "Morning hello", level: 2 }).waitFor();
  const [made] = (await rpc("schedules.list", { query: "Morning" })).schedules;
  check(made.cadence.expression === "0 9 * * 1-5" && made.cadence.timezone === "Europe/Berlin" && made.missedPolicy === "skip" && made.maxRunMs === 120_000, "it is stored as it was decided");
  check(made.target.id === tool.id && made.target.input.name === "Ada", "with its target and input");
  await inspector(page).getByText("as this device").waitFor({ state: "hidden" });
  await looks("overview");
}

async function zone(page, typed, option) {
  await sheet(page).getByLabel("Time zone", { exact: true }).click();
  await sheet(page).getByLabel("Time zone", { exact: true }).fill(typed);
  await page.getByRole("option", { name: option }).click();
}

async function runNow({ page, rpc, check, looks }) {
  const [before] = (await rpc("schedules.list", { query: "Morning" })).schedules;
  await page.getByRole("heading", { name: "Schedules", level: 1 }).click();
  await page.keyboard.press("r");
  await inspector(page).getByText("Succeeded").first().waitFor();
  await inspector(page).getByText('{"hello":"Ada"}').waitFor();
  await inspector(page).getByText("by hand").waitFor();
  const [after] = (await rpc("schedules.list", { query: "Morning" })).schedules;
  check(after.nextRunAt === before.nextRunAt, "a run by hand does not move the next time");
  await looks("run");
  await page.keyboard.press("Escape");
  await inspector(page).getByRole("listbox", { name: "Runs" }).getByRole("option").first().waitFor();
  // A longer one is seen while it goes on, and is stopped.
  await rpc("schedules.update", { scheduleId: after.scheduleId, patch: { target: { ...after.target, input: { name: "Grace", wait: 25_000 } } } });
  await page.keyboard.press("r");
  await inspector(page).getByRole("button", { name: "Cancel" }).waitFor();
  await state(page).getByText("1 run in progress").waitFor();
  await inspector(page).getByRole("button", { name: "Cancel" }).click();
  await inspector(page).getByText("Canceled", { exact: true }).first().waitFor();
  const { runs } = await rpc("schedules.runs", { scheduleId: after.scheduleId });
  check(runs.map((r) => r.status).join() === "cancelled,success", `both runs are kept, and not ${runs.map((r) => r.status)}`);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
}

/** A skill as the target: its rights are told, and its run leads to its own course. */
async function skill({ page, rpc, go, check }) {
  const { skillId } = await rpc("skills.create_composite", { skill: { name: "Tell the time", steps: [{ stepId: "now", toolType: "builtin", toolName: "time.now" }, { stepId: "who", toolType: "transform", value: "$.input.who" }] } });
  await go("schedules");
  await page.keyboard.press("n");
  await sheet(page).getByLabel("Skill", { exact: true }).fill("tell");
  await page.getByRole("option", { name: /Tell the time/ }).click();
  await sheet(page).getByText("Can run unattended: yes").waitFor();
  // A skill without a schema takes any object, and its steps may need one.
  await sheet(page).getByLabel("Input as JSON").fill('{"who": "Ada"}');
  await sheet(page).getByText("Create paused").click();
  await sheet(page).getByRole("button", { name: "Create schedule" }).click();
  await toast(page, "Created Tell the time").waitFor();
  const [made] = (await rpc("schedules.list", { kind: "skill" })).schedules;
  check(made.status === "paused" && made.nextRunAt === null, "it is made paused");
  check(made.target.input.who === "Ada", "its input is stored");
  await inspector(page).getByRole("button", { name: "Run now" }).first().click();
  await inspector(page).getByText("Succeeded").first().waitFor();
  await inspector(page).getByRole("link", { name: "Open the run step by step" }).click();
  await page.getByRole("complementary", { name: "Skill" }).getByRole("heading", { name: "Tell the time", level: 2 }).waitFor();
  check(page.url().includes(`/skills/${skillId}/timeline/`), "the run of the skill is shown");
  await rpc("schedules.delete", { scheduleId: made.scheduleId });
  await go("schedules");
  await state(page).waitFor();
}

/** Without anybody there a missing right is a failed run; answering it offers to run again. */
async function denied({ page, helix, rpc, check, looks, go }) {
  const tool = await makeTool(helix, "Weather", "api.example.com");
  await go("schedules");
  await page.keyboard.press("n");
  await sheet(page).getByLabel("Kind", { exact: true }).click();
  await page.getByRole("option", { name: "Tool", exact: true }).click();
  await sheet(page).getByLabel("Tool", { exact: true }).fill("weath");
  await page.getByRole("option", { name: /Weather/ }).click();
  await sheet(page).getByText("Can run unattended: no").waitFor();
  await sheet(page).getByText("network:https(api.example.com)").waitFor();
  await sheet(page).getByLabel("Repeats").click();
  await page.getByRole("option", { name: "At a fixed interval" }).click();
  await sheet(page).getByLabel("Every", { exact: true }).fill("90");
  await sheet(page).getByLabel("Unit of the interval").click();
  await page.getByRole("option", { name: "minutes", exact: true }).click();
  await sheet(page).getByText(/^every 90 minutes/i).waitFor();
  await looks("denied-preview");
  await sheet(page).getByRole("button", { name: "Create schedule" }).click();
  await toast(page, "Created Weather").waitFor();
  await inspector(page).getByRole("button", { name: "Run now" }).first().click();
  await inspector(page).getByText("a permission is missing").first().waitFor();
  // One notice, shown once.
  await toast(page, "Weather needs your approval").waitFor();
  await until(async () => (await rpc("schedules.notices", {})).notices.length === 0, "the notice is taken");
  await looks("denied");
  await inspector(page).getByRole("button", { name: "Answer…" }).click();
  const prompt = page.getByRole("dialog", { name: /Allow this|Trust this/ });
  await prompt.waitFor();
  await armed(page);
  check(await prompt.getByRole("radio", { name: /Always/ }).isChecked(), "what helps an unattended run is proposed");
  await looks("answer");
  await prompt.getByRole("button", { name: "Allow", exact: true }).click();
  await toast(page, "Weather is now allowed to do this").waitFor();
  await page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Run now" }).click();
  await until(async () => {
    const { runs } = await rpc("schedules.runs", { limit: 5 });
    const ofWeather = runs.filter((r) => r.targetKind === "tool" && r.scheduleName === "Weather");
    return ofWeather.length === 2 && ofWeather[0].reason !== "needs_approval" && ofWeather[0].finishedAt !== null;
  }, "the second run is not denied");
  check((await rpc("permissions.list", { subjectId: tool.id })).grants.length === 1, "the right is given");
}

async function list({ page, rpc, check, looks, go }) {
  await go("schedules");
  await rows(page).getByRole("option").nth(3).waitFor();
  const labels = await rows(page).getByRole("option").evaluateAll((l) => l.map((o) => o.getAttribute("aria-label")));
  check(labels.length === 4 && ["History clean-up", "Memory decay"].every((name, i) => labels[2 + i].includes(name)), `own ones first, then what comes with Helix: ${labels}`);
  await looks("list");
  // The switch of a row, and Space.
  await rows(page).getByRole("option", { name: /^Weather/ }).locator("[data-switch]").click();
  await rows(page).getByRole("option", { name: /^Weather.*Paused/ }).waitFor();
  await page.keyboard.press("j");
  await inspector(page).waitFor();
  const name = await inspector(page).getByRole("heading", { level: 2 }).innerText();
  check(name === "Weather", `the first row is chosen by j, not ${name}`);
  await page.keyboard.press("Space");
  await rows(page).getByRole("option", { name: /^Weather.*, active$/ }).waitFor();
  await until(async () => (await rpc("schedules.list", { query: "Weather" })).schedules[0].status === "active", "Space did not turn it on again");
  // Search and filters.
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("nothing like it");
  await page.getByText("No matching schedules").waitFor();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await rows(page).getByRole("option").nth(2).waitFor();
}

async function history({ page, looks, check, go }) {
  await go("schedules/history");
  const runs = page.getByRole("listbox", { name: "Runs" });
  await runs.getByRole("option").nth(3).waitFor();
  await looks("history");
  await page.getByLabel(/^Result:/).click();
  await page.getByRole("option", { name: "canceled", exact: true }).click();
  await runs.getByRole("option").nth(1).waitFor({ state: "detached" });
  await runs.getByRole("option").first().click();
  const run = page.getByRole("complementary", { name: "Run" });
  await run.getByText("Morning hello").first().waitFor();
  await looks("history-run");
  await until(async () => (await run.getByRole("link", { name: "Open the runs of the tool" }).count()) === 1, "it leads to what it did");
  await page.keyboard.press("Escape");
  await run.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Clear", exact: true }).click();
}

async function calendar({ page, go, looks, check }) {
  await go("schedules/calendar");
  const grid = page.getByRole("grid");
  await grid.waitFor();
  await grid.getByRole("gridcell").first().waitFor();
  check((await grid.getByRole("row").count()) === 5, "a row for each schedule, below the days");
  await grid.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Home");
  await looks("week");
  // To the run of today that was canceled or succeeded: Enter opens it.
  const done = grid.getByRole("gridcell", { name: /^Morning hello, .*(succeeded|canceled)/ }).first();
  await done.click();
  await page.getByRole("complementary", { name: "Run" }).or(page.getByRole("listbox", { name: "Runs" })).first().waitFor();
  await go("schedules/calendar");
  await page.getByLabel(/^Length/).click();
  await page.getByRole("option", { name: "Month" }).click();
  await grid.getByRole("gridcell").first().waitFor();
  await looks("month");
  await page.getByRole("button", { name: "Next month" }).click();
  await grid.getByRole("gridcell", { name: /planned/ }).first().waitFor();
  await grid.focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await inspector(page).getByRole("heading", { level: 2 }).waitFor();
}

async function pauseAll({ page, rpc, go, check, looks }) {
  await go("schedules");
  await page.getByRole("button", { name: "Pause all" }).click();
  await page.getByRole("menuitem", { name: /Until tomorrow/ }).waitFor();
  await page.getByRole("menuitem", { name: "For 1 hour" }).click();
  await state(page).getByText("All schedules are paused").waitFor();
  await state(page).getByText(/until \w{3} \d/).waitFor();
  await page.getByRole("contentinfo", { name: "Status" }).getByText(/Schedules paused until/).waitFor();
  const { pausedAll, pausedUntil } = await rpc("schedules.status", {});
  check(pausedAll && Math.abs(Date.parse(pausedUntil) - Date.now() - 3_600_000) < 120_000, "for an hour");
  await looks("paused");
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await state(page).getByText("Nothing running").waitFor();
  await page.getByText(/Schedules paused until/).waitFor({ state: "detached" });
  check(!(await rpc("schedules.status", {})).pausedAll, "resumed");
}

async function edit({ page, rpc, go, check, looks }) {
  const [s] = (await rpc("schedules.list", { query: "Morning" })).schedules;
  await go(`schedules/${s.scheduleId}`);
  await inspector(page).getByRole("heading", { name: "Morning hello", level: 2 }).waitFor();
  await page.keyboard.press("e");
  await sheet(page).getByRole("heading", { name: "Edit Morning hello" }).waitFor();
  await sheet(page).getByLabel("Name", { exact: true }).fill("Evening hello");
  // Changed elsewhere meanwhile: it is told and nothing typed is lost.
  await rpc("schedules.update", { scheduleId: s.scheduleId, patch: { description: "Greets each evening" } });
  await sheet(page).getByRole("button", { name: "Save", exact: true }).click();
  await sheet(page).getByText("This was changed elsewhere in the meantime.").waitFor();
  await looks("changed-elsewhere");
  await sheet(page).getByRole("button", { name: "Save", exact: true }).click();
  await toast(page, "Saved Evening hello").waitFor();
  const after = await rpc("schedules.get", { scheduleId: s.scheduleId });
  check(after.name === "Evening hello" && after.description === "Greets each evening", "both changes are there");
}

async function remove({ page, rpc, check }) {
  const list = rows(page);
  await inspector(page).getByRole("heading", { name: "Evening hello", level: 2 }).waitFor();
  await page.getByRole("heading", { name: "Schedules", level: 1 }).click();
  await page.keyboard.press("Delete");
  await toast(page, "Moved Evening hello to Trash").waitFor();
  await list.getByRole("option", { name: /^Evening hello/ }).waitFor({ state: "detached" });
  check((await rpc("schedules.list", { query: "Evening" })).total === 0, "it is gone");
  await page.keyboard.press("Control+z");
  await list.getByRole("option", { name: /^Evening hello/ }).waitFor();
  await inspector(page).getByRole("heading", { name: "Evening hello", level: 2 }).waitFor();
  check((await rpc("schedules.list", { query: "Evening" })).schedules[0].recentRuns.length > 0, "Undo brought it back with its runs");
  // What comes with Helix stays.
  await list.getByRole("option", { name: /^History clean-up/ }).click();
  await inspector(page).getByText("Built-in").waitFor();
  await page.keyboard.press("Delete");
  await toast(page, "can't be deleted").waitFor();
}

/** A run that fails says why, in the words of what failed. */
async function failed({ page, rpc, go, looks }) {
  const { tool } = await rpc("tools.create", { name: "Broken", code: `export default async function () { throw new Error("it is broken"); }`, language: "typescript", description: "Fails", capabilities: [] });
  const s = await rpc("schedules.create", { name: "Broken", target: { kind: "tool", id: tool.id }, cadence: { type: "cron", expression: "0 9 * * *", timezone: "UTC" }, notifyWhen: "@.status == 'failed'", retry: { max: 0, baseSecs: 1, capSecs: 1 } });
  await go(`schedules/${s.scheduleId}`);
  await inspector(page).getByRole("button", { name: "Run now" }).first().click();
  await inspector(page).getByText("it is broken").first().waitFor();
  // The condition held, so it is told too.
  await toast(page, "Broken failed").waitFor();
  await looks("failed");
}

/** Times that pass while Helix is away are rows that say why. It takes more than a minute until a time counts as missed. */
async function away({ page, helix, rpc, go, check, looks }) {
  if (!process.env.HELIX_LONG) return;
  const [hello] = (await rpc("tools.list", { query: "Say hello" })).tools;
  const due = Date.now() + 15_000;
  const s = await rpc("schedules.create", { name: "Each minute", target: { kind: "tool", id: hello.id, input: { name: "Ada" } }, cadence: { type: "interval", everySecs: 60, anchor: new Date(due).toISOString() }, missedPolicy: "skip" });
  await helix.end();
  await new Promise((r) => setTimeout(r, due + 63_000 - Date.now()));
  await helix.start();
  helix.forget();
  // The session ended with the program; a new link opens the page again.
  await page.goto("about:blank");
  await page.goto(await helix.ticket());
  await page.getByRole("navigation", { name: "Screens" }).waitFor();
  await go(`schedules/${s.scheduleId}/runs`);
  const missed = inspector(page).getByRole("option", { name: /Missed, Helix was not running/ });
  await missed.waitFor();
  await looks("missed");
  await missed.click();
  await inspector(page).getByText("Helix was not running").first().waitFor();
  await looks("missed-run");
  const { runs } = await rpc("schedules.runs", { scheduleId: s.scheduleId });
  check(runs.filter((r) => r.status === "missed").length === 1 && runs.filter((r) => Math.abs(Date.parse(r.dueAt) - due) < 1000).length === 1, "the time that passed has one row");
}
