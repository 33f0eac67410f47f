// The peer's client. Usage: node rpcws-client.mjs PORT echo SECONDS | big TIMES | events SUBSCRIBERS EVENTS
// Prints one JSON object.
import { Client } from 'rpc-websockets';

const [port, what, a, b] = process.argv.slice(2);
const connect = () =>
  new Promise((resolve) => {
    const c = new Client(`ws://127.0.0.1:${port}`, { reconnect: false });
    c.on('open', () => resolve(c));
  });
const now = () => Number(process.hrtime.bigint()) / 1e3; // microseconds
const text = 'y'.repeat(188); // with its frame a params object of about 200 bytes

if (what === 'echo') {
  const c = await connect();
  const until = now() + 1e6 * Number(a);
  const took = [];
  const began = now();
  await Promise.all(
    Array.from({ length: 64 }, async () => {
      while (now() < until) {
        const t = now();
        await c.call('echo', { text });
        took.push(now() - t);
      }
    }),
  );
  const spent = (now() - began) / 1e6;
  took.sort((x, y) => x - y);
  console.log(JSON.stringify({ calls: took.length / spent, p99: took[Math.floor(took.length * 0.99)], median: took[took.length >> 1] }));
  c.close();
} else if (what === 'big') {
  const c = await connect();
  const took = [];
  for (let i = 0; i < Number(a); i++) {
    const t = now();
    const r = await c.call('big', {});
    if (r.text.length !== 1 << 20) throw new Error('short');
    took.push(now() - t);
  }
  took.sort((x, y) => x - y);
  console.log(JSON.stringify({ median: took[took.length >> 1] }));
  c.close();
} else {
  const clients = await Promise.all(Array.from({ length: Number(a) }, connect));
  const want = Number(a) * Number(b);
  let got = 0;
  let done;
  for (const c of clients) {
    c.on('tick', () => {
      if (++got % want === 0) done();
    });
    await c.subscribe('tick');
  }
  const began = now();
  const bursts = 5; // as in ours.go
  for (let i = 0; i < bursts; i++) {
    const all = new Promise((r) => (done = r));
    await clients[0].call('burst', { n: Number(b), text });
    await all;
  }
  console.log(JSON.stringify({ delivered: (bursts * want) / ((now() - began) / 1e6) }));
  for (const c of clients) c.close();
}
process.exit(0);
