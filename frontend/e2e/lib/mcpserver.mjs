// A small MCP server over stdio. What its tools are is in the file beside it, so that a suite can change
// them between two starts: node mcpserver.mjs TOOLS.json
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const tools = () => JSON.parse(readFileSync(process.argv[2], "utf8"));
const send = (id, result) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
const fail = (id, code, message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } })}\n`);

const methods = {
  initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "diary", version: "1.2.3" } }),
  ping: () => ({}),
  "tools/list": () => ({ tools: tools() }),
  "tools/call": ({ name, arguments: args }) =>
    name === "refuse" ? { isError: true, content: [{ type: "text", text: "The diary is closed today." }] } : { content: [{ type: "text", text: `${name}: ${JSON.stringify(args)}, key ${process.env.DIARY_KEY ? "set" : "missing"}` }] },
};

process.stderr.write("diary is open\n");
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined) return;
  // The newest protocol has no handshake; this server is older and says so by not knowing its methods.
  const answer = methods[method];
  if (answer) send(id, answer(params));
  else fail(id, -32601, `Method not found: ${method}`);
});
