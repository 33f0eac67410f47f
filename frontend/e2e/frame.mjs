// The frame: palette, shortcuts, services, log, theme, lost connection, tickets.
export default async function (t) {
  const { page, context, helix, go, shot, axe, looks, check } = t;
  await firstPaint(t);
  const rail = page.getByRole("navigation", { name: "Screens" });
  check((await rail.getByRole("link").count()) >= 3, "the rail lists the screens that work");

  // Palette by keyboard only.
  await page.keyboard.press("Control+k");
  const input = page.getByRole("combobox", { name: "Command" });
  await input.waitFor();
  await looks("palette");
  await input.fill("activ");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Activity", level: 1 }).waitFor();

  // Sequences and the list of shortcuts.
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.getByRole("heading", { name: "Settings", level: 1 }).waitFor();
  await page.keyboard.press("Shift+?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  check((await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))) !== "Close", "a dialog does not begin on Close");
  await looks("shortcuts");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });

  await page.getByRole("button", { name: "Running" }).click();
  await page.getByRole("dialog", { name: "Services" }).waitFor();
  await page.getByText("Data folder").waitFor();
  await looks("services");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });

  await page.keyboard.press("Control+k");
  await input.fill("rpc log");
  await page.keyboard.press("Enter");
  const log = page.getByRole("dialog", { name: "RPC log" });
  await log.waitFor();
  await log.getByRole("button", { name: /connect/ }).last().click();
  const text = await log.textContent();
  check(!/[0-9a-f]{64}/.test(text), "no token is in the log");
  await looks("log");
  await page.keyboard.press("Escape");

  // A lost connection: what is shown stays readable, then everything comes back.
  await go("activity");
  await page.getByRole("heading", { name: "Activity", level: 1 }).waitFor();
  await helix.end();
  await page.getByText("Reconnecting…").waitFor();
  await shot("reconnecting");
  await axe("reconnecting");
  await helix.start();
  helix.forget();
  // The backend is another one now, so its sessions are gone: the page says so and how to go on.
  await page.getByText(/Running|This session has ended/).first().waitFor();

  // Without a ticket, with a used one.
  const other = await context.browser().newContext({ viewport: { width: 1200, height: 800 } });
  const stranger = await other.newPage();
  await stranger.goto(helix.url);
  await stranger.getByRole("heading", { name: "This page needs a sign-in link" }).waitFor();
  const link = await helix.ticket();
  await stranger.evaluate((to) => (location.href = to), link); // pasted: only the fragment changes, nothing is reloaded by hand
  await stranger.getByRole("navigation", { name: "Screens" }).waitFor();
  check(!stranger.url().includes("ticket"), "the ticket leaves the address");
  await stranger.evaluate(() => (location.hash = "#/settings/gateway"));
  await stranger.getByRole("button", { name: "New token" }).waitFor();
  check((await stranger.getByRole("button", { name: "New token" }).getAttribute("aria-disabled")) !== "true", "the default link opens the settings");
  await stranger.evaluate((to) => (location.href = to), link);
  await stranger.getByText("This link has expired").waitFor();
  check(!stranger.url().includes("ticket"), "a refused ticket leaves the address too");
  await stranger.evaluate(() => sessionStorage.clear());
  await stranger.goto("about:blank");
  await stranger.goto(link);
  await stranger.getByRole("heading", { name: "This link has expired" }).waitFor();
  if (process.env.HELIX_SHOTS) await stranger.screenshot({ path: `${process.env.HELIX_SHOTS}/frame-ticket.png` });
  await other.close();
}

/** The rail is there, in the colors of the system, before the interface has loaded, and gives way to it. */
export async function firstPaint({ context, helix, check }) {
  const page = await context.newPage();
  let load;
  const loaded = new Promise((resolve) => (load = resolve));
  await page.route("**/assets/index-*.js", (route) => loaded.then(() => route.continue()));
  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto(await helix.ticket(), { waitUntil: "commit" });
  await page.locator("#first").getByText("Helix").waitFor();
  check((await page.evaluate(() => document.documentElement.dataset.theme)) === "dark", "a dark window begins dark");
  load();
  await page.getByRole("navigation", { name: "Screens" }).waitFor();
  check((await page.locator("#first").count()) === 0, "the rail of the interface replaces the first one");
  await page.close();
}
