// The peers that run on Node. Usage: node js.mjs serve | hello | async
// serve runs kernels on request; the others print the median microseconds of a fresh world
// and a run in it.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import vm from "node:vm";
import { QuickJS } from "quickjs-wasi";

const [what, ...args] = process.argv.slice(2);
const cpu = () => { const u = process.cpuUsage(); return (u.user + u.system) / 1000; };
const median = (v) => v.sort((a, b) => a - b)[v.length >> 1];
const out = {};

if (what === "serve") {
  // Each line is "quickjs FILE" or "vm FILE": one run, answered by its CPU milliseconds and
  // its result.
  const wasm = await WebAssembly.compile(readFileSync(createRequire(import.meta.url).resolve("quickjs-wasi/quickjs.wasm")));
  const world = await QuickJS.create({ wasm });
  const context = vm.createContext({});
  for await (const line of createInterface({ input: process.stdin })) {
    const [kind, file] = line.split(" ");
    const text = `(function(){${readFileSync(file, "utf8")}})()`;
    const t = cpu();
    const result = kind === "vm" ? vm.runInContext(text, context) : world.evalCode(text).consume((h) => h.toNumber());
    console.log(JSON.stringify({ ms: cpu() - t, result }));
  }
  process.exit(0);
} else if (what === "hello") {
  const took = [];
  for (let i = 0; i < 1500; i++) {
    const t = process.hrtime.bigint();
    if (vm.runInContext("(function(){return 42})()", vm.createContext({})) !== 42) throw new Error("wrong");
    took.push(Number(process.hrtime.bigint() - t) / 1e3);
  }
  out.p50 = median(took.slice(500));
} else {
  const script = new vm.Script("(async (p) => ({ n: p.list.length, sum: p.list.reduce((a, x) => a + x.v, 0) }))(JSON.parse(input)).then(JSON.stringify)");
  const input = '{"list":[{"v":1},{"v":2},{"v":3}]}';
  const took = [];
  for (let i = 0; i < 1500; i++) {
    const t = process.hrtime.bigint();
    if ((await script.runInContext(vm.createContext({ input }))) !== '{"n":3,"sum":6}') throw new Error("wrong");
    took.push(Number(process.hrtime.bigint() - t) / 1e3);
  }
  out.p50 = median(took.slice(500));
}
console.log(JSON.stringify(out));
