// The Channels screen against a Bot API server and a webhook receiver of the suite: add Telegram with a wrong and a right
// token, pair, a message that becomes a chat, a stranger who is rejected and then allowed, routes, the queue, a webhook with
// its signature, keys, remove and undo.
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import { once } from "node:events";
import { startModel } from "./lib/model.mjs";
import { until } from "./lib/page.mjs";
import { startTelegram } from "./lib/telegram.mjs";

const right = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const wrong = "123456:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";

/** Receives what a webhook channel sends. */
async function startReceiver() {
  const received = [];
  const server = createServer(async (req, res) => {
    let body = "";
    for await (const chunk of req) body += chunk;
    if (body) received.push({ ...JSON.parse(body), signature: req.headers["helix-signature"], body });
    res.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { received, url: `http://127.0.0.1:${server.address().port}/replies`, stop: () => (server.closeAllConnections(), server.close()) };
}

export default async function (t) {
  const [model, telegram, receiver] = await Promise.all([startModel(), startTelegram(right), startReceiver()]);
  try {
    await t.rpc("providers.set", { name: "suite", entry: { type: "openai", baseUrl: model.url } });
    await t.rpc("providers.set_role", { role: "chat", chain: ["suite/one"] });
    await empty(t);
    await addTelegram(t, telegram);
    await message(t, telegram);
    await stranger(t, telegram);
    await allowed(t, telegram);
    await routes(t);
    await addWebhook(t, receiver);
    await queue(t, receiver);
    await keys(t);
    await links(t);
    await remove(t);
    await german(t);
  } finally {
    model.stop();
    telegram.stop();
    receiver.stop();
  }
}

/** How the model of the suite begins its answers. */
const said = /^You said/;
const channels = (page) => page.getByRole("listbox", { name: "Channels" });
const panel = (page) => page.getByRole("complementary", { name: "Channel" });
const dialog = (page) => page.getByRole("dialog");
const toast = (page, words) => page.getByRole("region", { name: "Messages" }).getByText(words).first();
const tab = (page, name) => panel(page).getByRole("tab", { name });
const list = (page, name) => panel(page).getByRole("list", { name });
const away = (page) => page.mouse.move(0, 0); // no tooltip
const byName = async (rpc, name) => (await rpc("channels.list", {})).channels.find((c) => c.name === name);

async function empty({ page, go, looks }) {
  await go("channels");
  await page.getByText("No channels configured").waitFor();
  await looks("empty");
}

async function addTelegram({ page, rpc, check, looks }, telegram) {
  await page.getByRole("button", { name: "Add Telegram…" }).first().click();
  await dialog(page).getByText("Use your own Bot API server").click();
  await dialog(page).getByLabel("Server address").fill(telegram.url);
  await dialog(page).getByLabel("Bot token").fill(wrong);
  await dialog(page).getByLabel("Name", { exact: true }).fill("Phone");
  await away(page);
  await looks("token");
  await dialog(page).getByRole("button", { name: "Next" }).click();
  await dialog(page).getByText(/Telegram refused the token/).waitFor();
  await away(page);
  await looks("token-refused");
  await dialog(page).getByRole("button", { name: "Back" }).click();
  await dialog(page).getByLabel("Bot token").fill(right);
  await dialog(page).getByRole("button", { name: "Next" }).click();
  await dialog(page).getByRole("button", { name: "Pair", exact: true }).waitFor();
  check((await rpc("channels.list", {})).channels.length === 1, "the wrong token did not leave another channel");
  await away(page);
  await looks("tested");
  await dialog(page).getByRole("button", { name: "Pair", exact: true }).click();
  const text = await dialog(page).getByText(/^\/pair [A-Z2-7]{8}$/).textContent();
  await away(page);
  await looks("pair");
  telegram.write(42, text, "Ada");
  await dialog(page).getByText("Paired with Ada.").waitFor();
  await until(() => telegram.sent.some((m) => m.to === "42" && m.text === "Paired."), "the sender is told");
  await dialog(page).getByRole("button", { name: "Done" }).click();
  await list(page, "Senders").getByText("Ada").first().waitFor();
  await until(async () => (await byName(rpc, "Phone")).state === "connected", "it is connected");
  await panel(page).getByText("@suite_bot").waitFor();
  await away(page);
  await looks("senders");
}

async function message({ page, go, looks, check }, telegram) {
  telegram.write(42, "What is on today?", "Ada");
  await until(() => telegram.sent.some((m) => m.to === "42" && said.test(m.text)), "the agent answers");
  await tab(page, "Sessions").click();
  await list(page, "Sessions").getByText("Ada").first().waitFor();
  await away(page);
  await looks("sessions");
  await list(page, "Sessions").getByRole("link").first().click();
  const conversation = page.getByRole("region", { name: "Conversation" });
  await conversation.getByText(said).first().waitFor();
  check((await conversation.getByText("Ada", { exact: true }).count()) > 0, "the message shows its sender");
  await looks("chat");
  await go("channels");
  await channels(page).getByRole("option", { name: /^Phone/ }).click();
}

async function stranger({ page, rpc, looks, check }, telegram) {
  telegram.write(666, "Let me in, Zwiebel", "Ada");
  telegram.write(666, "/pair AAAAAAAA", "Ada");
  await until(async () => (await rpc("channels.rejected", {})).entries.length === 2, "both are counted");
  await tab(page, /^Rejected/).click();
  await list(page, "Rejected").getByText("666").first().waitFor();
  await away(page);
  await looks("rejected");
  check((await page.getByText("Zwiebel").count()) === 0, "the text of a stranger is nowhere");
  check(!telegram.sent.some((m) => m.to === "666"), "a stranger gets no answer");
  await list(page, "Rejected").getByRole("button", { name: /^Allow this sender/ }).first().click();
  await toast(page, "Allowed 666").waitFor();
  await until(async () => (await rpc("channels.senders", { id: (await byName(rpc, "Phone")).id })).senders.length === 2, "it is allowed");
}

async function allowed({ page }, telegram) {
  telegram.write(666, "And now?", "Bob");
  await until(() => telegram.sent.some((m) => m.to === "666" && said.test(m.text)), "an allowed sender is answered");
  await tab(page, /^Senders/).click();
  await list(page, "Senders").getByRole("button", { name: /^Remove.*666/ }).click();
  await toast(page, /no longer allowed/).waitFor();
  await list(page, "Senders").getByText("666").first().waitFor({ state: "detached" });
}

async function routes({ page, rpc, looks }) {
  await tab(page, "Routes").click();
  const topic = panel(page).getByRole("group", { name: "Results of schedules" });
  await topic.getByLabel("Send to").click();
  await page.getByRole("option", { name: "Ada" }).click();
  await until(async () => (await rpc("channels.routes", {})).routes.some((r) => r.topic === "schedule" && r.target.endsWith(":42") && r.when === "away"), "the route is stored");
  await topic.getByLabel("When").click();
  await page.getByRole("option", { name: "Always" }).click();
  await until(async () => (await rpc("channels.routes", {})).routes.some((r) => r.topic === "schedule" && r.when === "always"), "when is stored");
  await away(page);
  await looks("routes");
}

/** Posts a signed message to a webhook channel and returns the status. */
async function post(url, secret, message) {
  const body = JSON.stringify(message);
  const time = Math.floor(Date.now() / 1000);
  const sign = createHmac("sha256", secret).update(`${time}.${body}`).digest("hex");
  return (await fetch(url, { method: "POST", body, headers: { "Content-Type": "application/json", "Helix-Signature": `t=${time},v1=${sign}` } })).status;
}

async function addWebhook({ page, rpc, check, looks }, receiver) {
  await page.getByRole("button", { name: "Add channel" }).click();
  await page.getByRole("menuitem", { name: "Add webhook…" }).click();
  await dialog(page).getByLabel("Reply URL").fill("ftp://nowhere");
  await dialog(page).getByLabel("Name", { exact: true }).fill("Bridge");
  await dialog(page).getByRole("button", { name: "Add", exact: true }).click();
  await dialog(page).getByText(/The address must be https/).first().waitFor();
  await away(page);
  await looks("webhook-refused");
  await dialog(page).getByLabel("Reply URL").fill(receiver.url);
  await dialog(page).getByRole("button", { name: "Add", exact: true }).click();
  const secret = await dialog(page).getByText(/^[0-9a-f]{64}$/).textContent();
  const { hookUrl } = await byName(rpc, "Bridge");
  await dialog(page).getByRole("region", { name: "Example" }).waitFor();
  await away(page);
  await looks("webhook-secret");
  check((await post(hookUrl, secret, { id: "1", contextId: "home", senderId: "bridge-1", text: "Hello" })) === 403, "nobody is allowed yet");
  await dialog(page).getByRole("button", { name: "Pair", exact: true }).click();
  const text = await dialog(page).getByText(/^\/pair [A-Z2-7]{8}$/).textContent();
  check((await post(hookUrl, secret, { id: "2", contextId: "home", senderId: "bridge-1", text })) === 202, "the code is accepted");
  await dialog(page).getByText("Paired with bridge-1.").waitFor();
  await dialog(page).getByRole("button", { name: "Done" }).click();
  check((await post(hookUrl, secret, { id: "3", contextId: "home", senderId: "bridge-1", text: "Are you there?" })) === 202, "a message is accepted");
  await until(() => receiver.received.some((m) => said.test(m.text) && m.contextId === "home"), "the answer arrives");
  const answer = receiver.received.find((m) => said.test(m.text));
  const [, time, v1] = /^t=(\d+),v1=([0-9a-f]+)$/.exec(answer.signature);
  check(createHmac("sha256", secret).update(`${time}.${answer.body}`).digest("hex") === v1, "the answer is signed");
}

async function queue({ page, rpc, looks }, receiver) {
  receiver.stop();
  const { id } = await byName(rpc, "Bridge");
  await rpc("channels.send", { id, contextId: "home", text: "A notice" });
  await until(async () => (await rpc("channels.queue", { id })).messages.some((m) => m.attempts > 0), "it was tried");
  await page.getByRole("option", { name: /^Bridge/ }).click();
  await panel(page).getByText("This channel doesn't work").waitFor();
  await tab(page, /^Queue/).click();
  await list(page, "Queue").getByText("To send").first().waitFor();
  await away(page);
  await looks("queue");
  await list(page, "Queue").getByRole("button", { name: "Discard" }).click();
  await list(page, "Queue").getByText("Discarded").waitFor();
  await panel(page).getByRole("button", { name: "Test", exact: true }).click();
  await panel(page).getByText("Check that the receiver is running").waitFor();
  await away(page);
  await looks("broken");
}

async function keys({ page, rpc }) {
  await channels(page).getByRole("option", { name: /^Phone/ }).click();
  await page.keyboard.press("Space");
  await until(async () => (await byName(rpc, "Phone")).state === "disabled", "Space turns it off");
  await panel(page).getByText("This channel is off").waitFor();
  await channels(page).getByRole("option", { name: /^Phone/ }).click();
  await page.keyboard.press("Space");
  await until(async () => (await byName(rpc, "Phone")).state === "connected", "Space turns it on");
  await panel(page).getByText("This channel is off").waitFor({ state: "detached" });
  await page.keyboard.press("t");
  await panel(page).getByText("The channel works.").waitFor();
  await page.keyboard.press("p");
  await panel(page).getByRole("group", { name: "Pair a sender" }).waitFor();
  await page.keyboard.press("n");
  await dialog(page).getByRole("heading", { name: "Add Telegram" }).waitFor();
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });
}

