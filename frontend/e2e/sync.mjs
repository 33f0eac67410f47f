// Sync: two backends and two pages on one PostgreSQL. From an empty database to a second device by the wizard, edits
// that travel, edits without a connection, conflicts and their inbox, devices, shared skills, what could not be synced.
import { createServer } from "node:http";
import { startHelix } from "./lib/helix.mjs";
import { openPage, until } from "./lib/page.mjs";
import { startPostgres } from "./lib/postgres.mjs";

export default async function (t) {
  const hub = await startPostgres();
  let helix, other;
  try {
    helix = await startHelix();
    other = await openPage(t.browser, helix, "sync-laptop");
    const both = { a: t, b: other, hub };
    await notConnected(t);
    await project(t);
    await connect(both);
    await join(both);
    await travels(both);
    await offline(both);
    await conflict(both);
    await keyboard(both);
    await bulk(both);
    await deletion(both);
    await notSynced(both);
    await devices(both);
    await shares(both);
    await problems(both);
    t.complaints.push(...other.complaints);
  } catch (e) {
    await other?.shot("failed", process.env.HELIX_SHOTS ?? "../build/bin/failed").catch(() => {});
    throw e;
  } finally {
    await other?.close().catch(() => {});
    await helix?.stop();
    await hub.stop();
  }
}

const dialog = (page) => page.getByRole("dialog");
const inbox = (page) => page.getByRole("listbox", { name: "Conflicts" });
const item = (page, name) => inbox(page).getByRole("option", { name });
const panel = (page) => page.getByRole("complementary", { name: "Conflict" });
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text);
const state = (page, text) => page.getByRole("banner").or(page.locator("header")).getByText(text).first();
const remember = async ({ rpc }, content) => (await rpc("memory.add", { content })).item.id;
const edit = async ({ rpc }, id, content) => rpc("memory.update", { id, content, version: (await rpc("memory.get", { id })).version });
const text = async ({ rpc }, id) => (await rpc("memory.get", { id })).content;
const synced = (...all) => Promise.all(all.map(({ rpc }) => rpc("sync.coordinate", {})));
const settle = async (a, b) => {
  for (let i = 0; i < 2; i++) for (const x of [a, b]) await synced(x);
};
const conflicts = async ({ rpc }, p = {}) => (await rpc("sync.conflicts", p)).total;

/** Both change the same text without a connection. */
async function disagree(a, b, id, mine, theirs) {
  for (const x of [a, b]) await x.rpc("sync.pause", {});
  await edit(a, id, mine);
  await edit(b, id, theirs);
  for (const x of [a, b]) await x.rpc("sync.resume", {});
  await settle(a, b);
}

async function notConnected({ page, go, looks }) {
  await go("sync");
  await page.getByText("Keep your devices the same").waitFor();
  await looks("begin");
}

/** A person signs in to a project with a code from an e-mail; the project refuses a wrong one. */
async function project({ page, looks, check }) {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    response.writeHead(request.url === "/auth/v1/otp" ? 200 : 403).end("{}");
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  try {
    await page.getByRole("button", { name: "Connect a hub" }).click();
    await dialog(page).getByRole("combobox", { name: "Hub" }).click();
    await page.getByRole("option", { name: /Supabase project/ }).click();
    await dialog(page).getByLabel("Project URL").fill(`http://127.0.0.1:${server.address().port}`);
    await dialog(page).getByLabel("Publishable key").fill("sb_secret_x");
    await dialog(page).getByLabel("E-mail address").fill("nora@example.com");
    await dialog(page).getByRole("button", { name: "Send a code" }).click();
    await dialog(page).getByText("This is a secret key").waitFor();
    check(asked.length === 0, "a secret key is sent nowhere");
    await dialog(page).getByLabel("Publishable key").fill("sb_publishable_x");
    await looks("wizard-project");
    await dialog(page).getByRole("button", { name: "Send a code" }).click();
    await dialog(page).getByLabel("Code from the e-mail").fill("000000");
    await looks("wizard-mail");
    await dialog(page).getByRole("button", { name: "Next" }).click();
    await dialog(page).getByRole("button", { name: "Connect" }).click();
    await dialog(page).getByText(/refused the sign-in/).waitFor();
    check(asked.join() === "/auth/v1/otp,/auth/v1/verify", "the code was sent and tried once");
    await dialog(page).getByRole("button", { name: "Back" }).click();
    await dialog(page).getByRole("button", { name: "Cancel" }).click();
  } finally {
    server.close();
  }
}

