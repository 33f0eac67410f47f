package config

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SessionBus reports whether the desktop's services (keyring, notifications, tray) can be reached
// over a session bus. Without this check, the D-Bus library would start a bus for each process,
// which outlives the process.
func SessionBus() bool {
	if addr := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); addr != "" {
		return !strings.HasPrefix(addr, "autolaunch:") && !strings.HasPrefix(addr, "disabled:")
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join("/run/user", strconv.Itoa(os.Getuid()))
	}
	st, err := os.Stat(filepath.Join(dir, "bus"))
	return err == nil && st.Mode()&os.ModeSocket != 0
}
