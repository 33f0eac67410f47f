package app

import (
	"context"
	"log/slog"
	"strings"

	"github.com/wailsapp/wails/v2/pkg/runtime"

	"helix/app/tray"
	"helix/backend/fault"
	"helix/backend/gateway"
)

// maxQueued is how many clicks and commands wait for the backend or the page; more are dropped.
const maxQueued = 32

// command is one entry of the page's command table with its argument.
type command struct{ ID, Args string }

// order sends a command to the page, or keeps it until the page is painted.
func (s *shell) order(id, args string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := command{id, args}
	if s.pageReady {
		s.send(c)
	} else if len(s.queued) < maxQueued {
		s.queued = append(s.queued, c)
	}
}

// send needs the mutex, so that commands keep their order.
func (s *shell) send(c command) {
	if c.ID == navigate {
		runtime.EventsEmit(s.ctx, navigate, c.Args)
		return
	}
	runtime.EventsEmit(s.ctx, "app.command", c.ID, c.Args)
}

// navigate is the event that follows a link.
const navigate = "app.navigate"

// navigate shows the window and follows a link, which the page checks.
func (s *shell) navigate(link string) {
	s.show()
	s.order(navigate, link)
}

// clicked queues a click on the tray. The library must not wait for its effect.
func (s *shell) clicked(id string) {
	select {
	case s.clicks <- id:
	default:
		slog.Warn("too many clicks are waiting", "id", id)
	}
}

// handleClicks carries out clicks, in order, once the backend is ready.
func (s *shell) handleClicks(ctx context.Context, c *gateway.Client) {
	for {
		select {
		case id := <-s.clicks:
			if err := s.click(ctx, c, id); err != nil && ctx.Err() == nil {
				slog.Warn("tray", "entry", id, "err", err)
				s.order("tray:failed", fault.As(err).Message)
			}
			s.poke()
		case <-ctx.Done():
			return
		}
	}
}

// pages are the entries that show the window and a part of the page.
var pages = map[string]string{
	tray.NewChat: "tray:new-chat", tray.Settings: "tray:open-settings", tray.Approvals: "tray:open-approvals",
	tray.AllSkills: "tray:open-skills", tray.AllAgents: "tray:open-agents", tray.AllChannels: "tray:open-channels", tray.SyncStatus: "tray:open-sync",
}

// calls are the entries that only call the backend, so that they work with the window hidden.
var calls = map[string]struct {
	method string
	params any
}{
	tray.TalkMode:      {"voice.toggle", map[string]string{"mode": "talk"}},
	tray.RecordMemo:    {"voice.toggle", map[string]string{"mode": "memo"}},
	tray.PauseHour:     {"app.pause_background", map[string]string{"for": "1h"}},
	tray.PauseTomorrow: {"app.pause_background", map[string]string{"for": "tomorrow"}},
	tray.PauseForever:  {"app.pause_background", map[string]string{"for": "forever"}},
	tray.Resume:        {"app.pause_background", map[string]bool{"resume": true}},
	tray.Restart:       {"services.restart", map[string]string{"name": "gateway"}},
}

// click carries out one entry of the menu.
func (s *shell) click(ctx context.Context, c *gateway.Client, id string) error {
	if call, ok := calls[id]; ok {
		return c.Call(ctx, call.method, call.params, nil)
	}
	if page, ok := pages[id]; ok {
		s.show()
		s.order(page, "")
		return nil
	}
	switch id {
	case tray.Tap:
		s.show()
	case tray.ShowWindow:
		if s.visible.Load() {
			s.hide()
		} else {
			s.show()
		}
	case tray.Quit:
		s.quit()
	}
	switch kind, name, _ := strings.Cut(id, ":"); kind {
	case "skill":
		// Nobody may be looking, so what needs an approval is denied and listed.
		return c.Call(ctx, "skills.execute_composite", map[string]any{"skillId": name, "async": true, "unattended": true}, nil)
	case "agent":
		s.show()
		s.order("tray:open-agent", name)
	case "channel":
		s.show()
		s.order("tray:open-channels", name)
	}
	return nil
}
