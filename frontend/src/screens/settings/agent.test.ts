import { describe, expect, it } from "vitest";
import { fakeRpc } from "../../lib/rpc/fake";
import { AgentState, tokensOf } from "./agent.svelte";

describe("budgets", () => {
  it("changes one amount of a limit and keeps the other", async () => {
    let row = { scope: "day", maxCostMicros: 5_000_000, maxTokens: 200_000, warnAt: 0.8, spentMicros: 0, spentTokens: 200_000 };
    const rpc = fakeRpc({
      "agent.budgets": () => ({ limits: [row] }) as never,
      "agent.ledger": () => ({ rows: [] }) as never,
      "agent.set_budget": (p) => {
        row = { ...row, maxCostMicros: p.maxCostMicros ?? 0, maxTokens: p.maxTokens ?? 0 };
        return { limits: [row] } as never;
      },
    });
    const s = new AgentState(rpc);
    await s.load();
    const day = (): NonNullable<typeof s.limits.data>[number] => s.limits.data![0]!;
    await s.set(day(), { micros: 5_000_000, tokens: 400_000 });
    expect(day()).toMatchObject({ maxCostMicros: 5_000_000, maxTokens: 400_000 });
    await s.set(day(), { micros: null, tokens: 400_000 });
    expect(day()).toMatchObject({ maxCostMicros: 0, maxTokens: 400_000 });
    await s.set(day(), { micros: null, tokens: null });
    expect(rpc.calls.at(-1)).toMatchObject({ method: "agent.set_budget", params: { scope: "day" } });
    expect(rpc.calls.at(-1)!.params).not.toHaveProperty("maxTokens");
    s.stop();
  });

  it("reads tokens with separators and refuses other texts", () => {
    expect(["500000", "1,500,000", "1.500.000", "2 000", "", "many", "-3"].map(tokensOf)).toEqual([500_000, 1_500_000, 1_500_000, 2000, null, null, null]);
  });
});
