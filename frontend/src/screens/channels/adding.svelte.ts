import { lookup } from "../../lib/i18n";
import { asError, fieldErrors, type Rpc } from "../../lib/rpc";
import { t } from "./messages";
import type { Channel, Code, Kind, TestResult } from "./types";

/** Adding a channel. Telegram: token, test, pair. Webhook: address, then the secret, which is shown once. */
export class AddChannel {
  open = $state(false);
  kind = $state<Kind>("telegram");
  step = $state<"settings" | "test" | "pair" | "secret">("settings");
  name = $state("");
  token = $state("");
  url = $state("");
  /** The new channel, from the second step on. */
  channel = $state.raw<Channel | null>(null);
  secret = $state("");
  test = $state.raw<TestResult | null>(null);
  code = $state.raw<Code | null>(null);
  /** Label of the sender who used the code. */
  paired = $state("");
  busy = $state(false);
  /** Refused fields with the reason; "" is the whole form. */
  refused = $state.raw<Readonly<Record<string, string>>>({});
  readonly #rpc: Rpc;
  readonly #added: (id: string) => void;

  constructor(rpc: Rpc, added: (id: string) => void) {
    this.#rpc = rpc;
    this.#added = added;
  }

  begin(kind: Kind): void {
    this.kind = kind;
    this.step = "settings";
    this.name = lookup(t.kinds, kind);
    this.token = this.url = this.secret = this.paired = "";
    this.channel = null;
    this.test = null;
    this.code = null;
    this.refused = {};
    this.open = true;
  }

  /** Forgets the secrets when the sheet closes. */
  close(): void {
    this.open = false;
    this.token = this.secret = "";
    this.code = null;
  }

  get missing(): string {
    if (this.name.trim() === "") return t.nameFirst;
    if (this.kind === "telegram") return this.token.trim() === "" ? t.tokenFirst : "";
    return this.url.trim() === "" ? t.urlFirst : "";
  }

  /** The steps but the last one, which needs somebody who is allowed. */
  get works(): boolean {
    return this.test !== null && this.test.steps.every((s) => s.ok || s.step === "senders");
  }

  /** Adds the channel, or changes its token after a test that failed; then goes on to the next step. */
  save(): Promise<void> {
    return this.#work(async () => {
      if (this.missing !== "") return;
      const url = this.url.trim();
      const token = this.kind === "telegram" ? { token: this.token.trim() } : {};
      const config = url === "" ? {} : { url };
      if (this.channel) this.channel = (await this.#rpc.call("channels.update", { id: this.channel.id, patch: { name: this.name.trim(), config, ...token } })).channel;
      else {
        const r = await this.#rpc.call("channels.add", { kind: this.kind, name: this.name.trim(), config, ...token });
        this.channel = r.channel;
        this.secret = r.secret ?? "";
        this.#added(r.channel.id);
      }
      this.step = this.kind === "telegram" ? "test" : "secret";
      if (this.step === "test") await this.#runTest(this.channel.id);
    });
  }

  runTest(): Promise<void> {
    return this.#work(async () => {
      if (this.channel) await this.#runTest(this.channel.id);
    });
  }

  async #runTest(id: string): Promise<void> {
    this.test = null;
    this.test = await this.#rpc.call("channels.test", { id });
    this.channel = await this.#rpc.call("channels.get", { id });
  }

  /** Shows a code with which the person is allowed. */
  pair(): Promise<void> {
    return this.#work(async () => {
      if (!this.channel) return;
      this.code = await this.#rpc.call("channels.pair", { id: this.channel.id });
      this.paired = "";
      this.step = "pair";
    });
  }

  /** Something happened on a channel: the code may have been used. */
  async changed(id: string): Promise<void> {
    if (!this.open || this.step !== "pair" || this.paired !== "" || this.channel?.id !== id) return;
    try {
      const { senders } = await this.#rpc.call("channels.senders", { id });
      const newest = senders.filter((s) => s.addedBy === "pairing").at(-1);
      if (newest) this.paired = newest.label || newest.senderId;
    } catch {
      // The next event asks again.
    }
  }

  back(): void {
    this.refused = {};
    this.step = this.step === "pair" && this.kind === "webhook" ? "secret" : this.step === "pair" ? "test" : "settings";
  }

  async #work(act: () => Promise<void>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.refused = {};
    try {
      await act();
    } catch (e) {
      const error = asError(e);
      const place = (path: string): string => path.replace(/^\/?(patch|config)?[./]?/, "").replace(/^config[./]/, "");
      this.refused = Object.fromEntries(fieldErrors(error).map((x) => [["name", "token", "url"].includes(place(x.path)) ? place(x.path) : "", x.message]));
      if (Object.keys(this.refused).length === 0) this.refused = { "": error.message };
    } finally {
      this.busy = false;
    }
  }
}
