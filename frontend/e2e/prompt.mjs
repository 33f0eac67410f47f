// The permission prompt of the frame: it stays on the way to another screen, is answered there, and the answer is undone.
import { armed } from "./lib/page.mjs";
import { makeTool } from "./lib/seed.mjs";

export default async function ({ page, helix, rpc, go, looks, check }) {
  const tool = await makeTool(helix, "Weather", "api.example.com");
  await go(`tools/${tool.id}/run`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const prompt = page.getByRole("dialog", { name: /Allow this/ });
  await prompt.waitFor();
  await go("activity");
  await page.getByRole("heading", { name: "Activity", level: 1 }).waitFor();
  check(await prompt.isVisible(), "the question is there on another screen too");
  await looks("elsewhere");
  await armed(page);
  await prompt.getByRole("radio", { name: /This session/ }).check();
  await prompt.getByRole("button", { name: /^Allow/ }).click();
  const messages = page.getByRole("region", { name: "Messages" });
  await messages.getByText(/Weather was allowed/).waitFor();
  check((await rpc("permissions.list")).grants.some((g) => g.state === "active"), "the right was given");
  await messages.getByText(/Weather was allowed/).hover(); // it stays while the pointer is on it
  await looks("answered");
  await messages.getByRole("button", { name: /Undo/ }).click();
  await messages.getByText(/Permission revoked|Too late to undo/).waitFor();
  check(!(await rpc("permissions.list")).grants.some((g) => g.state === "active"), "and taken back");
  // Escape puts the question away, which then waits under Approvals.
  await go(`tools/${tool.id}/run`);
  await page.getByRole("region", { name: "Result" }).getByRole("button", { name: "Run again" }).click();
  await prompt.waitFor();
  await go("memory");
  await page.keyboard.press("Escape");
  await prompt.waitFor({ state: "hidden" });
  check((await rpc("approvals.list")).pendingCount === 1, "it waits under Approvals");
}
