package config

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// keyringReachable reports whether a session bus is there to ask. Without this look, the
// D-Bus library would start a bus of its own for each process, which outlives it.
func keyringReachable() bool {
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
