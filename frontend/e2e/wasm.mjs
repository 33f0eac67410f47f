// WASM tools: a module from C and one from Go, installed, run with input, stopped at
// each limit, canceled, looked at in the history, changed, disabled, deleted and brought back.
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { armed, openPage, until } from "./lib/page.mjs";
import { buildModules } from "./lib/wasm.mjs";

const SCHEMA = JSON.stringify({ type: "object", properties: { text: { type: "string", description: "What to count" }, spin: { type: "boolean" }, eat: { type: "boolean" }, exit: { type: "integer" } } });

export default async function (t) {
  const modules = await buildModules(t.helix.dir);
  await empty(t, modules);
  await refused(t);
  await install(t, modules);
  await runs(t);
  await limits(t);
  await cancel(t);
  await history(t);
  await about(t);
  await second(t, modules);
  await rights(t);
  await change(t);
  await remove(t);
  await sandbox(t);
  await degraded(t);
}

const inspector = (page) => page.getByRole("complementary", { name: "Tool" });
const sheet = (page) => page.getByRole("dialog");
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text, { exact: false }).first();
const list = (page) => page.getByRole("listbox", { name: "Tools" });
async function newModule(page) {
  await page.getByRole("button", { name: "New tool" }).click();
  await page.getByRole("menuitem", { name: "WASM module…" }).click();
}
/** The run pane stands in the place of the tabs; closing it brings them back. */
async function tab(page, name) {
  const leave = inspector(page).getByRole("heading", { name: /^Run /, level: 2 });
  if (await leave.count()) await inspector(page).getByRole("button", { name: "Close inspector" }).click();
  await inspector(page).getByRole("tab", { name }).click();
}
async function openRun(page) {
  const running = inspector(page).getByRole("heading", { name: /^Run /, level: 2 });
  if (!(await running.count())) await inspector(page).getByRole("button", { name: "Run", exact: true }).or(inspector(page).getByRole("button", { name: /^Run R$/ })).first().click();
}
const result = (page) => inspector(page).getByRole("region", { name: "Result" });

async function empty({ page, go, looks, check }) {
  // WASM tools were once below Skills: an old link opens the tools.
  await go("skills/wasm");
  await page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
  await page.getByText("Tools are small programs that Helix runs for you").waitFor();
  check((await page.getByRole("searchbox").count()) === 0, "nothing to search in an empty list");
  await looks("empty");
}

async function refused({ page, helix, check, looks }) {
  await newModule(page);
  await sheet(page).getByText("Drop a .wasm file here").waitFor();
  await looks("install-empty");
  // Not a module at all: known before anything is sent.
  const text = path.join(helix.dir, "text.wasm");
  await writeFile(text, "(module)");
  await sheet(page).getByLabel("Module").first().setInputFiles(text);
  await sheet(page).getByText("is WebAssembly text").waitFor();
  // A module that ends in the middle: the place is told.
  const broken = path.join(helix.dir, "broken.wasm");
  await writeFile(broken, Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 0x7f, 1]));
  await sheet(page).getByLabel("Module").first().setInputFiles(broken);
  await sheet(page).getByRole("alert").first().waitFor();
  await sheet(page).getByText("Where it will run").waitFor({ state: "hidden" });
  await until(async () => await sheet(page).getByRole("button", { name: "Install" }).getAttribute("aria-disabled"), "what is no module cannot be installed");
  // A module without anything to call.
  const silent = path.join(helix.dir, "silent.wasm");
  await writeFile(silent, Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]));
  await sheet(page).getByLabel("Module").first().setInputFiles(silent);
  await sheet(page).getByRole("alert").getByText(/execute/).waitFor();
  await looks("install-refused");
  await sheet(page).getByRole("button", { name: "Cancel" }).click();
  await sheet(page).waitFor({ state: "hidden" });
}

