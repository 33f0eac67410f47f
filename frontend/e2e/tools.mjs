// The Tools screen: from a template to a run with a granted right, its history and audit,
// sharing, importing, deleting and Undo. Then the same walk by keyboard only.
import http from "node:http";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { armed, until } from "./lib/page.mjs";

const CODE = (port) => `export default async function (params: { name: string; times?: number }, helix: Helix) {
  helix.log("asking", params.name);
  const answer = await helix.fetch("http://localhost:${port}/hello");
  const body = await answer.json();
  return { said: body.hello + " " + params.name, times: params.times ?? 1 };
}
`;

export default async function (t) {
  const server = http.createServer((_, res) => {
    res.setHeader("content-type", "application/json");
    res.end('{"hello":"Good morning,"}');
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  try {
    await walk({ ...t, port });
    await share(t);
    await importing(t);
    await undo(t);
    await failures(t);
    await keyboard(t);
    await reload(t);
  } finally {
    server.close();
  }
}

const inspector = (page) => page.getByRole("complementary", { name: "Tool" });
const toast = (page, text) => page.getByText(text, { exact: false }).first();

/** Replaces the text of the code editor as a person would. */
async function type(page, label, text) {
  const box = page.getByRole("textbox", { name: label, exact: true });
  await box.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

async function walk({ page, go, rpc, check, looks, zoom, port }) {
  // Nothing yet: one sentence and the way on.
  await go("tools");
  await page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
  await page.getByText("Tools are small programs that Helix runs for you").waitFor();
  await looks("empty");
  await zoom("empty");
  await page.getByRole("button", { name: "Show templates" }).click();
  const templates = page.getByRole("listbox", { name: "Templates" });
  await templates.getByRole("option", { name: /Text Counter/ }).click();
  await page.getByRole("heading", { name: "Text Counter", level: 2 }).waitFor();
  await looks("templates");
  await until(async () => (await templates.getByRole("option").count()) === 6, "six templates are offered");
  // Escape closes the panel as it closes that of a tool; the list keeps its place.
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "Text Counter", level: 2 }).waitFor({ state: "hidden" });
  await templates.getByRole("option", { name: /Text Counter/ }).click();
  await page.getByRole("button", { name: "Use template" }).click();

  // The editor: saved as it is, then changed.
  await page.getByRole("heading", { name: "New tool", level: 1 }).waitFor();
  await page.getByText("No problems").waitFor();
  await page.getByRole("textbox", { name: "Code", exact: true }).waitFor();
  await looks("editor");
  await page.getByRole("textbox", { name: "Tool name" }).fill("Greeter");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await toast(page, "Saved Greeter 1.0.0").waitFor();
  await page.getByRole("heading", { name: "Edit Greeter", level: 1 }).waitFor();

  // A field of the schema by the form; the JSON view says the same.
  await page.getByRole("tab", { name: /Parameters/ }).click();
  const removes = page.getByRole("button", { name: /^Remove / });
  while ((await removes.count()) > 0) await removes.first().click();
  await page.getByRole("button", { name: "Add field" }).click();
  await page.getByRole("textbox", { name: "Field name" }).fill("name");
  await page.getByRole("checkbox", { name: "required" }).check();
  await page.getByRole("textbox", { name: "Description of name" }).fill("Who to greet");
  await page.getByRole("button", { name: "Add field" }).click();
  await page.getByRole("textbox", { name: "Field name" }).nth(1).fill("times");
  await page.getByLabel("Type of times: string").click();
  await page.getByRole("option", { name: "integer" }).click();
  await page.getByRole("textbox", { name: "Default of times" }).fill("2");
  await looks("schema");
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  await page.getByRole("textbox", { name: "Schema as JSON" }).getByText('"integer"').waitFor();
  await page.getByRole("button", { name: "Form", exact: true }).click();

  // Code with an error, in place, then code that talks to a server of this test.
  await type(page, "Code", "export default function ( {");
  await page.getByText(/\d+ errors?/).first().waitFor();
  await page.getByRole("button", { name: /^syntax error .* line 1, column \d+$/ }).first().waitFor();
  await until(async () => await page.getByRole("button", { name: "Save", exact: true }).getAttribute("aria-disabled"), "a tool with errors cannot be saved");
  await looks("problems");
  await type(page, "Code", CODE(port));
  await page.getByRole("tab", { name: /Setup/ }).click();
  await page.getByLabel("Language").click();
  await page.getByRole("option", { name: "TypeScript" }).click();
  // The strict profile forbids the network; the picker says so and offers the next one.
  await page.getByRole("tab", { name: /Capabilities/ }).click();
  await page.getByText("The profile Strict doesn't allow every permission.").waitFor();
  await page.getByRole("button", { name: "Use Standard" }).click();
  await page.getByLabel("Ask for").click();
  await page.getByRole("option", { name: /Connect to a program on this computer/ }).click();
  await page.getByRole("textbox", { name: "Port" }).fill(String(port));
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText(`Connect to a program on this computer, port ${port}`).first().waitFor();
  await page.getByText("The profile Standard allows everything this tool asks for.").waitFor();
  await looks("capabilities");
  await page.getByText("No problems").waitFor();
  await page.keyboard.press("Control+s");
  await toast(page, "Saved Greeter 1.0.1").waitFor();

  // A draft run asks, and is denied.
  await page.getByRole("tab", { name: /Test run/ }).click();
  await page.getByText("Runs the current code").waitFor();
  await page.getByLabel(/^name/).fill("Ada");
  // A click in the very moment in which the prompt appears answers nothing.
  await page.evaluate(() => {
    new MutationObserver((_, observer) => {
      const allow = [...document.querySelectorAll("[data-armed] button")].find((b) => b.textContent.trim() === "Allow");
      if (!allow) return;
      observer.disconnect();
      window.clickedWhile = allow.closest("[data-armed]").dataset.armed;
      allow.click();
    }).observe(document.body, { childList: true, subtree: true });
  });
  await page.getByRole("button", { name: "Test run" }).last().click();
  const prompt = page.getByRole("dialog", { name: /Allow this/ });
  await prompt.waitFor();
  check(await prompt.getByRole("button", { name: "Deny" }).evaluate((b) => b === document.activeElement), "the focus is on Deny");
  check((await prompt.getByRole("radio").count()) === 2, "a draft can be allowed something once or for the run only");
  await armed(page);
  check((await page.evaluate(() => window.clickedWhile)) === "false", "the early click fell into the guard");
  await looks("prompt");
  await prompt.getByRole("button", { name: "Deny" }).click();
  await page.getByText("The run was denied").waitFor();
  await page.getByText("is waiting for an approval").waitFor({ state: "hidden" });
  await looks("refused");

  // The stored tool asks, gets the right for this session, and runs.
  await page.getByRole("button", { name: "Back to tools" }).click();
  await inspector(page).getByRole("heading", { name: "Greeter", level: 2 }).waitFor();
  await inspector(page).getByText(/about \d+ tokens/).waitFor();
  await looks("details");
  await page.keyboard.press("r");
  await inspector(page).getByRole("heading", { name: "Run Greeter", level: 2 }).waitFor();
  await page.getByLabel(/^name/).fill("Ada");
  await page.keyboard.press("Control+Enter");
  await prompt.waitFor();
  await page.getByText("Waiting for your answer…").waitFor();
  await prompt.getByRole("radio", { name: /This session/ }).check();
  await armed(page);
  await prompt.getByRole("button", { name: "Allow", exact: true }).click();
  const output = page.getByRole("tree", { name: "Output" });
  await output.getByText('"Good morning, Ada"').waitFor();
  await output.getByText("2", { exact: true }).waitFor();
  await page.getByRole("log").getByText("asking").waitFor();
  await looks("run");
  await page.getByRole("button", { name: "Run again" }).click();
  await page.getByText(/Succeeded/).first().waitFor();
  check(!(await prompt.isVisible()), "the session's right is used without asking again");

  // What is left of it: two runs, two versions, an audit that holds.
  await inspector(page).getByRole("button", { name: "Close inspector" }).click();
  await page.getByRole("tab", { name: "History" }).click();
  await page.getByRole("listbox", { name: "Runs" }).getByRole("option").nth(1).waitFor();
  await looks("history");
  await page.getByRole("listbox", { name: "Runs" }).getByRole("option").first().click();
  await page.getByRole("tree", { name: "Input" }).getByText('"Ada"').waitFor();
  await looks("history-run");
  await page.keyboard.press("v");
  await page.getByText("2 versions").waitFor();
  await page.getByRole("region", { name: "Change: Code" }).waitFor();
  await looks("versions");
  // Beside the list there is room for one column; side by side is a click away.
  await page.getByRole("button", { name: "Side by side" }).click();
  const compared = page.getByRole("dialog", { name: /^Version 1\.0\.0 compared with/ });
  await compared.getByRole("columnheader", { name: "1.0.1" }).first().waitFor();
  await looks("compare");
  await page.keyboard.press("Escape");
  await compared.waitFor({ state: "hidden" });
  await page.getByRole("tab", { name: "Audit" }).click();
  await page.getByText(/Verified to entry/).waitFor();
  await page.getByText("Connected to a host").first().waitFor();
  await looks("audit");
  await page.getByRole("tab", { name: "Permissions" }).click();
  await page.getByText("This session").first().waitFor();
  await looks("permissions");
  await page.getByRole("tab", { name: "State" }).click();
  await page.getByText("No stored values").waitFor();
  await looks("state");

  // Rolling back makes a version and suspends nothing that was never granted to it.
  await page.getByRole("tab", { name: "Versions" }).click();
  await page.getByRole("button", { name: "Roll back" }).click();
  await toast(page, "Rolled back to 1.0.0").waitFor();
  await page.getByText("3 versions").waitFor();
  await page.keyboard.press("Control+z");
  await page.getByText("4 versions").waitFor();

  const { tools } = await rpc("tools.list", {});
  check(tools.length === 1 && tools[0].usageCount === 2, "two runs of the stored tool were counted, the draft was not");
}

async function share({ page, check, looks }) {
  await page.getByRole("tab", { name: "Sharing" }).click();
  await page.getByText("Not shared").waitFor();
  await page.getByRole("button", { name: "Share…" }).click();
  const dialog = page.getByRole("dialog", { name: /^Share Greeter/ });
  await dialog.getByText("No hub is connected.").waitFor();
  await looks("share");
  await dialog.getByRole("button", { name: "Create link" }).click();
  const link = dialog.getByRole("textbox", { name: /^Link to version/ });
  await link.waitFor();
  check(/^helix:\/\/tools\/shared\/[0-9a-f-]{36}$/.test(await link.inputValue()), "the link has the one form that is followed");
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: "Withdraw" }).click();
  await page.getByText("Withdrawn", { exact: true }).waitFor();
  await looks("sharing");
}

