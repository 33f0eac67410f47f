// The builder of skills: a skill from a real tool with the mouse, a second one with the
// keyboard only, mappings from the tree, problems, saving and enabling, undo, text, and how
// it moves with many steps.
import { until } from "./lib/page.mjs";

const TOOL = `export default async function (params: { text: string; times?: number }) {
  return { said: params.text.repeat(params.times ?? 1), words: params.text.split(" ") };
}
`;
const SCHEMA = {
  type: "object",
  properties: { text: { type: "string", description: "What to say" }, times: { type: "integer", minimum: 1, maximum: 9, description: "How often" } },
  required: ["text"],
};

export default async function (t) {
  await t.rpc("tools.create", { name: "Repeater", code: TOOL, language: "typescript", description: "Says a text again and again", parameters: SCHEMA });
  await few(t);
  await mouse(t);
  await problems(t);
  await keyboard(t);
  await text(t);
  await arms(t);
  await leaving(t);
  await many(t);
}

/** A new skill opens with the list of steps; this one begins with its name. */
async function fresh(page, go) {
  await page.mouse.move(0, 0); // no tip of what will be there opens
  await go("skills/new");
  await page.getByRole("dialog", { name: "Add a step" }).waitFor();
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Skill name");
}

/** Adds a step at the end with a hand that moves while it presses, again if the view moved away under it. */
async function addAtEnd(page) {
  const button = page.getByRole("button", { name: "Add a step at the end" });
  const palette = page.getByRole("dialog", { name: "Add a step" });
  await until(async () => {
    await button.hover();
    const { x, y, width, height } = await button.boundingBox();
    await page.mouse.down();
    await page.mouse.move(x + width / 2 + 3, y + height / 2 + 2);
    await page.mouse.up();
    return palette.waitFor({ timeout: 5000 }).then(() => true, () => false);
  }, "the list of steps opens");
}

const toast = (page, words) => page.getByText(words, { exact: false }).first();
const flow = (page) => page.getByRole("application", { name: "Steps of the skill, as a graph" });
const node = (page, id) => page.locator(`[data-step="${id}"]`);
const inspector = (page) => page.getByRole("complementary", { name: "Inspector" });
const data = (page) => page.getByRole("tree", { name: "Available data" });
const skillNamed = async (rpc, name) => {
  const { skills } = await rpc("skills.list_composite", { query: name });
  const found = skills.find((s) => s.name === name);
  return found && rpc("skills.get_metadata", { skillId: found.skillId });
};

/** Two steps from nothing: each is chosen, the second takes what the first gives, and Run asks for nothing. */
async function few({ page, go, rpc, check, looks }) {
  await go("skills/new");
  const palette = page.getByRole("dialog", { name: "Add a step" });
  await palette.getByRole("option", { name: /^Repeater/ }).waitFor();
  await until(async () => (await palette.getByRole("option").count()) === 10, "ten steps are offered at first");
  await looks("few");
  await palette.getByRole("combobox").fill("time.now");
  await page.keyboard.press("Enter");
  await node(page, "time_now").waitFor();
  await addAtEnd(page);
  await palette.getByRole("option", { name: /^Transform/ }).click();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("region", { name: "Run on the canvas" }).getByText("Succeeded").waitFor();
  const made = await skillNamed(rpc, "time.now");
  check(made.steps[1].value === "$.time_now", "the second step takes the output of the first");
  await page.getByRole("button", { name: "Back to skills" }).click();
}

