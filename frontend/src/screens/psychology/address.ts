/** Addresses: psychology, psychology/<view>, psychology/<view>/<item>, psychology/layers/<number>/<item>. */
import { views, type Place } from "./types";

export function placeOf(rest: readonly string[]): Place {
  const view = views.find((v) => v === rest[0]) ?? "overview";
  if (view !== "layers") return { view, layer: 0, id: rest[1] ?? "" };
  const n = Number(rest[1]);
  return { view, layer: Number.isInteger(n) && n >= 1 && n <= 7 ? n : 1, id: rest[2] ?? "" };
}

export function addressOf({ view, layer, id }: Place): string {
  const parts = ["psychology", ...(view === "overview" ? [] : [view]), ...(view === "layers" ? [String(layer)] : []), ...(id === "" ? [] : [id])];
  return parts.join("/");
}