async function install({ page, rpc, check, looks }, { count }) {
  await newModule(page);
  await sheet(page).getByLabel("Module").first().setInputFiles(count);
  await sheet(page).getByText("Where it will run").waitFor();
  await sheet(page).getByText("command: A program").waitFor();
  await sheet(page).getByText("Not signed", { exact: true }).waitFor();
  await until(async () => (await sheet(page).getByLabel("Name", { exact: true }).inputValue()) === "count words", "the name comes from the file");
  await sheet(page).getByText("Imports").click();
  await sheet(page).getByText(/WASI/).first().waitFor();
  await looks("install");
  await sheet(page).getByLabel("Name", { exact: true }).fill("Word count");
  await sheet(page).getByLabel("Description").fill("Counts the words of a text");
  await sheet(page).getByLabel("Time limit (s)").fill("0.02");
  await sheet(page).getByText("A number from 0.1 to 60.").waitFor();
  await until(async () => await sheet(page).getByRole("button", { name: "Install" }).getAttribute("aria-disabled"), "a time limit of 20 ms is rejected");
  await sheet(page).getByLabel("Time limit (s)").fill("1");
  await sheet(page).getByLabel("Input, as JSON Schema").fill(SCHEMA);
  await sheet(page).getByText("Only computes", { exact: false }).waitFor({ state: "hidden" });
  await sheet(page).getByRole("heading", { name: "What it asks for" }).scrollIntoViewIfNeeded();
  await looks("install-decide");
  await sheet(page).getByRole("button", { name: "Install" }).click();
  await toast(page, "Installed Word count").waitFor();
  await inspector(page).getByRole("heading", { name: "Word count", level: 2 }).waitFor();
  const { skills } = await rpc("skills.list_wasm", {});
  check(skills.length === 1 && skills[0].timeoutMs === 1000 && skills[0].origin === "import", "it is stored as it was decided");
}

async function runs({ page, check, looks }) {
  await inspector(page).getByLabel("text", { exact: true }).fill("run what nobody trusts");
  await page.keyboard.press("Control+Enter");
  await result(page).getByText("Succeeded").waitFor();
  await result(page).getByText("words:").waitFor();
  await until(async () => /words\s*:\s*4\b/.test(await result(page).innerText()), "the output is what the module counted");
  await result(page).getByText(/read \d+ bytes/).waitFor();
  await result(page).getByText(/^Tier t1$/).waitFor();
  await result(page).getByText(/process/i).first().waitFor();
  await until(async () => (await result(page).getByRole("meter").count()) === 3, "time, processor and memory against their limits");
  await looks("run");
}

/** Runs with one field of the form and waits for the end. */
async function runWith(page, json) {
  const as = inspector(page).getByRole("button", { name: "As JSON" });
  if (await as.count()) await as.click();
  await inspector(page).getByLabel("Input as JSON").fill(json);
  await page.keyboard.press("Control+Enter");
}

async function limits({ page, looks }) {
  // Ends by itself with an error.
  await runWith(page, '{"exit": 3}');
  await result(page).getByText("It ended with exit code 3").waitFor();
  await result(page).getByText("it was told to fail").first().waitFor();
  await looks("failed");
  // Stopped at the time limit; the button leads to the control.
  await runWith(page, '{"spin": true}');
  await result(page).getByText(/limit reached/).waitFor();
  await looks("timeout");
  await result(page).getByRole("button", { name: "Change time limit…" }).click();
  await sheet(page).getByRole("heading", { name: "Edit Word count" }).waitFor();
  await looks("edit");
  await sheet(page).getByLabel("Time limit (s)").fill("60");
  await sheet(page).getByLabel(/^Memory/).click();
  await page.getByRole("option", { name: "64 MB" }).click();
  await sheet(page).getByRole("button", { name: "Save" }).click();
  await toast(page, "Saved Word count").waitFor();
  await runWith(page, '{"eat": true}');
  await result(page).getByText(/no memory is left|memory/i).first().waitFor();
  await result(page).getByText("Failed").waitFor();
}