/** Builds, saves, runs and undoes with the mouse. */
async function mouse({ page, go, rpc, check, looks }) {
  await fresh(page, go);
  await page.getByRole("heading", { name: "New skill", level: 1 }).waitFor();
  await page.getByText("Chain your tools into one action.").waitFor();
  await looks("empty");
  await page.getByRole("textbox", { name: "Skill name" }).fill("Shout");

  // The input of the skill, in the settings beside it.
  await inspector(page).getByRole("button", { name: "Add field" }).click();
  await page.getByRole("textbox", { name: "Field name" }).fill("word");
  await inspector(page).getByRole("checkbox", { name: "required" }).check();

  await page.getByRole("button", { name: "Add the first step" }).click();
  const palette = page.getByRole("dialog", { name: "Add a step" });
  await palette.getByRole("option", { name: /^Repeater/ }).waitFor();
  await looks("palette");
  await palette.getByRole("combobox").fill("repe");
  await palette.getByRole("option", { name: /^Repeater/ }).click();
  await node(page, "repeater").waitFor();
  await page.getByText('The parameter "text" of Repeater is required.').first().waitFor();

  // A value is mapped by choosing it in the tree.
  await inspector(page).getByRole("button", { name: "Map text from data" }).click();
  await data(page).getByRole("treeitem", { name: /^word/ }).click();
  await until(async () => (await inspector(page).getByRole("textbox", { name: /^text/ }).inputValue()) === "$.input.word", "a click puts the path into the field");
  await inspector(page).locator("[data-live]").getByText('"text"').waitFor();
  await inspector(page).getByRole("textbox", { name: /^times/ }).fill("3");
  await page.getByText("No problems").waitFor();
  await looks("step");

  // A second step after it, by the plus on the line.
  await addAtEnd(page);
  await page.getByRole("dialog", { name: "Add a step" }).getByRole("option", { name: /^Transform/ }).click();
  await node(page, "make").waitFor();
  await inspector(page).getByRole("textbox", { name: "Value" }).fill('{ "out": "$.repeater.said", "n": "$.repeater.words[0]" }');
  await page.getByText("No problems").waitFor();
  await looks("references");

  await page.getByRole("button", { name: "Save", exact: true }).click();
  await toast(page, "Saved Shout 1.0.0").waitFor();
  await page.getByRole("heading", { name: "Edit Shout", level: 1 }).waitFor();
  const made = await skillNamed(rpc, "Shout");
  check(made.isEnabled && made.valid && made.steps.length === 2, "the skill is stored, valid and on");
  check(made.steps[0].inputMapping.text === "$.input.word" && made.steps[0].parameters.times === 3, "value and mapping are stored");

  // Deleting offers Undo, and so does the key; redo does it again.
  await node(page, "make").click();
  await page.keyboard.press("Delete");
  await node(page, "make").waitFor({ state: "detached" });
  await toast(page, "Deleted make").waitFor();
  await page.keyboard.press("Control+z");
  await node(page, "make").waitFor();
  await page.getByText("Deleted make").waitFor({ state: "hidden" });
  await page.keyboard.press("Control+y");
  await node(page, "make").waitFor({ state: "detached" });
  await page.getByRole("button", { name: /^Undo/ }).first().click();
  await node(page, "make").waitFor();
  await page.getByText("Saved as 1.0.0").waitFor();

  // Run: what is saved goes, and its result is there to map from afterwards.
  const ran = await rpc("skills.execute_composite", { skillId: made.skillId, input: { word: "ho " } });
  check(ran.success, `it runs: ${JSON.stringify(ran.error ?? ran.status)}`);
  await go("skills");
  await go(`skills/${made.skillId}/edit`);
  await node(page, "make").click();
  await page.getByLabel("Source of the data: Last run").waitFor();
  await data(page).getByRole("treeitem", { name: /^repeater/ }).locator("span").first().click();
  await data(page).getByText('"ho ho ho "').waitFor();
  await inspector(page).locator("[data-live]").getByText('"ho ho ho "').waitFor();
  await looks("data");

  // One step alone; its result is data, and is kept when it is pinned.
  await node(page, "repeater").click();
  await inspector(page).getByRole("button", { name: "Run this step" }).click();
  await inspector(page).getByRole("tree", { name: "Result" }).getByText('"ho ho ho "').waitFor();
  await inspector(page).getByRole("button", { name: "Pin as data" }).click();
  await node(page, "repeater").getByTitle("pinned").waitFor();
  await looks("pinned");
  await inspector(page).getByRole("button", { name: "Unpin" }).click();

  // All of it, with its states on the canvas.
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const sheet = page.getByRole("dialog", { name: "Run this skill" });
  await sheet.getByLabel("word").fill("ha ");
  await looks("run-sheet");
  await sheet.getByRole("button", { name: "Run", exact: true }).click();
  await node(page, "make").locator('[data-state="completed"]').waitFor();
  await page.getByRole("region", { name: "Run on the canvas" }).getByText("Succeeded").waitFor();
  await inspector(page).getByRole("tree", { name: "Result" }).getByText('"ha ha ha "').waitFor();
  await data(page).getByText('"ha "', { exact: true }).waitFor();
  await looks("ran");
  await page.getByRole("button", { name: "Show timeline" }).click();
  await page.waitForFunction((id) => location.hash.startsWith(`#/skills/${id}/timeline/`), made.skillId);

  // A step goes from one skill to another.
  await go(`skills/${made.skillId}/edit`);
  await node(page, "repeater").click();
  await page.keyboard.press("Control+c");
  await toast(page, "Copied Repeater").waitFor();
  await fresh(page, go);
  await page.getByText("Chain your tools into one action.").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+v");
  await node(page, "repeater").waitFor();
  await page.getByRole("button", { name: "Back to skills" }).click();
  await toast(page, "Unsaved changes of the new skill are kept").waitFor();
  await page.evaluate(() => localStorage.removeItem("helix.skills.draft.new"));
}

