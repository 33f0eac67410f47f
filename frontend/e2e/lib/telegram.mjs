// A small Bot API server: what its people write is what the suite says, and what the bot sends can be read.
import { createServer } from "node:http";
import { once } from "node:events";

/** Starts the server. `write(from, text)` is a message of a person to the bot; `sent` lists what the bot sent. */
export async function startTelegram(token) {
  const updates = [];
  const telegram = { sent: [], url: "", token };
  let nextUpdate = 1;
  let nextMessage = 100;
  let wake = () => {};
  telegram.write = (from, text, name = `Person ${from}`) => {
    updates.push({ update_id: nextUpdate++, message: { message_id: nextMessage++, date: Math.floor(Date.now() / 1000), chat: { id: from, type: "private", first_name: name }, from: { id: from, is_bot: false, first_name: name }, text } });
    wake();
  };

  const methods = {
    getMe: () => ({ id: 1, is_bot: true, first_name: "Suite", username: "suite_bot" }),
    getWebhookInfo: () => ({ url: "" }),
    deleteWebhook: () => true,
    sendChatAction: () => true,
    editMessageText: () => true,
    sendMessage: (p) => {
      telegram.sent.push({ to: String(p.chat_id), text: p.text });
      return { message_id: nextMessage++, date: 1, chat: { id: Number(p.chat_id), type: "private" }, text: p.text };
    },
    getUpdates: async (p, res) => {
      const due = () => updates.filter((u) => u.update_id >= Number(p.offset ?? 0));
      const hold = Date.now() + Number(p.timeout ?? 0) * 1000;
      while (due().length === 0 && Date.now() < hold && !res.destroyed) await Promise.race([new Promise((go) => (wake = go)), new Promise((go) => setTimeout(go, 200))]);
      return due();
    },
  };
  // The library sends forms with files and forms without, and JSON.
  const read = (body, type) => {
    if (type.includes("json")) return JSON.parse(body || "{}");
    if (!type.includes("multipart")) return Object.fromEntries(new URLSearchParams(body));
    return Object.fromEntries([...body.matchAll(/name="([^"]+)"\r\n(?:[^\r\n]+\r\n)*\r\n([\s\S]*?)\r\n--/g)].map((m) => [m[1], m[2]]));
  };
  const server = createServer(async (req, res) => {
    const parts = [];
    for await (const chunk of req) parts.push(chunk);
    const body = Buffer.concat(parts).toString("utf8");
    const [, given, method] = /^\/bot([^/]+)\/(\w+)/.exec(req.url) ?? [];
    const answer = (status, out) => {
      res.writeHead(status, { "Content-Type": "application/json" });
      res.end(JSON.stringify(out));
    };
    if (given !== telegram.token) return answer(401, { ok: false, error_code: 401, description: "Unauthorized" });
    if (!methods[method]) return answer(404, { ok: false, error_code: 404, description: `no ${method}` });
    answer(200, { ok: true, result: await methods[method](read(body, req.headers["content-type"] ?? ""), res) });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  telegram.url = `http://127.0.0.1:${server.address().port}`;
  telegram.stop = () => (server.closeAllConnections(), server.close());
  return telegram;
}
