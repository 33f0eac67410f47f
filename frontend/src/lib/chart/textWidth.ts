let context: CanvasRenderingContext2D | null | undefined;

/** The width of a text in pixels, in the font of an element. */
export function textWidth(text: string, font: string): number {
  context ??= document.createElement("canvas").getContext("2d");
  if (!context) return text.length * 7;
  context.font = font;
  return context.measureText(text).width;
}
