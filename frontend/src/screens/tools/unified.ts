/** The two sides of a unified diff: the content of its hunks before and after. */
export function sidesOf(unified: string): { before: string; after: string } {
  const before: string[] = [];
  const after: string[] = [];
  let inHunk = false;
  for (const line of unified.split("\n")) {
    if (line.startsWith("@@")) {
      if (inHunk) {
        before.push("…");
        after.push("…");
      }
      inHunk = true;
    } else if (!inHunk || line.startsWith("\\")) continue;
    else if (line.startsWith("-")) before.push(line.slice(1));
    else if (line.startsWith("+")) after.push(line.slice(1));
    else if (line.startsWith(" ")) {
      before.push(line.slice(1));
      after.push(line.slice(1));
    }
  }
  return { before: before.join("\n"), after: after.join("\n") };
}
