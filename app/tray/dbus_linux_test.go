package tray

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"go.uber.org/goleak"
)

// TestMain also is the program whose icon the tests look at: the library allows one icon in a
// process.
func TestMain(m *testing.M) {
	if os.Getenv("HELIX_TRAY_CHILD") != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// child shows the states that it reads, one a line, and reports clicks and changes of the host.
func child() int {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	d := New()
	if err := d.Start(func(id string) { say("click %s", id) }); err != nil {
		say("failed %v", err)
		return 3
	}
	say("started %v", d.HasHost())
	end := make(chan struct{})
	go func() {
		for {
			select {
			case <-d.HostChanged():
				say("host %v", d.HasHost())
			case <-end:
				return
			}
		}
	}()
	var old []Item
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var s State
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			say("bad %v", err)
			return 1
		}
		menu := Menu(s)
		if err := d.Apply(Diff(old, menu)); err != nil {
			say("bad %v", err)
		}
		look, tip := Appearance(s)
		d.SetState(Icon(look), tip)
		old = menu
		say("applied")
	}
	close(end)
	if err := d.Close(); err != nil {
		say("bad %v", err)
		return 1
	}
	return 0
}

// bus is a session bus of this test alone.
type bus struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

func startBus(t *testing.T) *bus {
	t.Helper()
	b := &bus{t: t, addr: "unix:path=" + filepath.Join(shortDir(t), "bus")}
	b.cmd = exec.Command("dbus-daemon", "--session", "--nofork", "--nopidfile", "--address="+b.addr, "--print-address=1")
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.kill)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it listens now
		t.Fatalf("no session bus: %v", err)
	}
	return b
}

// shortDir is a folder whose path fits into the address of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "htray")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (b *bus) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// panel is a StatusNotifierWatcher and host.
type panel struct {
	t     *testing.T
	conn  *dbus.Conn
	items chan string // bus names of the icons
}

// RegisterStatusNotifierItem is called by programs with an icon.
func (p *panel) RegisterStatusNotifierItem(_ string, from dbus.Sender) *dbus.Error {
	p.items <- string(from)
	return nil
}

// RegisterStatusNotifierHost is part of the interface.
func (p *panel) RegisterStatusNotifierHost(string) *dbus.Error { return nil }

func (b *bus) startPanel() *panel {
	b.t.Helper()
	conn, err := dbus.Connect(b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	p := &panel{t: b.t, conn: conn, items: make(chan string, 8)}
	if err := conn.Export(p, watcherPath, watcherName); err != nil {
		b.t.Fatal(err)
	}
	if _, err := prop.Export(conn, watcherPath, prop.Map{watcherName: {
		"IsStatusNotifierHostRegistered": {Value: true, Emit: prop.EmitTrue},
	}}); err != nil {
		b.t.Fatal(err)
	}
	if r, err := conn.RequestName(watcherName, dbus.NameFlagDoNotQueue); err != nil || r != dbus.RequestNameReplyPrimaryOwner {
		b.t.Fatalf("the watcher's name: %v, %v", r, err)
	}
	return p
}

// limit only has to end before the test binary is stopped.
const limit = 2 * time.Minute

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatalf("%s: the program ended", what)
		}
		return v
	case <-timer.C:
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// program is a running child.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	seen  string // the last reported click, which may arrive twice
}

func startProgram(t *testing.T, env ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 64)}
	p.cmd.Env = append(append(os.Environ(), "HELIX_TRAY_CHILD=1", "XDG_RUNTIME_DIR="+t.TempDir()), env...)
	p.cmd.Stderr = io.Discard // the library logs there that no panel is running
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.in.Close()
		_ = p.cmd.Process.Kill()
		for range p.lines { // until the reader ends
		}
		<-read
		_ = p.cmd.Wait()
	})
	return p
}

// until reads lines up to one that begins with want, and returns it.
func (p *program) until(want string) string {
	p.t.Helper()
	for {
		if l := receive(p.t, want, p.lines); strings.HasPrefix(l, want) {
			return l
		}
	}
}

