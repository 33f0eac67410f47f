/** Connects this device to a hub and invites other devices. */
import { asError } from "../../lib/rpc/errors";
import { fieldErrors } from "../../lib/rpc/fields";
import type { Result, Rpc } from "../../lib/rpc";
import type { SyncStatus } from "./status.svelte";

/** A database that becomes the hub, a project that already has one, or a code from another device. */
export type Way = "hub" | "project" | "code";
export type Step = "address" | "mail" | "encryption" | "working" | "done";

export class Connecting {
  way = $state<Way | null>(null);
  step = $state<Step>("address");
  /** The connection string or the code. It is cleared once the backend has accepted it. */
  secret = $state("");
  project = $state({ url: "", publishableKey: "", email: "" });
  /** The field of the project that the error is about. */
  wrong = $state("");
  busy = $state(false);
  name = $state("");
  encrypt = $state(true);
  error = $state("");
  result = $state.raw<Pick<Result<"sync.setup">, "encrypted" | "checks" | "vectors" | "recoveryCode"> | null>(null);
  /** Whether the person said that the recovery code, which is shown once, is saved. */
  saved = $state(false);
  invitation = $state.raw<Result<"sync.invite"> | null>(null);
  inviting = $state(false);
  inviteBusy = $state(false);
  readonly #rpc: Rpc;
  readonly #status: SyncStatus;

  constructor(rpc: Rpc, status: SyncStatus) {
    this.#rpc = rpc;
    this.#status = status;
  }

  begin(way: Way): void {
    this.way = way;
    this.step = "address";
    this.secret = this.error = "";
    this.result = null;
    this.saved = false;
  }
  /** Closes the wizard. An established connection stays. */
  close(): void {
    this.way = null;
    this.secret = "";
    this.result = null;
  }

  /** The steps of this way. */
  readonly steps = $derived<readonly Step[]>(this.way === "code" ? ["address", "working", "done"] : ["address", ...(this.way === "project" ? ["mail" as const] : []), "encryption", "working", "done"]);
  /** Whether the fields of this step are filled in. */
  readonly filled = $derived(this.way === "project" && this.step === "address" ? Object.values(this.project).every((v) => v.trim() !== "") : this.secret.trim() !== "");

  /** The error of a field of the project. */
  errorOf(field: string): string {
    return this.wrong === field ? this.error : "";
  }

  /** Switches between a database and a project. */
  choose(way: Way): void {
    this.way = way;
    this.secret = this.error = "";
  }

  /** Returns to the previous step. */
  back(): void {
    this.step = this.steps[this.steps.indexOf(this.step) - 1] ?? "address";
  }

  /** Sends a code to the person's e-mail address. */
  async #mail(): Promise<void> {
    this.busy = true;
    try {
      const { url, publishableKey, email } = this.project;
      this.project = { url: url.trim(), publishableKey: publishableKey.trim(), email: email.trim() };
      await this.#rpc.call("sync.sign_in", { ...this.project });
      this.step = "mail";
    } catch (e) {
      this.error = asError(e).message;
      const field = fieldErrors(asError(e))[0]?.path ?? "";
      this.wrong = field in this.project ? field : "url";
    }
    this.busy = false;
  }

  /** Moves to the next step, or connects after the last one. */
  async next(): Promise<void> {
    this.error = "";
    if (this.way === "project" && this.step === "address") return this.#mail();
    if (this.way !== "code" && this.step !== "encryption") {
      this.step = "encryption";
      return;
    }
    this.step = "working";
    const before = this.#status.connected;
    const secret = this.secret.trim();
    const name = this.name.trim() === "" ? {} : { name: this.name.trim() };
    try {
      if (this.way === "code") this.result = await this.#rpc.call("sync.enroll", { code: secret, ...name });
      else this.result = await this.#rpc.call("sync.setup", { ...(this.way === "hub" ? { adminDsn: secret } : { project: { ...this.project }, code: secret }), encrypt: this.encrypt, ...name });
    } catch (e) {
      await this.#status.load();
      const hub = this.#status.data?.hub;
      // An answer that was lost with the connection tells a device that joined nothing that its state doesn't.
      if (this.way === "code" && hub && !before && this.#status.connected) this.result = { encrypted: hub.encrypted, checks: 0, vectors: hub.vectors };
      else {
        this.step = this.way === "project" ? "mail" : "address";
        this.error = asError(e).message;
        return;
      }
    }
    this.secret = "";
    this.step = "done";
    await this.#status.load();
  }

  /** Creates a code for another device. */
  async invite(name: string): Promise<void> {
    this.inviteBusy = true;
    this.error = "";
    try {
      this.invitation = await this.#rpc.call("sync.invite", name.trim() === "" ? {} : { name: name.trim() });
    } catch (e) {
      this.error = asError(e).message;
    }
    this.inviteBusy = false;
  }
  openInvite(): void {
    this.invitation = null;
    this.error = "";
    this.inviting = true;
  }
}
