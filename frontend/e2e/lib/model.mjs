// A small server of the chat completions kind: what it answers is what the suite puts in line.
import { createServer } from "node:http";
import { once } from "node:events";

/**
 * Starts the server. `say(reply)` puts a reply in line: a text, or `{ text, calls, hold, finish }`. With `hold` the
 * reply stops after the first half of its text until `go()` is called. Without one in line it repeats what it was asked.
 */
export async function startModel() {
  const line = [];
  const model = { requests: [], url: "", go: () => {} };
  model.say = (...replies) => line.push(...replies.map((r) => (typeof r === "string" ? { text: r } : r)));

  const server = createServer(async (req, res) => {
    let body = "";
    for await (const chunk of req) body += chunk;
    if (req.method === "GET") {
      res.setHeader("Content-Type", "application/json");
      if (req.url === "/props") return res.end(JSON.stringify({ default_generation_settings: { n_ctx: 128_000 } }));
      return res.end(JSON.stringify({ object: "list", data: [{ id: "one", object: "model" }, { id: "two", object: "model" }] }));
    }
    const asked = JSON.parse(body);
    model.requests.push(asked);
    const user = asked.messages.filter((m) => m.role === "user").at(-1);
    const words = typeof user?.content === "string" ? user.content : (user?.content[0]?.text ?? "");
    const { text = "", calls = [], hold = false, finish } = line.shift() ?? { text: `You said: ${words.split("\n")[0]}` };
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    const send = (delta, more = {}) => res.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: asked.model, choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`);
    send({ role: "assistant", content: "" });
    const pieces = text.match(/.{1,12}/gsu) ?? [];
    const half = Math.ceil(pieces.length / 2);
    for (const [i, content] of pieces.entries()) {
      if (hold && i === half) await Promise.race([new Promise((go) => (model.go = go)), once(res, "close")]);
      if (res.destroyed) return;
      send({ content });
    }
    calls.forEach((c, index) => send({ tool_calls: [{ index, id: `call_${model.requests.length}_${index}`, type: "function", function: { name: c.name, arguments: JSON.stringify(c.args) } }] }));
    send({}, { finish_reason: finish ?? (calls.length > 0 ? "tool_calls" : "stop") });
    res.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: asked.model, choices: [], usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 } })}\n\n`);
    res.end("data: [DONE]\n\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  model.url = `http://127.0.0.1:${server.address().port}/v1`;
  model.stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return model;
}