// clicked clicks until the program reports id. The library drops a click whose reader is not
// waiting yet, so the click is repeated; a report of another entry fails the test.
func (p *program) clicked(id string, click func() error) {
	p.t.Helper()
	again := time.NewTicker(2 * time.Second)
	defer again.Stop()
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		if err := click(); err != nil {
			p.t.Fatal(err)
		}
		for waiting := true; waiting; {
			select {
			case l, ok := <-p.lines:
				switch {
				case !ok:
					p.t.Fatal("the program ended")
				case l == "click "+id:
					p.seen = id
					return
				case strings.HasPrefix(l, "click ") && l != "click "+p.seen:
					p.t.Fatalf("a click on %s reports %q", id, l)
				}
			case <-again.C:
				waiting = false
			case <-end.C:
				p.t.Fatalf("no click on %s is reported", id)
			}
		}
	}
}

func (p *program) show(s State) {
	p.t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", b); err != nil {
		p.t.Fatal(err)
	}
	p.until("applied")
}

// node is one entry of com.canonical.dbusmenu.
type node struct {
	ID    int32
	Props map[string]dbus.Variant
	Kids  []dbus.Variant
}

const dbusmenu = "com.canonical.dbusmenu"

func (p *panel) menu(item string) dbus.BusObject {
	p.t.Helper()
	v, err := p.conn.Object(item, "/StatusNotifierItem").GetProperty("org.kde.StatusNotifierItem.Menu")
	if err != nil {
		p.t.Fatal(err)
	}
	return p.conn.Object(item, v.Value().(dbus.ObjectPath))
}

// layout reads the visible menu, as a panel shows it; ids has the numbers of the entries by label.
func (p *panel) layout(item string) (shown []Item, ids map[string]int32) {
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
	var read func(n node, under string) []Item
	read = func(n node, under string) (out []Item) {
		for _, k := range n.Kids {
			var c node
			if err := dbus.Store([]any{k.Value()}, &c); err != nil {
				p.t.Fatal(err)
			}
			if v, ok := c.Props["visible"]; ok && v.Value() == false {
				continue
			}
			if c.Props["type"].Value() == "separator" {
				out = append(out, Item{Separator: true})
				continue
			}
			text, _ := c.Props["label"].Value().(string)
			it := Item{Label: strings.ReplaceAll(text, "__", "_"), Enabled: c.Props["enabled"].Value() == true}
			ids[under+it.Label] = c.ID
			it.Children = read(c, it.Label+" > ")
			out = append(out, it)
		}
		return out
	}
	return read(get(), ""), ids
}

// bare leaves what the bus transports: no ids, no check marks (they are in the label).
func bare(items []Item) []Item {
	var out []Item
	for _, it := range items {
		out = append(out, Item{Label: it.Label, Enabled: it.Enabled, Separator: it.Separator, Children: bare(it.Children)})
	}
	return out
}

func (p *panel) property(item, name string) any {
	p.t.Helper()
	v, err := p.conn.Object(item, "/StatusNotifierItem").GetProperty("org.kde.StatusNotifierItem." + name)
	if err != nil {
		p.t.Fatal(err)
	}
	return v.Value()
}

func TestIconAndMenuOnTheSessionBus(t *testing.T) {
	t.Parallel()
	b := startBus(t)
	panel := b.startPanel()
	p := startProgram(t, "DBUS_SESSION_BUS_ADDRESS="+b.addr)
	if got := p.until("started"); got != "started true" {
		t.Fatalf("with a panel: %s", got)
	}
	item := receive(t, "the icon", panel.items)
	for name, s := range map[string]State{
		"filled": filled,
		"names":  with(func(s *State) { s.Skills = []Entry{{ID: "1", Name: "snake_case & more"}, {ID: "2", Name: "__"}} }),
		"many":   with(func(s *State) { s.Agents, s.Skills = entries(25), entries(12) }),
		"paused": with(func(s *State) { s.Paused, s.Microphone = true, false }),
		"empty":  {},
	} {
		p.show(s)
		if got, _ := panel.layout(item); !reflect.DeepEqual(got, bare(Menu(s))) {
			t.Errorf("%s: the panel shows\n%+v\nwant\n%+v", name, got, bare(Menu(s)))
		}
	}
	if id := panel.property(item, "Id"); id != "Helix" {
		t.Errorf("the icon's id is %v", id)
	}
	looks := map[string]bool{}
	for _, s := range []State{{}, {Jobs: 2}, {Recording: true}, {Error: "disk full"}} {
		p.show(s)
		_, want := Appearance(s)
		if tip := fmt.Sprint(panel.property(item, "ToolTip")); !strings.Contains(tip, want) {
			t.Errorf("the tooltip is %s, want %s", tip, want)
		}
		looks[fmt.Sprint(panel.property(item, "IconPixmap"))] = true
	}
	if len(looks) != 4 {
		t.Errorf("%d different icons for 4 states", len(looks))
	}
}

