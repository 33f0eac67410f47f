// Serves telegram-test-api on a free port, which it prints. The package reads JSON only, and bots may
// send forms, so forms are read here.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const { TelegramServer } = createRequire(import.meta.url)('telegram-test-api/lib/telegramServer');
const telegram = new TelegramServer({ storeTimeout: 3600 });

const server = createServer(async (request, response) => {
  if (request.headers['content-type']?.startsWith('multipart/form-data')) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    request.body = body.length === 0 ? {} : Object.fromEntries(await new Response(body, { headers: { 'content-type': request.headers['content-type'] } }).formData());
    request._body = true; // so that it is not read again
  }
  telegram.webServer(request, response);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
