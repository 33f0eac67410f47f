/** The single Voice screen of the page, so that recordings and the queue are followed on every screen. */
import { rpc } from "../../lib/rpc";
import { lasting } from "../../lib/ui/state";
import { VoiceScreen } from "./voice.svelte";

let screen: VoiceScreen | null = null;

export function voiceScreen(): VoiceScreen {
  screen ??= lasting(() => new VoiceScreen(rpc));
  return screen;
}
