// Approvals: a request appears, is read, guarded, answered by keyboard and pointer, taken back.
import { armed } from "./lib/page.mjs";
import { makeTool, runUnattended } from "./lib/seed.mjs";

export default async function ({ page, helix, rpc, go, shot, looks, check }) {
  await go("approvals");
  await page.getByText("Nothing is waiting for you").waitFor();
  await looks("empty");

  const weather = await makeTool(helix, "Weather", "api.example.com");
  const mail = await makeTool(helix, "Mail check", "mail.example.org");
  const notes = await makeTool(helix, "Notes", "notes.example.net");
  const focused = await page.evaluateHandle(() => document.activeElement);
  for (const t of [weather, mail, notes]) await runUnattended(helix, t.id);

  // It arrives by itself, and the rail and the status bar count it.
  const list = page.getByRole("listbox", { name: "Requests" });
  await list.getByRole("option", { name: /Weather/ }).waitFor();
  await page.getByRole("link", { name: "Approvals, 3 waiting" }).waitFor();
  await page.getByText("3 waiting for approval").waitFor();
  check(await page.evaluate((e) => document.activeElement === e, focused), "a request takes no focus");
  await looks("waiting");

  // A key in the first moment answers nothing. The page presses it itself: a moment is short.
  await page.evaluate(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector("[data-armed]")) return;
      observer.disconnect();
      window.pressedWhile = document.querySelector("[data-armed]").dataset.armed;
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "1", bubbles: true, cancelable: true }));
    }).observe(document.body, { childList: true, subtree: true });
  });
  await list.getByRole("option", { name: /Weather/ }).click();
  await page.getByRole("button", { name: "Allow: Once" }).waitFor();
  check((await page.evaluate(() => window.pressedWhile)) === "false", "the key was pressed in the first moment");
  check((await rpc("approvals.list")).total === 3, "a key in the first moment answers nothing");
  await looks("request");
  const panel = page.getByRole("complementary", { name: "Request" });
  await page.keyboard.press("Escape");
  await panel.waitFor({ state: "hidden" });
  await list.getByRole("option", { name: /Weather/ }).click();
  await panel.waitFor();

  // The pointer answers after that.
  await armed(page);
  await page.getByRole("checkbox", { name: "and run again" }).uncheck();
  await page.getByRole("button", { name: "Allow: This session" }).click();
  await page.getByText(/Weather was allowed/).waitFor();
  check((await rpc("permissions.list")).grants[0]?.scope === "session", "the right is for the session");
  await shot("allowed");

  // The next one is selected; deny it with a key, remembered.
  await armed(page);
  const [first] = (await rpc("approvals.list")).approvals;
  check(first !== undefined, "two requests are left");
  await page.keyboard.press("Shift+D");
  await page.getByText(/is denied from now on/).waitFor();
  await armed(page);
  await page.keyboard.press("d");
  await page.getByText("Nothing is waiting for you").waitFor();

  await page.getByRole("tab", { name: "Grants" }).click();
  await page.getByText(/api\.example\.com/).first().waitFor();
  await looks("grants");
  await page.getByRole("button", { name: "Revoke", exact: true }).click();
  await page.getByText("Permission revoked").waitFor();
  await page.getByRole("button", { name: "Revoke", exact: true }).waitFor({ state: "hidden" });
  check((await rpc("permissions.list", { state: "active" })).total === 0, "the right is gone");
  await page.keyboard.press("Control+z");
  await page.getByRole("button", { name: "Revoke", exact: true }).waitFor();
  check((await rpc("permissions.list", { state: "active" })).total === 1, "Undo gives it back");

  await page.getByRole("tab", { name: "Denials" }).click();
  await page.getByRole("button", { name: "Forget" }).waitFor();
  await looks("denials");
  await page.getByRole("tab", { name: "History" }).click();
  await list.getByRole("option").first().click();
  await page.getByText("Already allowed").waitFor();
  await looks("history");

  // A changed definition suspends its rights and shows the difference.
  await rpc("tools.update", { toolId: weather.id, baseVersion: weather.version, patch: { code: weather.code + "// more\n" } });
  await page.getByRole("tab", { name: "Grants" }).click();
  await page.getByText("Suspended", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Show change" }).click();
  await page.getByRole("dialog").getByText("// more").waitFor();
  await looks("change");
  await page.keyboard.press("Escape");
}
