// The Voice screen: importing, playing on the waveform, words that can be clicked, editing, versions, search, the
// queue and its errors, and a recording as the browser's MediaRecorder writes it. Where flite and PocketSphinx
// are installed the text is real; otherwise the screen must say why there is none.
import { until } from "./lib/page.mjs";
import { speech, tones } from "./lib/sound.mjs";

const sentence = "Please remember to buy bread and butter tomorrow morning.";

export default async function (t) {
  await empty(t);
  await importSound(t);
  await play(t);
  const spoken = await transcribed(t);
  await edit(t, spoken);
  await details(t);
  await search(t, spoken);
  await broken(t);
  await settings(t);
  await trash(t);
  await mediaRecorder(t);
  await voicemail(t);
  await commands(t);
  await heard(t, spoken);
}

const memos = (page) => page.getByRole("listbox", { name: "Voice" });
const panel = (page) => page.getByRole("complementary", { name: "Memo" });
const dialog = (page) => page.getByRole("dialog");
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text).first();
const slider = (page) => panel(page).getByRole("slider", { name: "Position" });
const position = async (page) => Number(await slider(page).getAttribute("aria-valuenow"));
const tab = (page, name) => page.getByRole("tab", { name });
const memoOf = async (rpc, title) => (await rpc("voice.list_memos", {})).memos.find((m) => m.title === title);
/** The memo of the first import. */
const first = "shopping";

async function settled(rpc, title) {
  await until(async () => ["completed", "failed"].includes((await memoOf(rpc, title))?.status) || (await rpc("voice.queue", {})).jobs.some((j) => j.title === title && j.error), `${title} is transcribed, or there is a reason why not`);
  return memoOf(rpc, title);
}

async function empty({ page, rpc, check, go, looks }) {
  await go("voice");
  await page.getByText("No memos yet").waitFor();
  // Without a microphone the recorder says why.
  const { microphone } = await rpc("voice.status", {});
  if (!microphone.available) {
    const recorder = page.getByRole("group", { name: "Recorder" });
    await recorder.getByText(microphone.reason).waitFor();
    check((await recorder.getByRole("button", { name: "Record" }).getAttribute("aria-disabled")) === "true", "recording is off");
  }
  await looks("empty");
}

async function importSound({ page, helix, rpc, looks }) {
  const sound = (await speech(sentence, helix.dir)) ?? tones([440, 1500], [0, 1000], [660, 1500]);
  await page.getByRole("button", { name: "Import audio…" }).first().click();
  await dialog(page).getByText("WAV, FLAC, MP3").waitFor();
  await looks("import");
  await dialog(page).getByLabel("File to upload").setInputFiles({ name: `${first}.wav`, mimeType: "audio/wav", buffer: sound });
  await panel(page).getByRole("heading", { name: first }).waitFor();
  await slider(page).waitFor();
  await settled(rpc, first);
}

/** By keyboard alone: Space plays, the arrows seek, the speed changes, the waveform zooms. */
async function play({ page, check, looks }) {
  await until(async () => (await slider(page).getAttribute("aria-valuemax")) > 2000, "the length is known");
  await panel(page).getByRole("button", { name: "Play" }).waitFor();
  await memos(page).focus();
  await page.keyboard.press("Space");
  await panel(page).getByRole("button", { name: "Pause" }).waitFor();
  await until(async () => (await position(page)) > 200, "it plays");
  await page.keyboard.press("Space");
  await panel(page).getByRole("button", { name: "Play" }).waitFor();
  await slider(page).focus();
  await page.keyboard.press("Home");
  await until(async () => (await position(page)) === 0, "Home is the start");
  await page.keyboard.press("ArrowUp");
  await until(async () => (await position(page)) === 1000, "an arrow is a second");
  await page.keyboard.press("+");
  await looks("zoomed");
  await page.keyboard.press("-");
  const box = await slider(page).boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  const total = Number(await slider(page).getAttribute("aria-valuemax"));
  await until(async () => Math.abs((await position(page)) - total / 2) < total / 50, "a click seeks");
  await page.mouse.move(0, 0);
}

