/**
 * A pipe that carries JSON-RPC frames in both directions. There are two: the window's bridge and the
 * WebSocket. The layers above do not know which one is used.
 */
export interface Transport {
  readonly kind: "bridge" | "websocket" | "memory";
  /** Opens a new session. Rejects if the other side cannot be reached. */
  open(h: TransportHandlers): Promise<void>;
  /** Sends one frame. Throws if the pipe is closed. */
  send(frame: string): void | Promise<void>;
  /** Ends the session. `closed` is not called for it. */
  close(): void;
  /** The token for `connect`, if this pipe needs one. */
  token?(): string | null;
}

export interface TransportHandlers {
  frame(text: string): void;
  /** The pipe was closed by the other side or failed. `code` is the WebSocket close code, if there is one. */
  closed(code?: number): void;
}
