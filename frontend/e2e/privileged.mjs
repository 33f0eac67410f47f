// A privileged request: a short key answers nothing, a held one does, and so does the pointer.
import { armed } from "./lib/page.mjs";
import { makeTool, runUnattended } from "./lib/seed.mjs";

export default async function ({ page, helix, rpc, go, looks, check }) {
  // Tools alone ask for nothing privileged, so the page is told that these are.
  await page.routeWebSocket(/\/ws$/, (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((m) => server.send(m));
    server.onMessage((m) => socket.send(String(m).replaceAll('"tier":"side_effecting"', '"tier":"privileged"')));
  });
  await page.reload();
  for (const [name, host] of [["One", "one.example.com"], ["Two", "two.example.com"]]) await runUnattended(helix, (await makeTool(helix, name, host)).id);
  await go("approvals");
  await page.getByRole("option", { name: /One/ }).click();
  await page.getByText("This is privileged", { exact: false }).waitFor();
  await page.getByRole("checkbox", { name: "and run again" }).uncheck();
  await looks("request");
  await armed(page);

  const waiting = async () => (await rpc("approvals.list")).total;
  // The page presses and releases the keys itself: on a busy machine a short key could become a held one.
  const tap = (target, key) =>
    target.evaluate((el, key) => {
      el.focus();
      for (const type of ["keydown", "keyup"]) el.dispatchEvent(new KeyboardEvent(type, { key, bubbles: true, cancelable: true }));
      if (key === "Enter") el.click(); // as the browser does for a key on a button
    }, key);
  await tap(page.getByRole("region", { name: "One" }), "1");
  await tap(page.getByRole("button", { name: "Allow: Once" }), "Enter");

  await page.getByRole("region", { name: "One" }).focus();
  await page.keyboard.down("1");
  await page.getByText("One was allowed").waitFor();
  await page.keyboard.up("1");
  // Had a short key answered One, the held one would have answered Two.
  check((await waiting()) === 1, "a held key answers, a short one does not");

  await page.getByRole("checkbox", { name: "and run again" }).uncheck();
  await armed(page);
  await page.getByRole("button", { name: "Allow: This run" }).click();
  await page.getByText("Two was allowed").waitFor();
  check((await waiting()) === 0, "the pointer answers");
}
