/** Texts about skills, their steps and their runs. */
import { lookup } from "../../../lib/i18n";
import { t } from "../messages";

/** The kind of a step. */
export const kindWord = (kind: string): string => lookup(t.stepKinds, kind);
/** How much a call may do. */
export const tierWord = (tier: string): string => lookup(t.tiers, tier);
/** What a run waits for. */
export const waitWord = (reason: string | undefined): string => t.waits[reason ?? ""] ?? "";
/** The origin of a version. */
export const versionOrigin = (origin: string): string => lookup(t.versionOrigins, origin);
/** A value as indented JSON text. Undefined is "". */
export const pretty = (v: unknown): string => (v === undefined ? "" : (JSON.stringify(v, null, 2) ?? ""));