async function cancel({ page, rpc, check, looks, shot }) {
  await runWith(page, '{"wait": true}');
  await inspector(page).getByRole("button", { name: /^Cancel/ }).waitFor();
  await inspector(page).getByText(/Running, \d/).waitFor();
  // The pane runs from the click. What is canceled before it began is not in the history.
  const [{ id }] = (await rpc("skills.list_wasm", {})).skills;
  await until(async () => (await rpc("skills.wasm_executions", { skillId: id })).executions.some((e) => e.status === "running"), "the run has begun");
  await shot("running"); // It has a minute: a picture, not three and axe.
  await page.keyboard.press("Escape");
  await result(page).getByText("Canceled").first().waitFor();
  await until(async () => (await inspector(page).getByRole("button", { name: /^Run again/ }).count()) > 0, "it can run again");
  await looks("canceled");
}

async function history({ page, rpc, check, looks }) {
  await page.getByRole("heading", { name: "Tools", level: 1 }).click();
  await page.keyboard.press("h");
  const runs = inspector(page).getByRole("listbox", { name: "Runs" });
  await runs.getByRole("option").nth(4).waitFor();
  check((await runs.getByRole("option").count()) === 5, "five runs are kept");
  await looks("history");
  await inspector(page).getByLabel("Result").click();
  await page.getByRole("option", { name: "succeeded", exact: true }).click();
  await runs.getByRole("option").nth(1).waitFor({ state: "detached" });
  await runs.getByRole("option").first().click();
  await inspector(page).getByText("Isolation", { exact: true }).waitFor();
  await inspector(page).getByText(/tier t1/).waitFor();
  await looks("history-run");
  await inspector(page).getByRole("button", { name: "Run again with this input" }).click();
  await page.keyboard.press("Control+Enter");
  await result(page).getByText("Succeeded").waitFor();
  const [{ id }] = (await rpc("skills.list_wasm", {})).skills;
  const { executions } = await rpc("skills.wasm_executions", { skillId: id });
  check(executions.map((e) => e.status).join() === "success,canceled,failure,timeout,failure,success", `the history holds each end, and not ${executions.map((e) => e.status)}`);
  const bad = executions.filter((e) => e.status !== "canceled" && !(e.tier === "t1" && e.isolation.startsWith("process")));
  check(bad.length === 0, `a module of others ran in a process of its own, and not ${JSON.stringify(bad)}`);
}

async function about({ page, looks }) {
  await tab(page, "Details");
  await inspector(page).getByText("Where it runs").waitFor();
  await inspector(page).getByText("Hash", { exact: true }).first().waitFor();
  await looks("details");
  await tab(page, "Permissions");
  await inspector(page).getByText("No permissions requested.").waitFor();
  await looks("permissions");
}

/** A Go program of some megabytes, dropped on the list; its input has no schema. */
async function second({ page, check, looks }, { greet }) {
  const data = (await readFile(greet)).toString("base64");
  const files = await page.evaluateHandle((text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const d = new DataTransfer();
    d.items.add(new File([bytes], "greet.wasm", { type: "application/wasm" }));
    return d;
  }, data);
  await list(page).dispatchEvent("dragover", { dataTransfer: files });
  await page.getByText("Drop a tools file or a .wasm module here").waitFor();
  await list(page).dispatchEvent("drop", { dataTransfer: files });
  // Some megabytes are compiled before anything is shown.
  await sheet(page).getByText("Where it will run").waitFor();
  await sheet(page).getByText("I built this module").click();
  await sheet(page).getByText("Runs inside Helix").waitFor();
  await sheet(page).getByRole("button", { name: "Install" }).click();
  await toast(page, "Installed greet").waitFor();
  await openRun(page);
  const input = inspector(page).getByLabel("Input as JSON");
  await input.fill("{ no");
  await inspector(page).getByText(/Not valid JSON/).first().waitFor();
  await input.fill('{"name": "Ada"}');
  await page.keyboard.press("Control+Enter");
  await result(page).getByText("Hello, Ada").waitFor();
  await result(page).getByText(/^Tier t0$/).waitFor();
  await until(async () => (await list(page).getByRole("option").count()) === 2, "both are listed");
  await looks("two");
  // Without a name it ends with an error of its own.
  await input.fill("17");
  await page.keyboard.press("Control+Enter");
  await result(page).getByText("It ended with exit code 2").waitFor();
}

