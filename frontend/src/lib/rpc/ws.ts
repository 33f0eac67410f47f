import type { Transport, TransportHandlers } from "./transport";

/** The subprotocol both sides speak. */
export const subprotocol = "helix.rpc.v1";

/**
 * Frames over `/ws` of the server that delivered the page. The address is always the page's own origin; it is
 * never taken from the URL.
 */
export class WebSocketTransport implements Transport {
  readonly kind = "websocket";
  #socket: WebSocket | null = null;

  constructor(
    private readonly sessionToken: () => string | null,
    private readonly origin: () => string = () => location.origin,
  ) {}

  token(): string | null {
    return this.sessionToken();
  }

  open(h: TransportHandlers): Promise<void> {
    this.close();
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(this.origin().replace(/^http/, "ws") + "/ws", subprotocol);
      this.#socket = socket;
      let opened = false;
      socket.onopen = () => {
        opened = true;
        resolve();
      };
      socket.onmessage = (e) => {
        if (this.#socket === socket && typeof e.data === "string") h.frame(e.data);
      };
      socket.onclose = (e) => {
        if (this.#socket !== socket) return;
        this.#socket = null;
        if (opened) h.closed(e.code);
        else reject(new Error("Can't reach the Helix backend."));
      };
    });
  }

  send(frame: string): void {
    if (!this.#socket || this.#socket.readyState !== WebSocket.OPEN) throw new Error("Not connected.");
    this.#socket.send(frame);
  }

  close(): void {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close(1000);
  }
}
