import type { Item, Method, Result, Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";

export const tabs = ["context", "cost", "tools", "files", "tree", "log"] as const;
export type Tab = (typeof tabs)[number];
export type LogEvent = Item<"chat.events", "events">;

const needs: Record<Tab, Method> = { context: "chat.context", cost: "chat.cost", tools: "agent.tools", files: "chat.messages", tree: "agent.tree", log: "agent.replay" };

/** The content of the chat inspector. Each tab is read when it is shown, and again when a turn ends. */
export class ChatInspector {
  readonly context = new Load<Result<"chat.context">>();
  readonly cost = new Load<Result<"chat.cost">>();
  readonly tools = new Load<Result<"agent.tools">>();
  readonly tree = new Load<Result<"agent.tree">>();
  readonly events = new Load<readonly LogEvent[]>();
  readonly replay = new Load<Result<"agent.replay">>();
  readonly made = new Load<Result<"agent.to_skill">>();
  #id = "";
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** The tabs that this backend supports. */
  get tabs(): readonly Tab[] {
    return tabs.filter((tab) => this.#rpc.can(needs[tab]));
  }

  read(tab: Tab, sessionId: string): void {
    const rpc = this.#rpc;
    if (this.#id !== sessionId) for (const l of [this.context, this.cost, this.tools, this.tree, this.events, this.replay, this.made]) l.data = l.error = undefined;
    this.#id = sessionId;
    const p = { sessionId };
    if (tab === "context") void this.context.run((signal) => rpc.call("chat.context", p, { signal }));
    else if (tab === "cost") void this.cost.run((signal) => rpc.call("chat.cost", p, { signal }));
    else if (tab === "tools") void this.tools.run((signal) => rpc.call("agent.tools", p, { signal }));
    else if (tab === "tree") void this.tree.run((signal) => rpc.call("agent.tree", p, { signal }));
    else if (tab === "log") void this.events.run((signal) => this.#events(signal));
  }

  /** The last events of the log. */
  async #events(signal: AbortSignal): Promise<readonly LogEvent[]> {
    const { lastSeq } = await this.#rpc.call("chat.get", { sessionId: this.#id }, { signal });
    return (await this.#rpc.call("chat.events", { sessionId: this.#id, afterSeq: Math.max(0, lastSeq - 500), limit: 500 }, { signal })).events;
  }

  make(turnIds: string[]): Promise<void> {
    return this.made.run((signal) => this.#rpc.call("agent.to_skill", { turnIds }, { signal }));
  }

  check(): Promise<void> {
    return this.replay.run((signal) => this.#rpc.call("agent.replay", { sessionId: this.#id }, { signal }));
  }
}
