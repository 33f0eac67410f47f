// Files and folders of this computer in a browser: a folder of notes is chosen, dropped and canceled, an
// export of psychology and one of all data are uploaded, and a folder is watched.
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { until } from "./lib/page.mjs";

export default async function (t) {
  const dir = await mkdtemp(path.join(tmpdir(), "helix-files-"));
  try {
    await chosen({ ...t, dir });
    await canceled({ ...t, dir });
    await dropped(t);
    await watched({ ...t, dir });
    await psychology({ ...t, dir });
    await everything({ ...t, dir });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

const sheet = (page) => page.getByRole("dialog");
const toast = (page, text) => page.getByRole("region", { name: "Messages" }).getByText(text, { exact: false }).first();

/** What the backend keeps of uploads. */
const kept = (helix) => readdir(path.join(helix.dir, "cache", "uploads")).catch(() => []);

/** Writes a folder of files by their paths. */
async function folder(dir, files) {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(dir, name)), { recursive: true });
    await writeFile(path.join(dir, name), text);
  }
  return dir;
}

/** Chooses a folder with a button of the dialog. */
async function pick(page, dir) {
  const chooser = page.waitForEvent("filechooser");
  await sheet(page).getByRole("button", { name: "Choose a folder…" }).click();
  await (await chooser).setFiles(dir);
}

async function chosen({ page, go, dir, helix, check, looks, rpc }) {
  const vault = await folder(path.join(dir, "My vault"), {
    "House/boiler.md": "# Boiler\n\nServiced in March by [[Rosa]].\n",
    "Rosa.md": "# Rosa\n\nThe plumber, see [the boiler](House/boiler.md).\n",
    ".obsidian/app.json": '{"content":"settings of the editor"}',
    "photo.jpg": "not a note",
  });
  await go("memory");
  await page.getByRole("heading", { name: "Memory", level: 1 }).waitFor();
  await page.keyboard.press("Control+i");
  await looks("choose");
  await pick(page, vault);
  await sheet(page).getByText("My vault").first().waitFor();
  await looks("preview");
  await sheet(page).getByRole("button", { name: "Import 2 items" }).click();
  await sheet(page).getByText("Imported My vault").waitFor();
  await sheet(page).getByRole("button", { name: "Done" }).click();
  const { documents } = await rpc("memory.list_documents", {});
  check(documents.map((d) => d.sourceUri).sort().join() === "markdown:My%20vault/House/boiler.md,markdown:My%20vault/Rosa.md", `the notes are known by their paths: ${JSON.stringify(documents.map((d) => d.sourceUri))}`);
  await until(async () => (await kept(helix)).length === 0, "the upload is removed after its import");
}

async function canceled({ page, dir, check }) {
  // The server has no answer until the upload was canceled.
  await page.route("**/upload?name=*", () => {}, { times: 1 });
  await page.keyboard.press("Control+i");
  await pick(page, path.join(dir, "My vault"));
  await sheet(page).getByRole("progressbar", { name: "Upload of My vault" }).waitFor();
  await sheet(page).getByRole("button", { name: "Cancel upload" }).click();
  await sheet(page).getByRole("button", { name: "Choose a folder…" }).waitFor();
  check((await sheet(page).getByRole("alert").count()) === 0, "a canceled upload is no error");
  await pick(page, await folder(path.join(dir, "Pictures"), { "a.jpg": "x" }));
  await sheet(page).getByText("Pictures has no files that Helix can read.").waitFor();
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
}

/** Two files are dropped at once: they have no folder in common. */
async function dropped({ page, helix, rpc, check }) {
  await page.evaluate(() => {
    const d = new DataTransfer();
    d.items.add(new File(["# Heron\n\nIt came back to the pond."], "heron.md"));
    d.items.add(new File(["# Otter\n\nSeen at dusk."], "otter.md"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true }));
  });
  await sheet(page).getByText("Several files").first().waitFor();
  await sheet(page).getByRole("button", { name: "Import 2 items" }).click();
  await sheet(page).getByText("Imported Several files").waitFor();
  await sheet(page).getByRole("button", { name: "Done" }).click();
  check((await rpc("memory.list_documents", { query: "otter" })).documents[0]?.sourceUri === "markdown:otter.md", "a file alone is known by its name");
  await until(async () => (await kept(helix)).length === 0, "the files are removed after their import");
}

