import type { Item, Result, Rpc } from "../../lib/rpc";
import { common } from "../../lib/i18n/common";
import { Load, toasts } from "../../lib/ui/state";
import { t } from "./messages";

export type Persona = Item<"agent.personas", "personas">;
export type SkillDoc = Item<"agent.skills", "skills">;

/** The edited files of an agent; `name` is "" for the instructions for all agents. */
export interface PersonaEdit {
  name: string;
  toml: string;
  system: string;
  soul: string;
  isNew: boolean;
  precedence: readonly string[];
  problems: readonly string[];
}

/** Agents with their instructions, and SKILL.md documents. */
export class AgentsState {
  readonly personas = new Load<readonly Persona[]>();
  readonly skills = new Load<Result<"agent.skills">>();
  edit = $state<PersonaEdit | null>(null);
  /** The open document. */
  reading = $state.raw<Result<"agent.skill"> | null>(null);
  adding = $state<{ path: string; text: string } | null>(null);
  busy = $state(false);
  problem = $state("");
  readonly #rpc: Rpc;
  readonly #off: (() => void)[];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#off = [
      rpc.on("agent.changed", (e) => {
        if (e.what === "personas") void this.#personas();
        if (e.what === "skills") void this.#skills();
      }),
      rpc.onReload(() => void this.load()),
    ];
  }

  stop(): void {
    for (const off of this.#off) off();
  }

  async load(): Promise<void> {
    await Promise.all([this.#personas(), this.#skills()]);
  }

  #personas(): Promise<void> {
    return this.personas.run(async (signal) => (await this.#rpc.call("agent.personas", {}, { signal })).personas);
  }

  #skills(): Promise<void> {
    return this.skills.run((signal) => this.#rpc.call("agent.skills", {}, { signal }));
  }

  /** Opens the files of an agent; null: a new one. */
  async open(name: string | null): Promise<void> {
    this.problem = "";
    if (name === null) this.edit = { name: "", toml: "", system: "", soul: "", isNew: true, precedence: [], problems: [] };
    else await this.#try(async () => (this.edit = { ...(await this.#rpc.call("agent.persona", { name })), isNew: false }));
  }

  async save(): Promise<void> {
    const e = this.edit;
    if (!e) return;
    if (e.isNew && e.name.trim() === "") return void (this.problem = t.agents.nameRule);
    await this.#try(async () => {
      await this.#rpc.call("agent.set_persona", { name: e.name.trim(), system: e.system, soul: e.soul, ...(e.name.trim() ? { toml: e.toml } : {}) });
      this.edit = null;
    });
  }

  async removePersona(): Promise<void> {
    const e = this.edit;
    if (!e) return;
    await this.#try(async () => {
      await this.#rpc.call("agent.set_persona", { name: e.name, remove: true });
      this.edit = null;
      const { name, toml, system, soul } = e;
      toasts.undo(t.agents.removed(name), () => this.#rpc.call("agent.set_persona", { name, toml, system, soul }));
    });
  }

  async read(id: string): Promise<void> {
    await this.#try(async () => (this.reading = await this.#rpc.call("agent.skill", { id })));
  }

  /** Enabling accepts the shown text. */
  async enable(s: SkillDoc, enabled: boolean): Promise<void> {
    await this.#try(async () => {
      this.skills.data = await this.#rpc.call("agent.set_skill", { id: s.id, enabled, hash: s.hash });
      this.reading = null;
    });
  }

  /** Allows chats of a project to use the documents in its folder, or revokes that. */
  async trust(folder: string, trusted: boolean): Promise<boolean> {
    let done = false;
    await this.#try(async () => {
      await this.#rpc.call("agent.set_skill", { folder, trusted });
      await this.#skills();
      done = true;
      if (!trusted) toasts.undo(t.agents.trustRevoked(folder), () => this.#rpc.call("agent.set_skill", { folder, trusted: true }));
    });
    return done;
  }

  async add(): Promise<void> {
    const a = this.adding;
    if (!a) return;
    await this.#try(async () => {
      const made = await this.#rpc.call("agent.add_skill", a.path.trim() ? { path: a.path.trim() } : { text: a.text });
      this.adding = null;
      await this.read(made.id);
    });
  }

  async remove(s: SkillDoc): Promise<void> {
    await this.#try(async () => {
      this.skills.data = await this.#rpc.call("agent.remove_skill", { id: s.id });
      this.reading = null;
      toasts.undo(t.agents.removed(s.name), () => this.#rpc.call("agent.remove_skill", { id: s.id, restore: true }));
    });
  }

  async #try(act: () => Promise<unknown>): Promise<void> {
    this.busy = true;
    this.problem = "";
    try {
      await act();
    } catch (e) {
      if (this.edit || this.adding) this.problem = e instanceof Error ? e.message : common.failed;
      else toasts.error(e, t.agents.cannotSave);
    } finally {
      this.busy = false;
    }
  }
}