async function links({ page, go, rpc }) {
  const { id } = await byName(rpc, "Bridge");
  await go(`channels/${id}/rejected`);
  await panel(page).getByRole("tab", { name: /^Rejected/, selected: true }).waitFor();
  await panel(page).getByRole("heading", { name: "Bridge" }).waitFor();
  await go("activity");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("add webhook");
  await page.getByRole("option", { name: /Add webhook/ }).first().click();
  await dialog(page).getByRole("heading", { name: "Add webhook" }).waitFor();
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });
}

async function remove({ page, rpc }) {
  await channels(page).getByRole("option", { name: /^Bridge/ }).click();
  await panel(page).getByRole("heading", { name: "Bridge" }).waitFor();
  await panel(page).getByRole("button", { name: "Actions for Bridge" }).click();
  await page.getByRole("menuitem", { name: "Remove" }).click();
  await toast(page, "Removed Bridge").waitFor();
  await until(async () => (await byName(rpc, "Bridge")) === undefined, "it is removed");
  await page.locator(".toast", { hasText: "Removed Bridge" }).getByRole("button", { name: "Undo" }).click(); // other messages may still offer theirs
  await until(async () => (await byName(rpc, "Bridge")) !== undefined, "it is back");
  await channels(page).getByRole("option", { name: /^Bridge/ }).waitFor();
}

async function german({ page, go, looks }) {
  await page.evaluate(() => localStorage.setItem("helix.language", "de"));
  await page.reload();
  await go("channels");
  await page.getByRole("option", { name: /^Phone/ }).click();
  await page.getByRole("tab", { name: /^Absender/ }).waitFor();
  await looks("german");
}
