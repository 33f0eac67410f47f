import type { Rpc } from "../../lib/rpc";
import { Load, nav, type Notify } from "../../lib/ui/state";
import { t } from "./messages";
import type { Candidate } from "./types";

const typingMs = 200;
const most = 50;

/** Finding APIs and tools by what they do, and requesting what isn't there. */
export class FindApis {
  query = $state("");
  /** Where to look: "" is everywhere. */
  source = $state<"" | "catalog" | "directory" | "imported">("");
  /** Catalogs that couldn't be searched, with the reason. */
  skipped = $state.raw<readonly { source: string; reason: string }[]>([]);
  readonly results = new Load<readonly Candidate[]>();
  requesting = $state(false);
  #typing: ReturnType<typeof setTimeout> | undefined;
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
  }

  /** Searches when typing pauses. */
  type(query: string): void {
    this.query = query;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.search(), typingMs);
  }
  setSource(source: FindApis["source"]): void {
    this.source = source;
    void this.search();
  }
  search(): Promise<void> {
    const query = this.query.trim();
    if (query === "") {
      this.results.clear();
      return Promise.resolve();
    }
    return this.results.run(async (signal) => {
      const r = await this.#rpc.call("discovery.search", { query, limit: most, ...(this.source === "" ? {} : { sources: [this.source] }) }, { signal });
      this.skipped = r.skippedSources;
      return r.results;
    });
  }

  /** Notes that what was searched for is missing, and shows the request. */
  async request(): Promise<void> {
    const capabilityDescription = this.query.trim();
    if (capabilityDescription === "" || this.requesting) return;
    this.requesting = true;
    try {
      const { requestId } = await this.#rpc.call("discovery.request", { capabilityDescription });
      this.#notify.ok(t.requested);
      nav.go(`discovery/requests/${requestId}`);
    } catch (e) {
      this.#notify.error(e, t.requestFailed);
    } finally {
      this.requesting = false;
    }
  }
}
