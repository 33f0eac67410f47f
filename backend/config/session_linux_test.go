package config

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
)

func TestKeyringNeedsASessionBus(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	for addr, want := range map[string]bool{"": false, "disabled:": false, "autolaunch:": false, "unix:path=/nowhere": true} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", addr)
		if got := SessionBus(); got != want {
			t.Errorf("address %q: %v, want %v", addr, got, want)
		}
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	if _, err := (systemKeyring{}).Get("helix", "root"); !errors.Is(err, errNoBus) {
		t.Errorf("get without a bus: %v", err)
	}
	if err := (systemKeyring{}).Set("helix", "root", "x"); !errors.Is(err, errNoBus) {
		t.Errorf("set without a bus: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !SessionBus() {
		t.Error("the bus of the runtime folder was not seen")
	}
}
