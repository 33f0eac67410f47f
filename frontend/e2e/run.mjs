// Runs every suite of this folder against one real backend in Debian's Chromium.
//   npm run e2e [-- NAME…]
// HELIX_BIN: the helix program, default build/bin/helix. HELIX_SHOTS: where
// screenshots go; without it none are taken. CHROMIUM: the browser, default /usr/bin/chromium. HELIX_WEB: a built
// interface to test in place of the one inside the program. HELIX_E2E_LATE, HELIX_E2E_SLOW and HELIX_E2E_TIMEOUT
// (lib/page.mjs) play a busy machine.
import { writeFile } from "node:fs/promises";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { startHelix } from "./lib/helix.mjs";
import { openPage } from "./lib/page.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);
const names = (await readdir(here)).filter((f) => f.endsWith(".mjs") && f !== "run.mjs").map((f) => f.slice(0, -4)).sort();
const suites = names.filter((n) => wanted.length === 0 || wanted.includes(n));

const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  // Without an address Chromium starts a D-Bus daemon that outlives it; some dozens of them
  // use up the inotify instances of the user, and then "Too many open files" is all it says.
  env: { ...process.env, DBUS_SESSION_BUS_ADDRESS: "disabled:" },
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage",
    // A suite ends before optimized code has paid for its compilation.
    "--js-flags=--no-opt,--no-maglev",
    // A microphone that beeps, for recordings as the browser makes them.
    "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
    // A page that the test answers itself has no address, and could not talk to the program.
    ...(process.env.HELIX_WEB ? ["--disable-features=LocalNetworkAccessChecks"] : [])],
});
const begun = Date.now();

/** Runs a suite, and reports whether it passed. */
async function run(browser, name) {
  const start = Date.now();
  const suite = await import(pathToFileURL(path.join(here, `${name}.mjs`)));
  let helix, t, prepared;
  try {
    // Each suite has its own backend, so that they do not depend on each other's order.
    prepared = await suite.prepare?.();
    helix = await startHelix(prepared?.env);
    t = await openPage(browser, helix, name);
    t.prepared = prepared;
    await suite.default(t);
    if (t.complaints.length > 0) throw new Error(t.complaints.join("\n"));
    console.log(`ok    ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
    return true;
  } catch (e) {
    console.error(`FAIL  ${name}\n${e.stack ?? e}`);
    if (t) {
      // What the page showed when it failed, and its accessible tree, which says why a name was not found.
      const dir = process.env.HELIX_SHOTS || path.join(here, "..", "..", "build", "bin", "failed");
      await t.shot("failed", dir).catch(() => {});
      await writeFile(path.join(dir, `${name}-failed.yml`), await t.page.locator("body").ariaSnapshot()).catch(() => {});
      console.error(`see ${dir}`);
      if (t.complaints.length > 0) console.error(t.complaints.join("\n"));
    }
    if (process.env.HELIX_E2E_LOG && helix) console.error(helix.log.join(""));
    return false;
  } finally {
    await t?.close().catch(() => {});
    await helix?.stop();
    await prepared?.stop();
  }
}

/** Runs the suites in as many browsers as lanes, and returns those that failed. */
async function runAll(suites, lanes) {
  const waiting = [...suites];
  const failed = [];
  const lane = async () => {
    const browser = await launch();
    try {
      for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) if (!(await run(browser, name))) failed.push(name);
    } finally {
      await browser.close();
    }
  };
  await Promise.all(Array.from({ length: Math.min(lanes, suites.length) }, lane));
  return failed;
}

// Suites wait more than they compute: two browsers take them in turn. One that fails runs up to twice
// more by itself, because a busy machine fails a test now and then; it is named as flaky then.
const first = await runAll(suites, 2);
const failed = await runAll(await runAll(first, 1), 1);
const flaky = first.filter((name) => !failed.includes(name));
console.log(`${suites.length - failed.length} of ${suites.length} suites passed in ${((Date.now() - begun) / 1000).toFixed(0)} s${flaky.length > 0 ? `, on a later attempt: ${flaky.join(", ")}` : ""}`);
if (suites.length === 0) console.error("no such suite");
process.exit(failed.length > 0 || suites.length === 0 ? 1 : 0);
