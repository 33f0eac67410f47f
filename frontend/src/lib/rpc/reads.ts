import { scopes } from "./schema.gen";

const table = scopes as Readonly<Record<string, string>>;

/** Whether a method only reads, so that it can be repeated after a reconnect. */
export const isRead = (method: string): boolean => table[method] === "read";

/** Whether a session with these scopes may call the method. The backend decides about unknown methods. */
export function allows(granted: readonly string[], method: string): boolean {
  const needed = table[method];
  return !needed || granted.includes(needed) || granted.includes("admin");
}
