import { ListState, route } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { nav, type Notify } from "../../lib/ui/state";
import { toolAt } from "./address";
import { t } from "./messages";
import type { Candidate, Request } from "./types";

export type RequestFilters = { status: string };

/** The requests for something that no tool can do yet: of the person, of agents and of skills. */
export class Requests {
  readonly list: ListState<Request, RequestFilters>;
  busy = $state("");
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.list = new ListState<Request, RequestFilters>({
      id: (x) => x.requestId,
      route: route("discovery/requests"),
      filters: { status: "" },
      read: async ({ filters, offset, limit, signal }) => {
        const r = await rpc.call("discovery.queue", { limit, offset, ...(filters.status === "" ? {} : { status: filters.status }) }, { signal });
        return { items: r.requests, total: r.total };
      },
    });
  }

  /** The requests with candidates that wait for a choice. */
  get open(): number {
    return this.list.page.items.filter(isOpen).length;
  }

  /** Ends a request without a tool. */
  async reject(x: Request): Promise<void> {
    this.busy = x.requestId;
    try {
      await this.#rpc.call("discovery.reject", { requestId: x.requestId });
    } catch (e) {
      this.#notify.error(e, t.rejectFailed);
    } finally {
      this.busy = "";
    }
    await this.list.page.reload();
  }

  /** Ends a request with a tool that is there already. */
  async use(x: Request, c: Candidate): Promise<void> {
    this.busy = x.requestId;
    try {
      const { manifestId } = await this.#rpc.call("discovery.accept", { requestId: x.requestId, ref: c.ref });
      nav.go(toolAt(manifestId));
    } catch (e) {
      this.#notify.error(e, t.acceptFailed(c.title));
    } finally {
      this.busy = "";
    }
    await this.list.page.reload();
  }
}

/** Whether a candidate of a request can still be chosen. */
export const isOpen = (x: Request): boolean => x.status === "found" && !x.finishedAt;
/** The word for the state of a request. */
export const stateOf = (x: Request): string => (x.selected ? "accepted" : x.status);
