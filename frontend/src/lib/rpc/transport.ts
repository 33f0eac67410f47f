/**
 * A pipe that carries JSON-RPC frames in both directions. There are two: the
 * window's bridge and the WebSocket. Nothing above knows which one is in use.
 */
export interface Transport {
  readonly kind: "bridge" | "websocket" | "memory";
  /** Opens a new session. Rejects when the other side cannot be reached. */
  open(h: TransportHandlers): Promise<void>;
  /** Sends one frame. Throws when the pipe is closed. */
  send(frame: string): void | Promise<void>;
  /** Ends the session. `closed` is not called for it. */
  close(): void;
  /** The token for `connect`, when this pipe needs one. */
  token?(): string | null;
}

export interface TransportHandlers {
  frame(text: string): void;
  /** The pipe ended by itself. `code` is the WebSocket close code when there is one. */
  closed(code?: number): void;
}
