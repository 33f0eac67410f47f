/**
 * The user's location: `#/screen/rest/of/the/path`. It is stored only in the fragment, so reload and the
 * browser's Back and Forward work.
 */
export class Nav {
  /** Segments after `#/`, decoded. */
  path = $state.raw<readonly string[]>([]);

  /** Id of the current screen, "" before the first. */
  get screen(): string {
    return this.path[0] ?? "";
  }
  /** The segments after the screen, for example the id of the selected item. */
  get rest(): readonly string[] {
    return this.path.slice(1);
  }

  /** Goes to `screen` or `screen/rest`; segments that may contain a slash must already be encoded. */
  go(target: string, how: "push" | "replace" = "push"): void {
    const hash = "#/" + target.replace(/^[#/]+/, "");
    // Without a page, as in unit tests, only the path is set.
    if (typeof location === "undefined") return this.#take(hash);
    if (hash === location.hash) return;
    if (how === "replace") {
      history.replaceState(null, "", hash);
      this.read();
    } else location.hash = hash;
  }

  /** Goes to a row and is there at once: a key pressed before hashchange would still act on the former row. */
  select(target: string, how: "push" | "replace" = "push"): void {
    this.go(target, how);
    if (typeof location !== "undefined") this.read();
  }

  /** Reads the address of the page. Called once by App, and on each change of the fragment. */
  read(): void {
    this.#take(location.hash);
  }

  #take(hash: string): void {
    const path = hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decode);
    if (path.length !== this.path.length || path.some((x, i) => x !== this.path[i])) this.path = path;
  }

  listen(): () => void {
    this.read();
    const onChange = (): void => this.read();
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }
}

function decode(s: string): string {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

/** The page's own position. */
export const nav = new Nav();

const id = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** What a link can refer to: a screen, its items and its parts. */
export interface LinkTarget {
  id: string;
  /** The address of an item, if links can refer to items. */
  item?: (id: string) => string;
  /** Names that may follow that of the screen. */
  parts?: readonly string[];
  /**
   * The target of a link in another form, by its segments; null if it does not belong to this screen. `isId`
   * reports whether a segment is an id.
   */
  link?: (segments: readonly string[], isId: (segment: string | undefined) => boolean) => string | null;
}

/**
 * Turns a `helix://` link into a target for `nav.go`, or null when Helix does
 * not understand it. A link only ever navigates. `helix://SCREEN`,
 * `helix://SCREEN/ID` and `helix://SCREEN/PART` open every screen that has them.
 */
export function fromLink(link: string, screens: readonly LinkTarget[]): string | null {
  if (link.length > 2048 || !link.startsWith("helix://")) return null;
  const rest = link.slice("helix://".length).replace(/\/$/, "");
  if (/[?#%\s\\]|\.\./.test(rest)) return null;
  const parts = rest.split("/");
  const [head, second] = parts;
  for (const s of screens) {
    const own = s.link?.(parts, (segment) => id.test(segment ?? ""));
    if (own) return own;
  }
  const screen = screens.find((s) => s.id === head);
  if (!screen) return null;
  if (parts.length === 1) return screen.id;
  if (parts.length === 2 && screen.parts?.includes(second ?? "")) return rest;
  if (parts.length === 2 && screen.item && id.test(second ?? "")) return screen.item(second!);
  return null;
}
