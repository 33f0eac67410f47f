// Package autostart makes a program start with the computer, through the entry that the system
// itself reads, so that the system's own settings and Helix agree. Only app imports it.
package autostart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"helix/backend/fault"
)

// AppID is the id of the program on all systems.
const AppID = "org.project-helix.desktop"

// Entry is the entry of one program.
type Entry struct {
	store   store
	content string // of an entry that is on
	ours    func(content string) bool
	off     func(content string) bool // present, but switched off by the system's settings
}

// store is where a system keeps the entry.
type store interface {
	read() (content string, err error) // fs.ErrNotExist: there is none
	write(content string) error
	remove() error
}

// Linux returns the entry of the XDG autostart folder below configHome.
func Linux(configHome, exe string) Entry {
	const mark = "X-Helix-Autostart=true"
	return Entry{
		store: file(filepath.Join(configHome, "autostart", AppID+".desktop")),
		content: "[Desktop Entry]\nType=Application\nName=Helix\nComment=A private assistant workbench\n" +
			"Exec=" + desktopQuote(exe) + " --hidden\nIcon=" + AppID + "\nTerminal=false\nX-GNOME-Autostart-enabled=true\n" + mark + "\n",
		ours: func(c string) bool { return hasLine(c, mark) },
		off:  func(c string) bool { return hasLine(c, "Hidden=true") || hasLine(c, "X-GNOME-Autostart-enabled=false") },
	}
}

// Darwin returns the launch agent below home.
func Darwin(home, exe string) Entry {
	return Entry{
		store: file(filepath.Join(home, "Library", "LaunchAgents", AppID+".plist")),
		content: `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key><string>` + AppID + `</string>
	<key>ProgramArguments</key><array><string>` + escapeXML(exe) + `</string><string>--hidden</string></array>
	<key>RunAtLoad</key><true/>
	<key>ProcessType</key><string>Interactive</string>
</dict>
</plist>
`,
		ours: func(c string) bool {
			return strings.Contains(c, "<string>"+AppID+"</string>") && strings.Contains(c, "<string>--hidden</string>")
		},
		off: func(c string) bool { return strings.Contains(c, "<key>Disabled</key><true/>") },
	}
}

// windows returns the value of the Run key in s.
func windows(s store, exe string) Entry {
	return Entry{
		store: s, content: `"` + exe + `" --hidden`,
		ours: func(c string) bool {
			return strings.HasPrefix(c, `"`) && strings.HasSuffix(strings.ToLower(c), `\`+strings.ToLower(windowsBase(exe))+`" --hidden`)
		},
		off: func(string) bool { return false },
	}
}

func windowsBase(path string) string { return path[strings.LastIndexByte(path, '\\')+1:] }

// Enabled reports whether the system starts the program.
func (e Entry) Enabled() (bool, error) {
	c, err := e.store.read()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && e.ours(c) && !e.off(c), err
}

// Set writes or removes the entry. An entry of the same name that something else has written is
// left alone: Conflict.
func (e Entry) Set(on bool) error {
	c, err := e.store.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !on {
			return nil
		}
	case err != nil:
		return fault.Unavailablef("Couldn't read the autostart entry. Check the permissions of your configuration folder.").WithCause(err)
	case !e.ours(c):
		return fault.Conflictf("Another program has written the autostart entry of Helix. Remove it in your system's settings first.")
	}
	if on {
		err = e.store.write(e.content)
	} else {
		err = e.store.remove()
	}
	if err != nil {
		return fault.Unavailablef("Couldn't change the autostart entry. Check the permissions of your configuration folder.").WithCause(err)
	}
	return nil
}

// Repair corrects an entry of ours that names a place where the program no longer is. An entry that
// the system's settings have switched off stays so.
func (e Entry) Repair() error {
	c, err := e.store.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !e.ours(c) || e.off(c) || c == e.content {
		return err
	}
	return e.store.write(e.content)
}

func hasLine(content, line string) bool {
	for l := range strings.SplitSeq(content, "\n") {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}

// desktopQuote quotes one argument of Exec. Its value is unescaped twice: as a string of the file,
// and as an argument; a percent sign begins a field code.
func desktopQuote(arg string) string {
	arg = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(arg)
	arg = strings.NewReplacer(`\`, `\\`, `%`, `%%`, "\n", `\n`, "\t", `\t`).Replace(arg)
	return `"` + arg + `"`
}

func escapeXML(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // a buffer cannot fail
	}
	return b.String()
}

// file is an entry that is a file.
type file string

func (f file) read() (string, error) {
	b, err := os.ReadFile(string(f))
	return string(b), err
}

func (f file) write(content string) error {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o700); err != nil {
		return err
	}
	tmp := string(f) + ".new"
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, string(f))
}

func (f file) remove() error { return os.Remove(string(f)) }
