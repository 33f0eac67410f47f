// The peer of the webhook: verifies the signature of a message, appends it to a file, and accepts it
// after fsync. Prints its address, and ends with its input.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { open } from 'node:fs/promises';
import { createServer } from 'node:http';

const [path, secret] = process.argv.slice(2);
const file = await open(path, 'a');

const server = createServer(async (req, res) => {
  const parts = [];
  for await (const part of req) parts.push(part);
  const body = Buffer.concat(parts);
  const [t, v1] = (req.headers['helix-signature'] ?? '').split(',').map((f) => f.slice(f.indexOf('=') + 1));
  const want = createHmac('sha256', secret).update(`${t}.`).update(body).digest();
  const given = Buffer.from(v1 ?? '', 'hex');
  if (given.length !== want.length || !timingSafeEqual(given, want)) return res.writeHead(401).end();
  const { id } = JSON.parse(body);
  await file.appendFile(Buffer.concat([body, Buffer.from('\n')]));
  await file.sync();
  res.writeHead(202, { 'Content-Type': 'application/json' }).end(JSON.stringify({ accepted: true, id }));
});
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ URL: `http://127.0.0.1:${server.address().port}` })));
process.stdin.on('end', () => process.exit(0)).resume();