/** What a skill asks for is asked when it first runs, and is seen under its rights. */
async function rights({ page, check, looks }) {
  await page.getByRole("heading", { name: "Tools", level: 1 }).click();
  await page.keyboard.press("e");
  await sheet(page).getByLabel("Ask for").click();
  await page.getByRole("option", { name: /Remember values between runs/ }).click();
  await sheet(page).getByRole("button", { name: "Add", exact: true }).click();
  await sheet(page).getByText("Remember values between runs").first().waitFor();
  await sheet(page).getByRole("button", { name: "Save" }).click();
  await toast(page, "Saved greet").waitFor();
  await inspector(page).getByLabel("Input as JSON").fill('{"name": "Grace"}');
  await page.keyboard.press("Control+Enter");
  const prompt = page.getByRole("dialog", { name: /Allow this|Trust this/ });
  await prompt.waitFor();
  await inspector(page).getByText("Waiting for your answer…").waitFor();
  await looks("prompt");
  await armed(page);
  await prompt.getByRole("radio", { name: /This session/ }).check();
  await prompt.getByRole("button", { name: /^(Allow|Trust this version)$/ }).click();
  await result(page).getByText("Hello, Grace").waitFor();
  await tab(page, "Permissions");
  await inspector(page).getByText("This session").first().waitFor();
  await until(async () => (await inspector(page).getByRole("button", { name: "Revoke" }).count()) > 0, "the right can be revoked");
  await looks("rights-granted");
  await openRun(page);
}

async function change({ page, rpc, check, looks }) {
  // Disabled: it does not run, and says how it would. Undo is there for ten seconds only,
  // so it is used before anything is looked at.
  const disable = async () => {
    await inspector(page).getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Disable" }).click();
    await toast(page, "Disabled greet").waitFor();
    await inspector(page).getByText("The tool is disabled. Enable it first.").waitFor();
  };
  await disable();
  await page.keyboard.press("Control+z");
  await inspector(page).getByText("The tool is disabled.").waitFor({ state: "hidden" });
  check((await rpc("skills.list_wasm", { query: "greet" })).skills[0].isEnabled, "Undo enabled it again");
  await disable();
  await looks("disabled");
  await inspector(page).getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Enable" }).click();
  await inspector(page).getByText("The tool is disabled.").waitFor({ state: "hidden" });
  // A change elsewhere meanwhile is told, and nothing typed is lost.
  await page.getByRole("heading", { name: "Tools", level: 1 }).click();
  await page.keyboard.press("e");
  await sheet(page).getByLabel("Description").fill("Greets somebody");
  const greet = (await rpc("skills.list_wasm", { query: "greet" })).skills[0];
  await rpc("skills.update_wasm", { skillId: greet.id, patch: { version: "1.1.0" } });
  await sheet(page).getByRole("button", { name: "Save" }).click();
  const told = sheet(page).getByText("This was changed elsewhere in the meantime.");
  await told.waitFor();
  check((await told.boundingBox()).height > 10, "the message is seen");
  await looks("changed-elsewhere");
  await sheet(page).getByRole("button", { name: "Save" }).click();
  await sheet(page).waitFor({ state: "hidden" });
  await toast(page, "Saved greet").last().waitFor();
  const after = (await rpc("skills.get_wasm", { skillId: greet.id })).skill;
  check(after.description === "Greets somebody" && after.version === "1.1.0", "both changes are there");
  // What was changed has to be trusted again before it runs with its right.
  await inspector(page).getByText("Its definition changed, so its permissions await your approval.").waitFor();
  await inspector(page).getByLabel("Input as JSON").fill('{"name": "Ada"}');
  await page.keyboard.press("Control+Enter");
  const prompt = page.getByRole("dialog", { name: /Allow this|Trust this/ });
  await prompt.waitFor();
  await armed(page);
  await looks("trust");
  await prompt.getByRole("button", { name: /^(Allow|Trust this version)$/ }).click();
  await result(page).getByText("Hello, Ada").waitFor();
  // The palette runs it by name.
  await page.keyboard.press("Control+k");
  await page.keyboard.insertText("run tool word");
  await page.getByRole("option", { name: /Run tool: Word count/ }).waitFor();
  await looks("palette");
  await page.keyboard.press("Escape");
}

