// Things that several suites need to be there.

/** A tool that asks for one capability; each run without the right leaves a request. */
export async function makeTool(helix, name, host) {
  const code = `export default async function (params, helix) {\n  const answer = await helix.fetch("https://${host}/");\n  return answer.status;\n}\n`;
  const { tool } = await helix.rpc("tools.create", { name, code, language: "typescript", description: `Looks at ${host}`, capabilities: [`network:https(${host})`] });
  return tool;
}

/** Runs a tool where nobody is there to be asked. What it lacks becomes a request. */
export async function runUnattended(helix, id) {
  await helix.cli("rpc", "tools.execute_custom", JSON.stringify({ toolId: id, params: {} })).catch(() => {});
}
