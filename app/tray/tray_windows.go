package tray

import (
	"runtime"

	"github.com/getlantern/systray"
)

// New returns the driver of this system: an icon in the notification area. Both mouse buttons open
// the menu, because the library reports no click on the icon.
func New() Driver {
	return &windowsTray{board: newBoard(library{
		add: func(label string) (entry, <-chan struct{}) {
			m := systray.AddMenuItem(label, "")
			return m, m.ClickedCh
		},
		addUnder: func(parent entry, label string) (entry, <-chan struct{}) {
			m := parent.(*systray.MenuItem).AddSubMenuItem(label, "")
			return m, m.ClickedCh
		},
		separator: systray.AddSeparator,
		escape:    doubled("&"),
	}), ended: make(chan struct{})}
}

type windowsTray struct {
	*board
	started bool
	ended   chan struct{}
}

func (t *windowsTray) Start(click func(id string)) error {
	t.started = true
	ready := make(chan struct{})
	go func() {
		defer close(t.ended)
		runtime.LockOSThread() // a window's messages arrive on the thread that made it
		systray.Run(func() {
			look, tip := Appearance(State{})
			t.SetState(Icon(look), tip)
			t.build(click)
			close(ready)
		}, nil)
	}()
	<-ready
	return nil
}

func (t *windowsTray) SetState(icon []byte, tooltip string) {
	systray.SetIcon(icon)
	systray.SetTooltip(tooltip)
}

func (t *windowsTray) HasHost() bool { return t.started }

func (t *windowsTray) HostChanged() <-chan struct{} { return nil }

func (t *windowsTray) Close() error {
	if t.started {
		t.end()
		systray.Quit()
		<-t.ended
	}
	return nil
}