async function remove({ page, rpc, check }) {
  await list(page).getByRole("option", { name: /greet/ }).click();
  await page.getByRole("heading", { name: "Tools", level: 1 }).click();
  await page.keyboard.press("Delete");
  await toast(page, "Moved greet to Trash").waitFor();
  await list(page).getByRole("option", { name: /greet/ }).waitFor({ state: "hidden" });
  check((await rpc("skills.list_wasm", {})).total === 1, "it is gone in the backend");
  await page.keyboard.press("Control+z");
  await list(page).getByRole("option", { name: /greet/ }).waitFor();
  check((await rpc("skills.list_wasm", {})).total === 2, "Undo brought it back");
  // By search and filter.
  await page.getByRole("searchbox", { name: "Search tools" }).fill("nothing like it");
  await page.getByText("No matching tools").waitFor();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await list(page).getByRole("option").nth(1).waitFor();
}

async function sandbox({ page, go, looks, check, rpc }) {
  await go("settings/sandbox");
  await page.getByRole("heading", { name: "Where code runs" }).waitFor();
  await page.getByText("Third-party modules", { exact: true }).waitFor();
  await page.getByRole("cell", { name: /WASM/ }).waitFor();
  await looks("sandbox");
  await page.getByText("For all: input").scrollIntoViewIfNeeded();
  await looks("sandbox-bounds");
  const { cache } = await rpc("sandbox.status");
  if (cache.modules > 0) {
    await page.getByRole("button", { name: "Clear cache" }).click();
    await toast(page, "Cleared").waitFor();
    check((await rpc("sandbox.status")).cache.bytes < cache.bytes, "the cache is smaller");
  }
}

/** A computer that lacks layers: what the backend says about isolation is made weaker on its way. */
async function degraded({ browser, helix, complaints }) {
  const t = await openPage(browser, helix, "wasm-degraded", (page) =>
    page.routeWebSocket(/\/ws/, (ws) => {
      const server = ws.connectToServer();
      server.onMessage((m) => ws.send(typeof m === "string" ? m.replace(/"isolation":"process[^"]*","reasons":\[[^\]]*\]/g, '"isolation":"process","reasons":["landlock_unavailable","bwrap_missing"]') : m));
    }),
  );
  const { page, go, looks } = t;
  try {
    await page.getByRole("contentinfo", { name: "Status" }).getByText("Modules run without Landlock and bubblewrap").waitFor();
    await go("settings/sandbox");
    await page.getByText("Install the package bubblewrap, then restart Helix.").waitFor();
    await looks("settings");
    await go("skills/wasm");
    await list(page).getByRole("option", { name: /Word count/ }).click();
    await tab(page, "Details");
    await inspector(page).getByText("Landlock is missing", { exact: false }).waitFor();
    await looks("details");
    await page.getByRole("heading", { name: "Tools", level: 1 }).click();
    await page.keyboard.press("e");
    await sheet(page).getByText("bubblewrap is not installed", { exact: false }).waitFor();
    await looks("sheet");
    complaints.push(...t.complaints);
  } finally {
    await t.close();
  }
}