func TestEveryEntryReportsItsClick(t *testing.T) {
	t.Parallel()
	b := startBus(t)
	panel := b.startPanel()
	p := startProgram(t, "DBUS_SESSION_BUS_ADDRESS="+b.addr)
	p.until("started")
	item := receive(t, "the icon", panel.items)
	for _, s := range []State{filled, with(func(s *State) {
		s.Skills = append([]Entry{{ID: "first", Name: "First"}}, s.Skills...) // every slot has another id now
		s.Paused, s.Sync, s.SyncCount = true, SyncConflicts, 2
		s.Agents = entries(25)
	})} {
		p.show(s)
		_, ids := panel.layout(item)
		var click func(items []Item, under string)
		click = func(items []Item, under string) {
			for _, it := range items {
				if !it.Enabled || it.Separator {
					continue
				}
				if len(it.Children) > 0 {
					click(it.Children, it.Label+" > ")
					continue
				}
				id, ok := ids[under+it.Label]
				if !ok {
					t.Fatalf("the panel has no %s%s", under, it.Label)
				}
				p.clicked(it.ID, func() error {
					return panel.menu(item).Call(dbusmenu+".Event", 0, id, "clicked", dbus.MakeVariant(int32(0)), uint32(0)).Err
				})
			}
		}
		click(Menu(s), "")
	}
	p.clicked(Tap, func() error {
		return panel.conn.Object(item, "/StatusNotifierItem").Call("org.kde.StatusNotifierItem.Activate", 0, int32(0), int32(0)).Err
	})
}

func TestPanelThatStartsLateAndEnds(t *testing.T) {
	t.Parallel()
	b := startBus(t)
	p := startProgram(t, "DBUS_SESSION_BUS_ADDRESS="+b.addr)
	if got := p.until("started"); got != "started false" {
		t.Fatalf("without a panel: %s", got)
	}
	p.show(filled)
	panel := b.startPanel()
	item := receive(t, "the icon", panel.items)
	p.until("host true")
	if got, _ := panel.layout(item); !reflect.DeepEqual(got, bare(Menu(filled))) {
		t.Errorf("the late panel shows %+v", got)
	}
	if err := panel.conn.Close(); err != nil {
		t.Fatal(err)
	}
	p.until("host false")
	receive(t, "the icon again", b.startPanel().items)
	p.until("host true")
	b.kill()
	p.until("host false")
}

func TestIconDisappearsWithTheProgram(t *testing.T) {
	t.Parallel()
	b := startBus(t)
	panel := b.startPanel()
	p := startProgram(t, "DBUS_SESSION_BUS_ADDRESS="+b.addr)
	p.until("started")
	item := receive(t, "the icon", panel.items)
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	for range p.lines { // until it ends
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	var owned bool
	if err := panel.conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, item).Store(&owned); err != nil || owned {
		t.Errorf("the icon's connection is open: %v, %v", owned, err)
	}
}

// Without a session bus there is no icon, no crash, and no bus is started.
func TestNoSessionBus(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"disabled:", "unix:path=" + filepath.Join(t.TempDir(), "none")} {
		p := startProgram(t, "DBUS_SESSION_BUS_ADDRESS="+address)
		if got := p.until("failed"); !strings.Contains(got, "no session bus") {
			t.Errorf("%s: %s", address, got)
		}
	}
}
