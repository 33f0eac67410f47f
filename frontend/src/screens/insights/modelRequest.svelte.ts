import { asError, type Result, type Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import type { Analysis } from "./types";

export type Preview = Result<"memory.synthesis_preview">;

/** The time span of the texts, in days; "" means all of them. */
export type Span = "7" | "31" | "365" | "";

/** The maximum number of texts in one request; the newest are used. */
const mostTexts = 1000;

/** The dialog for an analysis by a language model: what would be sent, and the approval of exactly that. */
export class ModelRequest {
  /** The kind of analysis; null while the dialog is closed. */
  kind = $state<Analysis | null>(null);
  span = $state<Span>("31");
  /** Names that are masked, separated by commas. */
  hide = $state("");
  samples = $state<"1" | "3">("1");
  sending = $state(false);
  readonly preview = new Load<Preview>();
  readonly #rpc: Rpc;
  /** The start of the span, as it was shown. */
  #start: string | undefined;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  open(kind: Analysis): void {
    this.kind = kind;
    void this.read();
  }

  #params() {
    return {
      synthesisType: this.kind ?? "full_synthesis",
      engine: "llm",
      limit: mostTexts,
      samples: Number(this.samples),
      hideNames: this.hide.split(",").map((n) => n.trim()).filter((n) => n !== ""),
      ...(this.#start === undefined ? {} : { timeRange: { start: this.#start } }),
    };
  }

  /** Reads what would be sent with the current choices. */
  read(): Promise<void> {
    this.#start = this.span === "" ? undefined : new Date(Date.now() - Number(this.span) * 86_400_000).toISOString();
    return this.preview.run((signal) => this.#rpc.call("memory.synthesis_preview", this.#params(), { signal }));
  }

  /** Starts the analysis with the text that is shown; returns its job, or "" with the error in the preview. */
  async send(): Promise<string> {
    const shown = this.preview.data;
    if (!shown) return "";
    this.sending = true;
    try {
      const r = await this.#rpc.call("memory.synthesize", { ...this.#params(), waitMs: 0, ...(shown.leavesMachine ? { approved: shown.hash ?? "" } : {}) });
      this.kind = null;
      return r.jobId;
    } catch (e) {
      this.preview.error = asError(e);
      return "";
    } finally {
      this.sending = false;
    }
  }
}
