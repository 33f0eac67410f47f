// Activity: days, filters, new rows, an entry in its chain, verify, export.
import { readFile } from "node:fs/promises";
import path from "node:path";
import { until } from "./lib/page.mjs";
import { makeTool, runUnattended } from "./lib/seed.mjs";

export default async function ({ page, helix, rpc, go, looks, check }) {
  const tool = await makeTool(helix, "Weather", "api.example.com");
  await runUnattended(helix, tool.id);
  await go("activity");
  const list = page.getByRole("listbox", { name: "Entries" });
  await list.getByRole("option").first().waitFor();
  await page.getByText(/Verified to entry/).waitFor();
  // Who and what is said in words; signatures of the log are folded into the heading of the day.
  await rpc("schedules.create", { name: "Morning", target: { kind: "tool", id: tool.id }, cadence: { type: "interval", everySecs: 86_400 } });
  await list.getByRole("option", { name: /Schedule Morning was created, you, in a browser/ }).waitFor();
  await list.getByRole("option", { name: /Tool Weather stopped: a permission was denied/ }).first().waitFor();
  await page.keyboard.press("v");
  await page.getByRole("region", { name: "Messages" }).getByText("The log is intact").waitFor();
  await looks("list");

  // By keyboard: down, open, neighbours.
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const entry = page.getByRole("complementary", { name: "Entry" });
  await entry.getByText("Position in the log").waitFor();
  await looks("entry");

  // What arrives while something is read is counted, not shown.
  const before = await list.getByRole("option").count();
  for (let i = 0; i < 3; i++) await runUnattended(helix, tool.id);
  await page.getByRole("button", { name: /\d+ new/ }).waitFor();
  check((await list.getByRole("option").count()) === before, "rows do not move while one is read");
  await looks("new");
  await page.keyboard.press("n");
  await page.getByRole("button", { name: /\d+ new/ }).waitFor({ state: "detached" });
  await page.keyboard.press("Escape");

  // Filters.
  await page.getByLabel(/^Result:/).click();
  await page.getByRole("option", { name: "denied", exact: true }).click();
  const labels = () => list.getByRole("option").evaluateAll((l) => l.map((o) => o.getAttribute("aria-label")));
  await until(async () => (await labels()).length > 0 && (await labels()).every((l) => l.endsWith("Denied")), "only denied entries are listed");
  await page.getByRole("searchbox", { name: "Search activity" }).fill("nothing like this");
  await page.getByText("No matching entries").waitFor();
  await looks("none");
  await page.getByRole("button", { name: "Clear filters" }).click();

  const [newest] = (await rpc("audit.list", { limit: 1, actions: ["start"] })).entries.concat((await rpc("audit.list", { limit: 1 })).entries);
  await go(`activity/run/${newest.runId}`);
  await page.getByRole("button", { name: /^Run / }).waitFor();

  await page.getByRole("button", { name: "Export…" }).click();
  const file = path.join(helix.dir, "log.jsonl");
  await page.getByLabel("File on the computer that runs Helix").fill(file);
  await page.keyboard.press("Enter");
  await page.getByText(/Exported \d+ entries/).waitFor();
  check((await readFile(file, "utf8")).split("\n").length > 5, "the export holds the entries");
}
