package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/wailsapp/wails/v2/pkg/runtime"

	"helix/app/notices"
	"helix/backend/agent"
	"helix/backend/cloudsync"
	"helix/backend/config"
	"helix/backend/gateway"
	"helix/backend/permission"
	"helix/backend/skills"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/voice"
)

// startNotices connects to the desktop's notification service. Without one, the page's badges are
// all there is.
func (s *shell) startNotices() {
	reason := ""
	switch {
	case !config.SessionBus():
		reason = "This desktop session has no notification service."
	default:
		if err := runtime.InitializeNotifications(s.ctx); err != nil {
			slog.Warn("notifications", "err", err)
			reason = "The notification service of this desktop does not respond."
		}
	}
	s.setNoticesReason(reason)
	runtime.OnNotificationResponse(s.ctx, func(r runtime.NotificationResult) {
		if r.Error != nil {
			slog.Warn("notification", "err", r.Error)
			return
		}
		if link, ok := r.Response.UserInfo["link"].(string); ok && link != "" {
			s.navigate(link)
		} else {
			s.show()
		}
	})
}

func (s *shell) setNoticesReason(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noticesReason = reason
}

// showNotice shows one notice. The service may have ended since the start, so its error is the
// state from now on.
func (s *shell) showNotice(n notices.Notice) {
	s.work.Go(func() { // the service may be slow
		s.mu.Lock()
		off := s.noticesOff
		s.mu.Unlock()
		if off {
			return
		}
		err := runtime.SendNotification(s.ctx, runtime.NotificationOptions{ID: uuid.NewString(), Title: n.Title, Body: n.Body, Data: map[string]any{"link": n.Link}})
		if err != nil {
			slog.Warn("notification", "err", err)
			s.setNoticesReason("The notification service of this desktop does not respond.")
			return
		}
		s.setNoticesReason("")
	})
}

// loadPreferences reads the settings of notices, and applies that of the hotkey.
func (s *shell) loadPreferences(ctx context.Context, c *gateway.Client) {
	p := notices.Preferences{Enabled: true}
	var r config.GetResult
	if err := c.Call(ctx, "config.get", config.GetParams{Keys: []string{"notifications.enabled", "notifications.preview", "notifications.quiet", "app.hotkey"}}, &r); err == nil {
		p.Enabled = r.Values["notifications.enabled"] != false
		p.Preview = r.Values["notifications.preview"] == true
		p.Quiet, _ = r.Values["notifications.quiet"].(string)
		if keys, ok := r.Values["app.hotkey"].(string); ok {
			s.hotkey.set(keys)
		}
	}
	s.prefs.Store(&p)
}

func (s *shell) preferences() notices.Preferences {
	if p := s.prefs.Load(); p != nil {
		return *p
	}
	return notices.Preferences{Enabled: true}
}

// tellOnce says, the first time that the window is hidden, that the program goes on.
func (s *shell) tellOnce() {
	s.mu.Lock()
	known := s.place.HideExplained
	s.place.HideExplained = true
	s.mu.Unlock()
	if !known {
		s.notices.Add(notices.Notice{Kind: notices.Hidden, Title: "Helix keeps running here", Body: "Use the icon to open the window or to quit."})
		s.savePlace()
	}
}

// noticeTime limits how long the name of an item is looked up.
const noticeTime = 5 * time.Second

// heard turns an event into a notice, if nobody is looking at the window.
func (s *shell) heard(e gateway.Event) {
	if e.Name == "config.changed" {
		s.work.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, noticeTime)
			defer cancel()
			if c := s.session(); c != nil {
				s.loadPreferences(ctx, c)
			}
		})
	}
	if s.visible.Load() && s.focused.Load() {
		return
	}
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, noticeTime)
		defer cancel()
		if c := s.session(); c != nil {
			if n, ok := notice(ctx, c, e); ok {
				s.notices.Add(n)
			}
		}
	})
}

func (s *shell) session() *gateway.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// caller is what notice reads names with.
type caller interface {
	Call(ctx context.Context, method string, params, result any) error
}

// notice returns what to say about an event; false: nothing.
func notice(ctx context.Context, c caller, e gateway.Event) (n notices.Notice, ok bool) {
	switch e.Name {
	case "skills.run_event":
		return runNotice(ctx, c, decode[skills.RunEvent](e))
	case "chat.turn_completed":
		t := decode[agent.TurnCompleted](e)
		return notices.Notice{Kind: notices.Reply, Title: "Chat answered", Detail: t.Response, Link: "helix://chat/" + t.SessionID.String()}, t.SessionID != uuid.Nil
	case "approvals.changed":
		a := decode[permission.ApprovalChanged](e)
		if a.Status != "pending" {
			return n, false
		}
		n = notices.Notice{Kind: notices.Approval, Title: "Approval waiting", Link: "helix://approvals/" + a.ID.String()}
		var got permission.GetApprovalResult
		if c.Call(ctx, "approvals.get", permission.GetApprovalParams{ID: a.ID}, &got) == nil {
			n.Body, n.Detail = got.Subject.Name, got.Sentence
		}
		return n, true
	case "sync.conflict":
		var st cloudsync.StatusResult
		if err := c.Call(ctx, "sync.status", struct{}{}, &st); err != nil || st.Conflicts == 0 {
			return n, false // the last one was resolved
		}
		return notices.Notice{Kind: notices.Conflict, Title: "Sync conflict", Link: "helix://sync/conflicts"}, true
	case "voice.transcript":
		if t := decode[voice.Transcribed](e); t.Status != "completed" {
			return n, false
		}
		return notices.Notice{Kind: notices.Memo, Title: "Memo transcribed", Link: "helix://voice"}, true
	case "storage.low_space":
		return notices.Notice{Kind: notices.Space, Title: "Disk space is low", Body: "Background work is paused until there is more.", Link: "helix://settings/data"}, decode[storage.LowSpace](e).Low
	}
	return n, false
}

func decode[T any](e gateway.Event) (v T) {
	if err := json.Unmarshal(e.Data, &v); err != nil {
		slog.Warn("event", "name", e.Name, "err", err)
	}
	return v
}

// runNotice is about runs that a person started; schedules and chats report their own.
func runNotice(ctx context.Context, c caller, e skills.RunEvent) (n notices.Notice, ok bool) {
	if e.Type != string(machine.RunFinished) {
		return n, false
	}
	var run skills.Execution
	if err := c.Call(ctx, "skills.get_execution", map[string]any{"executionId": e.ExecutionID}, &run); err != nil || run.ParentExecutionID != nil || run.Trigger == "schedule" || run.Trigger == "agent" {
		return n, false
	}
	n = notices.Notice{Kind: notices.Run, Title: "Skill finished", Body: run.SkillName, Detail: strings.Trim(string(run.FinalOutput), `"`), Link: "helix://runs/" + e.ExecutionID.String()}
	if !run.Success {
		n.Title, n.Detail = "Skill failed", ""
	}
	return n, true
}
