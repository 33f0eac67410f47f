import { client, rpc } from "./lib/rpc";
import { commands, copy, nav, openInBrowser, theme, toasts, type Command } from "./lib/ui";
import type { System } from "./frame/system.svelte";
import { screens } from "./screens";

/** What the frame itself can open. */
export interface Shell {
  palette: boolean;
  log: boolean;
  shortcuts: boolean;
  services: boolean;
}

const available = (needs: readonly string[]): boolean => needs.every((m) => rpc.can(m as never));

/**
 * The commands that live as long as the program. Their ids are shared with the
 * desktop menu and, later, the tray.
 */
export function globalCommands(shell: Shell, system: System): Command[] {
  const list: Command[] = [];
  for (const s of screens) {
    list.push({
      id: `go.${s.id}`,
      title: `Go to ${s.title}`,
      group: "Go to",
      ...(s.keys ? { keys: s.keys } : {}),
      when: () => available(s.needs),
      run: () => nav.go(s.id),
    });
    for (const c of s.commands ?? []) list.push({ ...c, when: () => available(s.needs) && (c.when?.() ?? true) });
  }
  list.push(
    {
      id: "app.palette",
      title: "Open command palette",
      keys: "mod+k",
      hidden: true,
      run: () => (shell.palette = !shell.palette),
    },
    { id: "app.shortcuts", title: "Show keyboard shortcuts", group: "Help", keys: "?", run: () => (shell.shortcuts = true) },
    { id: "app.undo", title: "Undo the last act", keys: "mod+z", hidden: true, when: () => canUndo(), run: () => toasts.undoLast() },
    {
      id: "app.services",
      title: "Show services",
      group: "Helix",
      words: "status backend state restart",
      run: () => (shell.services = true),
    },
    { id: "app.log", title: "Show RPC log", group: "Helix", words: "frames debug wire", run: () => (shell.log = true) },
    ...(["1h", "tomorrow", "forever"] as const).map(
      (time): Command => ({
        id: `app.pause-background.${time}`,
        title: `Pause background work ${{ "1h": "for 1 hour", tomorrow: "until tomorrow", forever: "until I resume" }[time]}`,
        group: "Helix",
        words: "stop schedules embeddings backups",
        when: () => rpc.can("app.pause_background"),
        run: () => void system.pauseBackground({ for: time }),
      }),
    ),
    {
      id: "app.resume-background",
      title: "Resume background work",
      group: "Helix",
      words: "schedules embeddings backups pause",
      when: () => rpc.can("app.pause_background") && system.held,
      run: () => void system.pauseBackground({ resume: true }),
    },
    {
      id: "gateway.copy-url",
      title: "Copy gateway URL",
      group: "Helix",
      words: "address port",
      when: () => system.url !== "",
      run: () => copy(system.url, "Address copied"),
    },
    {
      id: "gateway.restart",
      title: "Restart gateway",
      group: "Helix",
      when: () => rpc.can("services.restart"),
      run: () => system.restart("gateway"),
    },
    {
      id: "gateway.open-browser",
      title: "Open in browser",
      group: "Helix",
      words: "ticket web",
      when: () => rpc.can("sessions.ticket"),
      run: openInBrowser,
    },
    {
      id: "app.reconnect",
      title: "Reconnect now",
      group: "Helix",
      when: () => rpc.connection.phase === "reconnecting",
      run: () => client.retryNow(),
    },
    ...(["system", "light", "dark"] as const).map(
      (choice): Command => ({
        id: `theme.${choice}`,
        title: { system: "Use the system's appearance", light: "Use light appearance", dark: "Use dark appearance" }[choice],
        group: "Appearance",
        words: "theme color mode",
        when: () => theme.choice !== choice,
        run: () => theme.set(choice),
      }),
    ),
  );
  return list;
}

const canUndo = (): boolean => {
  const el = document.activeElement;
  return !el?.closest("input, textarea, [contenteditable=true]") && toasts.list.some((t) => t.left > 0);
};

/** What the window's menu asks for, by the names it uses. */
const menu: Record<string, string> = { palette: "app.palette", settings: "go.settings" };

/** Runs a command that the window's menu asked for. False when it does not exist here. */
export const runById = (id: string): boolean => commands.run(menu[id] ?? id);
