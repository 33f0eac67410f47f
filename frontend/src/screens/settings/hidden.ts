/**
 * Settings that the backend keeps but this version does not act on yet, with the reason.
 * They are shown nowhere: not on a page, not in "All settings", not in the palette.
 * Whoever makes one work takes it out of this list.
 */
export const hidden: Readonly<Record<string, string>> = {
  "app.autostart": "Nothing enters Helix into the autostart of the desktop yet.",
  "app.start_hidden": "Without a tray icon a hidden window could not be brought back.",
  "app.close_to_tray": "There is no tray icon yet.",
  "app.hotkey": "No hotkey is registered with the desktop yet.",
  "notifications.enabled": "No notices are sent to the desktop yet.",
  "notifications.preview": "No notices are sent to the desktop yet.",
  "notifications.quiet": "No notices are sent to the desktop yet.",
};
