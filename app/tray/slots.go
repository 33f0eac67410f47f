package tray

import "fmt"

// slot is one place of the menu. Slots are made once and are only relabeled, shown and hidden,
// because the library for Windows cannot remove entries.
type slot struct {
	name      string
	parent    int // index in slots; -1: top level
	separator bool
}

// slots are the places of the menu in order: parents stand before their children.
var slots = makeSlots()

// byName finds the slot of a top-level entry, and of one with a fixed place in a submenu.
var byName = func() map[string]int {
	m := map[string]int{}
	for i, s := range slots {
		m[s.name] = i
	}
	return m
}()

func makeSlots() []slot {
	var out []slot
	top := func(name string) { out = append(out, slot{name: name, parent: -1}) }
	under := func(parent string, children ...string) {
		top(parent)
		at := len(out) - 1
		for _, c := range children {
			out = append(out, slot{name: c, parent: at})
		}
	}
	separators := 0
	line := func() {
		separators++
		out = append(out, slot{name: fmt.Sprintf("separator/%d", separators), parent: -1, separator: true})
	}
	top(Header)
	top(GatewayStatus)
	top(SyncStatus)
	line()
	top(NewChat)
	top(TalkMode)
	top(RecordMemo)
	under(RunSkill, places(RunSkill, maxSkills)...)
	line()
	under(Agents, places(Agents, maxEntries)...)
	under(Channels, places(Channels, maxEntries)...)
	line()
	top(Settings)
	top(Approvals)
	line()
	under(Pause, places(Pause, 2)...)
	top(Resume)
	top(ShowWindow)
	top(Restart)
	line()
	top(Quit)
	return out
}

// places returns the names of a submenu's slots: n and one for "Show all…".
func places(parent string, n int) []string {
	out := make([]string, n+1)
	for i := range out {
		out[i] = place(parent, i)
	}
	return out
}

func place(parent string, i int) string { return fmt.Sprintf("%s/%d", parent, i) }

// Change is what an Op changes.
type Change string

// The changes.
const (
	SetID      Change = "id" // what a click on the slot reports
	SetLabel   Change = "label"
	SetEnabled Change = "enabled"
	SetChecked Change = "checked"
	SetVisible Change = "visible"
)

// Op is one change of one slot.
type Op struct {
	Slot   int
	Change Change
	Text   string // of SetID and SetLabel
	On     bool   // of SetEnabled, SetChecked and SetVisible
}

// cell is the content of a slot.
type cell struct {
	id, label                 string
	enabled, checked, visible bool
}

// cells puts the entries of a menu into their slots. Separators are always visible.
func cells(items []Item) []cell {
	out := make([]cell, len(slots))
	put := func(name string, it Item) {
		out[byName[name]] = cell{it.ID, it.Label, it.Enabled, it.Checked, true}
	}
	for _, it := range items {
		if it.Separator {
			continue
		}
		put(it.ID, it)
		for i, c := range it.Children {
			put(place(it.ID, i), c)
		}
	}
	return out
}

// Diff returns the changes that lead from the menu old to the menu new; none if they are equal. Old
// is nil before the first menu, where every slot is hidden.
func Diff(old, new []Item) []Op {
	var ops []Op
	from, to := cells(old), cells(new)
	for i := range slots {
		a, b := from[i], to[i]
		if !b.visible {
			if a.visible {
				ops = append(ops, Op{Slot: i, Change: SetVisible})
			}
			continue
		}
		if a.id != b.id {
			ops = append(ops, Op{Slot: i, Change: SetID, Text: b.id})
		}
		if a.label != b.label || !a.visible {
			ops = append(ops, Op{Slot: i, Change: SetLabel, Text: b.label})
		}
		if a.enabled != b.enabled || !a.visible {
			ops = append(ops, Op{Slot: i, Change: SetEnabled, On: b.enabled})
		}
		if a.checked != b.checked || !a.visible {
			ops = append(ops, Op{Slot: i, Change: SetChecked, On: b.checked})
		}
		if !a.visible {
			ops = append(ops, Op{Slot: i, Change: SetVisible, On: true})
		}
	}
	return ops
}
