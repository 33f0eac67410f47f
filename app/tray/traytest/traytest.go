// Package traytest is a panel that shows status icons, for tests. Only tests import it.
package traytest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

// The service that programs register their icons with.
const (
	WatcherName = "org.kde.StatusNotifierWatcher"
	WatcherPath = dbus.ObjectPath("/StatusNotifierWatcher")
)

// Entry is one visible entry of a menu.
type Entry struct {
	Label     string
	Enabled   bool
	Separator bool
	Children  []Entry
}

// Bus is a session bus of this test alone.
type Bus struct {
	t    testing.TB
	Addr string
	cmd  *exec.Cmd
}

// StartBus starts it until the test ends.
func StartBus(t testing.TB) *Bus {
	t.Helper()
	b := &Bus{t: t, Addr: "unix:path=" + filepath.Join(shortDir(t), "bus")}
	b.cmd = exec.Command("dbus-daemon", "--session", "--nofork", "--nopidfile", "--address="+b.Addr, "--print-address=1")
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it listens now
		t.Fatalf("no session bus: %v", err)
	}
	return b
}

// shortDir is a folder whose path fits into the address of a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "htray")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Kill ends the bus.
func (b *Bus) Kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// Panel is a StatusNotifierWatcher and host.
type Panel struct {
	t    testing.TB
	Conn *dbus.Conn
	// Items receives the bus names of the icons.
	Items chan string
}

// RegisterStatusNotifierItem is called by programs with an icon.
func (p *Panel) RegisterStatusNotifierItem(_ string, from dbus.Sender) *dbus.Error {
	p.Items <- string(from)
	return nil
}

// RegisterStatusNotifierHost is part of the interface.
func (p *Panel) RegisterStatusNotifierHost(string) *dbus.Error { return nil }

// StartPanel shows icons on the bus until the test ends.
func (b *Bus) StartPanel() *Panel { return StartPanel(b.t, b.Addr) }

// StartPanel shows icons on the bus at addr until the test ends.
func StartPanel(t testing.TB, addr string) *Panel {
	t.Helper()
	conn, err := dbus.Connect(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &Panel{t: t, Conn: conn, Items: make(chan string, 8)}
	if err := conn.Export(p, WatcherPath, WatcherName); err != nil {
		t.Fatal(err)
	}
	if _, err := prop.Export(conn, WatcherPath, prop.Map{WatcherName: {
		"IsStatusNotifierHostRegistered": {Value: true, Emit: prop.EmitTrue},
	}}); err != nil {
		t.Fatal(err)
	}
	if r, err := conn.RequestName(WatcherName, dbus.NameFlagDoNotQueue); err != nil || r != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("the watcher's name: %v, %v", r, err)
	}
	return p
}

// node is one entry of com.canonical.dbusmenu.
type node struct {
	ID    int32
	Props map[string]dbus.Variant
	Kids  []dbus.Variant
}

// Click clicks the entry with this number of Layout.
func (p *Panel) Click(item string, id int32) error {
	return p.menu(item).Call(dbusmenu+".Event", 0, id, "clicked", dbus.MakeVariant(int32(0)), uint32(0)).Err
}

const dbusmenu = "com.canonical.dbusmenu"

func (p *Panel) menu(item string) dbus.BusObject {
	p.t.Helper()
	v, err := p.Conn.Object(item, "/StatusNotifierItem").GetProperty("org.kde.StatusNotifierItem.Menu")
	if err != nil {
		p.t.Fatal(err)
	}
	return p.Conn.Object(item, v.Value().(dbus.ObjectPath))
}

// Layout reads the visible menu, as a panel shows it; ids has the numbers of the entries by label.
func (p *Panel) Layout(item string) (shown []Entry, ids map[string]int32) {
	p.t.Helper()
	get := func() (n node) {
		var revision uint32
		if err := p.menu(item).Call(dbusmenu+".GetLayout", 0, int32(0), int32(-1), []string{}).Store(&revision, &n); err != nil {
			p.t.Fatal(err)
		}
		return n
	}
	get() // the library answers the first request without submenus, as some panels need it
	ids = map[string]int32{}
	var read func(n node, under string) []Entry
	read = func(n node, under string) (out []Entry) {
		for _, k := range n.Kids {
			var c node
			if err := dbus.Store([]any{k.Value()}, &c); err != nil {
				p.t.Fatal(err)
			}
			if v, ok := c.Props["visible"]; ok && v.Value() == false {
				continue
			}
			if c.Props["type"].Value() == "separator" {
				out = append(out, Entry{Separator: true})
				continue
			}
			text, _ := c.Props["label"].Value().(string)
			it := Entry{Label: strings.ReplaceAll(text, "__", "_"), Enabled: c.Props["enabled"].Value() == true}
			ids[under+it.Label] = c.ID
			it.Children = read(c, it.Label+" > ")
			out = append(out, it)
		}
		return out
	}
	return read(get(), ""), ids
}

// Property reads a property of an icon.
func (p *Panel) Property(item, name string) any {
	p.t.Helper()
	v, err := p.Conn.Object(item, "/StatusNotifierItem").GetProperty("org.kde.StatusNotifierItem." + name)
	if err != nil {
		p.t.Fatal(err)
	}
	return v.Value()
}
