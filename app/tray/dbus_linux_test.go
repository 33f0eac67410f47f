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

	"go.uber.org/goleak"

	"helix/app/tray/traytest"
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

// bare leaves what the bus transports: no ids, no check marks (they are in the label).
func bare(items []Item) []traytest.Entry {
	var out []traytest.Entry
	for _, it := range items {
		out = append(out, traytest.Entry{Label: it.Label, Enabled: it.Enabled, Separator: it.Separator, Children: bare(it.Children)})
	}
	return out
}

func TestIconAndMenuOnTheSessionBus(t *testing.T) {
	t.Parallel()
	b := traytest.StartBus(t)
	panel := b.StartPanel()
	p := startProgram(t, "DBUS_SESSION_BUS_ADDRESS="+b.Addr)
	if got := p.until("started"); got != "started true" {
		t.Fatalf("with a panel: %s", got)
	}
	item := receive(t, "the icon", panel.Items)
	for name, s := range map[string]State{
		"filled": filled,
		"names":  with(func(s *State) { s.Skills = []Entry{{ID: "1", Name: "snake_case & more"}, {ID: "2", Name: "__"}} }),
		"many":   with(func(s *State) { s.Agents, s.Skills = entries(25), entries(12) }),
		"paused": with(func(s *State) { s.Paused, s.Microphone = true, false }),
		"empty":  {},
	} {
		p.show(s)
		if got, _ := panel.Layout(item); !reflect.DeepEqual(got, bare(Menu(s))) {
			t.Errorf("%s: the panel shows\n%+v\nwant\n%+v", name, got, bare(Menu(s)))
		}
	}
	if id := panel.Property(item, "Id"); id != "Helix" {
		t.Errorf("the icon's id is %v", id)
	}
	looks := map[string]bool{}
	for _, s := range []State{{}, {Jobs: 2}, {Recording: true}, {Error: "disk full"}} {
		p.show(s)
		_, want := Appearance(s)
		if tip := fmt.Sprint(panel.Property(item, "ToolTip")); !strings.Contains(tip, want) {
			t.Errorf("the tooltip is %s, want %s", tip, want)
		}
		looks[fmt.Sprint(panel.Property(item, "IconPixmap"))] = true
	}
	if len(looks) != 4 {
		t.Errorf("%d different icons for 4 states", len(looks))
	}
}

func TestEveryEntryReportsItsClick(t *testing.T) {
	t.Parallel()
	b := traytest.StartBus(t)
	panel := b.StartPanel()
	p := startProgram(t, "DBUS_SESSION_BUS_ADDRESS="+b.Addr)
	p.until("started")
	item := receive(t, "the icon", panel.Items)
	for _, s := range []State{filled, with(func(s *State) {
		s.Skills = append([]Entry{{ID: "first", Name: "First"}}, s.Skills...) // every slot has another id now
		s.Paused, s.Sync, s.SyncCount = true, SyncConflicts, 2
		s.Agents = entries(25)
	})} {
		p.show(s)
		_, ids := panel.Layout(item)
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
					return panel.Click(item, id)
				})
			}
		}
		click(Menu(s), "")
	}
	p.clicked(Tap, func() error {
		return panel.Conn.Object(item, "/StatusNotifierItem").Call("org.kde.StatusNotifierItem.Activate", 0, int32(0), int32(0)).Err
	})
}

func TestPanelThatStartsLateAndEnds(t *testing.T) {
	t.Parallel()
	b := traytest.StartBus(t)
	p := startProgram(t, "DBUS_SESSION_BUS_ADDRESS="+b.Addr)
	if got := p.until("started"); got != "started false" {
		t.Fatalf("without a panel: %s", got)
	}
	p.show(filled)
	panel := b.StartPanel()
	item := receive(t, "the icon", panel.Items)
	p.until("host true")
	if got, _ := panel.Layout(item); !reflect.DeepEqual(got, bare(Menu(filled))) {
		t.Errorf("the late panel shows %+v", got)
	}
	if err := panel.Conn.Close(); err != nil {
		t.Fatal(err)
	}
	p.until("host false")
	receive(t, "the icon again", b.StartPanel().Items)
	p.until("host true")
	b.Kill()
	p.until("host false")
}

func TestIconDisappearsWithTheProgram(t *testing.T) {
	t.Parallel()
	b := traytest.StartBus(t)
	panel := b.StartPanel()
	p := startProgram(t, "DBUS_SESSION_BUS_ADDRESS="+b.Addr)
	p.until("started")
	item := receive(t, "the icon", panel.Items)
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	for range p.lines { // until it ends
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	var owned bool
	if err := panel.Conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, item).Store(&owned); err != nil || owned {
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
