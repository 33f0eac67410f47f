/** The one Chat screen of the page, so that what is open and written stays while other screens are shown. */
import { rpc } from "../../lib/rpc";
import { lasting, toasts } from "../../lib/ui/state";
import { ChatScreen } from "./chat.svelte";

let screen: ChatScreen | null = null;

export function chatScreen(): ChatScreen {
  screen ??= lasting(() => new ChatScreen(rpc, localStorage, toasts));
  return screen;
}