/** A draft with errors can be saved and not enabled; each problem leads to its place. */
async function problems({ page, go, rpc, check, looks }) {
  await fresh(page, go);
  await page.getByRole("textbox", { name: "Skill name" }).fill("Broken");
  await page.keyboard.press("Enter");
  for (const name of [/^Repeater/, /^Transform/]) {
    await page.getByRole("button", { name: "Add a step", exact: true }).click();
    await page.getByRole("dialog").getByRole("option", { name }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
  }
  await inspector(page).getByRole("textbox", { name: "Value" }).fill('"$.nobody.x"');
  const list = page.getByRole("list", { name: "Problems" });
  await list.getByText('Step "nobody" not found.').waitFor();
  await list.getByText('The parameter "text" of Repeater is required.').waitFor();
  await until(async () => (await node(page, "repeater").locator(".soft-danger").count()) === 1, "the step with an error is marked");
  await looks("problems");
  await list.getByRole("button", { name: /"text" of Repeater/ }).click();
  await inspector(page).getByRole("heading", { name: "repeater", level: 2 }).waitFor();
  await page.keyboard.press("Control+s");
  await toast(page, "Saved Broken as a draft").waitFor();
  const draft = await skillNamed(rpc, "Broken");
  check(!draft.isEnabled && !draft.valid, "a draft with errors is off");
  await until(async () => (await page.getByRole("switch", { name: "Enabled" }).getAttribute("disabled")) !== null, "it cannot be enabled");

  // Corrected, it can.
  await page.keyboard.press("F8");
  await inspector(page).getByRole("textbox", { name: /^text/ }).fill("hello");
  await node(page, "make").click();
  await inspector(page).getByRole("textbox", { name: "Value" }).fill('"$.repeater.said"');
  await page.getByText("No problems").waitFor();
  await page.keyboard.press("Control+s");
  await toast(page, "Saved Broken 1.").waitFor();
  await page.getByRole("switch", { name: "Enabled" }).click();
  await page.waitForFunction(() => document.querySelector("[role=switch][aria-label=Enabled]")?.getAttribute("aria-checked") === "true");
  await page.getByText(/^Saved as/).waitFor();
  check((await skillNamed(rpc, "Broken")).isEnabled, "it is on");
  const run = await rpc("skills.execute_composite", { skillId: draft.skillId, input: {} });
  check(run.success && run.finalOutput === "hello", "and it runs");
}

/** Goes back to the flow by the keyboard. A slow page may give the focus to the field once more, as to a person. */
async function toFlow(page) {
  await until(async () => {
    const at = await page.evaluate(() => (document.activeElement?.hasAttribute("data-flow") ? "flow" : document.activeElement?.matches("aside textarea") ? "field" : ""));
    if (at === "field") await page.keyboard.press("Escape");
    return at === "flow";
  }, "the flow has the focus");
}

/** The whole way without the pointer: build, map from the tree, save, run, see the output. */
async function keyboard({ page, go, rpc, check, looks }) {
  await fresh(page, go);
  const { keyboard } = page;
  await keyboard.type("By keys");
  await keyboard.press("Enter");
  await keyboard.press("a");
  await page.getByRole("dialog", { name: "Add a step" }).waitFor();
  await page.waitForFunction(() => document.activeElement?.getAttribute("role") === "combobox");
  await keyboard.type("repeat");
  await page.getByRole("option", { name: /^Repeater/ }).waitFor();
  await keyboard.press("Enter");
  await node(page, "repeater").waitFor();
  await page.getByRole("dialog", { name: "Add a step" }).waitFor({ state: "hidden" }); // until then Escape is the dialog's
  await page.waitForFunction(() => document.activeElement?.hasAttribute("data-flow"));
  await keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.matches("aside textarea"));
  await keyboard.type("go");
  await toFlow(page);
  // A second one, and its text from the output of the first.
  await keyboard.press("a");
  await page.waitForFunction(() => document.activeElement?.getAttribute("role") === "combobox");
  await keyboard.type("repeat");
  await page.getByRole("option", { name: /^Repeater/ }).waitFor();
  await keyboard.press("Enter");
  await node(page, "repeater_2").waitFor();
  await page.waitForFunction(() => document.activeElement?.hasAttribute("data-flow"));
  await keyboard.press("Tab");
  await page.waitForFunction(() => document.activeElement?.matches("aside textarea"));
  await keyboard.press("Control+e");
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Available data");
  await keyboard.press("ArrowDown");
  await keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.matches("aside textarea") && document.activeElement.value === "$.repeater");
  await keyboard.type(".said");
  await page.getByText("No problems").waitFor();
  await toFlow(page);

  // Along the flow, moving, copying, deleting.
  await keyboard.press("ArrowUp");
  await inspector(page).getByRole("heading", { name: "repeater", level: 2 }).waitFor();
  await keyboard.press("Alt+ArrowDown");
  await page.getByText('Step "repeater" (steps[1]) has not run when this is needed').first().waitFor();
  await keyboard.press("Alt+ArrowUp");
  await page.getByText("No problems").waitFor();
  await keyboard.press("Control+d");
  await node(page, "repeater_3").waitFor();
  await keyboard.press("Delete");
  await node(page, "repeater_3").waitFor({ state: "detached" });
  await keyboard.press("Control+s");
  await toast(page, "Saved By keys 1.0.0").waitFor();

  // The list shows the same steps as a tree.
  await keyboard.press("Control+2");
  const tree = page.getByRole("tree", { name: "Steps of the skill" });
  await tree.waitFor();
  await page.waitForFunction(() => document.activeElement?.getAttribute("role") === "tree");
  await keyboard.press("Home");
  await until(async () => (await tree.getByRole("treeitem", { selected: true }).getAttribute("aria-label")).startsWith("Repeater, Tool"), "the tree is moved in by keys");
  await keyboard.press("End");
  await keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.matches("aside textarea"));
  await keyboard.press("Escape");
  await looks("list");
  await keyboard.press("Control+1");
  await flow(page).waitFor();

  // Run it and see what came out. It takes no input, so nothing is asked.
  await keyboard.press("Control+Enter");
  await node(page, "repeater_2").locator('[data-state="completed"]').waitFor();
  const made = await skillNamed(rpc, "By keys");
  const result = await rpc("skills.execute_composite", { skillId: made.skillId, input: {} });
  check(result.success && result.finalOutput.said === "go", "the mapped value reached the second step");
}

