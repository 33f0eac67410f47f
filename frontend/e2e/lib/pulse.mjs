// A sound server of its own with a virtual microphone, which hears what is played.
import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { until } from "./page.mjs";

const run = promisify(execFile);

/** Starts PulseAudio: the environment of programs that use it, and `stop`. null if it is not installed. */
export async function startPulse() {
  const dir = await mkdtemp(path.join(tmpdir(), "helix-pulse-"));
  const socket = path.join(dir, "native");
  const env = { HOME: dir, XDG_RUNTIME_DIR: dir, XDG_CONFIG_HOME: dir, PULSE_RUNTIME_PATH: path.join(dir, "pulse"), PULSE_SERVER: `unix:${socket}` };
  const modules = [`module-native-protocol-unix auth-anonymous=1 socket=${socket}`, "module-null-sink sink_name=speaker rate=48000", "module-remap-source source_name=helix_test master=speaker.monitor source_properties=device.description=HelixTest"];
  const server = spawn("pulseaudio", ["-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no", "--disable-shm=yes", "--system=no", ...modules.flatMap((m) => ["-L", m])], { env: { ...process.env, ...env, DBUS_SESSION_BUS_ADDRESS: "" }, stdio: "ignore" });
  const ended = new Promise((resolve) => server.once("exit", resolve).once("error", resolve));
  const gone = () => server.pid === undefined || server.exitCode !== null;
  const stop = async () => {
    if (!gone()) server.kill("SIGKILL");
    await ended;
    await rm(dir, { recursive: true, force: true });
  };
  const use = (program, ...args) => run(program, args, { env: { ...process.env, ...env } });
  await new Promise((resolve) => server.once("spawn", resolve).once("error", resolve));
  if (server.pid === undefined) return rm(dir, { recursive: true, force: true }).then(() => null);
  try {
    await until(async () => gone() || (await use("pactl", "list", "short", "sources").then((r) => r.stdout.includes("helix_test"), () => false)), "the sound server answers");
    if (gone()) throw new Error("the sound server ended");
    await use("pactl", "set-default-source", "helix_test");
  } catch (e) {
    await stop();
    throw e;
  }
  /** Plays a file to the microphone. */
  return { dir, env, stop, play: (file) => use("paplay", file) };
}
