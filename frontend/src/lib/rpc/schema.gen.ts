// Hand-made until "go run ./build/gen" has written this file.

/* eslint-disable */
export interface Methods {
  [method: string]: { params: any; result: any };
}

export interface Events {
  [event: string]: any;
}

/** Scope that a method asks for. */
export const scopes: Record<string, "read" | "write" | "approve" | "admin"> = {};
