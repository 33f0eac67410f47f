// A real PostgreSQL for the tests, in a folder of its own and on a free port. It refuses to run as root, so it
// runs as the user postgres there.
import { execFile, spawn } from "node:child_process";
import { chown, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const home = "/usr/lib/postgresql";

/** A port below those that the system assigns, so that no one else is assigned it while the server is paused. */
const freePort = () =>
  new Promise((resolve) => {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const s = createServer();
    s.on("error", () => resolve(freePort()));
    s.listen(port, "127.0.0.1", () => s.close(() => resolve(port)));
  });

/** Starts a server with one empty database. `dsn` is its administrator's; `pause` and `resume` take the hub off the network. */
export async function startPostgres() {
  const versions = await readdir(home).catch(() => []);
  const version = versions.sort((a, b) => Number(b) - Number(a))[0];
  if (!version) throw new Error("PostgreSQL is missing (Debian package postgresql)");
  const bin = path.join(home, version, "bin");
  const account = {};
  const dir = await mkdtemp(path.join(tmpdir(), "helix-hub-"));
  if (process.getuid() === 0) {
    const id = async (flag) => Number((await run("id", [flag, "postgres"])).stdout);
    Object.assign(account, { uid: await id("-u"), gid: await id("-g") });
    await chown(dir, account.uid, account.gid);
  }
  const data = path.join(dir, "data");
  await run(path.join(bin, "initdb"), ["--no-sync", "--auth-local=trust", "--auth-host=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D", data], { ...account, cwd: dir });
  // Devices prove who they are; the administrator of the tests does not.
  await writeFile(path.join(data, "pg_hba.conf"), "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n");
  const port = await freePort();
  let child;
  let log = "";
  const start = async () => {
    child = spawn(path.join(bin, "postgres"), ["-D", data, "-p", String(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=40", "-c", "shared_buffers=32MB"], { ...account, cwd: dir, stdio: ["ignore", "ignore", "pipe"] });
    await new Promise((resolve, reject) => {
      child.stderr.on("data", (chunk) => {
        log += chunk;
        if (log.includes("ready to accept connections")) resolve();
      });
      child.on("exit", (code) => reject(new Error(`postgres ended with ${code}:\n${log}`)));
    });
  };
  const end = async () => {
    if (child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGINT"); // a fast shutdown
    await ended;
    log = "";
  };
  process.once("exit", () => child?.kill("SIGKILL"));
  await start();
  const dsn = `postgres://postgres@127.0.0.1:${port}/postgres?sslmode=disable`;
  return {
    dsn,
    /** Runs a statement as the administrator. */
    sql: (text) => run(path.join(bin, "psql"), ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", text, dsn]),
    pause: end,
    resume: start,
    stop: async () => {
      await end();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
