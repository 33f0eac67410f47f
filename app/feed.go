package app

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/app/tray"
	"helix/backend"
	"helix/backend/agent"
	"helix/backend/channels"
	"helix/backend/cloudsync"
	"helix/backend/duration"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/scheduler"
	"helix/backend/voice"
)

// dial opens a session of the program itself, which works for its own backend and for one in
// another process. The session of its own backend ends with ctx.
func (s *shell) dial(ctx context.Context) (*gateway.Client, error) {
	o := gateway.ClientOptions{Client: gateway.ClientInfo{ID: "helix-desktop", Version: backend.Version}, Scopes: []string{"admin", "write", "approve", "read"}}
	be := s.backend()
	if be == nil {
		o.Pipe = s.remote
		return gateway.Dial(ctx, o)
	}
	server, client := gateway.MemoryPipe()
	s.work.Go(func() {
		id := identity.Identity{User: be.LocalUser(), Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Label: "tray", Pipe: "memory"}
		if err := be.Gateway.Serve(ctx, server, id); err != nil && ctx.Err() == nil {
			slog.Warn("the tray's session ended", "err", err)
		}
	})
	return gateway.DialOver(ctx, client, o)
}

// topics are the events after which the tray may show something else.
var topics = []string{
	"services.changed", "sync.status", "sync.conflict", "sync.progress", "agent.changed", "chat.turn_started", "chat.turn_completed", "chat.turn_failed", "chat.turn_cancelled",
	"channels.changed", "approvals.changed", "app.background_changed", "app.pins_changed", "skills.changed", "skills.run_event", "voice.state", "config.changed",
	"storage.low_space", "storage.recovery", "voice.transcript",
}

const (
	trayDebounce = 100 * time.Millisecond
	trayRefresh  = 30 * time.Second // for changes without an event
)

// follow keeps the tray up to date until ctx ends.
func (s *shell) follow(ctx context.Context, c *gateway.Client) {
	wake := make(chan struct{}, 1)
	s.work.Go(func() {
		poke := func() {
			select {
			case wake <- struct{}{}:
			default: // one is waiting
			}
		}
		heard := func(e gateway.Event) {
			s.heard(e)
			poke()
		}
		if err := c.Follow(ctx, topics, 0, heard, poke); err != nil && ctx.Err() == nil {
			slog.Warn("events for the tray", "err", err)
		}
	})
	for {
		state := s.collect(ctx, c)
		if ctx.Err() != nil {
			return
		}
		s.refresh(state)
		next := trayRefresh
		if state.Recording {
			next = time.Second // the menu counts
		}
		select {
		case <-time.After(next):
		case <-s.poked:
		case <-wake:
			select { // more events usually follow
			case <-time.After(trayDebounce):
			case <-ctx.Done():
			}
		case <-ctx.Done():
			return
		}
	}
}

// collect reads what the menu shows. What cannot be read, in recovery mode for example, is left
// empty.
func (s *shell) collect(ctx context.Context, c *gateway.Client) (t tray.State) {
	t.WindowVisible = s.visible.Load()
	var services gateway.ServiceList
	if c.Call(ctx, "services.list", struct{}{}, &services) == nil {
		for _, v := range services.Services {
			if v.Name == "gateway" {
				t.GatewayRunning = v.Running
			}
		}
	}
	var app backend.AppState
	if c.Call(ctx, "app.state", struct{}{}, &app) == nil {
		t.Paused, t.TalkMode, t.Recording = app.BackgroundPaused, app.TalkMode, app.Recording
		for _, k := range app.PinnedSkills {
			t.Skills = append(t.Skills, tray.Entry{ID: k.SkillID.String(), Name: k.Name})
		}
	}
	var v voice.StatusResult
	if c.Call(ctx, "voice.status", struct{}{}, &v) == nil {
		t.Microphone, t.Recorded = v.Microphone.Available, duration.Of(v.ElapsedMs, time.Millisecond)
	}
	var sync cloudsync.StatusResult
	if c.Call(ctx, "sync.status", struct{}{}, &sync) == nil {
		t.Sync, t.SyncCount = syncState(sync)
	}
	var agents agent.PersonasResult
	if c.Call(ctx, "agent.personas", struct{}{}, &agents) == nil {
		for _, a := range agents.Personas {
			t.Agents = append(t.Agents, tray.Entry{ID: a.Name, Name: a.Title, Active: a.Running > 0})
			t.Jobs += a.Running
		}
	}
	var ch channels.ListResult
	if c.Call(ctx, "channels.list", struct{}{}, &ch) == nil {
		for _, h := range ch.Channels {
			t.Channels = append(t.Channels, tray.Entry{ID: h.ID.String(), Name: h.Name, Active: h.State == "connected"})
		}
	}
	var approvals permission.ListApprovalsResult
	if c.Call(ctx, "approvals.list", permission.ListApprovalsParams{Limit: 1}, &approvals) == nil {
		t.Approvals = approvals.PendingCount
	}
	var system gateway.SystemStatus
	if c.Call(ctx, "system.status", struct{}{}, &system) == nil {
		for _, d := range system.Degraded {
			if d.Area == "storage" || d.Area == "backup" {
				t.Error = d.Reason
			}
		}
	}
	return t
}

func syncState(r cloudsync.StatusResult) (tray.SyncState, int) {
	switch {
	case r.State == cloudsync.Off:
		return tray.SyncOff, 0
	case r.Conflicts > 0:
		return tray.SyncConflicts, r.Conflicts
	case r.State == cloudsync.Offline || r.State == cloudsync.Failed || r.State == cloudsync.Paused:
		return tray.SyncOffline, r.QueueLength
	case r.State == cloudsync.Live && r.QueueLength == 0:
		return tray.SyncCurrent, 0
	}
	return tray.Syncing, r.QueueLength
}

// busy reports whether quitting would end something: a turn, a run of a skill, a recording, or a
// schedule within the hour.
func (s *shell) busy(ctx context.Context, c *gateway.Client) bool {
	var a agent.StatusResult
	if c.Call(ctx, "agent.status", struct{}{}, &a) == nil && !a.Idle {
		return true
	}
	var v voice.StatusResult
	if c.Call(ctx, "voice.status", struct{}{}, &v) == nil && v.RecordingID != nil {
		return true
	}
	var runs struct {
		Executions []struct{ ExecutionID uuid.UUID }
	}
	if c.Call(ctx, "skills.history", map[string]any{"status": "running", "limit": 1}, &runs) == nil && len(runs.Executions) > 0 {
		return true
	}
	var list scheduler.ListResult
	if c.Call(ctx, "schedules.list", scheduler.ListParams{Status: "active", Limit: 100}, &list) == nil {
		return slices.ContainsFunc(list.Schedules, func(k scheduler.Schedule) bool {
			return !k.System && k.NextRunAt != nil && time.Until(*k.NextRunAt) < time.Hour
		})
	}
	return false
}
