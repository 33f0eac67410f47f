// A real backend for the tests: `helix serve` over an empty data folder.
import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const bin = path.resolve(root, process.env.HELIX_BIN ?? "build/bin/helix");
const run = promisify(execFile);

// A run that is stopped from outside leaves no backend behind.
const running = new Set();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.once(signal, () => {
    for (const child of running) child.kill("SIGKILL");
    process.exit(1);
  });
}

/** Starts a backend, with `more` in its environment; `stop` ends it and removes its folder. */
export async function startHelix(more = {}) {
  const dir = await mkdtemp(path.join(tmpdir(), "helix-e2e-"));
  const env = { ...process.env, DBUS_SESSION_BUS_ADDRESS: "unix:path=/nonexistent", HELIX_PROJECT_DIR: path.join(dir, "project"), ...more };
  const log = [];
  const helix = { dir, log, url: "", process: null };

  helix.start = async () => {
    const child = spawn(bin, ["serve", "--data-dir", dir, "--addr", helix.url ? new URL(helix.url).host : "127.0.0.1:0"], { env, stdio: ["ignore", "pipe", "pipe"] });
    helix.process = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    await new Promise((resolve, reject) => {
      const seen = (chunk) => {
        log.push(String(chunk));
        const url = /http:\/\/127\.0\.0\.1:\d+/.exec(log.join(""));
        if (url) {
          helix.url = url[0];
          resolve();
        }
      };
      child.stdout.on("data", seen);
      child.stderr.on("data", seen);
      child.on("error", reject);
      child.on("exit", (code) => reject(new Error(`helix serve ended with ${code}:\n${log.join("")}`)));
      setTimeout(() => reject(new Error(`helix serve did not come up:\n${log.join("")}`)), 300_000).unref();
    });
  };
  /** Ends the process as a person would, without removing the data. */
  helix.end = async () => {
    const child = helix.process;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    const late = setTimeout(() => {
      console.error("helix serve did not stop within a minute and was killed");
      child.kill("SIGKILL");
    }, 60_000);
    await ended;
    clearTimeout(late);
    log.length = 0;
  };
  /** Kills the process as a crash of the computer would. */
  helix.kill = async () => {
    const child = helix.process;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
    log.length = 0;
  };
  helix.stop = async () => {
    await helix.end();
    await rm(dir, { recursive: true, force: true });
  };
  /** Runs a command of the CLI against this backend; its process is `child`. */
  helix.command = (...args) => run(bin, ["--data-dir", dir, ...args], { env, maxBuffer: 1 << 26 });
  helix.cli = async (...args) => (await helix.command(...args)).stdout;
  /** Runs a command in a terminal of its own. */
  helix.terminal = (...args) => {
    const line = [bin, "--data-dir", dir, ...args].map((a) => `'${a}'`).join(" ");
    const child = spawn("script", ["-qec", `stty cols 100 rows 30; exec ${line}`, "/dev/null"], { env: { ...env, TERM: "xterm-256color" } });
    running.add(child);
    let text = "";
    for (const out of [child.stdout, child.stderr]) out.on("data", (chunk) => (text += chunk));
    const ended = new Promise((resolve) => child.once("exit", resolve));
    return {
      seen: () => text,
      type: (keys) => child.stdin.write(keys),
      end: async () => {
        if (child.exitCode === null) child.kill("SIGTERM");
        await ended;
        running.delete(child);
      },
    };
  };
  /** The link that `helix ui` prints. */
  helix.ticket = async (...flags) => (await helix.cli("ui", "--print", ...flags)).trim();

  let token = "";
  /** Calls a method from outside the page, with all rights. */
  helix.rpc = async (method, params = {}) => {
    if (!token) {
      const ticket = new URLSearchParams(new URL(await helix.ticket()).hash.slice(1)).get("ticket");
      const answer = await fetch(`${helix.url}/session`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ticket }) });
      token = (await answer.json()).token;
    }
    const answer = await fetch(`${helix.url}/rpc`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    });
    const body = await answer.json();
    if (body.error) throw new Error(`${method}: ${body.error.message}`);
    return body.result;
  };
  helix.forget = () => (token = "");
  try {
    await helix.start();
  } catch (e) {
    await helix.stop();
    throw e;
  }
  return helix;
}
