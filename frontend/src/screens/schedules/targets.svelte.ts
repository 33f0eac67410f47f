import type { Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import { t } from "./messages";
import type { Status, TargetKind } from "./types";

/** A possible target of a schedule. */
export interface Choice {
  id: string;
  name: string;
  hint: string;
  /** Why it cannot be chosen; empty if it can. */
  blocked: string;
  /** JSON Schema of its input. */
  schema?: unknown;
}

/** The maximum number of listed targets; searching narrows the list. */
const MOST = 500;

/** The possible targets on this installation: kinds from the backend, and the items of each. */
export class Targets {
  readonly skills = new Load<readonly Choice[]>();
  readonly tools = new Load<readonly Choice[]>();
  readonly agents = new Load<readonly Choice[]>();
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Kinds, usable ones first. */
  static kinds(status: Status | undefined): TargetKind[] {
    const all = status?.targets ?? [];
    return [...all.filter((t) => !t.reason), ...all.filter((t) => t.reason)];
  }

  /** Reads the choices of a kind; Helix's own jobs have none. */
  async read(kind: string): Promise<void> {
    await this.of(kind)?.run(async (signal) => {
      const r = await this.#rpc.call("callables.list", { kind, limit: MOST }, { signal });
      return r.callables
        .filter((c) => c.blocked !== "foreign")
        .map((c) => ({ id: c.id, name: c.name, hint: c.description ?? "", blocked: c.blocked ? ((t.blocked as Record<string, string>)[c.blocked] ?? t.blocked.other) : "", schema: c.input }));
    });
  }

  of(kind: string): Load<readonly Choice[]> | null {
    return kind === "skill" ? this.skills : kind === "tool" ? this.tools : kind === "agent" ? this.agents : null;
  }

  /** The schema of a target's input. */
  schema(kind: string, id: string): unknown {
    return this.of(kind)?.data?.find((c) => c.id === id || kind === "agent")?.schema; // there is only one agent
  }
}
