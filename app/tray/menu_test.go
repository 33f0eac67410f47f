package tray

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files")

func entries(n int) []Entry {
	out := make([]Entry, n)
	for i := range out {
		out[i] = Entry{ID: fmt.Sprint("id", i+1), Name: fmt.Sprint("Entry ", i+1), Active: i%2 == 0}
	}
	return out
}

var filled = State{
	GatewayRunning: true, Sync: SyncCurrent, Microphone: true, WindowVisible: true,
	Skills: entries(3), Agents: entries(2), Channels: entries(2), Approvals: 1,
}

func with(change func(*State)) State {
	s := filled
	change(&s)
	return s
}

// TestMenuForEveryState compares the menu of each state with testdata/menu.txt.
func TestMenuForEveryState(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, c := range []struct {
		name  string
		state State
	}{
		{"empty", State{}},
		{"filled", filled},
		{"25 agents, 25 channels, 12 skills", with(func(s *State) { s.Agents, s.Channels, s.Skills = entries(25), entries(25), entries(12) })},
		{"no approvals", with(func(s *State) { s.Approvals = 0 })},
		{"120 approvals", with(func(s *State) { s.Approvals = 120 })},
		{"syncing", with(func(s *State) { s.Sync, s.SyncCount = Syncing, 7 })},
		{"syncing, number unknown", with(func(s *State) { s.Sync = Syncing })},
		{"offline", with(func(s *State) { s.Sync, s.SyncCount = SyncOffline, 3 })},
		{"offline, nothing waits", with(func(s *State) { s.Sync = SyncOffline })},
		{"one conflict", with(func(s *State) { s.Sync, s.SyncCount = SyncConflicts, 1 })},
		{"conflicts", with(func(s *State) { s.Sync, s.SyncCount = SyncConflicts, 2 })},
		{"talk mode", with(func(s *State) { s.TalkMode = true })},
		{"recording", with(func(s *State) { s.Recording, s.Recorded = true, 42*time.Second })},
		{"long recording", with(func(s *State) { s.Recording, s.Recorded = true, 61*time.Minute+5*time.Second })},
		{"paused, window hidden, working", with(func(s *State) { s.Paused, s.WindowVisible, s.Jobs = true, false, 3 })},
		{"problem", with(func(s *State) { s.Error = "database damaged" })},
		{"names", with(func(s *State) {
			s.Skills = []Entry{
				{ID: "1", Name: "snake_case & more"}, {ID: "2", Name: "\u202bשלום\u202c עולם"}, {ID: "3", Name: "evil\u202e\nname\t\x00"},
				{ID: "4", Name: strings.Repeat("long ", 40)}, {ID: "5", Name: "bad \xff bytes"},
			}
		})},
	} {
		look, tip := Appearance(c.state)
		fmt.Fprintf(&out, "== %s\n   %s icon, %q\n", c.name, look, tip)
		write(&out, Menu(c.state), "")
	}
	golden(t, filepath.Join("testdata", "menu.txt"), out.String())
}

func write(out *strings.Builder, items []Item, indent string) {
	for _, it := range items {
		if it.Separator {
			fmt.Fprintf(out, "%s---\n", indent)
			continue
		}
		mark := ""
		if !it.Enabled {
			mark = " (disabled)"
		}
		if it.Checked {
			mark += " (checked)"
		}
		fmt.Fprintf(out, "%s%-24s %s%s\n", indent, it.ID, it.Label, mark)
		write(out, it.Children, indent+"    ")
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s differs (%v); run with -update and look at the change. Got:\n%s", path, err, got)
	}
}

// fake is a menu as a driver would show it: only what Apply changed.
type fake struct{ cells []cell }

func (f *fake) apply(t *testing.T, ops []Op) {
	t.Helper()
	for _, op := range ops {
		if slots[op.Slot].separator {
			t.Fatalf("an operation on a separator: %+v", op)
		}
		c := &f.cells[op.Slot]
		switch op.Change {
		case SetID:
			c.id = op.Text
		case SetLabel:
			c.label = op.Text
		case SetEnabled:
			c.enabled = op.On
		case SetChecked:
			c.checked = op.On
		case SetVisible:
			c.visible = op.On
		}
	}
}

