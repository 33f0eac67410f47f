// The MCP screen with a real server of the suite: add it with a secret, review and approve its tools, run one, keep one
// off, change a description, see the difference and approve again, log, test, restart, import, offer callables, remove.
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "./lib/page.mjs";

const program = path.join(path.dirname(fileURLToPath(import.meta.url)), "lib", "mcpserver.mjs");
const text = { type: "object", properties: { text: { type: "string", description: "What happened" } }, required: ["text"] };
const tools = (about = "Finds entries of the diary.") => [
  { name: "write", description: "Adds an entry to the diary.", inputSchema: text },
  { name: "find", description: about, inputSchema: text, annotations: { readOnlyHint: true } },
  { name: "refuse", description: "Always refuses.", inputSchema: { type: "object" } },
];
/** Where the server reads its tools. */
const file = (helix) => path.join(helix.dir, "diary-tools.json");
const setTools = (helix, list) => writeFile(file(helix), JSON.stringify(list));

export default async function (t) {
  await setTools(t.helix, tools());
  await empty(t);
  await add(t);
  await approve(t);
  await run(t);
  await keepOff(t);
  await change(t);
  await log(t);
  await test(t);
  await keys(t);
  await importing(t);
  await serve(t);
  await broken(t);
  await remove(t);
  await german(t);
}

const servers = (page) => page.getByRole("listbox", { name: "MCP" });
const panel = (page) => page.getByRole("complementary", { name: "MCP server" });
const dialog = (page) => page.getByRole("dialog");
const toast = (page, words) => page.getByRole("region", { name: "Messages" }).getByText(words).first();
const tab = (page, name) => panel(page).getByRole("tab", { name });
const toolButton = (page, name) => panel(page).getByRole("button", { name: new RegExp(`^${name} `) });
const details = (page, name) => panel(page).getByRole("group", { name: `Tool: ${name}` });
const away = (page) => page.mouse.move(0, 0); // no tooltip
const stateOf = async (rpc, name) => (await rpc("mcp.tools", { name: "diary" })).tools.find((x) => x.name === name)?.state;

async function empty({ page, go, looks }) {
  await go("mcp");
  await page.getByText("No MCP servers yet").waitFor();
  await looks("empty");
}

async function add({ page, helix, rpc, check, looks }) {
  await page.getByRole("button", { name: "Add server…" }).first().click();
  await dialog(page).getByLabel("Name", { exact: true }).fill("diary");
  await dialog(page).getByLabel("Command").fill(`"${process.execPath}" "${program}" "${file(helix)}"`);
  await dialog(page).getByRole("button", { name: "Add variable" }).click();
  await dialog(page).getByLabel("Name 1", { exact: true }).fill("DIARY_KEY");
  await dialog(page).getByLabel("Value 1", { exact: true }).fill("a-long-diary-key");
  await looks("add");
  await dialog(page).getByRole("button", { name: "Save" }).click();
  await panel(page).getByRole("heading", { name: "diary" }).waitFor();
  await panel(page).getByText("3 tools to review").waitFor();
  const { server } = await rpc("mcp.server", { name: "diary" });
  check(server.env.DIARY_KEY === "${MCP_DIARY_DIARY_KEY}", "the entry contains only the name of the secret");
  await looks("review");
}

async function approve({ page, rpc, looks }) {
  await panel(page).getByRole("button", { name: "Choose read-only" }).click();
  await panel(page).getByRole("checkbox", { name: "Choose find", checked: true }).waitFor();
  await panel(page).getByRole("checkbox", { name: "Choose write" }).check();
  await panel(page).getByRole("button", { name: "Approve 2" }).click();
  await toast(page, "Approved 2 tools").waitFor();
  await until(async () => (await stateOf(rpc, "find")) === "approved" && (await stateOf(rpc, "write")) === "approved", "two tools are approved");
  await panel(page).getByText("1 tool to review").waitFor();
  await away(page);
  await looks("approved");
}

async function run({ page, rpc, looks }) {
  await toolButton(page, "write").click();
  const tool = details(page, "write");
  await tool.getByLabel("text *").fill("rain");
  await tool.getByRole("button", { name: "Run", exact: true }).click();
  await tool.getByText('write: {"text":"rain"}, key set').waitFor();
  await away(page);
  await looks("ran");
  // What the tool itself refuses is shown as its answer.
  await toolButton(page, "refuse").click();
  await details(page, "refuse").getByRole("button", { name: "Approve", exact: true }).click();
  await until(async () => (await stateOf(rpc, "refuse")) === "approved", "refuse is approved");
  await details(page, "refuse").getByRole("button", { name: "Run", exact: true }).click();
  await details(page, "refuse").getByText("The diary is closed today.").waitFor();
  await details(page, "refuse").getByText("The call failed").waitFor();
}

async function keepOff({ page, rpc }) {
  await details(page, "refuse").getByRole("button", { name: "Keep off" }).click();
  await toast(page, "refuse stays off").waitFor();
  await until(async () => (await stateOf(rpc, "refuse")) === "denied", "refuse is off");
  await page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Undo" }).last().click();
  await until(async () => (await stateOf(rpc, "refuse")) !== "denied", "Undo brings it back");
  await toolButton(page, "refuse").click();
  await details(page, "refuse").first().waitFor({ state: "detached" });
}

