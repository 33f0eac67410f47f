// Screens with a lot of content: a long API description and a log with failures, MCP servers in every state, thirty schedules,
// two hundred memos, many conflicts. Each is looked at in both themes, small and in German.
import { createServer } from "node:http";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { startHelix } from "./lib/helix.mjs";
import { until } from "./lib/page.mjs";
import { startPostgres } from "./lib/postgres.mjs";
import { tones } from "./lib/sound.mjs";

export default async function (t) {
  await discovery(t);
  await mcp(t);
  await schedules(t);
  await voice(t);
  await conflicts(t);
}

const away = (page) => page.mouse.move(0, 0); // no tooltip

/** An API with 120 operations, some of which fail. */
async function startLibrary() {
  const server = createServer((req, res) => {
    const send = (status, body) => res.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    if (req.url.startsWith("/loans")) send(500, { message: "The catalog of loans is being rebuilt." });
    else if (req.url.startsWith("/readers")) send(403, { message: "Only librarians may read this." });
    else send(200, { items: [] });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const parts = ["books", "loans", "readers", "branches", "reservations", "acquisitions", "subject-headings", "interlibrary-loans", "notifications", "statistics"];
  const answer = { 200: { description: "ok", content: { "application/json": { schema: { type: "object" } } } } };
  const id = { name: "id", in: "path", required: true, schema: { type: "string" } };
  const describe = (version) => {
    const paths = {};
    for (const part of parts) {
      const operation = (verb, summary, more = {}) => ({ operationId: `${verb}-${part}`, summary, tags: [part], responses: answer, ...more });
      paths[`/${part}`] = { get: operation("list", `Lists ${part}, newest first, with everything that the reader who asks may see`, { parameters: [{ name: "query", in: "query", schema: { type: "string" } }] }), post: operation("create", `Creates one of ${part}`) };
      paths[`/${part}/{id}`] = { get: operation("get", `Returns one of ${part}`, { parameters: [id] }), put: operation("replace", `Replaces one of ${part}`, { parameters: [id] }), patch: operation("change", `Changes parts of one of ${part}`, { parameters: [id] }), delete: operation("delete", `Deletes one of ${part}`, { parameters: [id] }) };
      paths[`/${part}/{id}/history`] = { get: operation("history", `Lists the changes of one of ${part}${version > 1 ? ", with who made them" : ""}`, { parameters: [id] }) };
      paths[`/${part}/{id}/attachments`] = { get: operation("attachments", `Lists the attachments of one of ${part}`, { parameters: [id], deprecated: true }), post: operation("attach", `Attaches a document to one of ${part}`, { parameters: [id] }) };
      paths[`/${part}/{id}/attachments/{attachmentId}/revisions`] = { get: operation("revisions", `Lists the revisions of an attachment`, { parameters: [id, { ...id, name: "attachmentId" }] }) };
      paths[`/${part}/bulk`] = { post: operation("bulk", `Changes many of ${part} at once`), delete: operation("bulk-delete", `Deletes many of ${part} at once`) };
    }
    return { openapi: "3.0.3", info: { title: "City library", version: `${version}.0.0`, description: "Books, loans and readers of all branches." }, servers: [{ url: `http://localhost:${server.address().port}` }], paths };
  };
  return { describe, stop: () => (server.closeAllConnections(), server.close()) };
}

async function discovery({ page, rpc, go, looks, check }) {
  const library = await startLibrary();
  try {
    const dialog = page.getByRole("dialog");
    const inspect = async (version) => {
      await page.getByRole("button", { name: "Add API…" }).first().click();
      await dialog.getByLabel("Or paste the description").fill(JSON.stringify(library.describe(version)));
      await dialog.getByRole("button", { name: "Inspect" }).click();
      await dialog.getByText("120 operations, 50 read-only").waitFor();
      await dialog.getByRole("checkbox").nth(20).waitFor();
    };
    await go("discovery");
    await inspect(1);
    await away(page);
    await looks("operations");
    await dialog.getByRole("button", { name: "Choose shown" }).click();
    await dialog.getByRole("button", { name: "Review" }).click();
    await dialog.getByText("This is what would be added.").waitFor();
    await away(page);
    await looks("review");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    const panel = page.getByRole("complementary", { name: "API tool" });
    const ask = panel.getByRole("group", { name: "Approve this tool" });
    await ask.getByRole("button", { name: "Approve" }).click();
    await ask.first().waitFor({ state: "detached" });
    const find = async () => (await rpc("discovery.list", {})).tools.find((x) => x.name === "city-library");
    await until(async () => (await find()).status === "active", "it is active");
    const { manifestId } = await find();
    const run = (operation, params) => rpc("discovery.run", { manifestId, operation, params });
    for (const part of ["books", "loans", "readers", "branches", "statistics"]) await run(`get /${part}`, {}).catch(() => {});
    await run("get /loans/{id}", { id: "a book that is overdue and whose number is unusually long: 978-3-16-148410-0" }).catch(() => {});
    await panel.getByRole("tab", { name: "Runs" }).click();
    await panel.getByRole("list", { name: "Runs" }).getByRole("listitem").nth(5).waitFor();
    await away(page);
    await looks("runs");
    await page.getByRole("main").getByRole("tab", { name: "Log", exact: true }).click();
    await page.getByRole("listbox", { name: "Log" }).getByRole("option", { name: /Failed/ }).first().click();
    await page.getByRole("complementary", { name: "Run" }).getByText("HTTP status").waitFor();
    await away(page);
    await looks("log");

    // A newer description waits for approval; then the tool is revoked.
    await go("discovery");
    await inspect(2);
    await dialog.getByRole("button", { name: "Choose shown" }).click();
    await dialog.getByRole("combobox", { name: "If the name is taken" }).click();
    await page.getByRole("option", { name: "Replace its definition" }).click();
    await dialog.getByRole("button", { name: "Review" }).click();
    await dialog.getByText("This is what would be added.").waitFor();
    await away(page);
    await looks("replaced");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await ask.waitFor();
    await away(page);
    await looks("changed");
    await rpc("discovery.revoke", { manifestId });
    await page.getByText("Revoked", { exact: true }).first().waitFor().catch(() => check(false, "a revoked tool says so"));
    await away(page);
    await looks("revoked");
  } finally {
    library.stop();
  }
}

/** Servers that run, failed, need a sign-in, wait for approval, are off, and changed a tool. */
async function mcp({ page, helix, rpc, go, looks }) {
  const program = path.join(path.dirname(fileURLToPath(import.meta.url)), "lib", "mcpserver.mjs");
  const file = path.join(helix.dir, "many-tools.json");
  const schema = { type: "object", properties: { text: { type: "string", description: "What happened" } }, required: ["text"] };
  const tools = (n, about) => Array.from({ length: n }, (_, i) => ({ name: `entry_${i + 1}`, description: `${about} ${i + 1} of the diary, with all of its pictures, its place and the people in it.`, inputSchema: schema, annotations: { readOnlyHint: i % 2 === 0 } }));
  await writeFile(file, JSON.stringify(tools(12, "Reads entry")));
  const closed = createServer((_, res) => res.writeHead(401, { "WWW-Authenticate": "Bearer" }).end());
  closed.listen(0, "127.0.0.1");
  await once(closed, "listening");
  try {
    const add = (name, more) => rpc("mcp.add", { server: { name, ...more } });
    await add("diary", { command: process.execPath, args: [program, file] });
    await add("broken", { command: process.execPath, args: ["--no-such-option"] });
    await add("missing", { command: "a-program-that-is-not-installed", args: ["--port", "1"] });
    await add("closed", { url: `http://127.0.0.1:${closed.address().port}/mcp` });
    await add("resting", { command: process.execPath, args: [program, file], enabled: false });
    for (const name of ["diary", "broken", "missing", "closed"]) await rpc("mcp.start", { name }).catch(() => {});
    await rpc("mcp.approve_server", { name: "diary", definitionHash: (await rpc("mcp.server", { name: "diary" })).definitionHash, tools: ["entry_1", "entry_2"] });
    const panel = page.getByRole("complementary", { name: "MCP server" });
    await go("mcp");
    await page.getByRole("listbox", { name: "MCP" }).getByRole("option").nth(4).waitFor();
    await away(page);
    await looks("servers");
    for (const name of ["closed", "missing", "broken", "resting"]) {
      await go(`mcp/servers/${name}`);
      await panel.getByRole("heading", { name }).waitFor();
      await panel.getByRole("tab", { name: "Tools" }).waitFor();
      await away(page);
      await looks(`server-${name}`);
    }
    await writeFile(file, JSON.stringify(tools(14, "Reads and changes entry")));
    await rpc("mcp.restart", { name: "diary" });
    await go("mcp/servers/diary");
    await panel.getByText(/changed/).first().waitFor();
    await panel.getByRole("button", { name: /^entry_1 / }).click();
    await panel.getByText("What changed").waitFor();
    await away(page);
    await looks("server-changed");
    for (const name of ["Text Counter", "Weather"]) await rpc("tools.create", { name, code: "export default async () => 1;", language: "typescript", description: `${name} of the suite`, capabilities: [] });
    await go("mcp/serve");
    await page.getByRole("switch", { name: "Offer Weather" }).click();
    await away(page);
    await looks("exposed");
  } finally {
    closed.closeAllConnections();
    closed.close();
  }
}

async function schedules({ page, rpc, go, looks }) {
  const make = async (name, code) => (await rpc("tools.create", { name, code, language: "typescript", description: name, capabilities: [] })).tool.id;
  const fine = await make("Collect the news", "export default async () => ({ found: 12 });");
  const fails = await make("Copy the photos", `export default async () => { throw new Error("The folder of the camera is not there."); };`);
  const names = ["Backup of the accounts", "Morning summary", "Water the garden", "Collect invoices", "Check the heating", "Weekly review"];
  for (let i = 0; i < 30; i++) {
    const bad = i % 5 === 3;
    const { scheduleId } = await rpc("schedules.create", { name: `${names[i % names.length]} ${i + 1}`, description: "Runs while nobody is there", target: { kind: "tool", id: bad ? fails : fine }, cadence: { type: "cron", expression: `${i} ${i % 24} * * ${i % 3 === 0 ? "1-5" : "*"}` }, retry: { max: 0, baseSecs: 1, capSecs: 1 }, autoDisableAfter: 2, paused: i % 7 === 6 });
    for (let n = 0; n < (bad ? 2 : 1); n++) await rpc("schedules.run_now", { scheduleId });
  }
  await until(async () => (await rpc("schedules.runs", { limit: 100 })).runs.every((r) => r.finishedAt !== null), "the runs have ended");
  await go("schedules");
  await page.getByRole("listbox", { name: "Schedules" }).getByRole("option").nth(10).waitFor();
  await away(page);
  await looks("schedules");
  await page.getByRole("searchbox", { name: "Search schedules" }).fill("Collect invoices 4");
  await page.getByRole("listbox", { name: "Schedules" }).getByRole("option", { name: /^Collect invoices 4/ }).click();
  await page.getByRole("complementary", { name: "Schedule" }).getByRole("heading", { name: "Collect invoices 4" }).waitFor();
  await away(page);
  await looks("schedule-failed");
  await go("schedules/history");
  await page.getByRole("listbox", { name: "Runs" }).getByRole("option").nth(10).waitFor();
  await away(page);
  await looks("schedules-history");
  await go("schedules/calendar");
  await page.getByRole("grid").getByRole("gridcell").first().waitFor();
  await away(page);
  await looks("schedules-week");
}

async function voice({ page, rpc, go, looks, check }) {
  const audioBase64 = tones([440, 300]).toString("base64");
  const about = ["Einkaufsliste für das Wochenende", "Gedanken zur Wohnungsbesichtigung in der Donaudampfschifffahrtsstraße", "Rückruf bei der Krankenversicherung", "Idee", "Besprechung mit Frau Schmidt-Rottenberger über die Jahresabschlussprüfung"];
  const upload = (i) => rpc("voice.upload_memo", { audioBase64, title: `${about[i % about.length]} ${i + 1}`, tags: ["Notiz"], recordedAt: new Date(Date.UTC(2025, 0, 1, 8) + i * 36e5).toISOString() });
  for (let i = 0; i < 200; i++)
    await until(async () => {
      const failed = await upload(i).then(() => "", (e) => e.message);
      if (failed !== "" && !failed.includes("Too many")) throw new Error(failed);
      return failed === "";
    }, "a memo is uploaded");
  await go("voice");
  const memos = page.getByRole("listbox", { name: "Voice" });
  await memos.getByRole("option").nth(5).waitFor();
  await away(page);
  await looks("memos");
  await memos.focus();
  await page.keyboard.press("End");
  await until(async () => (await memos.getByRole("option", { selected: true }).count()) === 1, "the last of what is loaded is chosen");
  await page.getByRole("complementary", { name: "Memo" }).getByRole("slider", { name: "Position" }).waitFor();
  await away(page);
  await looks("memo");
  await go("voice/queue");
  await page.getByRole("region", { name: "Queue" }).first().waitFor();
  await away(page);
  await looks("queue");
  check((await rpc("voice.list_memos", { limit: 1 })).total === 200, "all memos are there");
}

/** Sixty memories that two devices changed differently. */
async function conflicts({ page, rpc, go, looks }) {
  const hub = await startPostgres();
  let other;
  try {
    other = await startHelix();
    const both = [rpc, other.rpc];
    await rpc("sync.setup", { adminDsn: hub.dsn, name: "Desk" });
    const { link } = await rpc("sync.invite", { name: "Laptop" });
    await other.rpc("sync.enroll", { code: link, name: "Laptop" });
    const ids = [];
    for (let i = 1; i <= 60; i++) ids.push((await rpc("memory.add", { content: `Entry ${i}: the meeting about the new kitchen is on Monday at ten.` })).item.id);
    const settle = async () => {
      for (const call of [...both, ...both]) await call("sync.coordinate", {});
    };
    await settle();
    for (const call of both) await call("sync.pause", {});
    const edit = async (call, id, content) => call("memory.update", { id, content, version: (await call("memory.get", { id })).version });
    for (const [i, id] of ids.entries()) {
      await edit(rpc, id, `Entry ${i + 1}: the meeting about the new kitchen is on Tuesday at ten, and the carpenter brings the plans.`);
      if (i % 6 === 5) await other.rpc("memory.delete", { ids: [id] });
      else await edit(other.rpc, id, `Entry ${i + 1}: the meeting about the new kitchen is on Friday at noon, as the carpenter is away before.`);
    }
    for (const call of both) await call("sync.resume", {});
    await settle();
    await until(async () => (await rpc("sync.conflicts", {})).total === 60, "each of them is a conflict");
    await go("sync");
    const rows = page.getByRole("listbox", { name: "Conflicts" }).getByRole("option");
    await rows.nth(5).waitFor();
    await away(page);
    await looks("conflicts");
    await rows.nth(2).click();
    await page.getByRole("complementary", { name: "Conflict" }).getByRole("button", { name: /All of this kind/ }).waitFor();
    await away(page);
    await looks("conflict");
  } finally {
    await other?.stop();
    await hub.stop();
  }
}
