// Generated from the method table of the backend by `make generate`. Do not edit.
/* eslint-disable */

export interface ApigenBoxThing {
  items: ApigenThing[];
}

/** Changed says that a thing changed. */
export interface ApigenChanged {
  id: string;
}

/** Colour is an enum. */
export type ApigenColour = "red" | "green";

/** Common is embedded. */
export interface ApigenCommon {
  /** of the row */
  id: string;
}

/** Thing has a field of every shape. */
export interface ApigenThing {
  /**
   * Name is shown to people.
   *
   * It has two paragraphs with a * / in it.
   */
  name: string;
  colour: ApigenColour;
  at: string;
  until?: string | null;
  data?: string;
  count: string;
  size: number;
  part?: ApigenThing;
  parts: ApigenThing[];
  labels: Record<string, string>;
  raw?: unknown;
  "odd-name": Record<string, ApigenColour>;
  choices: ApigenColour[];
  inline: { a: number };
  /** of the row */
  id: string;
}

/** EventsGap tells a client that was too slow which events were dropped. It may request them with events.resume while they are still stored, or reload what it shows. */
export interface GatewayEventsGap {
  fromSeq: number;
  toSeq: number;
}

/** SystemStopping reports that Helix is about to end the session. */
export interface GatewaySystemStopping {
  /** running calls are canceled after this time */
  withinMs: number;
}

/** Every method: what it takes and what it gives. */
export interface Methods {
  /** Another name of things.get. Returns one thing. It may take a while. */
  "get_thing": { params: Omit<ApigenCommon, "id"> & { id?: "x" }; result: ApigenThing };
  /** Returns one thing. It may take a while. */
  "things.get": { params: ApigenCommon; result: ApigenThing };
  /** Returns the things. */
  "things.list": { params: Record<string, never>; result: ApigenBoxThing };
}

/** Every event: the data it carries. */
export interface Events {
  /** EventsGap tells a client that was too slow which events were dropped. It may request them with events.resume while they are still stored, or reload what it shows. */
  "events.gap": GatewayEventsGap;
  /** SystemStopping reports that Helix is about to end the session. */
  "system.stopping": GatewaySystemStopping;
  /** Changed says that a thing changed. */
  "things.changed": ApigenChanged;
}

/** A scope that a session may hold. */
export type Scope = "none" | "read" | "write" | "approve" | "admin";

/** What the client must know of each method besides its types. */
export const METHODS = [
  { name: "get_thing", scope: "read", costly: true, aliasOf: "things.get", deadlineMs: 300000 },
  { name: "things.get", scope: "read", costly: true, deadlineMs: 300000 },
  { name: "things.list", scope: "read", costly: false },
] as const satisfies readonly { name: keyof Methods; scope: Scope; costly: boolean; aliasOf?: keyof Methods; deadlineMs?: number }[];

/** The scope that each method requires. */
export const scopes = Object.fromEntries(METHODS.map((m) => [m.name, m.scope])) as Record<keyof Methods, Scope>;

/** The names of all events. */
export const EVENTS = [
  "events.gap",
  "system.stopping",
  "things.changed",
] as const satisfies readonly (keyof Events)[];