/** The words appear and can be clicked. Returns whether there are any. */
async function transcribed({ page, rpc, check, looks }) {
  const memo = await memoOf(rpc, first);
  if (memo.status !== "completed" || memo.text === "") {
    const job = (await rpc("voice.queue", {})).jobs.find((j) => j.memoId === memo.id);
    await panel(page).getByText(job?.error ?? memo.error ?? "No speech was found").first().waitFor();
    await looks("no-text");
    return false;
  }
  const { words } = await rpc("voice.get_transcript", { recordingId: memo.recordingId });
  const word = panel(page).getByRole("group", { name: "Transcript" }).locator("span[data-word]");
  await word.nth(words.length - 1).waitFor();
  await word.nth(words.length - 1).click();
  await until(async () => (await position(page)) === words.at(-1).startMs, "a click on a word goes to it");
  await panel(page).locator(`[data-word="${words.length - 1}"][aria-current]`).waitFor();
  await memos(page).focus();
  await page.keyboard.press(",");
  await panel(page).locator(`[data-word="${words.length - 2}"][aria-current]`).waitFor();
  await looks("memo");
  return true;
}

async function edit({ page, rpc, check, looks }, spoken) {
  if (!spoken) return;
  await panel(page).getByRole("button", { name: "Edit text" }).click();
  await panel(page).getByLabel("Text", { exact: true }).fill("Please remember to buy bread and cheese tomorrow morning.");
  await looks("edit");
  await panel(page).getByRole("button", { name: "Save", exact: true }).click();
  await toast(page, "Text saved").waitFor();
  await panel(page).getByText("Edited by you").first().waitFor();
  const memo = await memoOf(rpc, first);
  const now = await rpc("voice.get_transcript", { recordingId: memo.recordingId });
  check(now.text.includes("cheese") && now.words.length > 0 && now.words[0].startMs < now.words.at(-1).startMs, "the edited text keeps word times");
  await panel(page).getByRole("button", { name: "Compare" }).click();
  await panel(page).getByRole("region", { name: "Differences from the current text" }).waitFor();
  await looks("versions");
  // Another transcript is one more version.
  await panel(page).getByRole("button", { name: `Actions for ${first}` }).click();
  await page.getByRole("menuitem", { name: "Transcribe with PocketSphinx" }).click();
  await until(async () => (await rpc("voice.get_transcript", { recordingId: memo.recordingId })).versions.length === 3, "a third version");
  await rpc("voice.edit_transcript", { recordingId: memo.recordingId, text: sentence });
}

async function details({ page, rpc, looks }) {
  await panel(page).getByRole("button", { name: `Actions for ${first}` }).click();
  await page.getByRole("menuitem", { name: /Title and tags/ }).click();
  await dialog(page).getByLabel("Title", { exact: true }).fill("Groceries");
  await dialog(page).getByLabel("Tags").fill("home, food");
  await looks("details");
  await page.keyboard.press("Enter");
  await panel(page).getByRole("heading", { name: "Groceries" }).waitFor();
  await until(async () => (await memoOf(rpc, "Groceries"))?.tags.join() === "home,food", "title and tags are saved");
  await page.getByRole("combobox", { name: "Tag: any" }).click();
  await page.getByRole("option", { name: "food" }).click();
  await memos(page).getByRole("option", { name: /Groceries/ }).waitFor();
  await page.getByRole("combobox", { name: "Tag: food" }).click();
  await page.getByRole("option", { name: "any" }).click();
}

