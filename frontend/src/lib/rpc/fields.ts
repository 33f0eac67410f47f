import type { RpcError } from "./errors";

/** A problem with one field of a request. */
export interface FieldError {
  /** Like `cadence.timezone` or `steps[2].condition`; "" for the whole request. */
  path: string;
  /** Stable name such as `out_of_range`. */
  code: string;
  message: string;
}

interface Details {
  field?: unknown;
  code?: unknown;
  errors?: unknown;
}

const text = (v: unknown): string => (typeof v === "string" ? v : "");
const detailsOf = (e: RpcError): Details => (typeof e.details === "object" && e.details !== null ? e.details : {});

/** The problems listed in an error, each with its path in the request; empty if it lists none. */
export function listedErrors(error: RpcError): FieldError[] {
  const { field, errors } = detailsOf(error);
  const base = text(field);
  if (!Array.isArray(errors)) return [];
  return errors.flatMap((e: unknown) => {
    const { path, code, keyword, message } = (typeof e === "object" && e !== null ? e : {}) as Record<string, unknown>;
    const below = text(path);
    const joint = base === "" || below === "" || /^[/[]/.test(below) ? "" : ".";
    return typeof message === "string" ? [{ path: base + joint + below, code: text(code) || text(keyword), message }] : [];
  });
}

/** The fields that an error is about, the one it names first; empty if it is about none. */
export function fieldErrors(error: RpcError): FieldError[] {
  const { field, code } = detailsOf(error);
  const own = text(field) === "" ? [] : [{ path: text(field), code: text(code), message: error.message }];
  return [...own, ...listedErrors(error)];
}

/** Whether `path` is `field` or inside it. */
export const isWithin = (path: string, field: string): boolean => path === field || (path.startsWith(field) && /[.[/]/.test(path[field.length] ?? ""));
