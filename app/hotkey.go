package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"helix/app/hotkey"
	"helix/backend"
	"helix/backend/voice"
)

// hotkeys registers the keys of the setting app.hotkey.
type hotkeys struct {
	pressed func() // must not block

	mu     sync.Mutex
	state  backend.HotkeyState
	stop   func() // nil: no keys are registered
	closed bool
}

func (h *hotkeys) current() backend.HotkeyState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// set registers keys in place of the previous ones; "" is none.
func (h *hotkeys) set(keys string) backend.HotkeyState {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.state.Keys == keys && h.state.State != "unavailable" {
		return h.state
	}
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
	h.state = backend.HotkeyState{Keys: keys, State: "off"}
	if keys == "" {
		return h.state
	}
	if err := h.register(keys); err != nil {
		h.state.State = "unavailable"
		h.state.Code, h.state.Reason = hotkeyProblem(err)
		return h.state
	}
	h.state.State = "active"
	return h.state
}

func (h *hotkeys) register(keys string) error {
	c, err := hotkey.Parse(keys)
	if err != nil {
		return err
	}
	if display(os.Getenv) == "wayland" {
		return hotkey.ErrUnsupported
	}
	h.stop, err = hotkey.Register(c, h.pressed)
	return err
}

// hotkeyProblem names a problem and explains what to do instead. The same command can be a shortcut of
// the desktop.
func hotkeyProblem(err error) (code, reason string) {
	const instead = "In your desktop's keyboard settings, add a shortcut with the command: helix voice toggle"
	switch {
	case errors.Is(err, hotkey.ErrTaken):
		return "taken", "Another program uses these keys. Choose others."
	case errors.Is(err, hotkey.ErrUnsupported):
		return "unsupported", "Programs can't register keys on this desktop. " + instead
	}
	return "invalid", "These keys can't be registered: " + err.Error() + "."
}

// close releases the keys. Nothing can be registered afterwards.
func (h *hotkeys) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// hotkeyTime limits how long a press of the hotkey may wait for the backend.
const hotkeyTime = 10 * time.Second

// toggleRecording starts or stops a voice recording, as helix voice toggle does.
func (s *shell) toggleRecording() {
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, hotkeyTime)
		defer cancel()
		if c := s.session(); c != nil {
			if err := c.Call(ctx, "voice.toggle", voice.ToggleParams{}, nil); err != nil {
				slog.Warn("hotkey", "err", err)
			}
		}
	})
}
