import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Rpc } from "../../../lib/rpc";
import type { ExecuteResult, Meta } from "./types";

/** What is filled in before a run of one skill, and what came of starting it. */
export class RunStart {
  /** The input that is filled in, null at first; kept while something else is looked at. */
  params = $state.raw<unknown>(null);
  /** Only rehearse: nothing is called and nothing changes. */
  dry = $state(false);
  /** Of a dry run: steps that only read are really called. */
  allowReadOnly = $state(false);
  /** Of a dry run: what is missing is made up from the schema of the tool. */
  fillFromSchema = $state(true);
  /** Of a dry run: what the last run gave is used again. */
  fromLast = $state(true);
  /** Of a dry run: results that stand for steps, by the path of the step. */
  mocks: Record<string, { output: unknown }> = {};
  busy = $state(false);
  /** The run was denied, so nothing ran. */
  error = $state.raw<RpcError | null>(null);
  /** The run that was started last. */
  lastId = $state<string | null>(null);

  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Starts a run that goes on by itself; answers its id, or null when it was refused. */
  async run(skill: Pick<Meta, "skillId">, input: unknown): Promise<string | null> {
    return this.#guard(async () => {
      const { executionId } = await this.#rpc.call("skills.execute_composite", { skillId: skill.skillId, input, async: true, requestId: crypto.randomUUID() });
      this.lastId = executionId;
      return executionId;
    });
  }

  /** Rehearses; answers what it gave. */
  async rehearse(skill: Pick<Meta, "skillId">, input: unknown, recorded: string | null): Promise<ExecuteResult | null> {
    return this.#guard(async () => {
      const result = await this.#rpc.call("skills.dry_run", {
        skillId: skill.skillId,
        input,
        allowReadOnly: this.allowReadOnly,
        fillFromSchema: this.fillFromSchema,
        ...(Object.keys(this.mocks).length === 0 ? {} : { mocks: this.mocks }),
        ...(recorded === null ? {} : { executionId: recorded }),
      });
      this.lastId = result.executionId;
      return result;
    });
  }

  async #guard<T>(act: () => Promise<T>): Promise<T | null> {
    if (this.busy) return null;
    this.busy = true;
    this.error = null;
    try {
      return await act();
    } catch (e) {
      this.error = asError(e);
      return null;
    } finally {
      this.busy = false;
    }
  }
}
