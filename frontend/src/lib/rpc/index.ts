/**
 * The one way to the backend. Screens import from here and nowhere deeper:
 *
 *     import { rpc } from "../../lib/rpc";
 *     const { approvals } = await rpc.call("approvals.list", { status: "pending" });
 *     const off = rpc.on("approvals.changed", () => …);
 *
 * State classes take an `Rpc` in their constructor instead of importing `rpc`,
 * so that tests give them `fakeRpc()`.
 */
import { common } from "../i18n/common";
import { BridgeTransport, bridge } from "./bridge";
import { RpcClient } from "./client.svelte";
import type { Method, Rpc } from "./types";
import { WebSocketTransport } from "./ws";
import { sessionToken } from "./session";

export { RpcError, asError } from "./errors";
export { fieldErrors, isWithin, listedErrors } from "./fields";
export type { FieldError } from "./fields";
export type { ErrorKind } from "./errors";
export { bridge, onCommand, onWindow, quitWindow, reportFocus } from "./bridge";
export type { Bridge, FileDialog, PickedFile } from "./bridge";
export { giveUp, http, Upload } from "./upload.svelte";
export type { Chosen, Folder, Uploaded } from "./upload.svelte";
export type { LogEntry } from "./log";
export type {
  CallOptions,
  ConnectionInfo,
  ConnectionPhase,
  EventData,
  EventMeta,
  EventName,
  Item,
  Method,
  Params,
  Result,
  Rpc,
} from "./types";
export { forgetSession, onTicket, signIn } from "./session";
export type { SignIn } from "./session";

/** True inside the desktop window. */
export const inWindow = bridge() !== null;

/** The client of this page: over the window's bridge if there is one, else over WebSocket. */
export const client = new RpcClient(inWindow ? new BridgeTransport() : new WebSocketTransport(sessionToken), {
  locale: globalThis.navigator?.language ?? "en",
});

/** The same client, with the types of the method table. */
export const rpc: Rpc = client as unknown as Rpc;

/** Why nothing can be changed now, or "". For `disabledReason`. */
export const offlineReason = (): string => (rpc.connection.open ? "" : common.offline);

/** Why this session may not call a method, or "". For `disabledReason`. */
export function blocked(method: Method): string {
  return offlineReason() || (rpc.can(method) ? "" : common.notAllowed);
}
