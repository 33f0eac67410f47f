// The peer's server: echo, a 1 MiB result, and an event to all subscribers on request.
// Prints its port.
import { Server } from 'rpc-websockets';

const server = new Server({ host: '127.0.0.1', port: 0 });
const big = 'x'.repeat(1 << 20);
server.register('echo', (p) => p);
server.register('big', () => ({ text: big }));
server.event('tick');
server.register('burst', ({ n, text }) => {
  for (let i = 0; i < n; i++) server.emit('tick', { n: i, text });
  return { n };
});
server.on('listening', () => console.log(server.wss.address().port));