// shown returns the visible menu of the slots, in the order in which they were made.
func (f *fake) shown() []Item {
	out := []Item{}
	index := map[int]int{}
	for i, s := range slots {
		c := f.cells[i]
		switch {
		case s.separator:
			out = append(out, Item{Separator: true})
		case !c.visible:
		case s.parent < 0:
			index[i] = len(out)
			out = append(out, Item{ID: c.id, Label: c.label, Enabled: c.enabled, Checked: c.checked})
		default:
			parent := &out[index[s.parent]]
			parent.Children = append(parent.Children, Item{ID: c.id, Label: c.label, Enabled: c.enabled, Checked: c.checked})
		}
	}
	return out
}

func randomState(r *rand.Rand) State {
	coin := func() bool { return r.IntN(2) == 0 }
	some := func(most int) []Entry {
		all := entries(most)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:r.IntN(most+1)]
	}
	return State{
		GatewayRunning: coin(), Sync: []SyncState{SyncOff, SyncCurrent, Syncing, SyncOffline, SyncConflicts}[r.IntN(5)], SyncCount: 1 + r.IntN(9),
		TalkMode: coin(), Microphone: coin(), Recording: coin(), Recorded: time.Duration(r.IntN(5000)) * time.Second,
		Skills: some(14), Agents: some(25), Channels: some(25),
		Approvals: r.IntN(3), Paused: coin(), WindowVisible: coin(),
	}
}

// The menu after any series of differences is the menu of the last state.
func TestDiffLeadsToTheNewMenu(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	f := &fake{cells: make([]cell, len(slots))}
	var old []Item
	for i := range 2000 {
		s := randomState(r)
		menu := Menu(s)
		f.apply(t, Diff(old, menu))
		if got := f.shown(); !reflect.DeepEqual(got, menu) {
			t.Fatalf("step %d, state %+v\nshown %+v\nwant  %+v", i, s, got, menu)
		}
		if ops := Diff(menu, Menu(s)); len(ops) != 0 {
			t.Fatalf("an unchanged menu gives %+v", ops)
		}
		old = menu
	}
}

func TestLabelsAreOneShortLineOfText(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", strings.Repeat("x", 200), "a\nb\u2028c", "\u202eabc", "\xff\xfe", "\u200b", strings.Repeat("é", 61)} {
		got := label(name)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > maxLabel || strings.ContainsAny(got, "\n\r\t\u2028\u202e\u200b\x00") {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

func TestIconsDifferInShape(t *testing.T) {
	t.Parallel()
	seen := map[string]Look{}
	for _, look := range []Look{Idle, Listening, Processing, Failed} {
		img := draw(look, iconInk)
		var shape strings.Builder // alpha only: color carries no meaning
		for i := 3; i < len(img.Pix); i += 4 {
			shape.WriteByte(img.Pix[i])
		}
		if other, ok := seen[shape.String()]; ok {
			t.Errorf("%s and %s have the same shape", look, other)
		}
		seen[shape.String()] = look
		if b := ico(img); len(b) != 22+40+32*32*4+32*32/8 {
			t.Errorf("the Windows icon has %d bytes", len(b))
		}
	}
}

// The library for Windows cannot be linked into the other programs: its class on macOS has the name
// of the window's, and on Linux its quit ends the window's loop.
func TestWindowsLibraryIsImportedOnlyThere(t *testing.T) {
	t.Parallel()
	var found []string
	for _, dir := range []string{".", "..", filepath.Join("..", "..")} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if strings.Contains(i.Path.Value, "getlantern") {
					found = append(found, filepath.Clean(name))
				}
			}
		}
	}
	if !slices.Equal(found, []string{"tray_windows.go"}) {
		t.Errorf("imported in %v", found)
	}
}