async function importing({ page, helix, go, check, looks, rpc }) {
  // Save the file, change its name as an editor would, and read it back.
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export file" }).click()]);
  check(download.suggestedFilename() === "greeter.helix-tools.json", "the file is named after the tool");
  const file = path.join(helix.dir, "greeter.json");
  await download.saveAs(file);
  const bundle = JSON.parse(await readFile(file, "utf8"));
  check(bundle.format === "helix-tools" && bundle.tools.length === 1, "the file is a bundle with one tool");

  await page.getByRole("button", { name: "Import…", exact: true }).click();
  const sheet = page.getByRole("dialog", { name: "Import tools" });
  await sheet.locator("input[type=file]").setInputFiles(file);
  await sheet.getByText(/Signed by/).waitFor();
  await looks("import");
  const add = sheet.getByRole("button", { name: "Add, disabled" });
  const confirm = sheet.getByRole("checkbox", { name: "Fingerprint matches" });
  if (await confirm.isVisible()) await confirm.check();
  await add.click();
  await toast(page, "Added Greeter").waitFor();
  const { tools } = await rpc("tools.list", {});
  const copy = tools.find((x) => x.name !== "Greeter");
  check(tools.length === 2 && copy && !copy.isEnabled, "the copy is there and disabled");

  // A changed tool under an old signature is rejected, with the one way on.
  bundle.tools[0].definition.code += "\n// changed";
  await writeFile(file, JSON.stringify(bundle));
  await page.getByRole("button", { name: "Import…", exact: true }).click();
  await sheet.locator("input[type=file]").setInputFiles(file);
  await sheet.getByText("The signature doesn't match.").waitFor();
  await looks("import-invalid");
  await sheet.getByRole("button", { name: "Review as unsigned" }).click();
  await sheet.getByText("Not signed", { exact: true }).waitFor();
  await add.click();
  await toast(page, "Added Greeter 3").waitFor();

  // What nobody vouches for runs only after its code was shown and trusted.
  await inspector(page).getByRole("heading", { name: "Greeter 3", level: 2 }).waitFor();
  await inspector(page).getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Enable" }).click();
  await inspector(page).getByText("Disabled").waitFor({ state: "hidden" });
  await inspector(page).getByRole("button", { name: "Run", exact: true }).click();
  await page.getByLabel(/^name/).fill("Eve");
  await page.keyboard.press("Control+Enter");
  const trust = page.getByRole("dialog", { name: "Trust this version?" });
  await trust.getByRole("region", { name: "Code of the tool" }).getByText("// changed").waitFor();
  await looks("trust");
  await armed(page);
  await trust.getByRole("button", { name: "Deny" }).click();
  await page.getByText("The run was denied").waitFor();
  await page.getByText("is waiting for an approval").waitFor({ state: "hidden" });
  const third = (await rpc("tools.list", { query: "Greeter 3" })).tools[0];
  check((await rpc("tools.usage", { toolId: third.id })).summary.success === 0, "nothing of it ran");
  await rpc("tools.delete", { toolId: third.id });
  await go("tools");

  await page.getByRole("button", { name: "Import…", exact: true }).click();
  await sheet.getByRole("textbox", { name: "Address or link" }).fill("helix://tools/shared/../../x");
  await sheet.getByRole("button", { name: "Review" }).click();
  await sheet.getByText("Paste an https address").waitFor();
  await page.keyboard.press("Escape");
  await sheet.waitFor({ state: "hidden" });
}

