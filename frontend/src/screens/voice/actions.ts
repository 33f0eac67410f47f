import { common } from "../../lib/i18n/common";
import type { RowAction } from "../../lib/list/actions";
import { blocked as may, inWindow, rpc } from "../../lib/rpc";
import { download } from "../../lib/ui/browser";
import { copy, openURL, toasts } from "../../lib/ui/state";
import { t } from "./messages";
import type { Command, Memo } from "./types";
import type { Commands } from "./commands.svelte";
import { titleOf, type VoiceScreen } from "./voice.svelte";
import { subtitles } from "./words";

/** Saves a text as a file; the window, which can't, copies it. */
const saveText = (name: string, text: string, type: string): unknown => (inWindow ? copy(text, t.textCopied) : download(name, text, type));

/** What can be done with a memo. */
export function memoActions(screen: VoiceScreen, m: Memo): (RowAction | null)[] {
  const { open } = screen;
  const transcript = open.id === m.id ? open.transcript.data : undefined;
  const name = titleOf(m).replace(/[\\/:*?"<>|]+/g, " ").trim();
  const cannot = may("voice.transcribe");
  const exports: (RowAction | null)[] = transcript?.text
    ? [
        null,
        { id: "copy_text", label: t.copyText, run: () => copy(transcript.text, t.textCopied) },
        { id: "save_text", label: t.saveText, run: () => saveText(`${name}.txt`, transcript.text, "text/plain") },
        ...(transcript.words.length > 0
          ? [
              { id: "save_srt", label: t.saveSrt, run: () => saveText(`${name}.srt`, subtitles(transcript.words, "srt"), "application/x-subrip") },
              { id: "save_vtt", label: t.saveVtt, run: () => saveText(`${name}.vtt`, subtitles(transcript.words, "vtt"), "text/vtt") },
            ]
          : []),
      ]
    : [];
  const audio: RowAction[] = open.id === m.id && open.audio.data ? [{ id: "save_audio", label: t.saveAudio, run: () => saveAudio(m, `${name}.${m.format}`, open.audio.data!) }] : [];
  return [
    { id: "details", label: t.details, keys: "e", run: () => (screen.editing = m), blocked: may("voice.update_memo") },
    { id: "pin", label: m.pinned ? t.unpin : t.pin, keys: "p", run: () => screen.update(m, { pinned: !m.pinned }), blocked: may("voice.update_memo") },
    ...(open.id === m.id ? (screen.engines.data ?? []).map((e): RowAction => ({ id: `transcribe_${e.id}`, label: t.transcribeWith(e.name), run: () => open.transcribe(e.id), blocked: cannot || (e.available ? "" : (e.reason ?? t.notAvailable)) })) : []),
    ...(transcript?.text ? [{ id: "run_as_command", label: t.runAsCommand, run: () => screen.commands.runMemo(m.recordingId), blocked: may("voice.process") }] : []),
    ...exports,
    ...audio,
    null,
    { id: "delete", label: t.moveToTrash, keys: "Delete", danger: true, run: () => screen.remove(m), blocked: may("voice.delete_memo") },
  ];
}

/** What can be done with a voice command. */
export const commandActions = (commands: Commands, c: Command): (RowAction | null)[] => [
  { id: "command.edit", label: common.edit, keys: "e", run: () => commands.edit(c), blocked: may("voice.update_command") },
  { id: "command.enable", label: c.enabled ? t.disable : t.enable, keys: "o", run: () => commands.setEnabled(c, !c.enabled), blocked: may("voice.update_command") },
  null,
  { id: "command.delete", label: t.moveToTrash, keys: "Delete", danger: true, run: () => commands.remove(c), blocked: may("voice.delete_command") },
];

/** Saves the sound as a file; the window opens it in the browser. */
async function saveAudio(m: Memo, name: string, sound: Blob): Promise<void> {
  if (!inWindow) return download(name, sound);
  try {
    openURL((await rpc.call("voice.audio_url", { recordingId: m.recordingId })).url);
  } catch (e) {
    toasts.error(e, t.exportFailed);
  }
}