/** The wizard makes an empty database the hub. */
async function connect({ a: { page, rpc, check, looks }, hub }) {
  await remember({ rpc }, "The spare key is with Nora.");
  await page.getByRole("button", { name: "Connect a hub" }).click();
  await dialog(page).getByLabel(/Connection string/).fill("what?");
  await dialog(page).getByRole("button", { name: "Next" }).click();
  await dialog(page).getByRole("button", { name: "Connect" }).click();
  await dialog(page).getByText("not a connection string").waitFor();
  await dialog(page).getByLabel(/Connection string/).fill(hub.dsn);
  await dialog(page).getByLabel("Name of this device").fill("desk");
  await looks("wizard-address");
  await dialog(page).getByRole("button", { name: "Next" }).click();
  await dialog(page).getByRole("checkbox", { name: /Encrypt my texts/ }).waitFor();
  await looks("wizard-encryption");
  const begin = Date.now();
  await dialog(page).getByRole("button", { name: "Connect" }).click();
  await dialog(page).getByText("Self-test passed").waitFor();
  await dialog(page).getByText("The first sync is complete.").waitFor();
  console.log(`sync: from an empty database to a first device in ${((Date.now() - begin) / 1000).toFixed(1)} s`);
  await page.mouse.move(0, 0); // no tip of the button stays open
  await looks("wizard-done");
  check(!(await page.content()).includes(hub.dsn), "the connection string is nowhere in the page");
  const code = await dialog(page).getByLabel("Recovery code").innerText();
  check(await dialog(page).getByRole("button", { name: "Done" }).isDisabled(), "the wizard stays until the recovery code is saved");
  await dialog(page).getByRole("checkbox", { name: "I have saved this code" }).check();
  await dialog(page).getByRole("button", { name: "Done" }).click();
  check(!(await page.content()).includes(code), "the recovery code is nowhere in the page afterwards");
  await page.getByText("No conflicts", { exact: true }).waitFor();
  await page.getByRole("contentinfo", { name: "Status" }).getByText("Synced").waitFor();
  await looks("empty");
}

/** A second device joins with a code. */
async function join({ a, b }) {
  const { page } = a;
  await page.getByRole("button", { name: "More sync actions" }).click();
  await page.getByRole("menuitem", { name: "Invite a device…" }).click();
  await dialog(page).getByLabel("Name of the new device").fill("laptop");
  await dialog(page).getByRole("button", { name: "Make a code" }).click();
  await dialog(page).getByText(/Works once/).waitFor();
  await a.looks("invite");
  await dialog(page).getByRole("button", { name: "Copy the code" }).click();
  await toast(page, "Code copied").waitFor();
  const code = await dialog(page).getByText(/^helix-sync:/).innerText();
  await dialog(page).getByRole("button", { name: "Close" }).last().click();

  await b.go("sync");
  await b.page.getByRole("button", { name: "Enter a code" }).click();
  await dialog(b.page).getByRole("textbox", { name: "Code" }).fill("helix-sync:nothing");
  await dialog(b.page).getByRole("button", { name: "Join" }).click();
  await dialog(b.page).getByText(/neither a link/).waitFor();
  await dialog(b.page).getByRole("textbox", { name: "Code" }).fill(code);
  await dialog(b.page).getByLabel("Name of this device").fill("laptop");
  await b.looks("code");
  await dialog(b.page).getByRole("button", { name: "Join" }).click();
  await dialog(b.page).getByText("The first sync is complete.").waitFor();
  await dialog(b.page).getByRole("button", { name: "Done" }).click();
  await b.page.getByText(/2 devices/).waitFor();
}