async function undo({ page, check, rpc, looks, axe }) {
  const list = page.getByRole("listbox", { name: "Tools", exact: true });
  await looks("list");
  const copy = list.getByRole("option", { name: /disabled/ });
  await copy.click({ button: "right" });
  await page.getByRole("menu").waitFor();
  await axe("row menu");
  await page.getByRole("menuitem", { name: /Delete/ }).click();
  await toast(page, "to Trash").waitFor();
  await page.waitForFunction(() => document.querySelectorAll('[role=listbox][aria-label="Tools"] [role=option]').length === 1);
  await page.locator(".toast", { hasText: "to Trash" }).getByRole("button", { name: "Undo" }).click();
  await page.waitForFunction(() => document.querySelectorAll('[role=listbox][aria-label="Tools"] [role=option]').length === 2);
  check((await rpc("tools.list", {})).total === 2, "Undo brought the tool back");
  // This time for good.
  await list.getByRole("option", { name: /disabled/ }).click();
  await page.keyboard.press("Delete");
  await page.waitForFunction(() => document.querySelectorAll('[role=listbox][aria-label="Tools"] [role=option]').length === 1);
}

async function failures({ page, go, rpc, check, looks }) {
  const { tool } = await rpc("tools.create", { name: "Thrower", language: "typescript", code: 'export default function () {\n  console.warn("careful");\n  throw new Error("no luck");\n}\n' });
  await go(`tools/${tool.id}/run`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("The tool stopped with an error").waitFor();
  await page.getByText("no luck").first().waitFor();
  await page.getByRole("log").getByText("careful").waitFor();
  await page.mouse.move(0, 0);
  await looks("failure");
  await page.getByRole("button", { name: "Go to line 3" }).click();
  await page.getByRole("heading", { name: "Edit Thrower", level: 1 }).waitFor();

  // A save that comes too late shows both sides and keeps the draft.
  await page.getByRole("textbox", { name: "Code", exact: true }).waitFor();
  await type(page, "Code", "export default () => 'mine';\n");
  await rpc("tools.update", { toolId: tool.id, baseVersion: "1.0.0", patch: { code: "export default () => 'theirs';\n" } });
  await page.getByText("Version 1.0.1 was saved elsewhere.").waitFor();
  await page.keyboard.press("Control+s");
  const conflict = page.getByRole("dialog", { name: "This tool was changed elsewhere" });
  await conflict.waitFor();
  await looks("conflict");
  await conflict.getByRole("button", { name: "Save mine" }).click();
  await toast(page, "Saved Thrower 1.0.2").waitFor();
  check((await rpc("tools.get", { toolId: tool.id })).tool.code.includes("mine"), "the draft won because the user said so");

  // A run without an end is canceled by a key.
  const { tool: loop } = await rpc("tools.create", { name: "Sleeper", code: "await new Promise((r) => setTimeout(r, 20000)); return 1;" });
  await go(`tools/${loop.id}/run`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText(/^Running, /).waitFor();
  await page.getByRole("button", { name: "Cancel Esc" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("You stopped the run.").waitFor();
  await rpc("tools.delete", { toolId: loop.id });

  // A search finds what is meant, and says when it finds nothing.
  await go("tools");
  await page.keyboard.press("/");
  await page.keyboard.type("thrower");
  await page.waitForFunction(() => document.querySelectorAll('[role=listbox][aria-label="Tools"] [role=option]').length === 1);
  await page.getByRole("searchbox").fill("%");
  await page.getByText("No matching tools").waitFor();
  await looks("no-match");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await rpc("tools.delete", { toolId: tool.id });

  // The Marketplace appears with the first tool that is shared.
  await rpc("tools.delete", { toolId: (await rpc("tools.list", { visibility: "public" })).tools[0]?.id ?? loop.id }).catch(() => {});
  await page.getByRole("tab", { name: /Marketplace/ }).waitFor({ state: "detached" });
  const { tool: open } = await rpc("tools.create", { name: "For everyone", code: "export default () => 1", language: "javascript", visibility: "public" });
  await page.getByRole("tab", { name: /Marketplace/ }).click();
  await page.getByRole("option", { name: /For everyone/ }).click();
  await page.getByRole("heading", { name: "For everyone", level: 2 }).waitFor();
  await looks("marketplace");
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "For everyone", level: 2 }).waitFor({ state: "hidden" });
  await page.getByRole("tab", { name: /My tools/ }).click();
  await rpc("tools.delete", { toolId: open.id });

  await page.getByRole("button", { name: "Secrets" }).click();
  await page.getByRole("dialog", { name: "Secrets" }).waitFor();
  await page.getByRole("textbox", { name: "Allowed hosts" }).click();
  await looks("secrets");
  await page.getByRole("dialog", { name: "Secrets" }).getByRole("button", { name: "Close" }).click();
  await page.getByRole("dialog", { name: "Secrets" }).waitFor({ state: "hidden" });
}

/** The whole way without the pointer. */
async function keyboard({ page, go, rpc, check }) {
  await go("activity");
  await page.getByRole("heading", { name: "Activity", level: 1 }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
  await page.keyboard.press("n");
  await page.getByRole("heading", { name: "New tool", level: 1 }).waitFor();
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Tool name");
  await page.keyboard.type("By keys");
  await page.getByText("No problems").waitFor();
  await page.keyboard.press("Control+s");
  await toast(page, "Saved By keys 1.0.0").waitFor();
  // The shortcut shows the test run, and pressed again starts it.
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.activeElement?.matches("[data-first], [data-run]"));
  await page.keyboard.type("Grace");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("tree", { name: "Output" }).getByText('"Hello, Grace"').waitFor();
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("Escape");
  await inspector(page).getByRole("heading", { name: "By keys", level: 2 }).waitFor();

  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Command" }).fill("run tool: by keys");
  await page.getByRole("option", { name: /^Run tool: By keys/ }).waitFor();
  await page.getByRole("combobox", { name: "Command" }).press("Enter");
  await inspector(page).getByRole("heading", { name: "Run By keys", level: 2 }).waitFor();
  await page.waitForFunction(() => document.activeElement?.matches("[data-first], [data-run]"));
  await page.keyboard.press("Control+Enter");
  await page.getByText(/Succeeded/).first().waitFor();
  check((await rpc("tools.list", { query: "By keys" })).tools[0].usageCount === 1, "the run from the palette was counted");
}

/** Unsaved work is there again after the page was loaded anew. */
async function reload({ page, go, check, rpc }) {
  const { tools } = await rpc("tools.list", { query: "By keys" });
  await go(`tools/${tools[0].id}/edit`);
  await page.getByRole("textbox", { name: "Code", exact: true }).waitFor();
  await type(page, "Code", "export default () => 'unsaved';\n");
  await page.getByText("Unsaved changes, kept on this device").waitFor();
  await page.waitForFunction((id) => localStorage.getItem(`helix.tools.draft.${id}`)?.includes("unsaved"), tools[0].id);
  await page.reload();
  await page.getByText("Your unsaved changes were restored.").waitFor();
  await page.getByText("'unsaved'").waitFor();
  check((await rpc("tools.get", { toolId: tools[0].id })).tool.code.includes("Hello"), "nothing was saved by itself");
  await page.getByRole("button", { name: "Discard", exact: true }).click();
  await page.getByText("Saved as 1.0.0").waitFor();
}
