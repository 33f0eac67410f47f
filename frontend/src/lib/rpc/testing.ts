/** For tests of state classes: a backend whose handlers may return partial results, and waiting for a condition. */
import { fakeRpc, type FakeRpc } from "./fake";

// Handlers return only what a test needs, so they do not have the full types.
type Handlers = Record<string, (params: any) => unknown>;

interface LooseRpc extends Omit<FakeRpc, "handle" | "sent" | "emit" | "failNext"> {
  handle(more: Handlers): void;
  sent(method: string): any[];
  emit(event: string, data: unknown): void;
  failNext(method: string, error: Error): void;
}

/** A fake backend whose handlers may return partial results. */
export const fake = (handlers: Handlers): LooseRpc => fakeRpc(handlers as never) as unknown as LooseRpc;

/** Waits until a condition is true; each iteration lets pending promises and short timers run. */
export async function until(holds: () => boolean): Promise<void> {
  for (let i = 0; i < 8000; i++) {
    if (holds()) return;
    await new Promise((r) => setTimeout(r, 5));
  }
  throw new Error(`the condition never held: ${holds}`);
}
