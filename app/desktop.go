package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"

	"helix/app/autostart"
	"helix/backend"
	"helix/backend/config"
	"helix/backend/gateway"
)

// desktop is the shell as the backend sees it.
type desktop struct{ s *shell }

// Activate implements app.activate.
func (d desktop) Activate(_ context.Context, args []string) error {
	d.s.activate(args)
	return nil
}

// Window implements the part of app.state that only the window knows.
func (d desktop) Window() backend.WindowState {
	s := d.s
	starts := false
	if e, err := s.autostart(); err == nil {
		if starts, err = e.Enabled(); err != nil {
			slog.Warn("autostart", "err", err)
		}
	}
	s.mu.Lock()
	reason := s.noticesReason
	s.mu.Unlock()
	return backend.WindowState{
		Autostart: starts, Notices: reason,
		Visible: s.visible.Load(), Focused: s.focused.Load(), TrayHost: s.icon.HasHost(),
		Hotkey: s.hotkey.current(), Display: display(os.Getenv),
	}
}

// display returns the window system.
func display(env func(string) string) string {
	switch {
	case goruntime.GOOS == "windows":
		return "windows"
	case goruntime.GOOS == "darwin":
		return "macos"
	case env("WAYLAND_DISPLAY") != "" && env("GDK_BACKEND") != "x11":
		return "wayland"
	}
	return "x11"
}

// setting reads a switch of the settings; one that cannot be read has its default.
func (s *shell) setting(ctx context.Context, c *gateway.Client, key string) bool {
	var r config.GetResult
	if err := c.Call(ctx, "config.get", config.GetParams{Keys: []string{key}}, &r); err != nil {
		return true
	}
	on, ok := r.Values[key].(bool)
	return on || !ok
}

// autostart returns the entry that starts this program with the computer. It names the program's
// own file, so that neither the current folder nor PATH changes what starts.
func (s *shell) autostart() (autostart.Entry, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return autostart.Entry{}, err
	}
	return autostart.New(exe)
}

// repairAutostart corrects the entry if the program was moved.
func (s *shell) repairAutostart() {
	e, err := s.autostart()
	if err == nil {
		err = e.Repair()
	}
	if err != nil {
		slog.Warn("autostart", "err", err)
	}
}

// SetAutostart implements app.set_autostart.
func (d desktop) SetAutostart(on bool) error {
	e, err := d.s.autostart()
	if err != nil {
		return err
	}
	return e.Set(on)
}

// SetHotkey implements app.set_hotkey.
func (d desktop) SetHotkey(keys string) backend.HotkeyState { return d.s.hotkey.set(keys) }
