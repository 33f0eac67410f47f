/**
 * Moves the focus to what surrounded an element that had it and is gone or covered: the rest of its pane, else
 * the main part of the page. Otherwise the keyboard and a screen reader would start at the top of the page again.
 * Returns a function that ends this.
 */
export function keepFocus(main: () => HTMLElement | undefined): () => void {
  /** The element that has the focus and all that contain it, innermost first. */
  let path: readonly HTMLElement[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const reachable = (e: HTMLElement): boolean => e.isConnected && !e.closest("[inert]") && e.checkVisibility();
  const lost = (): boolean => document.activeElement === document.body && path[0] !== undefined && !reachable(path[0]);
  const restore = (): void => {
    if (!lost()) return;
    const near = path.find((e) => e !== document.body && reachable(e));
    const pane = near?.querySelector<HTMLElement>(":scope > aside") ?? near?.closest<HTMLElement>("[tabindex], aside");
    const to = pane?.matches("[tabindex]") ? pane : pane?.querySelector<HTMLElement>("[role=region][tabindex='0']");
    (to ?? main())?.focus({ preventScroll: true });
  };
  const focused = (e: FocusEvent): void => {
    const all: HTMLElement[] = [];
    for (let el = e.target as HTMLElement | null; el instanceof HTMLElement; el = el.parentElement) all.push(el);
    path = all;
  };
  // A click outside all controls is meant to leave the focused one.
  const pressed = (): void => {
    path = [];
  };
  const observer = new MutationObserver(() => {
    if (!lost()) return;
    clearTimeout(timer);
    // Whoever removed the element may move the focus first, as a dialog does that closes.
    timer = setTimeout(restore, 50);
  });
  observer.observe(document.body, { childList: true, subtree: true, attributeFilter: ["inert", "hidden"] });
  addEventListener("focusin", focused);
  addEventListener("pointerdown", pressed, true);
  return () => {
    clearTimeout(timer);
    observer.disconnect();
    removeEventListener("focusin", focused);
    removeEventListener("pointerdown", pressed, true);
  };
}
