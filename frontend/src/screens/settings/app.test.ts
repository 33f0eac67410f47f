import { expect, test } from "vitest";
import { hotkeyOf } from "./app.svelte";

const none = { ctrlKey: false, altKey: false, shiftKey: false, metaKey: false };

test.each([
  [{ code: "Space", ctrlKey: true, shiftKey: true }, "Ctrl+Shift+Space"],
  [{ code: "KeyA", altKey: true, metaKey: true }, "Alt+Super+A"],
  [{ code: "Digit9", ctrlKey: true }, "Ctrl+9"],
  [{ code: "F9" }, "F9"],
  [{ code: "ArrowLeft", ctrlKey: true, altKey: true }, "Ctrl+Alt+Left"],
  // What a person types, moves with or holds is no hotkey.
  [{ code: "KeyA" }, undefined],
  [{ code: "KeyA", shiftKey: true }, undefined],
  [{ code: "Tab" }, undefined],
  [{ code: "ControlLeft", ctrlKey: true }, undefined],
])("the press %o is the hotkey %s", (press, keys) => {
  expect(hotkeyOf({ ...none, ...press })).toBe(keys);
});
