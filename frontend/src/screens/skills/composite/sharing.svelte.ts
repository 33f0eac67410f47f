import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Item, Rpc } from "../../../lib/rpc";
import { Load } from "../../../lib/ui/state";
import { t } from "../messages";
import type { ImportResult, Meta, Template } from "./types";

export type OnConflict = "rename" | "newVersion" | "skip";

/** Larger files are refused before they are sent. */
export const MAX_FILE = 4 * 1024 * 1024;

/** Importing a skill in two steps: a review, then exactly what it showed. */
export class SkillImport {
  open = $state(false);
  name = $state("");
  onConflict = $state<OnConflict>("rename");
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  review = $state.raw<ImportResult | null>(null);
  link = $state("");
  query = $state("");
  /** What others share with everyone on the hub; undefined until it is read, null without a hub. */
  shared = $state.raw<readonly Item<"skills.search_public", "shared">[] | null>();
  /** The file, or the link to it. */
  #from: { file: unknown } | { url: string } | undefined;
  #turn = 0;
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Why it cannot be added, or "". */
  readonly blocked = $derived.by(() => {
    const r = this.review;
    if (r === null) return t.fileFirst;
    if (r.errors.length > 0) return t.fileProblems;
    return r.action === "skipped" ? t.fileSkipped : "";
  });
  /** The label of the button: it names what happens. */
  readonly verb = $derived.by(() => (this.review?.action === "version" ? t.addVersion : t.addDisabled));

  begin(): void {
    this.reset();
    this.open = true;
    void this.search();
  }

  /** Searches what others share. */
  async search(): Promise<void> {
    const { query } = this;
    try {
      const r = await this.#rpc.call("skills.search_public", { ...(query.trim() !== "" && { query: query.trim() }) });
      if (query === this.query) this.shared = r.hub ? r.shared : null;
    } catch {
      this.shared = null; // a file or a link still works
    }
  }

  /** Requests the review of a shared skill. */
  async readLink(url: string, name = url): Promise<void> {
    this.open = true;
    this.review = null;
    this.name = name;
    this.#from = { url: url.trim() };
    await this.look();
  }

  async choose(files: readonly { name: string; size: number; text(): Promise<string> }[]): Promise<void> {
    const file = files[0];
    if (!file) return;
    this.open = true;
    this.review = null;
    this.error = null;
    this.name = file.name;
    if (file.size > MAX_FILE) {
      this.error = asError(new Error(t.fileTooLarge(file.name)));
      return;
    }
    try {
      this.#from = { file: JSON.parse(await file.text()) };
    } catch {
      this.#from = undefined;
      this.error = asError(new Error(t.fileNotJson(file.name)));
      return;
    }
    await this.look();
  }

  /** Requests the review. */
  async look(): Promise<void> {
    if (this.#from === undefined) return;
    const turn = ++this.#turn;
    this.busy = true;
    this.error = null;
    try {
      const r = await this.#rpc.call("skills.import", { ...this.#from, onConflict: this.onConflict, dryRun: true });
      if (turn === this.#turn) this.review = r;
    } catch (e) {
      if (turn !== this.#turn) return;
      this.review = null;
      this.error = asError(e);
    } finally {
      if (turn === this.#turn) this.busy = false;
    }
  }

  setOnConflict(c: OnConflict): void {
    this.onConflict = c;
    void this.look();
  }

  /** Imports what was reviewed; returns the result. */
  async add(): Promise<ImportResult | null> {
    if (this.blocked !== "" || this.busy) return null;
    this.busy = true;
    this.error = null;
    try {
      const r = await this.#rpc.call("skills.import", { ...this.#from, onConflict: this.onConflict });
      this.reset();
      return r;
    } catch (e) {
      this.error = asError(e);
      return null;
    } finally {
      this.busy = false;
    }
  }

  reset(): void {
    this.#turn++;
    this.open = this.busy = false;
    this.name = this.link = this.query = "";
    this.review = null;
    this.error = null;
    this.onConflict = "rename";
    this.#from = undefined;
  }
}

/** Exporting a skill as a file. */
export class SkillExport {
  skill = $state.raw<Meta | null>(null);
  includeTools = $state(true);
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  begin(skill: Meta): void {
    this.skill = skill;
    this.error = null;
    this.includeTools = true;
  }

  /** Creates the file; returns its name and text, or null if it was refused. */
  async make(): Promise<{ name: string; text: string } | null> {
    const skill = this.skill;
    if (skill === null || this.busy) return null;
    this.busy = true;
    this.error = null;
    try {
      const { file, filename } = await this.#rpc.call("skills.export", { skillId: skill.skillId, includeTools: this.includeTools });
      this.skill = null;
      return { name: filename, text: typeof file === "string" ? file : JSON.stringify(file) };
    } catch (e) {
      this.error = asError(e);
      return null;
    } finally {
      this.busy = false;
    }
  }
}

/** Complete skills to start from; the tools that one needs are created with it. */
export class SkillTemplates {
  open = $state(false);
  readonly list = new Load<readonly Template[]>();
  /** The template that is being used. */
  making = $state("");
  error = $state.raw<RpcError | null>(null);
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  begin(): void {
    this.open = true;
    this.error = null;
    if (this.list.data === undefined) void this.read();
  }

  async read(): Promise<void> {
    await this.list.run(async (signal) => (await this.#rpc.call("skills.templates", {}, { signal })).templates);
  }

  /** Creates a skill from a template; null if it was refused. */
  async make(template: Template): Promise<Meta | null> {
    if (this.making !== "") return null;
    this.making = template.key;
    this.error = null;
    try {
      const skill = await this.#rpc.call("skills.create_from_template", { key: template.key });
      this.open = false;
      return skill;
    } catch (e) {
      this.error = asError(e);
      return null;
    } finally {
      this.making = "";
    }
  }
}