async function search({ page, rpc, check, looks }, spoken) {
  await tab(page, "Search").click();
  await page.getByText("Find the moment something was said").waitFor();
  await looks("search-empty");
  const box = page.getByRole("searchbox", { name: "Search what was said" });
  await box.fill("zebra");
  await page.getByText("No recording contains all of these words").waitFor();
  if (!spoken) return;
  await box.fill("tomorrow");
  const hit = page.getByRole("listbox", { name: "Search results" }).getByRole("option", { name: /Groceries/ });
  await hit.waitFor();
  await looks("search");
  const { results } = await rpc("voice.search_transcripts", { query: "tomorrow" });
  await box.press("Enter");
  await panel(page).getByRole("heading", { name: "Groceries" }).waitFor();
  await until(async () => (await position(page)) === results[0].startMs, "the memo opens at the word");
  check(page.url().endsWith(`/${results[0].startMs}`), "the address holds the moment");
  // The palette finds it too.
  await page.keyboard.press("ControlOrMeta+k");
  await page.getByRole("combobox", { name: "Command" }).fill("tomorrow morn");
  await page.getByRole("option", { name: /Memo at .*: Groceries/ }).waitFor();
  await page.keyboard.press("Escape");
}

/** A file that is no sound is kept, with the reason. */
async function broken({ page, rpc, check, looks }) {
  await rpc("voice.upload_memo", { audioBase64: Buffer.from("this is not a sound").toString("base64"), title: "letter" });
  await memos(page).getByRole("option", { name: /letter/ }).click();
  await panel(page).getByText("Couldn't transcribe this recording.").waitFor();
  await looks("failed");
  await page.getByRole("link", { name: /Voice, 1 failed/ }).waitFor();
  await tab(page, /Queue/).click();
  await page.getByRole("region", { name: "Queue" }).getByText("Failed").waitFor();
  await looks("queue");
  await page.getByRole("button", { name: "Try again: letter" }).click();
  await until(async () => (await rpc("voice.queue", {})).jobs.every((j) => j.title !== "letter" || j.status === "failed"), "it fails again");
  await page.getByRole("button", { name: "Skip: letter" }).click();
  await until(async () => (await rpc("voice.queue", {})).jobs.every((j) => j.title !== "letter"), "it is skipped");
  check((await memoOf(rpc, "letter")) !== undefined, "the file is kept");
}

async function settings({ page, rpc, check, looks }) {
  await tab(page, "Settings").click();
  const language = page.getByLabel("Language", { exact: true });
  await language.fill("not a language");
  await language.press("Enter");
  await toast(page, "Couldn't change the settings").waitFor();
  check((await rpc("voice.get_settings", {})).language === "en-US", "the previous value stays");
  await looks("settings");
  for (const [label, field, value] of [["Sync transcripts", "saveTranscripts", false], ["Sync audio", "saveAudio", true]]) {
    await page.getByRole("switch", { name: label }).click();
    await until(async () => (await rpc("voice.get_settings", {}))[field] === value, `${label} was changed`);
  }
  await page.getByRole("switch", { name: "Sync audio" }).scrollIntoViewIfNeeded();
  await looks("sync-settings");
  // Models are only listed: nothing is downloaded without a click.
  const models = page.getByRole("list", { name: "Models of whisper.cpp" });
  await models.getByRole("button", { name: "Install base", exact: true }).scrollIntoViewIfNeeded();
  check((await models.getByRole("listitem").count()) === 7 && !(await models.getByText("Installed").count()), "the models can be installed");
  await looks("models");
}

async function trash({ page, go, rpc }) {
  await go("voice");
  await memos(page).getByRole("option", { name: /letter/ }).click();
  await panel(page).getByRole("heading", { name: "letter" }).waitFor();
  await memos(page).focus();
  await page.keyboard.press("Delete");
  await toast(page, "Moved letter to Trash").waitFor();
  await until(async () => (await memoOf(rpc, "letter")) === undefined, "it is deleted");
  await page.keyboard.press("ControlOrMeta+z");
  await memos(page).getByRole("option", { name: /letter/ }).waitFor();
}

