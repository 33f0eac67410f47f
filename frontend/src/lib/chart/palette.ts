/** The colors of the tokens for what is drawn on a canvas. */
export interface Palette {
  /** Index 0 is for points that belong to no series. */
  series: readonly string[];
  text: string;
  quiet: string;
  edge: string;
  accent: string;
  focus: string;
  back: string;
  font: string;
  /** The user requested high contrast: nothing is drawn translucent. */
  solid: boolean;
}

export function palette(el: Element): Palette {
  const style = getComputedStyle(el);
  const token = (name: string): string => style.getPropertyValue(name).trim();
  const font = `12px ${style.fontFamily}`;
  // The browser then replaces the colors of elements, but not those on a canvas.
  if (matchMedia("(forced-colors: active)").matches)
    return { series: Array<string>(9).fill("CanvasText"), text: "CanvasText", quiet: "CanvasText", edge: "GrayText", accent: "Highlight", focus: "Highlight", back: "Canvas", font, solid: true };
  return {
    series: [token("--n6"), ...[1, 2, 3, 4, 5, 6, 7, 8].map((n) => token(`--series-${n}`))],
    text: token("--text"),
    quiet: token("--text-3"),
    edge: token("--border"),
    accent: token("--accent"),
    focus: token("--focus"),
    back: token("--bg"),
    font,
    solid: matchMedia("(prefers-contrast: more)").matches,
  };
}
