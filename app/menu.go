package app

import (
	"runtime"

	"github.com/wailsapp/wails/v2/pkg/menu"
	"github.com/wailsapp/wails/v2/pkg/menu/keys"
)

const isLinux = runtime.GOOS == "linux"

// appMenu returns the menu bar for macOS; without its Edit roles, copy and paste do not work in the
// web view there. Windows and Linux have no menu bar.
func appMenu(s *shell) *menu.Menu {
	if runtime.GOOS != "darwin" {
		return nil
	}
	m := menu.NewMenu()
	m.Append(menu.AppMenu())
	m.Append(menu.EditMenu())
	view := m.AddSubmenu("View")
	view.AddText("Command Palette", keys.CmdOrCtrl("k"), func(*menu.CallbackData) {
		s.order("app.palette", "")
	})
	view.AddText("Settings", keys.CmdOrCtrl(","), func(*menu.CallbackData) {
		s.order("go.settings", "")
	})
	m.Append(menu.WindowMenu())
	return m
}