/** A folder is watched: an edit and a deletion follow by themselves, a drive that is away removes nothing. */
async function watched({ page, dir, rpc, check, looks }) {
  const notes = await folder(path.join(dir, "Garden"), { "beds.md": "# Beds\n\nBeans and peas.", "trees.md": "# Trees\n\nA quince." });
  const titles = async () => (await rpc("memory.list_documents", { query: "Garden" })).documents.map((d) => d.title).sort().join();
  await page.keyboard.press("Control+i");
  await sheet(page).getByLabel("File or folder on the computer that runs Helix").fill(notes);
  await page.keyboard.press("Enter");
  await sheet(page).getByRole("switch", { name: "Import again when notes change" }).click();
  await looks("watch");
  await sheet(page).getByRole("button", { name: "Import and watch" }).click();
  const row = sheet(page).getByRole("list", { name: "Watched folders" }).getByRole("listitem").filter({ hasText: "Garden" });
  await row.getByText("Watching", { exact: true }).waitFor();
  await row.getByText("2 added").waitFor();
  check((await titles()) === "beds,trees", `both notes came: ${await titles()}`);
  await looks("watched");
  await writeFile(path.join(notes, "beds.md"), "# Beds\n\nBeans, peas and leeks.");
  await rm(path.join(notes, "trees.md"));
  await row.getByText("1 note moved to the trash").waitFor();
  await row.getByText("1 updated").waitFor();
  check((await titles()) === "beds", "the note that is gone is in the trash");
  await row.getByRole("button", { name: "Pause Garden" }).click();
  await row.getByText("Paused", { exact: true }).waitFor();
  await row.getByRole("button", { name: "Resume Garden" }).click();
  await row.getByText("Watching", { exact: true }).waitFor();
  await rename(notes, `${notes}.away`);
  await row.getByText("Not available").waitFor();
  await looks("missing");
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
  await page.getByText("1 watched folder needs attention").waitFor();
  await looks("attention");
  await page.getByRole("status").filter({ hasText: "needs attention" }).getByRole("button", { name: "Show" }).click();
  check((await titles()) === "beds", "nothing was removed");
  await row.getByRole("button", { name: "Stop watching Garden" }).click();
  await toast(page, "No longer watching Garden").waitFor();
  check((await rpc("memory.watch_list", {})).folders.length === 0, "it is watched no more");
  await page.keyboard.press("Escape");
  await sheet(page).waitFor({ state: "hidden" });
}

async function psychology({ page, go, dir, helix, rpc, check, looks }) {
  const goal = { id: "018f0000-0000-7000-8000-000000000001", layerNumber: 4, kind: "goal", data: { title: "Learn Portuguese" }, memoryIds: [], origin: "person", initialStrength: 1, salienceTier: "medium", createdAt: "2024-01-01T00:00:00Z", updatedAt: "2024-01-01T00:00:00Z" };
  const exported = await folder(path.join(dir, "psychology export"), { "identity/goals.json": JSON.stringify({ version: 1, entries: [goal] }) });
  await go("psychology/settings");
  await page.getByRole("button", { name: "Import from a folder…" }).click();
  await sheet(page).getByRole("button", { name: "Choose a folder…" }).waitFor();
  await looks("psychology");
  await pick(page, exported);
  await toast(page, "1 entry imported").waitFor();
  await sheet(page).waitFor({ state: "hidden" });
  check((await rpc("psychology.get_layer", { layerNumber: 4 })).entries[0]?.data.title === "Learn Portuguese", "the entry is there");
  await until(async () => (await kept(helix)).length === 0, "the upload is removed");
}

/** All data are exported to a folder, and that folder is uploaded. */
async function everything({ page, go, dir, helix, rpc }) {
  const out = path.join(dir, "everything");
  await rpc("storage.export", { dir: out });
  await go("settings/data");
  await page.getByRole("button", { name: "Import…" }).click();
  await pick(page, out);
  await page.getByRole("dialog").getByText(/would be added/).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await until(async () => (await kept(helix)).length === 0, "an upload that was given up is removed");
}