/** An edit on one shows on the other, without a hand. */
async function travels({ a, b }) {
  await b.go("memory");
  await b.page.getByText("The spare key is with Nora.").first().waitFor();
  const id = await remember(a, "The tide comes in twice a day.");
  await b.page.getByText("The tide comes in twice a day.").first().waitFor();
  const begin = Date.now();
  await edit(a, id, "The tide comes in at noon.");
  await b.page.getByText("The tide comes in at noon.").first().waitFor();
  console.log(`sync: an edit shows on the other device after ${Date.now() - begin} ms`);
}

/** Without the hub changes wait; different parts of a text are joined later. */
async function offline({ a, b, hub }) {
  const id = await remember(a, "milk\nbread\neggs");
  await settle(a, b);
  await hub.pause();
  await edit(a, id, "oat milk\nbread\neggs");
  await edit(b, id, "milk\nbread\neggs and cheese");
  await a.go("sync");
  await a.page.getByRole("button", { name: "Sync now" }).click();
  await a.page.getByText(/^Offline/).first().waitFor();
  await a.page.getByRole("contentinfo", { name: "Status" }).getByText(/Sync offline · \d/).waitFor();
  await a.looks("offline");
  await hub.resume();
  await a.page.getByRole("button", { name: "Check again" }).click();
  await a.page.getByText(/Up to date · 2 devices · last change/).waitFor();
  await settle(a, b);
  for (const x of [a, b]) await until(async () => (await text(x, id)) === "oat milk\nbread\neggs and cheese", "both changes are in both");
  a.check((await conflicts(a)) === 0, "different parts are no conflict");
}

/** The same words are changed on both: a conflict, which one click resolves on both. */
async function conflict({ a, b }) {
  const id = await remember(a, "The meeting with Otto is on Monday at ten in the blue room.");
  await settle(a, b);
  await disagree(a, b, id, "The meeting with Otto is on Tuesday at ten in the blue room.", "The meeting with Otto is on Friday at ten in the blue room.");
  await a.go("sync");
  await item(a.page, /meeting with Otto/).click();
  const view = panel(a.page);
  await view.getByRole("region", { name: /^Mine · desk/ }).getByText("Tuesday").waitFor();
  await view.getByRole("region", { name: /^Theirs · laptop/ }).getByText("Friday").waitFor();
  a.check((await view.locator("mark").allInnerTexts()).join() === "Monday,Tuesday,Friday", "the words that differ are marked");
  await a.page.getByRole("link", { name: /Sync, 1 to decide/ }).waitFor();
  await a.looks("conflict");
  await view.getByRole("button", { name: "Keep theirs" }).click();
  await toast(a.page, /Kept theirs/).waitFor();
  await settle(a, b);
  for (const x of [a, b]) {
    await until(async () => (await text(x, id)).includes("Friday"), "the choice is on both");
    await until(async () => (await conflicts(x)) === 0, "resolved on both");
  }
  await settle(a, b);
  for (const x of [a, b]) a.check((await conflicts(x)) === 0, "it stays resolved");
}

/** The inbox by keyboard alone: J, K, 1 to 4, U. */
async function keyboard({ a, b }) {
  const { page } = a;
  const key = (k) => page.keyboard.press(k);
  const ids = [];
  for (const name of ["Anna", "Bela", "Cleo"]) ids.push(await remember(a, `${name} likes pears.`));
  await settle(a, b);
  for (const [i, name] of ["Anna", "Bela", "Cleo"].entries()) await disagree(a, b, ids[i], `${name} likes plums.`, `${name} likes quinces.`);
  await a.go("sync");
  await until(async () => (await inbox(page).getByRole("option").count()) === 3, "three conflicts");
  await key("j"); // the latest first: Cleo
  await panel(page).getByText(/Cleo/).first().waitFor();
  await key("j");
  await panel(page).getByText(/Bela/).first().waitFor();
  await key("k");
  await key("1");
  await toast(page, /Kept mine: Cleo/).waitFor();
  await until(async () => (await text(a, ids[2])) === "Cleo likes plums.", "mine");
  await key("u");
  await item(page, /Cleo/).waitFor();
  await until(async () => (await conflicts(a)) === 3, "open again");
  await item(page, /Cleo/).and(page.locator("[aria-selected=true]")).waitFor();
  await key("2");
  await until(async () => (await text(a, ids[2])) === "Cleo likes quinces.", "theirs");
  await panel(page).getByText(/Bela/).first().waitFor(); // the next one
  await key("3");
  await until(async () => (await a.rpc("memory.list", {})).items.filter((m) => /Bela/.test(m.content)).length === 2, "both");
  await panel(page).getByText(/Anna/).first().waitFor();
  await key("4");
  const area = panel(page).getByLabel("Your text");
  await area.waitFor();
  await until(() => area.evaluate((el) => el === document.activeElement), "the text has the focus");
  await area.fill("Anna likes plums and quinces.");
  await a.looks("merged");
  await key("Control+Enter");
  await until(async () => (await text(a, ids[0])) === "Anna likes plums and quinces.", "the merged text");
  await page.getByText("No conflicts", { exact: true }).waitFor();
  await settle(a, b);
  for (const x of [a, b]) await until(async () => (await conflicts(x)) === 0 && (await text(x, ids[0])) === "Anna likes plums and quinces.", "the same on both");
  await page.getByRole("button", { name: "Show what was decided automatically" }).waitFor();
}

