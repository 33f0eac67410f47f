import type { en } from "./messages";

export type SectionId = keyof typeof en.pages;

/** The pages of Settings, in order. */
export const sections: readonly SectionId[] = ["app", "appearance", "gateway", "data", "keys", "models", "agent", "sandbox", "containers", "all"];
