import { lookup } from "../../lib/i18n";
import { t } from "./messages";
import type { Channel, Message } from "./types";

type Tone = "neutral" | "ok" | "warn" | "danger" | "info";

/** The word for what a channel does now. */
export const stateWord = (c: Channel): string => lookup(t.states, c.state);
export const stateTone = (c: Channel): Tone => (({ connected: "ok", disconnected: "warn", error: "danger" }) as Record<string, Tone>)[c.state] ?? "neutral";
export const messageTone = (m: Message): Tone => (({ failed: "danger", unknown: "warn", dropped: "warn" }) as Record<string, Tone>)[m.state] ?? "info";

/** When the last message came or went, whichever is later. */
export const lastMessage = (c: Channel): string | undefined => [c.lastIn, c.lastOut].filter((x) => x !== undefined).sort((a, b) => Date.parse(a) - Date.parse(b)).at(-1);

/** Sends a signed message to a webhook channel from a shell with openssl and curl. */
export const curlExample = (url: string, secret: string): string =>
  [
    `SECRET='${secret || t.secretPlace}'`,
    `T=$(date +%s)`,
    `BODY='{"id":"'"$T"'","contextId":"me","senderId":"me","text":"Hello"}'`,
    `V1=$(printf '%s.%s' "$T" "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1)`,
    `curl -i '${url}' -H "Helix-Signature: t=$T,v1=$V1" -d "$BODY"`,
  ].join("\n");
