// Real modules for the tests, built here from C and from Go.
import { execFile } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const here = path.join(path.dirname(fileURLToPath(import.meta.url)), "testdata");
const run = promisify(execFile);

/** Builds the modules into a folder; answers their paths. */
export async function buildModules(dir) {
  const count = path.join(dir, "count_words.wasm");
  const greet = path.join(dir, "greet.wasm");
  // The runtime library that belongs to clang is a package of its own, and not needed.
  await run("clang", ["--target=wasm32-wasi", "-O2", "-nodefaultlibs", "-lc", "-Wl,-s", "-o", count, path.join(here, "count.c")]);
  await run("go", ["build", "-ldflags=-s", "-o", greet, path.join(here, "greet.go")], { env: { ...process.env, GOOS: "wasip1", GOARCH: "wasm", CGO_ENABLED: "0" } });
  return { count, greet };
}
