/**
 * The error type of all calls. `message` is written for people and safe to show; `code` and `kind` are for
 * decisions.
 */
export type ErrorKind =
  | "invalid"
  | "not_found"
  | "conflict"
  | "denied"
  | "unavailable"
  | "timeout"
  | "canceled"
  | "limit"
  | "internal";

export interface ErrorInit {
  message: string;
  kind?: ErrorKind;
  code?: string;
  number?: number;
  details?: unknown;
  retryable?: boolean;
  retryAfterMs?: number;
  requestId?: string;
}

/** A call that was answered with an error, or could not be sent. */
export class RpcError extends Error {
  readonly kind: ErrorKind;
  /** Stable name such as `NOT_FOUND`; see the table in docs/protocol.md. */
  readonly code: string;
  /** The JSON-RPC number, 0 if the error was created on this side. */
  readonly number: number;
  readonly details: unknown;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  /** Use it to find the call in the log. */
  readonly requestId: string | undefined;

  constructor(init: ErrorInit) {
    super(init.message);
    this.name = "RpcError";
    this.kind = init.kind ?? "internal";
    this.code = init.code ?? "INTERNAL_ERROR";
    this.number = init.number ?? 0;
    this.details = init.details;
    this.retryable = init.retryable ?? false;
    this.retryAfterMs = init.retryAfterMs;
    this.requestId = init.requestId;
  }
}

const kinds: Record<number, ErrorKind> = {
  [-32700]: "invalid",
  [-32600]: "invalid",
  [-32601]: "not_found",
  [-32602]: "invalid",
  [-32000]: "unavailable",
  [-32001]: "denied",
  [-32002]: "denied",
  [-32003]: "not_found",
  [-32004]: "conflict",
  [-32005]: "timeout",
  [-32006]: "canceled",
  [-32007]: "limit",
  [-32008]: "invalid",
  [-32603]: "internal",
};

/** Turns the `error` member of a response into an RpcError. */
export function fromWire(e: { code: number; message: string; data?: unknown }): RpcError {
  const data = (e.data ?? {}) as Partial<Record<string, unknown>>;
  return new RpcError({
    message: e.message || "The call failed.",
    number: e.code,
    kind: (data.kind as ErrorKind | undefined) ?? kinds[e.code] ?? "internal",
    code: (data.code as string | undefined) ?? "INTERNAL_ERROR",
    details: data.details,
    retryable: data.retryable === true,
    retryAfterMs: typeof data.retryAfterMs === "number" ? data.retryAfterMs : undefined,
    requestId: typeof data.requestId === "string" ? data.requestId : undefined,
  });
}

/** Converts any thrown value to an RpcError, so that screens handle one type. */
export function asError(e: unknown): RpcError {
  if (e instanceof RpcError) return e;
  if (e instanceof Error && e.name === "AbortError") return canceled();
  return new RpcError({ message: e instanceof Error ? e.message : String(e) });
}

export const canceled = (): RpcError => new RpcError({ message: "Canceled.", kind: "canceled", code: "CANCELED" });

/** The session is not accepted, or no longer: only a new ticket helps. */
export const isSignedOut = (e: unknown): boolean => e instanceof RpcError && e.number === -32001;