/** The definition as text, with the same problems, and back. */
async function text({ page, go, rpc, check, looks }) {
  const skill = await skillNamed(rpc, "By keys");
  await go(`skills/${skill.skillId}/edit`);
  await page.getByRole("tab", { name: "Text" }).click();
  const box = page.getByRole("textbox", { name: "Definition as JSON" });
  await box.getByText('"stepId": "repeater"').waitFor();
  await box.click();
  await page.keyboard.press("Control+a");
  const next = { skillId: skill.skillId, name: "By keys", isEnabled: true, steps: [...skill.steps, { stepId: "last", toolType: "transform", value: "$.nothing" }] };
  await page.keyboard.insertText(JSON.stringify(next, null, 2));
  await page.getByText('Step "nothing" not found.').first().waitFor();
  await page.locator(".cm-lintRange-error").first().waitFor();
  await looks("text");
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText('{ "name": "By keys", "steps": [');
  await page.getByText("This is not valid JSON yet.").waitFor();
  await page.getByRole("tab", { name: "Canvas" }).click();
  await node(page, "last").waitFor();
  await page.getByRole("tab", { name: "Text" }).click();
  await box.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(JSON.stringify({ ...next, steps: skill.steps }, null, 2));
  await page.getByText("No problems").waitFor();
  await page.getByText("Saved as 1.0.0").waitFor();
  await page.getByRole("tab", { name: "Canvas" }).click();
  check((await node(page, "last").count()) === 0, "the text is what the canvas shows");
}

