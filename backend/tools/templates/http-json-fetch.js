// Fetches JSON and picks a part of it. For another host, change the capability
// network:https(…) too: a tool reaches only the hosts that it asks for.
export default async function (params, helix) {
  const response = await helix.fetch(params.url, { headers: { accept: "application/json" } });
  if (!response.ok) throw new Error(`The server answered with status ${response.status}.`);
  let data = await response.json();
  for (const key of params.pick.split(".").filter(Boolean)) {
    if (data === null || typeof data !== "object" || !(key in data)) throw new Error(`There is no "${key}" in the answer.`);
    data = data[key];
  }
  return { status: response.status, data };
}
