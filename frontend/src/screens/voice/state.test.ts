import { beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { fake, until } from "../../lib/rpc/testing";
import { nav } from "../../lib/ui/state";
import { Commands, slotsOf } from "./commands.svelte";
import { OpenMemo } from "./memo.svelte";
import { Player, type Sound } from "./player.svelte";
import { levelShare, Recorder } from "./recorder.svelte";
import { VoiceScreen } from "./voice.svelte";

const memo = (id: string, more: object = {}) => ({ id, recordingId: `r-${id}`, title: id, tags: [], status: "completed", text: "Hello there", format: "wav", size: 9, durationMs: 3000, hasAudio: true, recordedAt: "2026-05-01T10:00:00Z", updatedAt: "2026-05-01T10:00:00Z", ...more });
const transcript = (text: string) => ({ recordingId: "r-a", text, words: [{ w: text, startMs: 100, endMs: 900 }], engine: "e", versions: [] });

function notes() {
  const said: string[] = [];
  let undo: () => unknown = () => {};
  return {
    said,
    undo: () => undo(),
    notify: {
      ok: (title: string) => said.push(title),
      add: (x: { title: string }) => said.push(x.title),
      error: (e: unknown, title = "") => void said.push(`${title}: ${(e as Error).message}`),
      undo: (title: string, restore: () => unknown) => {
        said.push(title);
        undo = restore;
      },
    },
  };
}

beforeEach(() => nav.go("voice"));

describe("voicemail", () => {
  it("is read again after a change, and archiving can be undone", async () => {
    const mail = { id: "v", recordingId: "r", memoId: "m", sender: "Anna", title: "", text: "Call me", status: "completed", receivedAt: "2026-05-01T10:00:00Z", isHeard: false };
    const rpc = fake({ "voice.list_voicemail": () => ({ messages: [mail], total: 1, unheard: 1 }), "voice.mark_voicemail": () => mail });
    const n = notes();
    const screen = new VoiceScreen(rpc, n.notify as never);
    await screen.readVoicemail();
    await screen.mark(mail, { heard: true });
    await screen.mark(mail, { archived: true });
    await n.undo();
    screen.showArchived(true);
    await until(() => rpc.sent("voice.list_voicemail").length === 5);
    expect(rpc.sent("voice.mark_voicemail")).toEqual([
      { id: "v", heard: true },
      { id: "v", archived: true },
      { id: "v", archived: false },
    ]);
    expect(rpc.sent("voice.list_voicemail").map((p) => p.archived)).toEqual([false, false, false, false, true]);
  });
});

describe("the player", () => {
  const sound = (): Sound & { calls: string[] } => {
    const s = { src: "", currentTime: 0, readyState: 1, playbackRate: 1, paused: true, calls: [] as string[], play: async () => void ((s.paused = false), s.calls.push("play")), pause: () => void ((s.paused = true), s.calls.push("pause")) };
    return s;
  };
  it("goes to a moment that was wanted before the sound was there", () => {
    const p = new Player();
    p.reset(3000);
    p.seek(1500);
    const s = sound();
    p.attach({ ...s, readyState: 0 });
    p.seek(1600);
    p.attach(s);
    p.loaded();
    expect(s.currentTime).toBe(1.6);
    s.currentTime = 1.75;
    p.tick();
    expect(p.ms).toBe(1750);
  });
  it("moves in a recording that does not state its duration", () => {
    const p = new Player();
    p.reset(3000);
    const s = Object.assign(sound(), { duration: Infinity });
    p.attach(s);
    p.loaded();
    p.seek(300);
    expect(s.currentTime).toBe(0.3);
    s.currentTime = 0.6;
    p.tick();
    expect(p.ms).toBe(600);
  });
  it("plays what is still being read as soon as it is there, unless it was paused again", async () => {
    const p = new Player();
    const s = sound();
    await p.toggle();
    expect(p.playing).toBe(true);
    p.attach(s);
    expect(s.calls).toEqual(["play"]);
    const q = new Player();
    const other = sound();
    await q.toggle();
    await q.toggle();
    q.attach(other);
    expect([q.playing, other.calls]).toEqual([false, []]);
  });
  it("stays inside of the recording and starts over at the end", async () => {
    const p = new Player();
    const s = sound();
    p.attach(s);
    p.reset(3000);
    p.seek(99_999);
    expect([p.ms, s.currentTime]).toEqual([3000, 3]);
    await p.toggle();
    expect([p.ms, s.calls.at(-1)]).toEqual([0, "play"]);
    await p.toggle();
    expect(s.calls.at(-1)).toBe("pause");
  });
  it("says that a format can't be played", async () => {
    const p = new Player();
    const s = sound();
    s.play = () => Promise.reject(new DOMException("no", "NotSupportedError"));
    p.attach(s);
    p.reset(3000);
    await p.toggle();
    expect(p.failed).toBe(true);
  });
  it("has a fastest and a slowest speed", () => {
    const p = new Player();
    const s = sound();
    p.attach(s);
    for (let i = 0; i < 9; i++) p.faster(1);
    expect(s.playbackRate).toBe(2);
    for (let i = 0; i < 9; i++) p.faster(-1);
    expect(s.playbackRate).toBe(0.5);
  });
});

describe("the open memo", () => {
  it("edits the text, and Undo brings the previous one back", async () => {
    let text = "one";
    const rpc = fake({ "voice.get_memo": () => memo("a"), "voice.get_transcript": () => transcript(text), "voice.audio_url": () => ({ url: "u" }), "voice.edit_transcript": (p) => transcript((text = p.text)) });
    const n = notes();
    const open = new OpenMemo(rpc as never, n.notify, async () => new Blob(["x"]));
    await open.show("a", 700);
    expect(open.player.ms).toBe(700);
    expect(open.audio.data).toBeInstanceOf(Blob);
    open.draft = " two ";
    await open.save();
    expect([text, open.draft]).toEqual(["two", null]);
    await n.undo();
    expect([text, open.transcript.data?.text]).toEqual(["one", "one"]);
  });
  it("keeps the draft when the backend refuses", async () => {
    const rpc = fake({ "voice.get_memo": () => memo("a", { hasAudio: false }), "voice.get_transcript": () => transcript("one") });
    const n = notes();
    const open = new OpenMemo(rpc as never, n.notify);
    await open.show("a");
    open.draft = "two";
    rpc.failNext("voice.edit_transcript", new RpcError({ message: "The disk is full." }));
    await open.save();
    expect(open.draft).toBe("two");
    expect(n.said.at(-1)).toContain("The disk is full.");
  });
  it("shows nothing of a memo that was left while it was read", async () => {
    const rpc = fake({ "voice.get_memo": (p) => memo(p.memoId, { hasAudio: false }), "voice.get_transcript": (p) => ({ ...transcript(p.recordingId), recordingId: p.recordingId }) });
    const open = new OpenMemo(rpc as never, notes().notify);
    await Promise.all([open.show("a"), open.show("b")]);
    expect([open.memo.data?.id, open.transcript.data?.text]).toEqual(["b", "r-b"]);
  });
  it("reads again what changed while it was read for the first time, and then its sound", async () => {
    let status = "processing";
    const answers: (() => void)[] = [];
    const rpc = fake({ "voice.get_memo": () => ((m) => new Promise((done) => answers.push(() => done(m))))(memo("a", { status })), "voice.get_transcript": () => transcript(status), "voice.audio_url": () => ({ url: "u" }) });
    const open = new OpenMemo(rpc as never, notes().notify, async () => new Blob(["x"]));
    const shown = open.show("a", 700);
    await until(() => answers.length === 1);
    // What is on its way is older than the event.
    status = "completed";
    open.changed("r-other");
    open.changed("r-a");
    answers[0]!();
    await until(() => answers.length === 2);
    // A reload replaces the read before it.
    void open.read();
    await until(() => answers.length === 3);
    answers[2]!();
    answers[1]!();
    await shown;
    expect([open.memo.data?.status, open.transcript.data?.text, open.player.ms]).toEqual(["completed", "completed", 700]);
    expect(open.audio.data).toBeInstanceOf(Blob);
  });
  it("learns the length from the waveform when the memo does not know it yet", async () => {
    const rpc = fake({ "voice.get_memo": () => memo("a", { durationMs: undefined, hasAudio: false, status: "pending" }), "voice.get_transcript": () => transcript(""), "voice.waveform": () => ({ buckets: 1, durationMs: 4000, min: "gQ==", max: "fw==", rms: "/w==", silences: [] }) });
    const open = new OpenMemo(rpc as never, notes().notify);
    await open.show("a");
    await open.readWave(open.range, 100);
    expect([open.player.total, open.range, open.wave.data?.range]).toEqual([4000, { from: 0, to: 4000 }, { from: 0, to: 4000 }]);
  });
});

describe("the sound of a memo", () => {
  it("is read again without noise, and plays on at the same moment", async () => {
    const asked: string[] = [];
    const rpc = fake({ "voice.get_memo": () => memo("a"), "voice.get_transcript": () => transcript("Hello"), "voice.audio_url": (p: { as: string }) => (asked.push(p.as), { url: "u" }), "voice.waveform": () => ({ buckets: 0, durationMs: 3000, min: "", max: "", rms: "", silences: [] }) });
    const open = new OpenMemo(rpc as never, notes().notify);
    await open.show("a");
    open.player.seek(1500);
    await open.listen("denoised");
    expect([asked, open.sound, open.player.ms]).toEqual([["original", "denoised"], "denoised", 1500]);
    await open.show("b");
    expect(open.sound).toBe("original");
  });
});

describe("the screen", () => {
  it("counts the running transcription as work, and lists the tags in use", async () => {
    const rpc = fake({
      "voice.list_memos": () => ({ memos: [memo("a", { tags: ["b", "a"] })], total: 1 }),
      "voice.queue": () => ({ jobs: [{ id: "j", recordingId: "r-a" }], pending: 1, processing: 1, failed: 0 }),
      "voice.engines": () => ({ engines: [{ id: "e", name: "Engine", local: true, models: [], languages: [], available: true }] }),
      "voice.status": () => ({ state: "idle", elapsedMs: 0, microphone: { available: false, reason: "None." } }),
    });
    const s = new VoiceScreen(rpc as never, notes().notify);
    s.start();
    await until(() => s.list.rows.length === 1 && s.jobs.all.length === 1 && s.engines.data !== undefined);
    expect(s.tags).toEqual(["a", "b"]);
    expect([s.engineName("e"), s.engineName("gone")]).toEqual(["Engine", "gone"]);
    expect(s.jobOf("r-a")?.id).toBe("j");
    await until(() => s.recorder.missing === "None.");
    rpc.handle({ "voice.queue": () => ({ jobs: [], pending: 0, processing: 0, failed: 0 }) });
    rpc.emit("voice.queue", {});
    await until(() => s.jobs.all.length === 0);
  });
});

describe("the models of an engine", () => {
  const engine = (more: object) => ({ engines: [{ id: "whispercpp", name: "whisper.cpp", local: true, models: [], languages: [], available: false, downloads: [{ id: "base", size: 100, done: 0, installed: false, downloading: false, ...more }] }] });
  const model = (s: VoiceScreen) => s.engines.data?.[0]?.downloads?.[0];
  const screen = async (handlers: object) => {
    const rpc = fake({ "voice.engines": () => engine({}), "voice.status": () => ({ state: "idle", elapsedMs: 0, microphone: { available: false, reason: "None." } }), "voice.list_memos": () => ({ memos: [], total: 0 }), "voice.queue": () => ({ jobs: [], pending: 0, processing: 0, failed: 0 }), ...handlers });
    const { said, notify } = notes();
    const s = new VoiceScreen(rpc as never, notify);
    s.start();
    await until(() => model(s) !== undefined);
    return { rpc, s, said };
  };
  it("shows how far a download is, and that it ended", async () => {
    let arrive: (x: unknown) => void = () => {};
    const { rpc, s, said } = await screen({ "voice.install_model": () => new Promise((done) => (arrive = done)) });
    const done = s.install("whispercpp", "base");
    await until(() => model(s)?.downloading === true);
    expect(s.installing("base")).toBe(true);
    rpc.emit("voice.model_progress", { engine: "whispercpp", model: "base", done: 40, size: 100, ended: false });
    await until(() => model(s)?.done === 40);
    arrive(engine({ done: 100, installed: true }));
    await done;
    expect([model(s)?.installed, model(s)?.downloading, s.installing("base"), said]).toEqual([true, false, false, ["Installed the model base"]]);
  });
  it("pauses without an error, and says why a download failed", async () => {
    const { rpc, s, said } = await screen({ "voice.install_model": () => new Promise(() => {}) });
    rpc.handle({ "voice.engines": () => engine({ done: 40 }) });
    const done = s.install("whispercpp", "base");
    s.pause("base");
    await done;
    await until(() => model(s)?.done === 40);
    expect([model(s)?.downloading, said]).toEqual([false, []]);
    rpc.handle({
      "voice.install_model": () => {
        throw new RpcError({ message: "No network.", kind: "unavailable", code: "UNAVAILABLE" });
      },
    });
    await s.install("whispercpp", "base");
    expect(said).toEqual(["Couldn't install the model base: No network."]);
    rpc.handle({ "voice.remove_model": () => engine({}) });
    await s.removeModel("whispercpp", "base");
    expect(model(s)?.done).toBe(0);
  });
});

describe("the recorder", () => {
  const status = (state: string) => ({ state, elapsedMs: 0, microphone: { available: true } });
  it("maps levels to the meter", () => {
    expect([-90, -60, -30, 0, 5, Number.NaN].map(levelShare)).toEqual([0, 0, 0.5, 1, 1, 0]);
  });
  it("starts, shows levels of the recording, and opens the memo of a stopped one", async () => {
    let state = "idle";
    const rpc = fake({ "voice.status": () => status(state), "voice.start": () => ((state = "recording"), {}), "voice.stop": () => ((state = "idle"), { memoId: "m1", status: "pending" }) });
    const r = new Recorder(rpc as never, notes().notify);
    r.start();
    await until(() => r.status.data !== undefined);
    await r.toggle();
    expect([r.active, rpc.sent("voice.start")]).toEqual([true, [{ mode: "memo", stream: true }]]);
    rpc.emit("voice.level", { peakDb: -6, rmsDb: -20, elapsedMs: 1500 });
    rpc.emit("voice.level", { peakDb: -40, rmsDb: -50, elapsedMs: 1550 });
    expect([r.held, r.elapsedMs]).toEqual([-6, 1550]);
    await r.toggle();
    expect([r.active, nav.path.join("/")]).toEqual([false, "voice/m1"]);
  });
  it("does nothing without a microphone", async () => {
    const rpc = fake({ "voice.status": () => ({ state: "idle", elapsedMs: 0, microphone: { available: false, reason: "This build has none." } }) });
    const r = new Recorder(rpc as never, notes().notify);
    await r.read();
    await r.toggle();
    expect(r.missing).toBe("This build has none.");
    expect(rpc.sent("voice.start")).toEqual([]);
  });
  it("cancels with Undo", async () => {
    const rpc = fake({ "voice.status": () => status("recording"), "voice.cancel": () => ({ undoToken: "u" }), "voice.undo_cancel": () => memo("back") });
    const n = notes();
    const r = new Recorder(rpc as never, n.notify);
    await r.cancel();
    await n.undo();
    expect([rpc.sent("voice.undo_cancel"), nav.path.join("/")]).toEqual([[{ undoToken: "u" }], "voice/back"]);
  });
});

describe("commands", () => {
  const command = (more: object = {}) => ({ id: "c1", name: "Lights", triggerPhrase: "lights {state:enum(on,off)}", triggerConfidence: 0.8, slots: [], actionType: "tool", toolId: "tool:t1", actionParams: {}, riskTier: "low", enabled: true, usageCount: 0, updatedAt: "", ...more });
  const rpcOf = () => fake({ "voice.list_commands": () => ({ commands: [command()], navigationTargets: ["chat"], systemActions: ["stop"] }), "callables.list": () => ({ callables: [{ kind: "tool", id: "t1", name: "T" }, { kind: "skill", id: "s1", name: "S" }, { kind: "agent", id: "a", name: "A" }] }), "voice.create_command": (p) => command(p), "voice.update_command": (p) => command(p), "voice.confirm": () => ({ status: "started" }) });
  it("reads the slots of a phrase", () => {
    expect(slotsOf("remind me to {what:text} at { when : time } {plain}")).toEqual([{ name: "what", type: "text" }, { name: "when", type: "time" }, { name: "plain", type: "text" }]);
    expect(slotsOf("lights {state:enum(on,off)} {")).toEqual([{ name: "state", type: "enum(on,off)" }]);
  });
  it("saves only the target of the chosen action", async () => {
    const rpc = rpcOf();
    const c = new Commands(rpc as never, notes().notify);
    c.edit(null);
    await until(() => c.callables.data !== undefined);
    expect(c.choices("tool").map((x) => x.value)).toEqual(["tool:t1"]);
    expect(c.choices("skill").map((x) => x.value)).toEqual(["s1"]);
    Object.assign(c.form!, { triggerPhrase: "open chat", actionType: "navigation", target: "chat" });
    await c.save();
    expect(rpc.sent("voice.create_command")[0]).toMatchObject({ name: "open chat", toolId: "", skillId: "", navigationTarget: "chat", systemAction: "" });
    expect(c.form).toBeNull();
  });
  it("turns a command back on when the key is pressed again before the backend has answered", async () => {
    const rpc = rpcOf();
    const c = new Commands(rpc as never, notes().notify);
    await c.list.page.restart();
    const press = () => c.setEnabled(c.list.own[0]!, !c.list.own[0]!.enabled);
    await Promise.all([press(), press()]);
    expect(rpc.sent("voice.update_command").map((p) => p.enabled)).toEqual([false, true]);
    expect(c.list.own[0]!.enabled).toBe(true);
    rpc.failNext("voice.update_command", new RpcError({ message: "Disk full.", kind: "internal", code: "INTERNAL" }));
    await press();
    expect(c.list.own[0]!.enabled).toBe(true);
  });
  it("shows a refused field at its place and keeps the form", async () => {
    const rpc = rpcOf();
    const c = new Commands(rpc as never, notes().notify);
    c.edit(command() as never);
    rpc.failNext("voice.update_command", new RpcError({ message: "Gone.", kind: "invalid", code: "INVALID", details: { field: "toolId", code: "invalid" } }));
    await c.save();
    expect([c.refused.target, c.form?.target]).toEqual(["Gone.", "tool:t1"]);
  });
  it("asks before a risky command and sends the answer once", async () => {
    const rpc = rpcOf();
    const n = notes();
    const c = new Commands(rpc as never, n.notify);
    c.start();
    rpc.emit("voice.command", { pendingId: "p1", text: "lights on", decision: "confirm", name: "Lights", slots: {} });
    expect(c.pending?.name).toBe("Lights");
    await c.answer(true);
    await c.answer(true);
    expect(rpc.sent("voice.confirm")).toEqual([{ pendingId: "p1", accept: true }]);
    rpc.emit("voice.command", { pendingId: "p1", decision: "confirm", status: "started", name: "Lights", text: "", slots: {} });
    expect(n.said.at(-1)).toBe("Lights started");
  });
  it("closes the question when it expires, and opens a screen that was asked for", () => {
    const rpc = rpcOf();
    const n = notes();
    const c = new Commands(rpc as never, n.notify);
    c.start();
    rpc.emit("voice.command", { pendingId: "p1", text: "x", decision: "confirm", name: "Lights", slots: {} });
    rpc.emit("voice.command", { pendingId: "p1", text: "x", decision: "confirm", name: "Lights", slots: {}, status: "expired" });
    expect([c.pending, n.said.at(-1)]).toEqual([null, "Lights didn't run: no answer"]);
    rpc.emit("voice.command", { text: "open chat", decision: "run", status: "done", navigationTarget: "chat", slots: {} });
    expect(nav.path).toEqual(["chat"]);
  });
  it("shows the texts of the recording in progress", () => {
    const rpc = fake({ "voice.status": () => ({ state: "idle", microphone: { available: true } }) });
    const r = new Recorder(rpc as never, notes().notify);
    r.start();
    const say = (recordingId: string, text: string, isFinal: boolean): void => rpc.emit("voice.partial", { recordingId, text, isFinal, startMs: 0, endMs: 1, seq: 1 });
    say("a", "call", false);
    say("a", "Call Anna.", true);
    say("a", "and", false);
    expect([r.said, r.saying]).toEqual(["Call Anna.", "and"]);
    say("a", "And Bob.", true);
    expect([r.said, r.saying]).toEqual(["Call Anna. And Bob.", ""]);
    say("b", "Next", false);
    expect([r.said, r.saying]).toEqual(["", "Next"]);
  });
  it("opens a screen only in the page where it was asked for", async () => {
    const rpc = fake({ "session.get": () => ({ sessionId: "here" }) });
    const c = new Commands(rpc as never, notes().notify);
    c.start();
    const say = async (sessionId: string, navigationTarget: string): Promise<void> => {
      rpc.emit("voice.command", { text: "open it", decision: "run", status: "done", sessionId, navigationTarget, slots: {} });
      await vi.waitFor(() => expect(rpc.sent("session.get").length).toBeGreaterThan(0));
    };
    await say("here", "tools");
    await vi.waitFor(() => expect(nav.path).toEqual(["tools"]));
    await say("elsewhere", "memory");
    await say("here", "skills");
    await vi.waitFor(() => expect(nav.path).toEqual(["skills"]));
  });
});
