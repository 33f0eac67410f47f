// The peers that run on Node. Usage: node js.mjs quickjs|vm KERNEL… | hello | async
// Prints one JSON object: the least CPU milliseconds of seven runs by kernel, or the median
// microseconds of a fresh world and a run in it.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import vm from "node:vm";
import { QuickJS } from "quickjs-wasi";

const [what, ...args] = process.argv.slice(2);
const cpu = () => { const u = process.cpuUsage(); return (u.user + u.system) / 1000; };
const median = (v) => v.sort((a, b) => a - b)[v.length >> 1];
const out = {};

function least(run) {
  let best = Infinity, result;
  for (let i = 0; i < 10; i++) { // the first three warm up
    const t = cpu();
    result = run();
    const took = cpu() - t;
    if (i >= 3) best = Math.min(best, took);
  }
  return [best, result];
}

if (what === "quickjs" || what === "vm") {
  const wasm = await WebAssembly.compile(readFileSync(createRequire(import.meta.url).resolve("quickjs-wasi/quickjs.wasm")));
  for (const file of args) {
    const text = `(function(){${readFileSync(file, "utf8")}})()`;
    const name = file.replace(/.*\/|\.js$/g, "");
    let run;
    if (what === "quickjs") {
      const world = await QuickJS.create({ wasm });
      run = () => world.evalCode(text).consume((h) => h.toNumber());
    } else {
      const context = vm.createContext({});
      run = () => vm.runInContext(text, context);
    }
    const [ms, result] = least(run);
    out[name] = ms;
    out[name + ".result"] = result;
  }
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
