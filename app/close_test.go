package app

import "testing"

func TestCloseAction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		s    closeState
		want closing
	}{
		{"nothing to lose", closeState{canAsk: true}, quit},
		{"to the tray", closeState{trayHost: true, closeToTray: true, canAsk: true}, hide},
		{"to the tray while working", closeState{trayHost: true, closeToTray: true, busy: true, canAsk: true}, hide},
		{"no tray", closeState{closeToTray: true, canAsk: true}, quit},
		{"no tray while working", closeState{closeToTray: true, busy: true, canAsk: true}, ask},
		{"switched off while working", closeState{trayHost: true, busy: true, canAsk: true}, ask},
		{"switched off", closeState{trayHost: true, canAsk: true}, quit},
		{"a page that cannot ask", closeState{busy: true}, quit},
		{"Quit was chosen", closeState{quitting: true, trayHost: true, closeToTray: true, busy: true, canAsk: true}, quit},
		{"a signal without a tray", closeState{quitting: true, busy: true, canAsk: true}, quit},
	} {
		if got := closeAction(c.s); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	// Every combination: without a host nothing is ever hidden, and quitting always quits.
	for i := range 32 {
		s := closeState{i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0, i&16 != 0}
		if got := closeAction(s); s.quitting && got != quit || got == hide && !s.trayHost || got == ask && !s.canAsk {
			t.Errorf("%+v: %s", s, got)
		}
	}
}
