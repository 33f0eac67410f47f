/** Small texts that only the Tools screen needs. */
import { count } from "../../lib/ui/format";

/** `once`, `12 times`. */
export const times = (n: number): string => (n === 1 ? "once" : `${count(n)} times`);

/** The first characters of a hash, enough to compare by eye. */
export const shortHash = (hash: string | undefined): string => (hash ?? "").replace(/^sha256:/, "").slice(0, 12);

/** Name of a grant's scope. */
export function scopeText(scope: string): string {
  switch (scope) {
    case "once":
      return "Once";
    case "run":
      return "This run";
    case "session":
      return "This session";
    case "always":
      return "Always";
    default:
      return scope;
  }
}
