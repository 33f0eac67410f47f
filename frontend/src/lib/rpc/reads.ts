import { scopes } from "./schema.gen";

/** Whether a method only reads, so that it may be repeated after a reconnect. */
export function isRead(method: string): boolean {
  return (scopes as Record<string, string>)[method] === "read";
}
