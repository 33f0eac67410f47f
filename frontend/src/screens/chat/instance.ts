/** The single Chat screen of the page, so that the open chat and drafts are kept while other screens are shown. */
import { bridge, rpc } from "../../lib/rpc";
import { copy, download } from "../../lib/ui/browser";
import { lasting, toasts } from "../../lib/ui/state";
import { ChatScreen } from "./chat.svelte";
import { transferOf } from "./files.svelte";
import { t } from "./messages";

let screen: ChatScreen | null = null;

export function chatScreen(): ChatScreen {
  screen ??= lasting(() => new ChatScreen(rpc, localStorage, toasts, save, transferOf(rpc)));
  return screen;
}

/** The desktop window cannot save files itself, so the text is copied there. */
function save(name: string, text: string): unknown {
  return bridge() ? copy(text, t.copied) : download(name, text, name.endsWith(".md") ? "text/markdown" : "application/x-ndjson");
}
