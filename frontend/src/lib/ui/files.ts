import type { Chosen, Folder } from "../rpc";

/** Whether a path is one that a person may type: from the root, a home folder (`~/`, `~user/`) or a drive. */
export const isFullPath = (path: string): boolean => /^(\/|~[^/]*(\/|$)|[A-Za-z]:[\\/])/.test(path);

/** A folder from the files of a folder input, whose paths begin with its name. Hidden files are omitted. */
export function chosenFolder(files: readonly File[]): Folder {
  const all = files.map((file) => ({ path: file.webkitRelativePath, file }));
  const name = all[0]?.path.split("/")[0] ?? "";
  return { name, files: all.map((f) => ({ ...f, path: f.path.slice(name.length + 1) })).filter((f) => !isHidden(f.path)) };
}

const isHidden = (path: string): boolean => path.split("/").some((part) => part.startsWith("."));

/**
 * The dropped files, and dropped folders with all files below them. Call it in the drop handler: the browser
 * clears the list afterwards.
 */
export async function dropped(data: DataTransfer): Promise<Chosen[]> {
  const entries = [...data.items].filter((i) => i.kind === "file").map((i) => ({ entry: i.webkitGetAsEntry?.() ?? null, file: i.getAsFile() }));
  const chosen = await Promise.all(
    entries.map(async ({ entry, file }): Promise<Chosen | null> => {
      if (!entry?.isDirectory) return file;
      const files: { path: string; file: File }[] = [];
      await walk(entry as FileSystemDirectoryEntry, "", files);
      return { name: entry.name, files };
    }),
  );
  return chosen.filter((c) => c !== null);
}

async function walk(dir: FileSystemDirectoryEntry, above: string, into: { path: string; file: File }[]): Promise<void> {
  const reader = dir.createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail)); // at most a hundred per call
    if (some.length === 0) return;
    for (const entry of some) {
      if (isHidden(entry.name)) continue;
      const path = above + entry.name;
      if (entry.isDirectory) await walk(entry as FileSystemDirectoryEntry, `${path}/`, into);
      else into.push({ path, file: await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail)) });
    }
  }
}

/** Several items as one: files without a common folder. */
export function asOne(chosen: readonly Chosen[]): Chosen | null {
  if (chosen.length <= 1) return chosen[0] ?? null;
  return { name: "", files: chosen.flatMap((c) => ("files" in c ? c.files.map((f) => ({ ...f, path: `${c.name}/${f.path}` })) : [{ path: c.name, file: c }])) };
}

/** All files in the selection. */
export const filesOf = (chosen: readonly Chosen[]): File[] => chosen.flatMap((c) => ("files" in c ? c.files.map((f) => f.file) : [c]));

/** Bytes as base64. */
export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 32_768) text += String.fromCharCode(...bytes.subarray(i, i + 32_768));
  return btoa(text);
}