/** Branches, maps and approvals, built in the canvas. */
async function arms({ page, go, rpc, check, looks }) {
  await fresh(page, go);
  await page.getByRole("textbox", { name: "Skill name" }).fill("Ways");
  await page.keyboard.press("Enter");
  const pick = async (name) => {
    await page.getByRole("dialog", { name: "Add a step" }).getByRole("option", { name }).click();
    await page.getByRole("dialog").waitFor({ state: "hidden" });
  };
  await page.keyboard.press("a");
  await pick(/^Repeater/);
  await inspector(page).getByRole("textbox", { name: /^text/ }).fill("a b c");
  await page.keyboard.press("Escape");
  await page.keyboard.press("a");
  await pick(/^Branch/);
  await inspector(page).getByRole("textbox", { name: "When", exact: true }).fill("$.repeater.said == 'a b c'");
  await inspector(page).getByText("The output of repeater is known after a run.").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await pick(/^For each/);
  await inspector(page).getByRole("textbox", { name: "List" }).fill("$.repeater.words");
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await pick(/^Repeater/);
  await inspector(page).getByRole("button", { name: "Map text from data" }).click();
  await data(page).getByRole("treeitem", { name: /^item/ }).click();
  await until(async () => (await inspector(page).getByRole("textbox", { name: /^text/ }).inputValue()) === "$.item", "items can be mapped inside a map");
  await page.keyboard.press("Escape");
  // The other way: an approval.
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await pick(/^Approval/);
  await inspector(page).getByRole("textbox", { name: "Title", exact: true }).fill("Say nothing?");
  await page.getByText("No problems").waitFor();
  await looks("ways");
  await page.getByRole("button", { name: "Show all" }).click();
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  const shown = await page.locator(".svelte-flow__viewport").getAttribute("style");
  await page.keyboard.press("Control+s");
  await toast(page, "Saved Ways 1.0.0").waitFor();
  check((await page.locator(".svelte-flow__viewport").getAttribute("style")) === shown, "the view stays where it was when a new skill is stored");
  const skill = await skillNamed(rpc, "Ways");
  check(skill.steps[1].cases[0].steps[0].steps[0].inputMapping.text === "$.item" && skill.steps[1].else[0].toolType === "approval", "the ways are stored");
  const run = await rpc("skills.execute_composite", { skillId: skill.skillId, input: {} });
  check(run.success, `it runs: ${JSON.stringify(run.error ?? null)}`);

  // A step that may be skipped is flagged where it is used, with the way out.
  await addAtEnd(page);
  await pick(/^Transform/);
  await inspector(page).getByRole("textbox", { name: "Value" }).fill("$.ask");
  await inspector(page).getByText("may be skipped, and then has no output").first().waitFor();
  await data(page).getByText("optional").first().waitFor();
  await looks("absent");
  await inspector(page).getByRole("button", { name: "Set a default" }).click();
  await page.getByText("No problems").waitFor();
  // References are updated when you rename it.
  await page.getByRole("button", { name: "Show all" }).click();
  await node(page, "repeater").click();
  await inspector(page).getByRole("textbox", { name: "ID" }).fill("say-it");
  await page.keyboard.press("Enter");
  await node(page, "say-it").waitFor();
  await page.getByText("No problems").waitFor();
  await page.keyboard.press("Control+s");
  await toast(page, "Saved Ways 1.0.1").waitFor();
  check((await skillNamed(rpc, "Ways")).steps[1].cases[0].when === "$['say-it'].said == 'a b c'", "conditions follow a new id");
}