/** One choice for all of one kind, taken back at once. */
async function bulk({ a, b }) {
  const { page } = a;
  const ids = [];
  for (const n of [1, 2]) ids.push(await remember(a, `Shelf ${n} holds red books.`));
  await settle(a, b);
  for (const [i, id] of ids.entries()) await disagree(a, b, id, `Shelf ${i + 1} holds green books.`, `Shelf ${i + 1} holds brown books.`);
  await item(page, /Shelf 1/).click();
  await panel(page).getByRole("button", { name: /All of this kind/ }).click();
  await a.shot("bulk");
  await page.getByRole("menuitem", { name: "Keep theirs for all" }).click();
  await toast(page, "Resolved 2 conflicts").waitFor();
  for (const [i, id] of ids.entries()) a.check((await text(a, id)) === `Shelf ${i + 1} holds brown books.`, "all are theirs");
  await page.keyboard.press("Control+z");
  await until(async () => (await conflicts(a)) === 2, "both are open again");
  await page.getByRole("button", { name: "More sync actions" }).click();
  await a.shot("bulk-all");
  await page.getByRole("menuitem", { name: "Keep mine for all (2)" }).click();
  await until(async () => (await conflicts(a)) === 0, "resolved");
  await settle(a, b);
}

/** Deleted here, edited there: it lives until somebody decides. */
async function deletion({ a, b }) {
  const { page } = a;
  const id = await remember(a, "The old bicycle is in the cellar.");
  await settle(a, b);
  for (const x of [a, b]) await x.rpc("sync.pause", {});
  await a.rpc("memory.delete", { ids: [id] });
  await edit(b, id, "The old bicycle is in the yard.");
  for (const x of [a, b]) await x.rpc("sync.resume", {});
  await settle(a, b);
  await item(page, /old bicycle/).click();
  await panel(page).getByText("One device deleted this").waitFor();
  await panel(page).getByText("The old bicycle is in the yard.").first().waitFor();
  await a.looks("deletion");
  await panel(page).getByRole("button", { name: "Delete after all" }).click();
  await toast(page, "Deleted: The old bicycle is in the yard.").waitFor();
  await settle(a, b);
  await until(async () => (await b.rpc("sync.trash", { kinds: ["memory"] })).items.some((m) => m.id === id), "deleted on both, and in the trash");
  await page.getByRole("button", { name: "More sync actions" }).click();
  await page.getByRole("menuitem", { name: "Open Trash" }).click();
  await page.getByRole("listbox", { name: "Trash" }).getByText(/old bicycle/).waitFor();
}

/** What the hub refuses waits apart, is sent again when the cause is repaired, or discarded into a file. */
async function notSynced({ a, hub }) {
  const { page, rpc, check } = a;
  const list = page.getByRole("region", { name: "Not synced" });
  await a.go("sync/not-synced");
  await page.getByText("Everything is synced").waitFor();
  await hub.sql("alter table public.memories add constraint none_pinned check (not pinned) not valid");
  for (const text of ["Pears are ripe in September.", "Figs are ripe in August."]) await rpc("memory.pin", { ids: [await remember(a, text)], on: true });
  await list.getByText(/Figs are ripe/).waitFor();
  await list.getByText(/none_pinned/).first().waitFor();
  await a.looks("not-synced");
  await list.getByRole("listitem").filter({ hasText: "Figs" }).getByRole("button", { name: "Discard" }).click();
  await toast(page, /A copy is in .*not-synced-memories-.*json/).waitFor();
  await list.getByText(/Figs/).waitFor({ state: "detached" });
  await hub.sql("alter table public.memories drop constraint none_pinned");
  await list.getByRole("button", { name: "Try again" }).click();
  await page.getByText("Everything is synced").waitFor();
  check((await rpc("sync.status", {})).failedCount === 0, "nothing is left");
}

