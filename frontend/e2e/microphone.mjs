// The whole way of a spoken word: said into a virtual microphone, recorded through the real sound system, transcribed
// by PocketSphinx, found by search, heard again at its moment, and understood as a command that runs a skill. All of it
// offline, by command line and in the browser. Where the program was built without a microphone, or where PulseAudio,
// flite or PocketSphinx are not installed, only the reason is checked.
import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { until } from "./lib/page.mjs";
import { startPulse } from "./lib/pulse.mjs";

/** The programs that this suite needs besides the backend. */
export const prepare = startPulse;

const said = "search my memories for the budget meeting in march";
const order = "remind me to call the dentist tomorrow at nine in the morning";
/** A busy sound server drops sound now and then; what was said is said again. */
const times = 6;

export default async function (t) {
  const { microphone } = await t.rpc("voice.status", {});
  const { engines } = await t.rpc("voice.engines", {});
  if (!t.prepared || !microphone.available || !engines.find((e) => e.id === "pocketsphinx").available) {
    t.check(microphone.available || microphone.reason.length > 20, "the reason why there is no microphone");
    console.log(`microphone: ${microphone.reason ?? "nothing to transcribe with"}`);
    return;
  }
  const speak = await voice(t.prepared);
  await byCommandLine(t, speak);
  await inTheBrowser(t, speak);
  await commands(t, speak);
}

const panel = (page) => page.getByRole("complementary", { name: "Memo" });
const recorder = (page) => page.getByRole("group", { name: "Recorder" });

/** Speaks a sentence into the microphone, and waits until the recording has gone on for a moment. */
async function voice(pulse) {
  const run = promisify(execFile);
  const files = {};
  for (const text of [said, order]) {
    files[text] = path.join(pulse.dir, `${text.split(" ")[0]}.wav`);
    await run("flite", ["-voice", "rms", "-t", text, "-o", files[text]]);
  }
  return async (rpc, text) => {
    const status = () => rpc("voice.status", {});
    await until(async () => (await status()).elapsedMs > 0, "it records");
    await pulse.play(files[text]);
    const played = (await status()).elapsedMs;
    await until(async () => (await status()).elapsedMs > played + 700, "the end of the sentence is recorded");
  };
}

async function memos(rpc) {
  return (await rpc("voice.list_memos", {})).memos;
}

async function byCommandLine({ helix, rpc, check }, speak) {
  const devices = JSON.parse(await helix.cli("voice", "devices", "--json")).devices;
  check(devices.some((d) => d.name === "HelixTest" && d.backend === "PulseAudio"), "the microphone is listed");
  let text = "";
  for (let n = 0; n < times && !text.includes("budget"); n++) {
    const recording = helix.command("--timeout", "10m", "voice", "record", "--title", "By command line");
    await speak(rpc, said);
    recording.child.kill("SIGINT");
    text = (await recording).stdout;
  }
  check(text.includes("budget"), `the text that was said, not ${text}`);
  const { results } = JSON.parse(await helix.cli("voice", "search", "budget", "--json"));
  check(results[0].title === "By command line" && results[0].startMs > 0, "the word is found with its time");
}

/** Records by keyboard, reads the text, searches for a word and hears it at its moment. */
async function inTheBrowser({ page, rpc, check, go, looks }, speak) {
  await go("voice");
  const before = (await memos(rpc)).length;
  let memo;
  for (let n = 0; n < times && !memo?.text.includes("budget"); n++) {
    await recorder(page).getByRole("button", { name: "Record" }).click();
    await recorder(page).getByRole("timer").waitFor();
    const speaking = speak(rpc, said);
    if (n === 0) await looks("recording");
    await speaking;
    await recorder(page).getByRole("button", { name: "Stop" }).click();
    await until(async () => (await memos(rpc)).length === before + n + 1, "a memo is stored");
    await until(async () => (await memos(rpc))[0].status === "completed", "it is transcribed");
    [memo] = await memos(rpc);
  }
  check(memo.text.includes("budget"), `the text that was said, not ${memo.text}`);
  await go("voice/search");
  const box = page.getByRole("searchbox", { name: "Search what was said" });
  await box.fill("budget");
  const found = async () => (await rpc("voice.search_transcripts", { query: "budget" })).results;
  await page.getByRole("listbox", { name: "Search results" }).getByRole("option").nth((await found()).length - 1).waitFor();
  await box.press("Enter");
  await panel(page).waitFor();
  const [hit] = await found();
  const slider = panel(page).getByRole("slider", { name: "Position" });
  await until(async () => Number(await slider.getAttribute("aria-valuenow")) === hit.startMs, "the memo opens at the word");
  const { rms } = await rpc("voice.waveform", { recordingId: hit.recordingId, fromMs: hit.startMs, toMs: hit.endMs, buckets: 10 });
  check(Math.max(...Buffer.from(rms, "base64")) > 5, "the word is heard there");
  await panel(page).getByRole("button", { name: "Play" }).click();
  await until(async () => Number(await slider.getAttribute("aria-valuenow")) > hit.startMs + 100, "it plays from there");
  await panel(page).getByRole("button", { name: "Pause" }).click();
  await looks("memo");
}

/** A command that is said runs a skill with the value of its slot: by command line, then in the browser. */
async function commands({ page, helix, rpc, check, go, looks }, speak) {
  const { skillId } = await rpc("skills.create_composite", { skill: { name: "Note it", steps: [{ stepId: "note", toolType: "transform", value: "$.input.what" }] } });
  const { id } = await rpc("voice.create_command", { name: "Reminder", triggerPhrase: "remind me to {what:text}", actionType: "skill", skillId });
  const used = async () => (await rpc("voice.list_commands", {})).commands.find((c) => c.id === id).usageCount;
  // What was said is understood after it was transcribed, and only then the command is used.
  const understood = async (before) => {
    await until(async () => { const s = await rpc("voice.status", {}); return s.state === "idle" && s.queue.pending + s.queue.processing === 0; }, "the command is transcribed");
    if ((await memos(rpc))[0].text.startsWith("remind me to")) await until(async () => (await used()) === before + 1, "what was said runs the command once");
  };
  for (let n = 0; n < times && (await used()) === 0; n++) {
    check((await helix.cli("voice", "toggle", "--mode", "command")).trim() === "recording", "a recording starts");
    await speak(rpc, order);
    check((await helix.cli("voice", "toggle")).trim() === "idle", "it stops");
    await understood(0);
  }
  check((await used()) === 1, "the command ran");
  await go("voice");
  await recorder(page).getByRole("combobox", { name: /^Mode/ }).click();
  await page.getByRole("option", { name: "Command", exact: true }).click();
  for (let n = 0; n < times && (await used()) === 1; n++) {
    const before = (await memos(rpc)).length;
    await recorder(page).getByRole("button", { name: "Record" }).click();
    await speak(rpc, order);
    await recorder(page).getByRole("button", { name: "Stop" }).click();
    await until(async () => (await memos(rpc)).length === before + 1, "it is stored");
    await understood(1);
  }
  check((await used()) === 2, "the command ran again");
  const runs = async () => Promise.all((await rpc("skills.history", { skillId })).executions.map((r) => rpc("skills.get_execution", { executionId: r.executionId })));
  await until(async () => (await runs()).filter((r) => r.status === "completed").length === 2, "both runs end");
  for (const r of await runs()) check(String(r.finalOutput).includes("dentist"), `the skill got what was said, not ${r.finalOutput}`);
  await looks("command");
}
