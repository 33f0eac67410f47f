// The user guide in one walk, from the welcome page to sync. `make guide` keeps its pictures in docs/guide.
import { startModel } from "./lib/model.mjs";
import { armed, until } from "./lib/page.mjs";
import { makeTool } from "./lib/seed.mjs";
import { speech, tones } from "./lib/sound.mjs";

export default async function (t) {
  await welcome(t);
  await tool(t);
  await question(t);
  await skill(t);
  await schedule(t);
  await memory(t);
  await insights(t);
  await psychology(t);
  await chat(t);
  await voice(t);
  await activity(t);
  await sync(t);
  await palette(t);
}

const welcomePage = ({ go, page }) => go("welcome").then(() => page.getByRole("heading", { name: "Welcome to Helix", level: 1 }).waitFor());
/** Takes a picture of a page without messages; the next of several shows when one is closed. */
async function picture({ page, shot }, name) {
  const close = page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Dismiss" });
  await until(async () => {
    for (const b of await close.all()) await b.click({ timeout: 1000 }).catch(() => {});
    return (await close.count()) === 0;
  }, "no message is in the picture");
  await page.mouse.move(5, 790);
  await shot(name);
}

async function welcome(t) {
  await t.page.getByRole("button", { name: "Add a sample diary" }).waitFor();
  await picture(t, "welcome");
  await t.page.getByRole("button", { name: "Add a sample diary" }).click();
  await t.page.getByRole("button", { name: "Remove the sample diary" }).waitFor();
}

async function tool(t) {
  await t.page.getByRole("button", { name: "Run it" }).click();
  await t.page.getByText("longestWord").waitFor();
  await picture(t, "tool");
}

async function question(t) {
  const { id } = await makeTool(t.helix, "Weather", "api.example.com");
  await t.go(`tools/${id}/run`);
  await t.page.getByRole("button", { name: "Run", exact: true }).click();
  await armed(t.page);
  await picture(t, "question");
  await t.page.getByRole("button", { name: /^Deny/ }).first().click();
}

async function skill(t) {
  await welcomePage(t);
  await t.page.getByRole("button", { name: "Open a skill" }).click();
  await until(async () => /skills\/[^/]+\/edit/.test(t.page.url()), "the builder is open");
  await t.page.locator(".svelte-flow__node").first().waitFor();
  await picture(t, "skill");
}

async function schedule(t) {
  const { tools } = await t.rpc("tools.list", {});
  await t.rpc("schedules.create", { name: "Count words each morning", target: { kind: "tool", id: tools.find((x) => x.name !== "Weather").id, input: { text: "to be or not to be" } }, cadence: { type: "cron", expression: "30 8 * * 1-5" } });
  await t.go("schedules");
  await t.page.getByRole("option", { name: /Count words each morning/ }).click();
  await t.page.getByRole("complementary", { name: "Schedule" }).waitFor();
  await picture(t, "schedule");
}

async function memory(t) {
  await until(async () => (await t.rpc("memory.embedding_status")).queued === 0, "everything is ready for meaning search");
  await t.go("memory");
  await t.page.getByRole("searchbox", { name: "Search memories" }).fill("nights when I could not sleep");
  await t.page.getByRole("listbox", { name: "Memories" }).getByRole("option").first().waitFor();
  await t.page.getByRole("option", { name: /awake until four/ }).first().waitFor(); // by its meaning
  await picture(t, "memory");
}

async function insights(t) {
  await welcomePage(t);
  await t.page.getByRole("button", { name: "Find patterns" }).click();
  await until(async () => /insights\/[0-9a-f-]{36}/.test(t.page.url()), "an insight is open");
  await t.page.getByText(/You tend to sound happier when you write about/).first().waitFor();
  await picture(t, "insights");
}

async function psychology(t) {
  await t.go("psychology");
  await t.page.getByRole("button", { name: "Show proposals" }).click();
  const rows = t.page.getByRole("listitem").filter({ has: t.page.getByRole("button", { name: "Accept" }) });
  await rows.first().waitFor();
  for (let left = await rows.count(), n = 0; n < 6 && left > 1; n++, left--) {
    await rows.first().getByRole("button", { name: "Accept" }).click();
    await until(async () => (await rows.count()) === left - 1, "an accepted proposal leaves the list");
  }
  await t.page.getByRole("tab", { name: "Overview" }).click();
  await t.page.getByRole("link", { name: /Prospective self/ }).waitFor();
  await picture(t, "psychology");
}

async function chat(t) {
  const model = await startModel();
  try {
    await t.rpc("providers.set", { name: "sample", entry: { type: "openai", baseUrl: model.url } });
    await t.rpc("providers.set_role", { role: "chat", chain: ["sample/one"] });
    model.say({ text: "Let me look at your diary.", calls: [{ name: "memory_search", args: { query: "sleep and coffee" } }] }, "You slept badly after **late coffee** several times, and well in the weeks without coffee after lunch.");
    await t.go("chat");
    await t.page.getByRole("textbox", { name: "Message", exact: true }).fill("What keeps me awake?");
    await t.page.keyboard.press("Enter");
    await t.page.getByText("in the weeks without coffee after lunch").first().waitFor();
    await picture(t, "chat");
  } finally {
    model.stop();
  }
}

async function voice(t) {
  const sound = (await speech("Please remember to buy bread and butter tomorrow morning.", t.helix.dir)) ?? tones([440, 1500], [0, 1000], [660, 1500]);
  await t.go("voice");
  await t.page.getByRole("button", { name: "Import audio…" }).first().click();
  await t.page.getByRole("dialog").getByLabel("File to upload").setInputFiles({ name: "Shopping.wav", mimeType: "audio/wav", buffer: sound });
  await t.page.getByRole("complementary", { name: "Memo" }).getByRole("heading", { name: "Shopping" }).waitFor();
  await until(async () => ["completed", "failed"].includes((await t.rpc("voice.list_memos", {})).memos[0]?.status) || (await t.rpc("voice.queue", {})).jobs.some((j) => j.error), "the memo is transcribed, or there is a reason why not");
  await picture(t, "voice");
}

async function activity(t) {
  await t.go("activity");
  await t.page.getByRole("heading", { name: "Activity", level: 1 }).waitFor();
  await t.page.getByRole("option").first().waitFor();
  await picture(t, "activity");
}

async function sync(t) {
  await t.go("sync");
  await t.page.getByText("Keep your devices the same").waitFor();
  await picture(t, "sync");
}

async function palette(t) {
  await t.page.keyboard.press("Control+k");
  await t.page.getByRole("combobox", { name: "Command" }).fill("memory");
  await t.page.getByRole("option").first().waitFor();
  await picture(t, "palette");
  await t.page.keyboard.press("Escape");
}