async function devices({ a, b }) {
  const { page } = a;
  await a.go("sync/devices");
  const list = page.getByRole("region", { name: "Devices" });
  await list.getByText("this device").waitFor();
  await list.getByRole("button", { name: "Rename…: laptop" }).click();
  await dialog(page).getByLabel("Name").fill("travel laptop");
  await dialog(page).getByRole("button", { name: "Save" }).click();
  await list.getByText("travel laptop").waitFor();
  await a.looks("devices");
  await list.getByRole("button", { name: "Remove: travel laptop" }).click();
  await toast(page, "Removing travel laptop").waitFor();
  await page.keyboard.press("Control+z");
  await list.getByText("travel laptop").waitFor();
  await b.rpc("sync.coordinate", {});
}

/** A skill is shared with a link, reviewed and imported on the other device, and the link is withdrawn. */
async function shares({ a, b }) {
  const { page } = a;
  const { key } = (await a.rpc("skills.templates", {})).templates[0];
  const skill = await a.rpc("skills.create_from_template", { key });
  await a.go(`skills/${skill.skillId}/sharing`);
  const links = page.getByRole("complementary", { name: "Skill" });
  await links.getByText("Not shared", { exact: true }).waitFor();
  await links.getByRole("button", { name: "Share…" }).click();
  await a.looks("share");
  await dialog(page).getByRole("button", { name: "Create link" }).click();
  const url = await dialog(page).getByLabel(/^Link to version/).inputValue();
  await dialog(page).getByRole("button", { name: "Done" }).click();
  await links.getByText("With the link").waitFor();
  await a.looks("shared");

  await b.go("skills");
  await b.page.getByRole("button", { name: "Import…", exact: true }).click();
  await dialog(b.page).getByText("Nobody shares a skill with everyone yet.").waitFor();
  await dialog(b.page).getByLabel("Shared link").fill(url);
  await b.looks("import-link");
  await dialog(b.page).getByRole("button", { name: "Review", exact: true }).click();
  await dialog(b.page).getByRole("heading", { name: skill.name }).waitFor();
  await b.looks("import-review");
  await dialog(b.page).getByRole("button", { name: /^Add/ }).click();
  await until(async () => (await b.rpc("skills.list_composite", {})).skills.some((x) => x.skillId !== skill.skillId && x.name.startsWith(skill.name)), "the copy is there");

  await links.getByRole("button", { name: "Withdraw" }).click();
  await toast(page, "Sharing ended").waitFor();
  const refused = await b.rpc("skills.import", { url, dryRun: true }).then(() => "", (e) => String(e.message ?? e));
  a.check(/no longer shared/.test(refused), `the link has ended: ${refused}`);
}

/** A removed device says so, keeps everything, and can leave. */
async function problems({ a, b }) {
  const { page } = b;
  const laptop = (await a.rpc("sync.devices", {})).devices.find((d) => !d.current);
  await a.rpc("sync.revoke_device", { id: laptop.id });
  await b.go("sync");
  for (let i = 0; i < 2; i++) await b.rpc("sync.coordinate", {}).catch(() => {});
  await page.getByText("Another device has removed this one.").waitFor();
  await b.looks("removed");
  await page.getByRole("alert").getByRole("button", { name: "Disconnect…" }).click();
  await dialog(page).getByText("Everything on this device is kept.").waitFor();
  await dialog(page).getByRole("button", { name: "Disconnect", exact: true }).click();
  await page.getByText("Keep your devices the same").waitFor();
  a.check((await b.rpc("memory.list", {})).items.length > 0, "the data is kept");
}
