import { LocalModels, nameFor, saveModels } from "../../lib/models/local.svelte";
import type { Item, Result, Rpc } from "../../lib/rpc";
import { Load, toasts } from "../../lib/ui/state";
import { Deferred } from "./deferred.svelte";
import { t } from "./messages";

export type Provider = Item<"providers.list", "providers">;
export type Role = Item<"providers.roles", "roles">;
export type Step = Result<"providers.test">["steps"][number];

/** The model providers, and the models of each role. */
export class ModelsState {
  readonly providers = new Load<readonly Provider[]>();
  readonly roles = new Load<readonly Role[]>();
  /** Models of the ready providers, and of detected servers. */
  readonly models = new Load<readonly string[]>();
  readonly local: LocalModels;
  /** The result of the last test of a provider. */
  tested = $state.raw<{ name: string; steps: readonly Step[] } | null>(null);
  /** The name of the provider that is being tested, or "". */
  busy = $state("");
  readonly #removing = new Deferred();
  readonly #rpc: Rpc;
  readonly #off: (() => void)[];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.local = new LocalModels(rpc);
    this.#off = [rpc.on("providers.changed", () => void this.load()), rpc.onReload(() => void this.load())];
  }

  stop(): void {
    for (const off of this.#off) off();
  }

  async load(): Promise<void> {
    await Promise.all([
      this.providers.run(async (signal) => (await this.#rpc.call("providers.list", {}, { signal })).providers),
      this.roles.run(async (signal) => (await this.#rpc.call("providers.roles", {}, { signal })).roles),
    ]);
    const ready = (this.providers.data ?? []).filter((p) => p.state === "ready");
    await this.models.run(async (signal) => {
      const known = await Promise.all(ready.map((p) => this.#rpc.call("providers.models", { provider: p.name, limit: 200 }, { signal })));
      return [...(this.local.found ?? []).flatMap((f) => f.models.map((m) => `${nameFor(f)}/${m}`)), ...known.flatMap((r) => r.models.map((m) => m.ref))];
    });
  }

  /** Returns true if it was saved. */
  async save(name: string, entry: Provider["entry"], apiKey: string): Promise<boolean> {
    const saved = await saveModels(this.#rpc, "providers.set", { name, entry, ...(apiKey ? { apiKey } : {}) });
    if (saved) await this.load();
    return saved;
  }

  enable(p: Provider, on: boolean): Promise<boolean> {
    return this.save(p.name, { ...p.entry, disabled: !on }, "");
  }

  /** Providers without those that are being removed; those that still need a key come last. */
  get shown(): Provider[] {
    const all = (this.providers.data ?? []).filter((p) => !this.#removing.has(p.name));
    return [...all.filter((p) => p.state !== "no_key"), ...all.filter((p) => p.state === "no_key")];
  }

  /** Whether a new provider of this name would replace one that is in use. */
  taken(name: string): boolean {
    return (this.providers.data ?? []).some((p) => p.name === name && p.state !== "no_key");
  }

  /** The names of the usable providers. */
  get usable(): string[] {
    return this.shown.filter((p) => p.enabled && p.state !== "no_key").map((p) => p.name);
  }

  /** A removed key cannot be restored, so the action waits for 10 s. */
  remove(p: Provider): void {
    this.#removing.add(p.name, t.models.removed(p.name), t.models.afterUndo, async () => {
      await this.#rpc.call("providers.remove", { name: p.name });
      await this.load();
    });
  }

  /** The model that a real message goes to, without its provider; "": none is in use. */
  modelOf(p: Provider): string {
    const ref = (this.roles.data ?? []).flatMap((r) => r.chain).find((m) => m.startsWith(`${p.name}/`));
    return ref?.slice(p.name.length + 1) ?? "";
  }

  /** Tests a provider. With `model`, which may cost money, it also sends a short message to that model. */
  async test(p: Provider, model = ""): Promise<void> {
    this.busy = p.name;
    try {
      const { steps } = await this.#rpc.call("providers.test", { name: p.name, ...(model ? { model, call: true } : {}) });
      this.tested = { name: p.name, steps };
      await this.load();
    } catch (e) {
      toasts.error(e, t.models.cannotTest);
    } finally {
      this.busy = "";
    }
  }

  /** Sets the models of a role, preferred first. */
  async setChain(role: string, chain: string[]): Promise<void> {
    const options = this.roles.data?.find((r) => r.role === role)?.options;
    if (await saveModels(this.#rpc, "providers.set_role", { role, chain, ...(options ? { options } : {}) })) await this.load();
  }
}

/** Providers whose display names differ from those of their entries. */
const titles: Readonly<Record<string, string>> = { anthropic: "Anthropic", deepseek: "DeepSeek", gemini: "Gemini", google: "Google", groq: "Groq", "lm-studio": "LM Studio", lmstudio: "LM Studio", "llama-cpp": "llama.cpp", mistral: "Mistral", ollama: "Ollama", openai: "OpenAI", openrouter: "OpenRouter", vllm: "vLLM", xai: "xAI" };

/** The display name of a provider. */
export const serviceTitle = (name: string): string => titles[name] ?? name;

/** The reference to a model in roles: provider/model. Typed text may already contain the provider. */
export const modelRef = (service: string, typed: string, services: readonly string[]): string => (services.some((s) => typed.startsWith(`${s}/`)) ? typed : `${service}/${typed}`);
