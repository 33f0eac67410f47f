package tray

import (
	"strings"
	"sync"
)

// Driver shows the icon and the menu on one system. Methods other than Start may be called from any
// goroutine, one at a time.
type Driver interface {
	// Start shows the icon and returns. Every click is reported with the id of its entry, or with
	// Tap for a click on the icon itself; click must not block.
	Start(click func(id string)) error
	Apply([]Op) error
	SetState(icon []byte, tooltip string)
	// HasHost reports whether something shows the icon at this moment. Without a host, a hidden
	// window could not be reached.
	HasHost() bool
	// HostChanged receives a value when HasHost may have changed; nil: it does not change.
	HostChanged() <-chan struct{}
	// Close removes the icon. It may be called again, and without Start.
	Close() error
}

// Tap is the id of a click on the icon itself.
const Tap = "tap"

// None returns a driver without an icon.
func None() Driver { return none{} }

type none struct{}

func (none) Start(func(string)) error     { return nil }
func (none) Apply([]Op) error             { return nil }
func (none) SetState([]byte, string)      {}
func (none) HasHost() bool                { return false }
func (none) HostChanged() <-chan struct{} { return nil }
func (none) Close() error                 { return nil }

// entry is what both libraries call a MenuItem.
type entry interface {
	SetTitle(string)
	Enable()
	Disable()
	Check()
	Uncheck()
	Show()
	Hide()
}

// library is what a driver calls of the library of its system.
type library struct {
	add       func(label string) (entry, <-chan struct{})
	addUnder  func(parent entry, label string) (entry, <-chan struct{})
	separator func()
	escape    func(label string) string // of characters that mark a shortcut
}

// board holds the library's entry of each slot.
type board struct {
	lib     library
	entries []entry
	done    chan struct{}
	ended   sync.Once

	mu  sync.Mutex
	ids []string // what a click on each slot reports
}

func newBoard(lib library) *board {
	return &board{lib: lib, done: make(chan struct{}), ids: make([]string, len(slots))}
}

// build makes all slots, hidden, and reports clicks until end.
func (b *board) build(click func(id string)) {
	b.entries = make([]entry, len(slots))
	for i, s := range slots {
		var clicks <-chan struct{}
		switch {
		case s.separator:
			b.lib.separator()
			continue
		case s.parent < 0:
			b.entries[i], clicks = b.lib.add("")
		default:
			b.entries[i], clicks = b.lib.addUnder(b.entries[s.parent], "")
		}
		b.entries[i].Hide()
		go b.report(i, clicks, click)
	}
}

func (b *board) report(slot int, clicks <-chan struct{}, click func(id string)) {
	for {
		select {
		case <-clicks:
			b.mu.Lock()
			id := b.ids[slot]
			b.mu.Unlock()
			if id != "" {
				click(id)
			}
		case <-b.done:
			return
		}
	}
}

// Apply changes slots.
func (b *board) Apply(ops []Op) error {
	for _, op := range ops {
		e := b.entries[op.Slot]
		switch op.Change {
		case SetID:
			b.mu.Lock()
			b.ids[op.Slot] = op.Text
			b.mu.Unlock()
		case SetLabel:
			e.SetTitle(b.lib.escape(op.Text))
		case SetEnabled:
			choose(op.On, e.Enable, e.Disable)
		case SetChecked:
			choose(op.On, e.Check, e.Uncheck)
		case SetVisible:
			choose(op.On, e.Show, e.Hide)
		}
	}
	return nil
}

func choose(on bool, yes, no func()) {
	if on {
		yes()
	} else {
		no()
	}
}

func (b *board) end() { b.ended.Do(func() { close(b.done) }) }

// doubled returns an escape function for systems on which mark underlines the next letter.
func doubled(mark string) func(string) string {
	return func(label string) string { return strings.ReplaceAll(label, mark, mark+mark) }
}
