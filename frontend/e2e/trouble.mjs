// What is shown when something is wrong: no key, little space, damage, a broken chain.
import { until } from "./lib/page.mjs";
export default async function ({ page, helix, go, looks, check }) {
  const edits = [];
  await page.routeWebSocket(/\/ws$/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((m) => server.send(m));
    server.onMessage((m) => socket.send(edits.reduce((text, [from, to]) => text.replace(from, to), String(m))));
  });

  edits.push(['"sealed":"open"', '"sealed":"locked"'], ['"lowSpace":false', '"lowSpace":true']);
  await page.reload();
  await page.getByText("Helix is locked.").waitFor();
  await page.getByText("Disk space is low").first().waitFor();
  await go("settings/data");
  await page.getByText("Retention").first().waitFor();
  await looks("locked");
  await page.getByRole("button", { name: "Enter recovery code" }).click();
  const dialog = page.getByRole("dialog", { name: "Enter recovery code" });
  await dialog.getByLabel("Recovery code").fill("0000-0000");
  await dialog.getByRole("button", { name: "Unlock" }).click();
  await dialog.getByText(/24 groups of 4/).waitFor();
  await looks("recovery-code");

  edits.length = 0;
  edits.push([/"ok":true,"entries":/, '"ok":false,"problem":"hash","firstBadSeq":1,"entries":']);
  await helix.rpc("config.set", { values: { "log.level": "debug" } });
  await page.reload();
  await go("activity");
  await page.getByText("The log is not intact at entry 1.").waitFor();
  await looks("broken");
  await page.getByRole("button", { name: "Show entry" }).click();
  await page.getByText("Altered").waitFor();

  edits.length = 0;
  edits.push(['"lowSpace":false', '"lowSpace":false,"recovery":{"reason":"corrupt","message":"Some of the stored data cannot be read any more.","problems":["page 12: invalid cell"],"keptPath":"/data/corrupt-20260101T120000Z","since":"2026-01-01T12:00:00Z"}']);
  await page.reload();
  await page.getByRole("heading", { name: "Helix found damage in its data" }).waitFor();
  await page.getByText("Technical details").click();
  await looks("recovery");
  await until(async () => await page.getByRole("button", { name: "Salvage readable data" }).isVisible(), "salvage is offered");
}
