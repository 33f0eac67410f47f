import { language, languageNames } from "./lib/i18n";
import { common as t } from "./lib/i18n/common";
import { client, rpc } from "./lib/rpc";
import { commands, copy, nav, openInBrowser, theme, toasts, type Command } from "./lib/ui";
import type { System } from "./lib/system/system.svelte";
import { screens } from "./screens";

/** What the frame itself can open. */
export interface Shell {
  palette: boolean;
  log: boolean;
  shortcuts: boolean;
  services: boolean;
  /** Asks whether to quit while something is running. */
  quit: boolean;
}

const available = (needs: readonly string[]): boolean => needs.every((m) => rpc.can(m as never));

/** The commands that exist as long as the program. Their ids are shared with the desktop menu and, later, the tray. */
export function globalCommands(shell: Shell, system: System): Command[] {
  const list: Command[] = [];
  for (const s of screens) {
    list.push({
      id: `go.${s.id}`,
      title: t.goToScreen(s.title),
      group: t.goTo,
      ...(s.keys ? { keys: s.keys } : {}),
      when: () => available(s.needs),
      run: () => nav.go(s.id),
    });
    for (const c of s.commands?.() ?? []) list.push({ ...c, when: () => available(s.needs) && (c.when?.() ?? true) });
  }
  list.push(
    {
      id: "app.palette",
      title: t.openPalette,
      keys: "mod+k",
      hidden: true,
      run: () => (shell.palette = !shell.palette),
    },
    { id: "app.welcome", title: t.welcomePage, group: t.goTo, words: t.welcomeWords, run: () => nav.go("welcome") },
    { id: "app.shortcuts", title: t.showShortcuts, group: t.help, keys: "?", run: () => (shell.shortcuts = true) },
    { id: "app.undo", title: t.undoLast, keys: "mod+z", hidden: true, when: () => canUndo(), run: () => toasts.undoLast() },
    {
      id: "app.services",
      title: t.showServices,
      group: "Helix",
      words: "status backend state restart",
      run: () => (shell.services = true),
    },
    { id: "app.log", title: t.showLog, group: "Helix", words: "frames debug wire", run: () => (shell.log = true) },
    ...(["1h", "tomorrow", "forever"] as const).map(
      (time): Command => ({
        id: `app.pause-background.${time}`,
        title: { "1h": t.pauseHour, tomorrow: t.pauseTomorrow, forever: t.pauseForever }[time],
        group: "Helix",
        words: "stop schedules embeddings backups",
        when: () => rpc.can("app.pause_background"),
        run: () => void system.pauseBackground({ for: time }),
      }),
    ),
    {
      id: "app.resume-background",
      title: t.resumeBackground,
      group: "Helix",
      words: "schedules embeddings backups pause",
      when: () => rpc.can("app.pause_background") && system.held,
      run: () => void system.pauseBackground({ resume: true }),
    },
    {
      id: "gateway.copy-url",
      title: t.copyGateway,
      group: "Helix",
      words: "address port",
      when: () => system.url !== "",
      run: () => copy(system.url, t.addressCopied),
    },
    {
      id: "gateway.restart",
      title: t.restartGateway,
      group: "Helix",
      when: () => rpc.can("services.restart"),
      run: () => system.restart("gateway"),
    },
    {
      id: "gateway.open-browser",
      title: t.openBrowser,
      group: "Helix",
      words: "ticket web",
      when: () => rpc.can("sessions.ticket"),
      run: openInBrowser,
    },
    {
      id: "app.reconnect",
      title: t.reconnectNow,
      group: "Helix",
      when: () => rpc.connection.phase === "reconnecting",
      run: () => client.retryNow(),
    },
    ...(["system", "light", "dark"] as const).map(
      (choice): Command => ({
        id: `theme.${choice}`,
        title: { system: t.themeSystem, light: t.themeLight, dark: t.themeDark }[choice],
        group: t.appearance,
        words: "theme color mode",
        when: () => theme.choice !== choice,
        run: () => theme.set(choice),
      }),
    ),
    ...(["system", "en", "de"] as const).map(
      (choice): Command => ({
        id: `language.${choice}`,
        title: choice === "system" ? t.languageSystem : t.languageIn(languageNames[choice]),
        group: t.appearance,
        words: "language sprache",
        when: () => language.choice !== choice,
        run: () => language.set(choice).catch((e: unknown) => toasts.error(e, t.languageFailed)),
      }),
    ),
  );
  return list;
}

const canUndo = (): boolean => {
  const el = document.activeElement;
  return !el?.closest("input, textarea, [contenteditable=true]") && toasts.undoable;
};

/** What the entries of the tray do: a command, or the address of a page. The desktop program sends these ids. */
const tray: Record<string, { command: string } | { page: string }> = {
  "tray:new-chat": { command: "chat.new" },
  "tray:open-settings": { command: "go.settings" },
  "tray:open-approvals": { command: "go.approvals" },
  "tray:open-skills": { command: "go.skills" },
  "tray:open-sync": { page: "sync/conflicts" },
  "tray:open-agents": { page: "settings/agent" },
  "tray:open-agent": { command: "chat.new" },
  "tray:open-channels": { page: screens.some((s) => s.id === "channels") ? "channels" : "settings/agent" },
};

/** Runs a command of the tray or of the window's menu. Returns false if it does not exist here. */
export function runById(id: string, argument: string, shell: Shell): boolean {
  if (id === "tray:confirm-quit") return (shell.quit = true);
  if (id === "tray:failed") return (toasts.add({ title: t.trayFailed, text: argument, tone: "warn" }), true);
  const entry = tray[id];
  if (entry && "page" in entry) return (nav.go(entry.page), true);
  return commands.run(entry?.command ?? id);
}
