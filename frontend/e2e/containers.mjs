// Settings › Containers with an engine of the suite: none at first, then found; a pull with progress, canceled, failed and
// done; remove an image and take it back; a run that is killed; stored data of a tool and of none; German.
import { prepareEngine } from "./lib/engine.mjs";
import { until } from "./lib/page.mjs";

export const prepare = prepareEngine;

const alpine = "docker.io/library/alpine:3.20";
const region = (page, name = "Containers") => page.getByRole("region", { name, exact: true });
const list = (page, name) => page.getByRole("list", { name, exact: true });
const toast = (page, words) => page.getByRole("region", { name: "Messages" }).getByText(words).first();
const away = (page) => page.mouse.move(0, 0); // no tooltip

export default async function (t) {
  await missing(t);
  await found(t);
  await pull(t);
  await remove(t);
  await kill(t);
  await volumes(t);
  await german(t);
}

async function missing({ page, go, looks }) {
  await go("settings/containers");
  await region(page).getByText("Tools without an image work as usual.", { exact: false }).waitFor();
  await region(page).getByRole("button", { name: "Check again" }).click();
  await region(page).getByText(/^Checked/).waitFor();
  await away(page);
  await looks("none");
}

async function found({ page, prepared, check, looks }) {
  await prepared.open();
  await region(page).getByRole("button", { name: "Check again" }).click();
  await region(page).getByText("Docker 27.1.0").waitFor();
  await region(page).getByText("The engine can't limit swap space.").waitFor();
  await list(page, "Images").getByText(alpine).waitFor();
  check((await region(page).getByText("Nothing runs in a container").count()) === 1, "nothing runs yet");
  await away(page);
  await looks("engine");
}

async function pull({ page, prepared, rpc, check, looks }) {
  const button = region(page).getByRole("button", { name: "Pull", exact: true });
  check((await button.getAttribute("aria-disabled")) === "true", "an image must be named first");
  const ask = async (ref) => {
    prepared.pull = null;
    await region(page).getByLabel("Image", { exact: true }).fill(ref);
    await region(page).getByLabel("Image", { exact: true }).press("Enter");
    await list(page, "Pulls").getByRole("progressbar", { name: `Pulling ${ref}` }).waitFor();
    await until(async () => prepared.pull?.ref === ref, "the engine is asked");
  };
  await region(page).getByLabel("Digest (optional)").fill("sha256:12");
  await region(page).getByText("A digest is sha256: with 64 hexadecimal digits.").waitFor();
  await region(page).getByLabel("Digest (optional)").fill("");

  await ask("example.com/tools/sorter:2");
  await list(page, "Pulls").getByText("2.9 MiB of 7.6 MiB").waitFor();
  await away(page);
  await looks("pull");
  await list(page, "Pulls").getByRole("button", { name: "Cancel: example.com/tools/sorter:2" }).click();
  await prepared.pull.ended;
  await list(page, "Pulls").first().waitFor({ state: "detached" });

  await ask("example.com/tools/sorter:2");
  prepared.pull.fail("manifest unknown");
  await list(page, "Pulls").getByText("Couldn't pull example.com/tools/sorter:2: manifest unknown").waitFor();
  await looks("pull-failed");

  await ask("example.com/tools/sorter:2");
  prepared.pull.finish();
  await toast(page, "Pulled example.com/tools/sorter:2").waitFor();
  await list(page, "Images").getByText("example.com/tools/sorter:2").waitFor();
  check((await rpc("container.pulls", {})).pulls[0].image.digest.endsWith("12"), "the digest is known");
}

async function remove({ page, prepared, check }) {
  const row = list(page, "Images").getByText("example.com/tools/sorter:2");
  const button = list(page, "Images").getByRole("button", { name: "Remove example.com/tools/sorter:2" });
  await button.click();
  await row.first().waitFor({ state: "detached" });
  await page.keyboard.press("Control+z");
  await row.waitFor();
  check(prepared.images.length === 2, "nothing was removed yet");
  await button.click();
  await toast(page, "Removed example.com/tools/sorter:2").waitFor();
  await page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Dismiss" }).last().click();
  await until(async () => prepared.images.length === 1, "the image is removed");
}

/** The engine does not answer, so the run stays where it is until it is killed. */
async function kill({ page, rpc, looks }) {
  const run = rpc("container.run_image", { image: alpine, argv: ["/bin/sleep", "1000"], timeoutMs: 600_000 }).then(() => "", (e) => String(e));
  const row = list(page, "Running now");
  await row.getByText("creating").waitFor();
  await page.getByRole("contentinfo").getByText(`Running ${alpine}`).waitFor();
  await away(page);
  await looks("running");
  await row.getByRole("button", { name: `Kill ${alpine}` }).click();
  await row.first().waitFor({ state: "detached" });
  await until(async () => /canceled/.test(await run), "the run says that it was canceled");
}

async function volumes({ page, prepared, rpc, looks }) {
  const tool = await rpc("container.add", { name: "sorter", image: alpine, argv: ["/bin/sort"], stateBytes: 100 << 20 });
  const orphan = "helix-tool-00000000-0000-7000-8000-000000000001";
  prepared.volumes = [
    { Name: `helix-tool-${tool.toolId}`, CreatedAt: "2026-01-01T00:00:00Z", UsageData: { Size: 21_000_000 } },
    { Name: `helix-back-${tool.toolId}`, CreatedAt: "2026-01-01T00:00:00Z", UsageData: { Size: 20_000_000 } },
    { Name: orphan, CreatedAt: "2026-01-01T00:00:00Z", UsageData: { Size: 5_000_000 } },
  ];
  await region(page).getByRole("button", { name: "Check again" }).click();
  await list(page, "Stored data").getByText("20 MiB of 100 MiB").waitFor();
  await list(page, "Stored data").getByText(/Removed automatically after/).first().waitFor();
  await list(page, "Stored data").getByText("Copy from before the last change of the tool").waitFor();
  await list(page, "Images").getByText("Used by sorter").waitFor();
  await list(page, "Stored data").scrollIntoViewIfNeeded();
  await away(page);
  await looks("volumes");
  await list(page, "Stored data").getByRole("button", { name: `Remove ${orphan}` }).click();
  await toast(page, "Removed stored data").waitFor();
  await page.getByRole("region", { name: "Messages" }).getByRole("button", { name: "Dismiss" }).last().click();
  await until(async () => prepared.volumes.length === 2, "the stored data is removed");
  await list(page, "Stored data").getByRole("button", { name: "Restore data of sorter" }).click();
  await toast(page, "Restored data of sorter").waitFor();
  await page.keyboard.press("Control+z");
  prepared.volumes = prepared.volumes.slice(0, 1);
}

async function german({ page, go, looks }) {
  await page.evaluate(() => localStorage.setItem("helix.language", "de"));
  await page.reload();
  await go("settings/containers");
  await region(page, "Container").getByText("Der Dienst kann den Auslagerungsspeicher nicht begrenzen.").waitFor();
  await list(page, "Gespeicherte Daten").getByText("sorter").waitFor();
  await list(page, "Images").scrollIntoViewIfNeeded();
  await looks("german");
  await page.evaluate(() => localStorage.setItem("helix.language", "en"));
}
