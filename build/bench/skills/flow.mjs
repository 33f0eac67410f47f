// The peer of runs_per_s: three functions one after the other, each in a vm context of its
// own as flow engines run them, and one row kept after each, eight flows at a time. The rows
// go through sqlite3 in a child process with journal_mode=WAL and synchronous=FULL.
import { spawn } from 'node:child_process';
import vm from 'node:vm';

const [, , file, stretch] = process.argv;
const db = spawn('sqlite3', ['-batch', file], { stdio: ['pipe', 'pipe', 'inherit'] });
const waiting = [];
let rest = '';
db.stdout.on('data', (chunk) => {
  const lines = (rest + chunk).split('\n');
  rest = lines.pop();
  for (const line of lines) if (line === 'ok') waiting.shift()();
});
const keep = (sql) =>
  new Promise((resolve) => {
    waiting.push(resolve);
    db.stdin.write(`${sql}\nSELECT 'ok';\n`);
  });
db.stdin.write('PRAGMA journal_mode=WAL;\nPRAGMA synchronous=FULL;\n');
await keep('CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, run TEXT, node TEXT, message TEXT);');

const functions = [
  'msg.payload = { n: msg.n, list: [1, 2, 3] }; return msg;',
  'msg.payload = { sum: msg.payload.list.map((x) => x), n: msg.payload.n }; return msg;',
  'msg.payload = { all: msg.payload.sum, n: msg.payload.n }; return msg;',
].map((text) => {
  const context = vm.createContext({});
  return vm.runInContext(`(function (msg) {${text}})`, context);
});

let runs = 0;
const until = Date.now() + Number(stretch);
const begun = performance.now();
async function worker() {
  while (Date.now() < until) {
    let msg = { n: runs };
    for (let i = 0; i < functions.length; i++) {
      msg = functions[i](structuredClone(msg));
      await keep(`INSERT INTO rows (run, node, message) VALUES ('r${runs}', 'f${i}', '${JSON.stringify(msg)}');`);
    }
    runs++;
  }
}
await Promise.all(Array.from({ length: 8 }, worker));
console.log((runs / ((performance.now() - begun) / 1000)).toFixed(1));
db.stdin.end();
