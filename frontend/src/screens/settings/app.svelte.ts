import { type Item, type Result, type Rpc } from "../../lib/rpc";
import { Load, toasts } from "../../lib/ui/state";
import { t } from "./messages";

export type AppState = Result<"app.state">;

/** The combination of a key press as the setting app.hotkey has it; undefined if it cannot be a hotkey. */
export function hotkeyOf(e: Pick<KeyboardEvent, "code" | "ctrlKey" | "altKey" | "shiftKey" | "metaKey">): string | undefined {
  const key = /^(?:Key([A-Z])|Digit(\d)|(F(?:[1-9]|1[0-2])|Space|Home|End|PageUp|PageDown|Insert)|Arrow(Left|Up|Right|Down))$/.exec(e.code)?.slice(1).find((k) => k !== undefined);
  if (key === undefined || (!/^F\d/.test(key) && !e.ctrlKey && !e.altKey && !e.metaKey)) return undefined;
  return [e.ctrlKey && "Ctrl", e.altKey && "Alt", e.shiftKey && "Shift", e.metaKey && "Super", key].filter((k) => k !== false).join("+");
}

/** The window program, and the skills in the menu of its tray icon, for Settings › App. */
export class DesktopState {
  readonly app = new Load<AppState>();
  /** Skills that can be pinned. */
  readonly skills = new Load<readonly Item<"skills.list_composite", "skills">[]>();
  readonly pinned = $derived(this.app.data?.pinnedSkills ?? []);
  readonly addable = $derived((this.skills.data ?? []).filter((s) => !this.pinned.some((p) => p.skillId === s.skillId)));
  /** Why closing the window cannot hide it, or "". */
  readonly noTray = $derived.by(() => {
    const a = this.app.data;
    return !a || a.trayHost ? "" : a.display === "none" ? t.desktop.noWindow : t.desktop.noTray;
  });
  /** Why the hotkey is not registered, or "". */
  readonly hotkeyProblem = $derived.by(() => {
    const { code = "", reason = "" } = this.app.data?.hotkey ?? {};
    return (t.desktop.hotkeyProblems as Record<string, string>)[code] ?? reason;
  });
  #rpc: Rpc;
  #off: (() => void)[];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#off = [rpc.on("app.pins_changed", () => void this.load()), rpc.onReload(() => void this.load())];
  }

  stop(): void {
    for (const off of this.#off) off();
  }

  async load(): Promise<void> {
    await Promise.all([
      this.app.run((signal) => this.#rpc.call("app.state", {}, { signal })),
      this.#rpc.can("skills.list_composite") ? this.skills.run(async (signal) => (await this.#rpc.call("skills.list_composite", { limit: 100 }, { signal })).skills) : null,
    ]);
  }

  async setAutostart(enabled: boolean): Promise<void> {
    try {
      this.app.data = await this.#rpc.call("app.set_autostart", { enabled });
    } catch (e) {
      toasts.error(e, t.desktop.autostartFailed);
      void this.load();
    }
  }

  /** Makes the keys that were pressed the hotkey; Backspace and Delete remove it. */
  record(e: KeyboardEvent): void {
    const keys = e.key === "Backspace" || e.key === "Delete" ? "" : hotkeyOf(e);
    if (keys === undefined) return; // a modifier alone, or Tab, which leaves the field
    e.preventDefault();
    e.stopPropagation();
    void this.setHotkey(keys);
  }

  async setHotkey(keys: string): Promise<void> {
    try {
      const hotkey = await this.#rpc.call("app.set_hotkey", { keys });
      if (this.app.data) this.app.data = { ...this.app.data, hotkey };
    } catch (e) {
      toasts.error(e, t.desktop.hotkeyFailed);
    }
  }

  /** Pins a skill at a place, moves it there, or unpins it. */
  async pin(skillId: string, pinned: boolean, position?: number): Promise<void> {
    try {
      const { skills } = await this.#rpc.call("app.pin_skill", { skillId, pinned, ...(position === undefined ? {} : { position }) });
      if (this.app.data) this.app.data = { ...this.app.data, pinnedSkills: skills };
    } catch (e) {
      toasts.error(e, t.desktop.pinFailed);
    }
  }
}
