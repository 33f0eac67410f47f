// The peer of tools.execute: an HTTP server that runs the same code in a fresh vm context
// for each request. With a number as argument it starts that many processes on one port.
import cluster from 'node:cluster';
import http from 'node:http';
import vm from 'node:vm';

const processes = Number(process.argv[2] ?? 1);
if (cluster.isPrimary && processes > 1) {
  let up = 0;
  for (let i = 0; i < processes; i++) cluster.fork({ PORT: '0' });
  cluster.on('listening', (_, address) => {
    if (++up === processes) console.log(address.port);
  });
  process.stdin.resume();
  process.stdin.on('end', () => process.exit(0));
} else {
  const scripts = new Map();
  const server = http.createServer((request, response) => {
    if (request.method === 'GET') { // the processor time used so far, in microseconds
      const { user, system } = process.cpuUsage();
      response.end(String(user + system));
      return;
    }
    const chunks = [];
    request.on('data', (c) => chunks.push(c));
    request.on('end', async () => {
      const { code, params } = JSON.parse(Buffer.concat(chunks).toString());
      let script = scripts.get(code);
      if (!script) scripts.set(code, (script = new vm.Script(`(async function (params) {${code}\n})`)));
      const context = vm.createContext({ console });
      const output = await script.runInContext(context, { timeout: 10000 })(params);
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ success: true, output }));
    });
  });
  server.listen(0, '127.0.0.1', () => {
    if (cluster.isPrimary) console.log(server.address().port);
  });
  if (cluster.isPrimary) {
    process.stdin.resume();
    process.stdin.on('end', () => process.exit(0));
  }
}
