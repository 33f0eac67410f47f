package app

// closing is what closing the window does.
type closing string

const (
	hide closing = "hide" // to the tray
	quit closing = "quit"
	ask  closing = "ask" // the person, whether to quit
)

// closeState is what the decision depends on.
type closeState struct {
	quitting    bool // Quit was chosen, or the session or the process is being ended
	trayHost    bool // the icon is visible somewhere, so that the window can be reached again
	closeToTray bool // the setting
	busy        bool // runs, a recording, or a schedule that is due within an hour
	canAsk      bool // the page works
}

// closeAction decides what closing the window does. A window is never hidden where nothing could
// show it again.
func closeAction(s closeState) closing {
	switch {
	case s.quitting:
		return quit
	case s.trayHost && s.closeToTray:
		return hide
	case s.busy && s.canAsk:
		return ask
	}
	return quit
}
