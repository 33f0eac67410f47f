//go:build cgo

package tray

import "fyne.io/systray"

// New returns the driver of this system: a status item. It must be called on the main thread before
// the window's loop starts, because the item and the loop belong to that thread; the library's quit
// would end the loop, so it is never called.
func New() Driver {
	t := &darwinTray{board: newBoard(library{
		add: func(label string) (entry, <-chan struct{}) {
			m := systray.AddMenuItem(label, "")
			return m, m.ClickedCh
		},
		addUnder: func(parent entry, label string) (entry, <-chan struct{}) {
			m := parent.(*systray.MenuItem).AddSubMenuItem(label, "")
			return m, m.ClickedCh
		},
		separator: systray.AddSeparator,
		escape:    func(label string) string { return label },
	}), ready: make(chan struct{})}
	start, _ := systray.RunWithExternalLoop(func() { close(t.ready) }, nil)
	start()
	return t
}

type darwinTray struct {
	*board
	ready chan struct{} // closed when the loop runs
}

func (t *darwinTray) Start(click func(id string)) error {
	<-t.ready
	look, tip := Appearance(State{})
	t.SetState(Icon(look), tip)
	t.build(click)
	return nil
}

func (t *darwinTray) SetState(icon []byte, tooltip string) {
	systray.SetTemplateIcon(icon, icon)
	systray.SetTooltip(tooltip)
}

func (t *darwinTray) HasHost() bool { return true }

func (t *darwinTray) HostChanged() <-chan struct{} { return nil }

// Close only stops reporting clicks: the item disappears with the program.
func (t *darwinTray) Close() error {
	t.end()
	return nil
}
