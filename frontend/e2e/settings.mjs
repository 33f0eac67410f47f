// Settings: every page; a value, its source and back; tokens, backups, secrets, recovery code.
import { until } from "./lib/page.mjs";
export default async function ({ page, context, helix, rpc, go, looks, check }) {
  await go("settings");
  const pages = ["App", "Appearance", "Gateway", "Data", "Keys", "Sandbox", "All settings"];
  for (const name of pages) {
    await page.getByRole("navigation", { name: "Settings pages" }).getByRole("link", { name, exact: true }).click();
    await page.getByRole("region", { name, exact: true }).waitFor();
    await page.getByRole("status", { name: /^Loading/ }).first().waitFor({ state: "detached" });
    await looks(name.toLowerCase().replace(" ", "-"));
  }

  // A value: written, kept, refused, reset.
  await page.getByRole("searchbox", { name: "Search settings" }).fill("history.max_age_days");
  const field = page.getByLabel("Keep runs for");
  await field.fill("0");
  await field.press("Enter");
  await page.getByText(/can't be 0/).waitFor();
  await field.fill("45");
  await field.press("Enter");
  await page.getByText(/can't be 0/).waitFor({ state: "detached" });
  const keys = (await rpc("config.get", {})).sources;
  const changed = Object.keys(keys).filter((k) => keys[k] === "file");
  check(changed.length === 1, "one setting comes from the file");
  await page.getByRole("button", { name: /Reset to the default/ }).click();
  await page.getByRole("button", { name: /Reset to the default/ }).waitFor({ state: "detached" });

  // Dark, by choice.
  await go("settings/appearance");
  await page.getByRole("radio", { name: /Dark/ }).check({ force: true });
  await until(async () => (await page.evaluate(() => document.documentElement.dataset.theme)) === "dark", "dark is chosen");
  await page.getByRole("radio", { name: /System/ }).check({ force: true });

  // A token: made, copied, revoked, taken back.
  await go("settings/gateway");
  await page.getByText("No extra tokens").waitFor();
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog", { name: "New token" });
  await dialog.getByLabel("Name").fill("Build script");
  await looks("new-token");
  await dialog.getByRole("button", { name: "Create token" }).click();
  await page.getByText("Copy the token now").waitFor();
  await page.getByRole("button", { name: "Copy", exact: true }).click();
  await until(async () => /^[0-9a-f]{64}$/.test(await page.evaluate(() => navigator.clipboard.readText())), "the token is on the clipboard");
  await looks("token");
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: "Revoke", exact: true }).click();
  await page.getByText("No extra tokens").waitFor();
  await page.keyboard.press("Control+z");
  await page.getByText("Build script").waitFor();
  await until(async () => (await rpc("tokens.list", {})).total === 1, "the token lives on");

  // A backup: made, verified, reviewed.
  await go("settings/data");
  await page.getByRole("button", { name: "Back up now" }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Back up", exact: true }).click();
  await page.getByText(/^Backed up,/).waitFor();
  // The daily backup may be under way; then the answer says so, and the person tries again.
  const verified = page.getByText("Verified", { exact: true });
  for (let tries = 0; tries < 20 && !(await verified.first().isVisible()); tries++) {
    await page.getByRole("button", { name: "Verify", exact: true }).first().click();
    await verified.first().waitFor({ timeout: 10_000 }).catch(() => {});
  }
  check(await verified.first().isVisible(), "the backup is verified");
  await page.getByRole("button", { name: "Restore…" }).first().click();
  await page.getByText(/It contains [\d,]+ rows?/).waitFor();
  await looks("restore");
  await page.keyboard.press("Escape");
  // The same file, sent from this computer.
  const [backup] = (await rpc("storage.backups", {})).backups;
  await page.getByRole("button", { name: "More about backups" }).click();
  await page.getByRole("menuitem", { name: "Restore from a file…" }).click();
  const chooser = page.waitForEvent("filechooser");
  await page.getByRole("dialog").getByRole("button", { name: "Choose a file…" }).click();
  await (await chooser).setFiles(backup.path);
  await page.getByText(/It contains [\d,]+ rows?/).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Check now" }).click();
  await page.getByText("No problems found.").waitFor();
  await looks("data-filled");

  // The recovery code must be typed back.
  await go("settings/keys");
  await page.getByRole("button", { name: "Show once…" }).click();
  const code = page.getByRole("dialog", { name: "Recovery code" });
  await code.waitFor();
  const groups = await code.locator("ol code").allTextContents();
  check(groups.length === 24, "the code has 24 groups");
  const fields = code.getByRole("textbox");
  const asked = (await code.locator("form label").allTextContents()).map((l) => Number(/\d+/.exec(l)[0]));
  await fields.nth(0).fill("0000");
  await fields.nth(1).fill(groups[asked[1] - 1]);
  await code.getByRole("button", { name: "I have written it down" }).click();
  await page.getByText("The groups don't match.", { exact: false }).waitFor();
  await fields.nth(0).fill(groups[asked[0] - 1]);
  await looks("recovery");
  await code.getByRole("button", { name: "I have written it down" }).click();
  await page.getByText("Recovery code confirmed").waitFor();

  // A secret: kept, never shown, deleted, taken back.
  await page.getByRole("button", { name: "Add secret" }).click();
  await page.getByLabel("Name").fill("WEATHER_KEY");
  await page.getByLabel("Value").fill("hunter2");
  await page.getByRole("button", { name: "Save secret" }).click();
  await page.getByText("WEATHER_KEY").waitFor();
  check(!(await page.content()).includes("hunter2"), "the value is not in the page");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByText("WEATHER_KEY", { exact: true }).waitFor({ state: "detached" });
  await page.keyboard.press("Control+z");
  await page.getByText("WEATHER_KEY", { exact: true }).waitFor();

  // A page without the admin scope may look, not change.
  const other = await context.browser().newContext();
  const visitor = await other.newPage();
  await visitor.goto(await helix.ticket("--scopes", "read,write,approve"));
  await visitor.getByRole("navigation", { name: "Screens" }).waitFor();
  await visitor.evaluate(() => (location.hash = "#/settings/gateway"));
  await visitor.getByText("Settings are read-only", { exact: false }).waitFor();
  check(await visitor.getByRole("button", { name: "New token" }).getAttribute("aria-disabled") === "true", "a visitor makes no token");
  await other.close();
}
