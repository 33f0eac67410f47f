package autostart

import (
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/fault"
)

// key is a Run key in memory.
type key struct{ content *string }

func (k key) read() (string, error) {
	if *k.content == "" {
		return "", fs.ErrNotExist
	}
	return *k.content, nil
}
func (k key) write(c string) error { *k.content = c; return nil }
func (k key) remove() error        { *k.content = ""; return nil }

// systems returns an entry for exe on each system, in the same place each time, and that place.
func systems(t *testing.T) map[string]func(exe string) Entry {
	dir, run := t.TempDir(), new(string)
	return map[string]func(exe string) Entry{
		"linux":   func(exe string) Entry { return Linux(filepath.Join(dir, "config"), exe) },
		"darwin":  func(exe string) Entry { return Darwin(dir, exe) },
		"windows": func(exe string) Entry { return windows(key{run}, `C:\`+exe+`\helix-desktop.exe`) },
	}
}

func is(t *testing.T, e Entry, want bool) {
	t.Helper()
	if got, err := e.Enabled(); err != nil || got != want {
		t.Fatalf("enabled %v, %v; want %v", got, err, want)
	}
}

func TestOnOffAndMovedOnEachSystem(t *testing.T) {
	t.Parallel()
	for name, at := range systems(t) {
		t.Run(name, func(t *testing.T) {
			e := at("/opt/helix/helix-desktop")
			is(t, e, false)
			for _, on := range []bool{false, true, true, false, true} {
				if err := e.Set(on); err != nil {
					t.Fatal(err)
				}
				is(t, e, on)
			}
			moved := at("/usr/bin/helix-desktop")
			if err := moved.Repair(); err != nil {
				t.Fatal(err)
			}
			if c, err := moved.store.read(); err != nil || c != moved.content || !strings.Contains(c, "--hidden") {
				t.Errorf("after moving the program: %q, %v", c, err)
			}
			if err := moved.Set(false); err != nil {
				t.Fatal(err)
			}
			if err := moved.Repair(); err != nil { // what is off stays off
				t.Fatal(err)
			}
			is(t, moved, false)
		})
	}
}

func TestForeignEntryIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, at := range systems(t) {
		t.Run(name, func(t *testing.T) {
			e := at("/opt/helix/helix-desktop")
			const foreign = "something else"
			if err := e.store.write(foreign); err != nil {
				t.Fatal(err)
			}
			is(t, e, false)
			for _, on := range []bool{true, false} {
				if err := e.Set(on); !fault.Is(err, fault.Conflict) {
					t.Errorf("set %v: %v", on, err)
				}
			}
			if err := e.Repair(); err != nil {
				t.Error(err)
			}
			if c, err := e.store.read(); err != nil || c != foreign {
				t.Errorf("the entry is now %q, %v", c, err)
			}
		})
	}
}

func TestEntrySwitchedOffBySystemSettingsStaysOff(t *testing.T) {
	t.Parallel()
	e := Linux(t.TempDir(), "/opt/helix")
	for _, line := range []string{"Hidden=true\n", "X-GNOME-Autostart-enabled=false\n"} {
		if err := e.store.write(strings.Replace(e.content, "X-GNOME-Autostart-enabled=true\n", line, 1)); err != nil {
			t.Fatal(err)
		}
		is(t, e, false)
		if err := Linux(filepath.Dir(filepath.Dir(string(e.store.(file)))), "/new").Repair(); err != nil {
			t.Fatal(err)
		}
		is(t, e, false)
	}
}

// A path may contain anything; the entry still names this one program.
func TestUnusualPathsAreQuoted(t *testing.T) {
	t.Parallel()
	const exe = `/opt/a b/100%/"q"/$HOME/` + "`x`" + `/back\slash/<&>`
	line := Linux(t.TempDir(), exe).content
	_, line, _ = strings.Cut(line, "\nExec=")
	line, _, _ = strings.Cut(line, "\n")
	value := strings.NewReplacer(`\\`, `\`, `%%`, `%`).Replace(line) // as a string of the file
	quoted, ok := strings.CutSuffix(value, ` --hidden`)
	if got := strings.NewReplacer(`\\`, `\`, `\"`, `"`, "\\`", "`", `\$`, `$`).Replace(strings.Trim(quoted, `"`)); !ok || got != strings.TrimSuffix(exe, `"`) {
		t.Errorf("Exec=%s names %s", line, got)
	}
	var text []string
	for d := xml.NewDecoder(strings.NewReader(Darwin(t.TempDir(), exe).content)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if c, ok := tok.(xml.CharData); ok {
			text = append(text, string(c))
		}
	}
	if !strings.Contains(strings.Join(text, "|"), "|"+exe+"|") {
		t.Errorf("the property list holds %q", text)
	}
}

func TestUnreadableEntryIsAnError(t *testing.T) {
	t.Parallel()
	e := Linux(t.TempDir(), "/opt/helix")
	if err := os.MkdirAll(string(e.store.(file)), 0o700); err != nil { // a folder instead of the file
		t.Fatal(err)
	}
	if _, err := e.Enabled(); err == nil {
		t.Error("enabled: no error")
	}
	if err := e.Set(true); !fault.Is(err, fault.Unavailable) {
		t.Errorf("set: %v", err)
	}
}
