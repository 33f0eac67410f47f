// The Discovery screen with a real API of the suite: inspect its description, choose operations, approve, run one from
// its form, store a key, see the log, replace the definition, approve again, turn off, revoke and undo, revoke. Then what
// is missing is searched for, requested and added from the directory, and a tool is verified by its samples.
import { createServer } from "node:http";
import { once } from "node:events";
import { until } from "./lib/page.mjs";

const tool = "notes";

/** The API: notes by number; adding one needs a key. */
async function startApi() {
  const requests = [];
  const server = createServer((req, res) => {
    requests.push(`${req.method} ${req.url}`);
    const send = (status, body) => {
      res.writeHead(status, { "Content-Type": "application/json" });
      res.end(JSON.stringify(body));
    };
    const note = /^\/notes\/(\d+)$/.exec(req.url);
    if (req.method === "POST" && req.headers["x-key"] !== "the-key-of-the-api") return send(401, { message: "no key" });
    if (req.method === "POST") return send(201, { id: 7 });
    if (note) return send(200, { id: Number(note[1]), text: `note ${note[1]}` });
    send(404, { message: "no such note" });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  const operation = (id, summary, more) => ({ operationId: id, summary, responses: { 200: { description: "ok", content: { "application/json": { schema: { type: "object" } } } } }, ...more });
  const describe = (summary) => ({
    openapi: "3.0.3",
    info: { title: "Notes", version: "1.0.0", description: "Notes of the suite." },
    servers: [{ url: `http://localhost:${port}` }],
    components: { securitySchemes: { key: { type: "apiKey", in: "header", name: "X-Key" } } },
    paths: {
      "/notes/{id}": { get: operation("getNote", summary, { tags: ["read"], parameters: [{ name: "id", in: "path", required: true, schema: { type: "integer" } }] }), delete: operation("deleteNote", "Deletes a note", { parameters: [{ name: "id", in: "path", required: true, schema: { type: "integer" } }] }) },
      "/notes": { post: operation("addNote", "Adds a note", { security: [{ key: [] }], requestBody: { required: true, content: { "application/json": { schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } } } } }) },
    },
  });
  return { requests, describe, stop: () => (server.closeAllConnections(), server.close()) };
}

export default async function (t) {
  const api = await startApi();
  try {
    await empty(t);
    await refuse(t);
    await add(t, api);
    await approve(t);
    await run(t, api);
    await credential(t);
    await log(t);
    await change(t, api);
    await keys(t);
    await revoke(t);
    await find(t);
    await request(t);
    await verify(t, api);
    await german(t);
  } finally {
    api.stop();
  }
}

const tools = (page) => page.getByRole("listbox", { name: "Discovery" });
const panel = (page) => page.getByRole("complementary", { name: "API tool" });
const dialog = (page) => page.getByRole("dialog");
const toast = (page, words) => page.getByRole("region", { name: "Messages" }).getByText(words).first();
const tab = (page, name) => panel(page).getByRole("tab", { name });
const toolOf = async (rpc) => (await rpc("discovery.list", {})).tools.find((x) => x.name === tool);
const operation = (page, name) => panel(page).getByRole("group", { name: `Operation: ${name}` });
const away = (page) => page.mouse.move(0, 0); // no tooltip

async function empty({ page, go, looks }) {
  await go("discovery");
  await page.getByText("No API tools yet").waitFor();
  await looks("empty");
}

async function refuse({ page }) {
  await page.getByRole("button", { name: "Add API…" }).first().click();
  await dialog(page).getByLabel("Or paste the description").fill("not a description");
  await dialog(page).getByRole("button", { name: "Inspect" }).click();
  await dialog(page).getByRole("alert").waitFor();
}

async function inspect(page, text) {
  await dialog(page).getByLabel("Or paste the description").fill(text);
  await dialog(page).getByRole("button", { name: "Inspect" }).click();
  await dialog(page).getByText("3 operations, 1 read-only").waitFor();
  await dialog(page).getByRole("checkbox", { name: "GET /notes/{id}" }).waitFor();
}

async function add({ page, rpc, check, looks }, api) {
  await inspect(page, JSON.stringify(api.describe("Reads a note")));
  // Few operations are all chosen at first.
  await dialog(page).getByRole("checkbox", { name: "DELETE /notes/{id}" }).uncheck();
  await dialog(page).getByText(/^2 operations, /).waitFor();
  await away(page);
  await looks("operations");
  await dialog(page).getByRole("button", { name: "Review" }).click();
  await dialog(page).getByText("This is what would be added.").waitFor();
  check(!(await toolOf(rpc)), "the review stores nothing");
  await away(page);
  await looks("preview");
  await dialog(page).getByRole("button", { name: "Add", exact: true }).click();
  await panel(page).getByRole("heading", { name: tool, exact: true }).waitFor();
  check((await toolOf(rpc)).status === "pending_approval", "it waits for approval");
}

async function approve({ page, rpc, looks }) {
  const ask = panel(page).getByRole("group", { name: "Approve this tool" });
  await ask.getByText(/localhost:\d+/).waitFor();
  await ask.getByText("It has 2 operations, 1 of which can change data.").waitFor();
  await away(page);
  await looks("approve");
  await ask.getByRole("button", { name: "Approve" }).click();
  await toast(page, "Approved notes").waitFor();
  await ask.first().waitFor({ state: "detached" });
  await until(async () => (await toolOf(rpc)).status === "active", "it is active");
}

async function run({ page, check, looks }, api) {
  const name = "getNote";
  await panel(page).getByRole("button", { name: new RegExp(`^${name} `, "i") }).click();
  const form = panel(page).getByRole("group", { name: new RegExp(`^Operation: `) });
  await form.getByLabel("id *").fill("42");
  await form.getByRole("button", { name: "Show request" }).click();
  await form.getByText(/localhost:\d+\/notes\/42/).first().waitFor();
  check(api.requests.length === 0, "nothing was sent to show the request");
  await form.getByRole("button", { name: "Run again", exact: true }).first().click();
  await form.getByText("note 42").first().waitFor();
  check(api.requests.join() === "GET /notes/42", "exactly one request was sent");
  await away(page);
  await looks("ran");
}

async function credential({ page, rpc, check, looks }) {
  await tab(page, "Rights").click();
  await panel(page).getByText("Missing", { exact: true }).waitFor();
  await panel(page).getByLabel("Value: key").fill("the-key-of-the-api");
  await looks("rights");
  await panel(page).getByRole("button", { name: "Store" }).click();
  await toast(page, "Stored key").waitFor();
  await panel(page).getByText("Stored", { exact: true }).waitFor();
  check((await panel(page).getByLabel("Value: key").inputValue()) === "", "the value is gone from the page");
  const { manifestId } = await toolOf(rpc);
  const post = (await rpc("discovery.operations", { manifestId })).operations.find((o) => /^post$/i.test(o.method));
  const done = await rpc("discovery.run", { manifestId, operation: post.name, params: { body: { text: "hello" } } });
  check(done.success, `the key is sent: ${done.error ?? ""}`);
  await tab(page, "Runs").click();
  await panel(page).getByRole("list", { name: "Runs" }).getByRole("button").nth(1).waitFor();
}

async function log({ page, go, looks }) {
  await page.getByRole("main").getByRole("tab", { name: "Log", exact: true }).click();
  const rows = page.getByRole("listbox", { name: "Log" }).getByRole("option");
  await rows.nth(1).waitFor();
  await rows.nth(1).click();
  const run = page.getByRole("complementary", { name: "Run" });
  await run.getByText("HTTP status").waitFor();
  await run.getByText("note 42").first().waitFor();
  await away(page);
  await looks("log");
  await page.keyboard.press("Escape");
  await run.first().waitFor({ state: "detached" });
  await go("discovery");
}

/** The same name again replaces the definition, which then waits for approval. */
async function change({ page, rpc, looks }, api) {
  await page.getByRole("button", { name: "Add API…" }).first().click();
  await inspect(page, JSON.stringify(api.describe("Reads a note, in a new way")));
  await dialog(page).getByRole("combobox", { name: "If the name is taken" }).click();
  await page.getByRole("option", { name: "Replace its definition" }).click();
  await dialog(page).getByRole("button", { name: "Review" }).click();
  await dialog(page).getByText("Added", { exact: true }).waitFor();
  await away(page);
  await looks("difference");
  await dialog(page).getByRole("button", { name: "Add", exact: true }).click();
  const ask = panel(page).getByRole("group", { name: "Approve this tool" });
  await ask.getByText("It has 3 operations, 2 of which can change data.").waitFor();
  await ask.getByRole("button", { name: "Approve" }).click();
  await ask.first().waitFor({ state: "detached" });
  await until(async () => (await toolOf(rpc)).status === "active", "it is active again");
}

async function keys({ page, rpc }) {
  await panel(page).getByText("Active", { exact: true }).waitFor();
  await tools(page).getByRole("option", { name: /Active/ }).waitFor();
  await tools(page).focus();
  await page.keyboard.press("d");
  await until(async () => (await toolOf(rpc)).status === "disabled", "it is off");
  await panel(page).getByText("This tool is off.").first().waitFor();
  await page.keyboard.press("d");
  await until(async () => (await toolOf(rpc)).status === "active", "it is on again");
  await panel(page).getByText("This tool is off.").first().waitFor({ state: "detached" });
}

async function revoke({ page, rpc }) {
  const undo = page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Undo" }).last();
  await tools(page).getByRole("option", { name: /Active/ }).waitFor();
  await tools(page).focus();
  await page.keyboard.press("Delete");
  await toast(page, "Revoked notes").waitFor();
  await until(async () => (await toolOf(rpc)).status === "disabled", "it is off at once");
  await undo.click();
  await away(page); // a message under the pointer does not end
  await until(async () => (await toolOf(rpc))?.status === "active", "Undo turns it on again");
  await toast(page, "Revoked notes").first().waitFor({ state: "detached" });
  await panel(page).getByRole("heading", { name: tool, exact: true }).waitFor();
  await tools(page).getByRole("option", { name: /Active/ }).waitFor();
  await tools(page).focus();
  await page.keyboard.press("Delete");
  await toast(page, "Revoked notes").waitFor();
  await until(async () => !(await toolOf(rpc)), "it is revoked when the time for Undo is over");
  await page.getByText("No API tools yet").waitFor();
}

const view = (page, name) => page.getByRole("main").getByRole("tab", { name });

async function find({ page, go, looks }) {
  await go("discovery");
  await view(page, "Find").click();
  await page.getByText("Find an API").first().waitFor();
  await page.getByRole("button", { name: "Catalogs…" }).click();
  await dialog(page).getByText("No catalogs yet").waitFor();
  await dialog(page).getByRole("textbox", { name: "List on the web" }).fill("https://lists.example/list.json");
  await dialog(page).getByRole("button", { name: "Add list" }).click();
  await toast(page, "Couldn't add the catalog").waitFor();
  await away(page);
  await looks("catalogs");
  await dialog(page).getByRole("button", { name: "Close" }).last().click();
  await dialog(page).first().waitFor({ state: "detached" });
  const question = page.getByRole("searchbox", { name: "What should it do?" });
  await question.fill("send an email");
  const mail = page.getByRole("list", { name: "Find" }).getByRole("listitem").filter({ hasText: "Send e-mail (SMTP)" });
  await mail.getByRole("button", { name: "Add…" }).click();
  await dialog(page).getByRole("textbox", { name: "server" }).fill("smtp.example.com");
  await dialog(page).getByRole("textbox", { name: "from" }).fill("me@example.com");
  await away(page);
  await looks("variables");
  await dialog(page).getByRole("button", { name: "Review" }).click();
  await dialog(page).getByText("smtps://smtp.example.com:465/me@example.com").waitFor();
  await dialog(page).getByRole("button", { name: "Close" }).last().click();
  await dialog(page).first().waitFor({ state: "detached" });
  await question.fill("exchange rate of the euro");
  const row = page.getByRole("list", { name: "Find" }).getByRole("listitem").filter({ hasText: "Frankfurter" });
  await row.getByText("Unverified").waitFor();
  await away(page);
  await looks("find");
  await row.getByRole("button", { name: "Add…" }).click();
  await dialog(page).getByRole("checkbox").first().waitFor();
  await dialog(page).getByRole("button", { name: "Close" }).last().click();
  await dialog(page).first().waitFor({ state: "detached" });
}

/** A request leads to candidates, and the chosen one to a tool that waits for approval. */
async function request({ page, go, rpc, check, looks }) {
  await page.getByRole("button", { name: "Request it" }).click();
  const ask = page.getByRole("complementary", { name: "Request" });
  await ask.getByText("Candidates found").waitFor();
  await away(page);
  await looks("request");
  await ask.getByRole("list", { name: "Candidates" }).getByRole("listitem").filter({ hasText: "Frankfurter" }).getByRole("button", { name: "Add…" }).click();
  await dialog(page).getByRole("button", { name: "Review" }).click();
  await dialog(page).getByText("This is what would be added.").waitFor();
  await dialog(page).getByRole("button", { name: "Add", exact: true }).click();
  await panel(page).getByRole("group", { name: "Approve this tool" }).waitFor();
  const [made] = (await rpc("discovery.list", {})).tools;
  const [asked] = (await rpc("discovery.queue", {})).requests;
  check(made.status === "pending_approval" && asked.manifestId === made.manifestId && Boolean(asked.finishedAt), "the request ended with a tool that waits for approval");
  await rpc("discovery.request", { capabilityDescription: "zzz qqq", requestedBy: "agent" });
  await go("discovery/requests");
  const rows = page.getByRole("listbox", { name: "Requests" });
  await rows.getByRole("option", { name: "zzz qqq, Nothing found" }).waitFor();
  await rows.getByRole("option", { name: /Accepted/ }).click();
  await ask.getByRole("button", { name: "Open tool" }).waitFor();
  await away(page);
  await looks("requests");
  await rpc("discovery.revoke", { manifestId: made.manifestId });
}

async function verify({ page, go, rpc, looks }, api) {
  const described = api.describe("Reads a note");
  const host = new URL(described.servers[0].url).host;
  const manifest = {
    manifestVersion: 1,
    name: "sampled",
    version: "1.0.0",
    description: "Notes with samples.",
    capabilities: [{ name: "getNote" }, { name: "addNote" }],
    execution: { type: "http", openapi: described },
    permissions: { network: { hosts: [host] } },
    samples: [
      { capability: "getNote", params: { id: 1 }, expect: { contains: "note 1" } },
      { capability: "addNote", params: { body: { text: "x" } }, expect: {} },
    ],
  };
  const { manifestId } = await rpc("discovery.import_manifest", { content: JSON.stringify(manifest), dryRun: false });
  await go(`discovery/${manifestId}`);
  await panel(page).getByRole("group", { name: "Approve this tool" }).getByRole("button", { name: "Approve" }).click();
  const shown = panel(page).getByRole("group", { name: "Verification" });
  await shown.getByText("Samples passed").waitFor();
  await panel(page).getByText("Active", { exact: true }).waitFor();
  await shown.getByText("Skipped").waitFor();
  await away(page);
  await looks("verified");
  await shown.getByRole("button", { name: "Verify" }).click();
  await until(async () => (await rpc("discovery.executions", { manifestId })).executions.length === 2, "the sample was tried again");
  await shown.getByText("Samples passed").waitFor();
  await rpc("discovery.revoke", { manifestId });
}

async function german({ page, go, shot }) {
  await page.evaluate(() => localStorage.setItem("helix.language", "de"));
  await page.reload();
  await go("discovery");
  await page.getByText("Noch keine API-Werkzeuge").waitFor();
  await shot("german");
  await page.getByRole("main").getByRole("tab", { name: "Anfragen" }).click();
  await page.getByRole("option", { name: /Angenommen/ }).click();
  await page.getByRole("list", { name: "Kandidaten" }).waitFor();
  await shot("german requests");
  await page.evaluate(() => localStorage.setItem("helix.language", "en"));
}
