import type { Item, Rpc } from "../../lib/rpc";
import { Load, toasts } from "../../lib/ui/state";
import { t } from "./messages";

export type Limit = Item<"agent.budgets", "limits">;
export type Spending = Item<"agent.ledger", "rows">;

/** The first moment of a month, in local time. */
export const monthStart = (now: Date): Date => new Date(now.getFullYear(), now.getMonth(), 1);

/** The cost of each day of a month, starting with the first. `rows` have days as `2026-03-01`. */
export function byDay(rows: readonly Spending[], now: Date): { day: number; micros: number }[] {
  const spent = new Map(rows.map((r) => [r.key, r.costMicros]));
  const pad = (n: number): string => String(n).padStart(2, "0");
  const days = new Date(now.getFullYear(), now.getMonth() + 1, 0).getDate();
  return Array.from({ length: days }, (_, i) => ({ day: i + 1, micros: spent.get(`${now.getFullYear()}-${pad(now.getMonth() + 1)}-${pad(i + 1)}`) ?? 0 }));
}

/** Parses an amount to millionths of a dollar; null if it is invalid. */
export function microsOf(text: string): number | null {
  const m = /^\$?\s*(\d{1,9})(?:[.,](\d{1,6}))?$/.exec(text.trim());
  return m ? Number(m[1]) * 1_000_000 + Number((m[2] ?? "").padEnd(6, "0")) : null;
}

/** Parses a number of tokens, with or without separators; null if it is invalid. */
export function tokensOf(text: string): number | null {
  const digits = text.replace(/[\s.,'’]/g, "");
  return /^\d{1,12}$/.test(digits) ? Number(digits) : null;
}

/** The amounts of a limit; null: none. */
export interface Amounts {
  micros: number | null;
  tokens: number | null;
}

/** Budgets, and the spending of this month. */
export class AgentState {
  readonly limits = new Load<readonly Limit[]>();
  readonly days = new Load<readonly Spending[]>();
  readonly models = new Load<readonly Spending[]>();
  readonly #rpc: Rpc;
  readonly #off: (() => void)[];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#off = [rpc.on("agent.changed", (e) => void (e.what === "budgets" && this.load())), rpc.onReload(() => void this.load())];
  }

  stop(): void {
    for (const off of this.#off) off();
  }

  async load(): Promise<void> {
    const from = monthStart(new Date()).toISOString();
    const spent = (load: Load<readonly Spending[]>, groupBy: string): Promise<void> => load.run(async (signal) => (await this.#rpc.call("agent.ledger", { from, groupBy, limit: 100 }, { signal })).rows);
    await Promise.all([this.limits.run(async (signal) => withMonth((await this.#rpc.call("agent.budgets", {}, { signal })).limits)), spent(this.days, "day"), spent(this.models, "model")]);
  }

  /** Sets a limit; without amounts, it removes it. */
  async set(l: Limit, { micros, tokens }: Amounts): Promise<void> {
    const { scope, key, warnAt } = l;
    const amounts = micros === null && tokens === null ? {} : { maxCostMicros: micros ?? 0, maxTokens: tokens ?? 0, warnAt };
    try {
      const r = await this.#rpc.call("agent.set_budget", { scope, ...(key ? { key } : {}), ...amounts });
      this.limits.data = withMonth(r.limits);
    } catch (e) {
      toasts.error(e, t.agent.cannotSave);
    }
  }
}

/** The limits with one for a month, which is offered even if it is not set. */
const withMonth = (limits: readonly Limit[]): readonly Limit[] =>
  limits.some((l) => l.scope === "month") ? limits : [...limits.slice(0, 1), { scope: "month", maxCostMicros: 0, warnAt: 0.8, spentMicros: 0, spentTokens: 0, default: true }, ...limits.slice(1)];
