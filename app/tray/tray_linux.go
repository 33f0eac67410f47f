package tray

import (
	"fmt"
	"runtime"

	"fyne.io/systray"
	"github.com/godbus/dbus/v5"
)

// New returns the driver of this system: a StatusNotifierItem on the session bus.
func New() Driver {
	b := newBoard(library{
		add: func(label string) (entry, <-chan struct{}) {
			m := systray.AddMenuItem(label, "")
			return m, m.ClickedCh
		},
		addUnder: func(parent entry, label string) (entry, <-chan struct{}) {
			m := parent.(*systray.MenuItem).AddSubMenuItem(label, "")
			return m, m.ClickedCh
		},
		separator: systray.AddSeparator,
		escape:    doubled("_"),
	})
	return &linuxTray{board: b, ended: make(chan struct{})}
}

type linuxTray struct {
	*board
	host  *host
	ended chan struct{} // closed when the library has left the bus
}

// Start fails without a session bus; the library would panic later.
func (t *linuxTray) Start(click func(id string)) error {
	var err error
	if t.host, err = watchHost(t.register); err != nil {
		return fmt.Errorf("no session bus: %w", err)
	}
	systray.SetTitle("Helix")
	systray.SetOnTapped(func() { click(Tap) })
	look, tip := Appearance(State{})
	t.SetState(Icon(look), tip)
	ready := make(chan struct{})
	go func() {
		defer close(t.ended)
		runtime.LockOSThread() // the library expects a thread of its own
		systray.Run(func() {
			t.build(click)
			close(ready)
		}, nil)
	}()
	<-ready
	return nil
}

// register shows the icon in a panel that has just started. The library does so too, but misses one
// that starts while the library itself does.
func (t *linuxTray) register(h *host) {
	conn, err := dbus.SessionBus() // the library's connection
	if err != nil {
		return
	}
	if !h.exported(conn.Names()[0]) {
		return // the library registers when its start is complete
	}
	conn.Object(watcherName, watcherPath).Go(watcherName+".RegisterStatusNotifierItem", dbus.FlagNoReplyExpected, nil, "/StatusNotifierItem")
}

func (t *linuxTray) SetState(icon []byte, tooltip string) {
	systray.SetIcon(icon)
	systray.SetTooltip(tooltip)
}

func (t *linuxTray) HasHost() bool { return t.host.present() }

func (t *linuxTray) HostChanged() <-chan struct{} { return t.host.changes() }

func (t *linuxTray) Close() error {
	if t.host == nil {
		return nil
	}
	t.end()
	systray.Quit()
	<-t.ended
	return t.host.close()
}