/** Recordings that others left: opening one marks it as heard, and it can be archived and moved back. */
async function voicemail({ page, rpc, check, go, looks }) {
  await go("voice/voicemail");
  const view = page.getByRole("region", { name: "Voicemail" });
  await view.getByText("No voicemail").waitFor();
  const audioBase64 = tones([440, 900]).toString("base64");
  for (const sender of ["Anna", "Ben"]) await rpc("voice.upload_memo", { audioBase64, sender, title: `From ${sender}` });
  await view.getByRole("button", { name: "Anna", exact: true }).waitFor();
  check((await view.getByText("New", { exact: true }).count()) === 2, "both are new");
  await page.getByRole("tab", { name: /Voicemail.*2/ }).waitFor();
  await looks("voicemail");
  await view.getByRole("button", { name: "Anna", exact: true }).click();
  await panel(page).getByRole("heading", { name: "From Anna" }).waitFor();
  await until(async () => (await rpc("voice.list_voicemail", { heard: true })).messages[0]?.sender === "Anna", "it is heard");
  await go("voice/voicemail");
  for (const again of [false, true]) {
    await view.getByRole("button", { name: "Archive: Anna" }).click();
    await view.getByRole("button", { name: "Anna", exact: true }).waitFor({ state: "detached" });
    if (again) break;
    await page.getByText("Archived the voicemail of Anna").first().waitFor();
    await page.keyboard.press("ControlOrMeta+z");
    await view.getByRole("button", { name: "Anna", exact: true }).waitFor();
  }
  await view.getByRole("checkbox", { name: "Archived" }).check();
  await view.getByRole("button", { name: "Move back: Anna" }).click();
  await view.getByText("No archived voicemail").waitFor();
  await view.getByRole("checkbox", { name: "Archived" }).uncheck();
  await view.getByRole("button", { name: "Anna", exact: true }).waitFor();
}