/** Unsaved work is there again; a save from elsewhere is shown. */
async function leaving({ page, go, rpc, check }) {
  const skill = await skillNamed(rpc, "Shout");
  await go(`skills/${skill.skillId}/edit`);
  await node(page, "make").click();
  await inspector(page).getByRole("textbox", { name: "Step title" }).fill("Puts it together");
  await page.getByText("Unsaved changes, kept on this device").waitFor();
  await page.getByRole("button", { name: "Back to skills" }).click();
  await toast(page, "Unsaved changes of Shout are kept").waitFor();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("Your unsaved changes were restored.").waitFor();
  await page.reload();
  await page.getByText("Your unsaved changes were restored.").waitFor();
  check(!(await skillNamed(rpc, "Shout")).steps[1].description, "nothing was saved by itself");
  const { version, isEnabled } = await skillNamed(rpc, "Shout");
  await rpc("skills.update_composite", { skill: { skillId: skill.skillId, name: "Shout", isEnabled, description: "elsewhere", steps: [skill.steps[0]] }, expectedVersion: version });
  await page.getByText(/was saved elsewhere/).waitFor();
  await page.keyboard.press("Control+s");
  await page.getByText(/was saved in the meantime/).waitFor();
  await page.getByRole("button", { name: "Use theirs" }).click();
  await node(page, "make").waitFor({ state: "detached" });
  await page.getByText(/^Saved as 1\.0\.1/).waitFor();
}

/** Of 120 and of 500 steps only what is in sight is drawn; moving and typing keep the view. */
async function many({ page, go, rpc, check, shot }) {
  for (const n of [120, 500]) {
    const steps = Array.from({ length: n }, (_, i) => ({ stepId: `s${i}`, toolType: "transform", value: i === 0 ? 1 : `$.s${i - 1}` }));
    const { skillId } = await rpc("skills.create_composite", { skill: { name: `Many ${n}`, steps } });
    await go(`skills/${skillId}/edit`);
    await node(page, "s0").waitFor();
    await page.getByText("No problems").waitFor();
    const drawn = await page.locator("[data-step]").count();
    check(drawn < 40, `only what is in sight is drawn (${drawn} of ${n})`);
    await node(page, "s1").click();
    const frames = await page.evaluate(async () => {
      const pane = document.querySelector(".svelte-flow__pane");
      const times = [];
      let last = performance.now();
      for (let i = 0; i < 90; i++) {
        pane.dispatchEvent(new WheelEvent("wheel", { deltaY: 60, bubbles: true, cancelable: true, clientX: 500, clientY: 400 }));
        await new Promise((r) => requestAnimationFrame(r));
        const now = performance.now();
        times.push(now - last);
        last = now;
      }
      times.sort((a, b) => a - b);
      return { p50: times[45], p95: times[85], worst: times[89] };
    });
    console.log(`      canvas with ${n} steps: a frame p50 ${frames.p50.toFixed(1)} ms, p95 ${frames.p95.toFixed(1)} ms, worst ${frames.worst.toFixed(0)} ms; ${drawn} nodes drawn`);
    const edit = await page.evaluate(async () => {
      const name = document.querySelector("[aria-label='Skill name']");
      const view = document.querySelector(".svelte-flow__viewport").style.transform;
      const start = performance.now();
      for (let i = 0; i < 10; i++) {
        name.value += "x";
        name.dispatchEvent(new InputEvent("input", { bubbles: true }));
        await new Promise((r) => requestAnimationFrame(r));
      }
      const ms = (performance.now() - start) / 10;
      return { ms, view, after: document.querySelector(".svelte-flow__viewport").style.transform };
    });
    check(/, -\d{4}(\.\d+)?px\)/.test(edit.view) && edit.view === edit.after, `the view stays where it was moved to (${edit.view}, ${edit.after})`);
    console.log(`      a key stroke with ${n} steps: ${edit.ms.toFixed(1)} ms`);
    if (process.env.HELIX_TIMED) check(frames.p50 < 120, `panning ${n} steps stays usable`);
    await shot(`many-${n}`);
    await page.getByRole("button", { name: "Show all" }).click();
    await shot(`many-${n}-all`);
    await page.keyboard.press("Control+z");
    await rpc("skills.delete_composite", { skillId });
    await page.evaluate(() => localStorage.clear());
  }
}
