import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Rpc } from "../../../lib/rpc";
import type { ExecuteResult, Meta } from "./types";

/** The input for a run of one skill, and the result of starting it. */
export class RunStart {
  /** The input, initially null; kept while something else is viewed. */
  params = $state.raw<unknown>(null);
  /** A dry run: nothing is called and nothing changes. */
  dry = $state(false);
  /** In a dry run: steps that only read are really called. */
  allowReadOnly = $state(false);
  /** In a dry run: missing results are generated from the tool's schema. */
  fillFromSchema = $state(true);
  /** In a dry run: the results of the last run are used again. */
  fromLast = $state(true);
  /** In a dry run: results that replace steps, by the path of the step. */
  mocks: Record<string, { output: unknown }> = {};
  busy = $state(false);
  /** The run was denied, so nothing ran. */
  error = $state.raw<RpcError | null>(null);
  /** The last started run. */
  lastId = $state<string | null>(null);

  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Starts a run that continues in the backend; returns its id, or null if it was refused. */
  async run(skill: Pick<Meta, "skillId">, input: unknown): Promise<string | null> {
    return this.#guard(async () => {
      const { executionId } = await this.#rpc.call("skills.execute_composite", { skillId: skill.skillId, input, async: true, requestId: crypto.randomUUID() });
      this.lastId = executionId;
      return executionId;
    });
  }

  /** Makes a dry run; returns its result. */
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