/** A second of sound as Chromium's MediaRecorder writes it: WebM with Opus, without a duration in its header. */
async function mediaRecorder({ page, rpc, check, go, looks }) {
  const { audio, ms } = await page.evaluate(async () => {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const recorder = new MediaRecorder(stream, { mimeType: "audio/webm;codecs=opus" });
    const parts = [];
    recorder.ondataavailable = (e) => parts.push(e.data);
    const ended = new Promise((done) => (recorder.onstop = done));
    await new Promise((done) => {
      recorder.onstart = done;
      recorder.start(200);
    });
    const began = performance.now();
    await new Promise((done) => setTimeout(done, 2500)); // the length of the recording
    recorder.stop();
    const ms = performance.now() - began;
    await ended;
    for (const track of stream.getTracks()) track.stop();
    const bytes = new Uint8Array(await new Blob(parts).arrayBuffer());
    return { audio: btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")), ms };
  });
  const { memoId, recordingId } = await rpc("voice.upload_memo", { audioBase64: audio, title: "From the browser" });
  await until(async () => (await rpc("voice.get_memo", { memoId })).durationMs > 0, "it is decoded");
  const memo = await rpc("voice.get_memo", { memoId });
  console.log(`voice: MediaRecorder ran for ${Math.round(ms)} ms; decoded ${memo.durationMs} ms of ${memo.format}`);
  // A busy browser starts late and drops nothing: there is never more than was recorded, and not nothing.
  check(memo.format === "webm" && !memo.lostMs && memo.durationMs > 500 && memo.durationMs < ms + 500, "all of the recording is decoded");
  const { max } = await rpc("voice.waveform", { recordingId, buckets: 100 });
  check(Math.max(...Buffer.from(max, "base64")) > 5, "the beeps of the microphone are in it");
  await go(`voice/${memoId}`);
  await panel(page).getByRole("heading", { name: "From the browser" }).waitFor();
  await until(async () => Number(await slider(page).getAttribute("aria-valuemax")) === memo.durationMs, "the length is known although the file does not state it");
  await slider(page).focus();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Escape");
  await go(`voice/${memoId}/300`);
  await until(async () => (await position(page)) === 300, "a link opens a moment");
  await panel(page).getByRole("button", { name: "Play" }).click();
  await until(async () => (await position(page)) > 500, "it plays from there");
  await looks("browser");
}

const commandList = (page) => page.getByRole("listbox", { name: "Voice commands" });
const commandPanel = (page) => page.getByRole("complementary", { name: "Voice command" });

/** A command is made, tried without running anything, changed, turned off, deleted and restored. */
async function commands({ page, rpc, check, looks }) {
  await tab(page, "Commands").click();
  await page.getByText("No voice commands yet").waitFor();
  await looks("commands-empty");
  await page.getByRole("button", { name: "New command…" }).last().click();
  await dialog(page).getByLabel("Phrase").fill("open my {what:nothing}");
  await dialog(page).getByRole("combobox", { name: /^Action/ }).click();
  await page.getByRole("option", { name: "Open a screen" }).click();
  await dialog(page).getByRole("combobox", { name: /^Screen/ }).click();
  await page.getByRole("option", { name: "Chat" }).click();
  await dialog(page).getByRole("button", { name: "Save" }).click();
  await dialog(page).locator("[aria-invalid]").waitFor(); // there is no such type of slot
  await looks("command-refused");
  await dialog(page).getByLabel("Phrase").fill("open the chat now");
  await dialog(page).getByLabel("Name", { exact: true }).fill("Chat, please");
  await dialog(page).getByRole("button", { name: "Save" }).click();
  await commandPanel(page).getByRole("heading", { name: "Chat, please" }).waitFor();
  await looks("command");
  const box = page.getByLabel("Try it");
  await box.fill("please open the chat now");
  await page.getByText("Would run").waitFor();
  await box.fill("bake a cake");
  await page.getByText("No command is similar enough.").waitFor();
  // Raised to high, the same words would be read back first.
  await commandPanel(page).getByRole("button", { name: "Edit…" }).click();
  await dialog(page).getByRole("combobox", { name: /^Risk/ }).click();
  await page.getByRole("option", { name: "High risk" }).click();
  await looks("command-form");
  await dialog(page).getByRole("button", { name: "Save" }).click();
  await commandPanel(page).getByText("Is read back and runs only after you say yes.").waitFor();
  await box.fill("open the chat now");
  await page.getByText("Would ask").waitFor();
  await looks("try");
  const list = async () => (await rpc("voice.list_commands", {})).commands;
  check((await list())[0].usageCount === 0, "trying runs nothing");
  await commandList(page).focus();
  await page.keyboard.press("o");
  await until(async () => (await list())[0].enabled === false, "off");
  await commandPanel(page).getByText("Off", { exact: true }).waitFor();
  await page.keyboard.press("o");
  await until(async () => (await list())[0].enabled === true, "on");
  await page.keyboard.press("Delete");
  await toast(page, "Moved Chat, please to Trash").waitFor();
  await until(async () => (await list()).length === 0, "it is deleted");
  await page.keyboard.press("ControlOrMeta+z");
  await commandList(page).getByRole("option", { name: /Chat, please/ }).waitFor();
}

/** What was said in a memo is run as a command: it asks, and only Yes opens the screen. */
async function heard({ page, rpc, check, go, looks }, spoken) {
  if (!spoken) return;
  const memo = await memoOf(rpc, "Groceries");
  const [command] = (await rpc("voice.list_commands", {})).commands;
  await rpc("voice.update_command", { commandId: command.id, triggerPhrase: sentence });
  const run = async () => {
    await go(`voice/${memo.id}`);
    await panel(page).getByRole("heading", { name: "Groceries" }).waitFor();
    await panel(page).getByText("butter").first().waitFor();
    await panel(page).getByRole("button", { name: "Actions for Groceries" }).click();
    await page.getByRole("menuitem", { name: "Run as command" }).click();
    await dialog(page).getByText("Run Chat, please?").waitFor();
  };
  await run();
  await looks("confirm");
  await page.keyboard.press("Escape");
  await toast(page, "Chat, please didn't run").waitFor();
  check(page.url().includes("#/voice"), "No runs nothing");
  await run();
  await dialog(page).getByRole("button", { name: "Yes, run it" }).click();
  await until(() => page.url().endsWith("#/chat"), "Yes opens the screen");
}
