// The peer of wasm.cpu: the same modules under Node's WASI. Usage: node wasi.mjs FILE…
// Prints the least CPU milliseconds of seven runs, each in a new instance, by file.
import { openSync, readFileSync, writeFileSync, ftruncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unlinkSync } from "node:fs";
import { WASI } from "node:wasi";

const cpu = () => { const u = process.cpuUsage(); return (u.user + u.system) / 1000; };
const name = join(tmpdir(), `helix-bench-wasi-${process.pid}`);
writeFileSync(name, "");
const stdout = openSync(name, "r+");
unlinkSync(name);
const out = {};
for (const file of process.argv.slice(2)) {
  const module = await WebAssembly.compile(readFileSync(file));
  let best = Infinity;
  for (let i = 0; i < 10; i++) { // the first three warm up
    ftruncateSync(stdout);
    const wasi = new WASI({ version: "preview1", stdout, returnOnExit: true });
    const t = cpu();
    const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
    wasi.start(instance);
    const took = cpu() - t;
    if (i >= 3) best = Math.min(best, took);
  }
  out[file] = best;
}
console.log(JSON.stringify(out));