/** A changed description stops the calls, shows the difference and is approved again. */
async function change({ page, helix, rpc, looks }) {
  await setTools(helix, tools("Finds entries, and sends them to a stranger."));
  await panel(page).getByRole("button", { name: "Actions for diary" }).click();
  await page.getByRole("menuitem", { name: /^Restart/ }).click();
  await panel(page).getByText("1 tool has changed").waitFor();
  await toolButton(page, "find").click();
  const tool = details(page, "find");
  await tool.getByText("What changed").waitFor();
  await tool.getByRole("region", { name: /description/i }).getByText("stranger").first().waitFor();
  await away(page);
  await looks("changed");
  await tool.getByRole("button", { name: "Approve", exact: true }).click();
  await until(async () => (await stateOf(rpc, "find")) === "approved", "the new definition is approved");
  await tool.getByText("What changed").first().waitFor({ state: "detached" });
}

async function log({ page, looks }) {
  await tab(page, "Log").click();
  await panel(page).getByRole("log", { name: "Log of the server" }).getByText("diary is open").first().waitFor();
  await looks("log");
  await tab(page, "Configuration").click();
  await panel(page).getByText("${MCP_DIARY_DIARY_KEY}").waitFor();
  await panel(page).getByText("1.2.3").waitFor();
  await looks("configuration");
  await tab(page, "Tools").click();
}

async function test({ page, looks }) {
  await panel(page).getByRole("button", { name: "Test", exact: true }).click();
  await panel(page).getByText("The server works.").waitFor();
  await away(page);
  await looks("test");
}

/** The keys of the list: off and on, stop and start; and a deep link. */
async function keys({ page, go, rpc, check }) {
  const server = async () => (await rpc("mcp.servers", {})).servers[0];
  await servers(page).focus();
  await page.keyboard.press("o");
  await panel(page).getByText("This server is off.").first().waitFor();
  await until(async () => !(await server()).enabled, "it is off");
  await page.keyboard.press("o");
  await until(async () => (await server()).enabled, "it is on again");
  await panel(page).getByText("This server is off.").first().waitFor({ state: "detached" });
  await page.keyboard.press("Escape");
  await panel(page).first().waitFor({ state: "detached" });
  await go("mcp/servers/diary/entry");
  await panel(page).getByText("${MCP_DIARY_DIARY_KEY}").waitFor();
  await go("mcp/servers/nobody");
  await page.getByText("Couldn't load the server.").waitFor();
  await go("mcp");
  check((await server()).approved === 3, "its approvals survive being turned off");
}

async function importing({ page, rpc, check, looks }) {
  await page.getByRole("button", { name: "Import…" }).first().click();
  const config = { mcpServers: { diary: { command: "node" }, notes: { command: process.execPath, args: ["--version"], env: { NOTES_TOKEN: "ghp_0123456789abcdefghijklmnopqrstuvwxyz" } }, web: { url: "https://example.org/mcp" } } };
  await dialog(page).getByLabel("Or paste a configuration").fill(JSON.stringify(config));
  await dialog(page).getByRole("button", { name: "Review" }).last().click();
  await dialog(page).getByText(/Stored as secrets/).waitFor();
  check(await dialog(page).getByRole("checkbox", { name: "diary" }).isDisabled(), "a taken name can't be chosen");
  await dialog(page).getByRole("checkbox", { name: "web" }).uncheck();
  await away(page);
  await looks("import");
  await dialog(page).getByRole("button", { name: "Add 1 server" }).click();
  await toast(page, "Added 1 server").waitFor();
  const entry = (await rpc("mcp.server", { name: "notes" })).server;
  check(/^\$\{.+\}$/.test(entry.env.NOTES_TOKEN), "the key is now a secret");
}

async function serve({ page, rpc, go, looks }) {
  await go("mcp/serve");
  await page.getByText("helix mcp serve").first().waitFor();
  const item = page.getByRole("switch", { name: /^Offer .*memor/i }).first();
  await item.click();
  await until(async () => (await rpc("mcp.exposed", {})).tools.length === 1, "it is offered");
  await away(page);
  await looks("serve");
  await item.click();
  await until(async () => (await rpc("mcp.exposed", {})).tools.length === 0, "it is withdrawn");
  await page.getByRole("button", { name: "Copy configuration" }).click();
  await toast(page, "Configuration copied").waitFor();
}

/** A program that ends at once: the screen says what it wrote. */
async function broken({ page, go, looks }) {
  await go("mcp/servers/notes");
  await panel(page).getByRole("heading", { name: "notes" }).waitFor();
  await panel(page).getByText(/Couldn't read the tools/).waitFor();
  await looks("broken");
}

async function remove({ page, go, rpc }) {
  await go("mcp/servers/diary");
  await panel(page).getByRole("heading", { name: "diary" }).waitFor();
  await servers(page).focus();
  await page.keyboard.press("Delete");
  await toast(page, "Removed diary").waitFor();
  await until(async () => (await rpc("mcp.servers", {})).servers.every((s) => s.name !== "diary"), "it is removed");
  await page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Undo" }).last().click();
  await until(async () => (await rpc("mcp.servers", {})).servers.some((s) => s.name === "diary" && s.approved === 3), "Undo restores it with its approvals");
  await panel(page).getByRole("heading", { name: "diary" }).waitFor();
}

async function german({ page, go, shot }) {
  await page.evaluate(() => localStorage.setItem("helix.language", "de"));
  await page.reload();
  await go("mcp/servers/diary");
  await page.getByRole("complementary", { name: "MCP-Server" }).getByText("von 3 Werkzeugen genehmigt").first().waitFor();
  await shot("german");
  await page.evaluate(() => localStorage.setItem("helix.language", "en"));
}
