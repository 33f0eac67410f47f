import type { Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import type { Skill, Status, TargetKind, Tool } from "./types";

/** One thing that a schedule can start. */
export interface Choice {
  id: string;
  name: string;
  hint: string;
  /** Why it cannot be chosen; empty when it can. */
  blocked: string;
  /** JSON Schema of its input; undefined until it is read. */
  schema?: unknown;
}

/** More than this is not listed; searching narrows it. */
const MOST = 500;

/** What schedules can start on this installation: kinds from the backend, and what there is of each. */
export class Targets {
  readonly skills = new Load<readonly Choice[]>();
  readonly tools = new Load<readonly Choice[]>();
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Kinds, usable ones first. */
  static kinds(status: Status | undefined): TargetKind[] {
    const all = status?.targets ?? [];
    return [...all.filter((t) => !t.reason), ...all.filter((t) => t.reason)];
  }

  /** Reads what can be chosen of a kind; jobs of Helix have nothing to choose. */
  async read(kind: string): Promise<void> {
    if (kind === "skill") await this.skills.run((signal) => this.#skills(signal));
    else if (kind === "tool") await this.tools.run((signal) => this.#tools(signal));
  }

  of(kind: string): Load<readonly Choice[]> | null {
    return kind === "skill" ? this.skills : kind === "tool" ? this.tools : null;
  }

  /** The schema of a target's input. Skills carry it in the list; a tool is asked for. */
  async schema(kind: string, id: string, signal: AbortSignal): Promise<unknown> {
    if (kind === "skill") return this.skills.data?.find((c) => c.id === id)?.schema;
    if (kind === "tool") return (await this.#rpc.call("tools.get", { toolId: id }, { signal })).tool.parameters;
    return undefined;
  }

  async #skills(signal: AbortSignal): Promise<Choice[]> {
    const all: Skill[] = [];
    for (;;) {
      const r = await this.#rpc.call("skills.list_composite", { limit: 100, offset: all.length }, { signal });
      all.push(...r.skills);
      if (r.skills.length === 0 || all.length >= r.total || all.length >= MOST) break;
    }
    return all.map((s) => ({
      id: s.skillId,
      name: s.name,
      hint: s.description,
      blocked: !s.valid ? "A draft that cannot run yet" : !s.isEnabled ? "Disabled" : "",
      schema: s.inputSchema,
    }));
  }

  async #tools(signal: AbortSignal): Promise<Choice[]> {
    const all: Tool[] = [];
    for (;;) {
      const r = await this.#rpc.call("tools.list", { limit: 100, offset: all.length }, { signal });
      all.push(...r.tools);
      if (r.tools.length === 0 || all.length >= r.total || all.length >= MOST) break;
    }
    return all.map((t) => ({ id: t.id, name: t.name, hint: t.description, blocked: t.suspended ? "Changed; its rights wait for your approval" : !t.isEnabled ? "Disabled" : "" }));
  }
}
