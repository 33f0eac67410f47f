package voice

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/transcribe"
)

// commandWait is how long after its end a recording can still start a command. One that is
// transcribed later, such as after a restart, stays a memo.
const commandWait = 5 * time.Minute

// commands is the state of commands that have been said.
type commands struct {
	mu       sync.Mutex
	expected map[uuid.UUID]expected // by recording
	pending  map[uuid.UUID]*pendingCommand
}

// expected is a recording of the mode command that isn't transcribed yet.
type expected struct {
	user  uuid.UUID
	page  *uuid.UUID
	until time.Time
}

// pendingCommand waits for an answer.
type pendingCommand struct {
	user   uuid.UUID
	event  CommandHeard
	among  []match
	expiry *time.Timer
}

func (c *commands) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pending {
		p.expiry.Stop()
	}
	clear(c.pending)
}

// expectCommand marks a recording whose text may start a command.
func (s *Service) expectCommand(ctx context.Context, recording uuid.UUID) {
	c := &s.commands
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expected == nil {
		c.expected = map[uuid.UUID]expected{}
	}
	now := time.Now()
	for id, e := range c.expected {
		if now.After(e.until) {
			delete(c.expected, id)
		}
	}
	c.expected[recording] = expected{identity.UserID(ctx), page(ctx), now.Add(commandWait)}
}

// page returns the session of the caller if it has screens.
func page(ctx context.Context) *uuid.UUID {
	if id, _ := identity.From(ctx); id.Client == identity.ClientWindow || id.Client == identity.ClientBrowser {
		return &id.Session
	}
	return nil
}

// heard acts on the transcript of a recording, if it is a command from the microphone.
func (s *Service) heard(ctx context.Context, recording uuid.UUID, t transcribe.Transcript) {
	c := &s.commands
	c.mu.Lock()
	e, ok := c.expected[recording]
	delete(c.expected, recording)
	c.mu.Unlock()
	if !ok || time.Now().After(e.until) || e.user != identity.UserID(ctx) {
		return
	}
	if _, err := s.act(ctx, t.Text, t.Confidence, recording, e.page); err != nil {
		s.o.Logger.Error("voice command", "err", err)
	}
}

// act runs the command that a text says, or asks first.
func (s *Service) act(ctx context.Context, text string, confidence float64, recording uuid.UUID, page *uuid.UUID) (out CommandHeard, err error) {
	user := identity.UserID(ctx)
	out = CommandHeard{SessionID: page, RecordingID: &recording, Text: text, Slots: map[string]any{}}
	defer func() {
		if err == nil {
			bus.Publish(s.o.Bus, user, out)
		}
	}()
	hits, _, decision, err := s.matchText(ctx, text, confidence)
	if err != nil {
		return out, err
	}
	out.Decision = decision
	if len(hits) == 0 {
		return out, nil
	}
	out.describe(&hits[0])
	switch decision {
	case DecideNone:
		out.Status, out.Error = "failed", hits[0].Problem
		return out, nil
	case DecideRun:
		s.perform(ctx, &hits[0], &out)
		return out, nil
	case DecideAmbiguous:
		out.CommandID, out.Name, out.RiskTier = nil, "", ""
		hits = hits[:min(len(hits), maxCandidates)]
		out.Candidates = candidates(hits)
	case DecideConfirm:
		hits = hits[:1]
	}
	conf, err := s.Settings(ctx, struct{}{})
	if err != nil {
		return out, err
	}
	s.ask(user, hits, duration.Of(conf.CommandConfirmMs, time.Millisecond), &out)
	return out, nil
}

func (h *CommandHeard) describe(m *match) {
	id := m.ID
	h.CommandID, h.Name, h.Score, h.Slots, h.RiskTier = &id, m.Name, m.score, m.slots, m.RiskTier
	h.NavigationTarget, h.SystemAction = m.NavigationTarget, m.SystemAction
}

// ask keeps a command until it is answered or expires.
func (s *Service) ask(user uuid.UUID, among []match, wait time.Duration, h *CommandHeard) {
	id, until := storage.NewID(), time.Now().Add(wait)
	h.PendingID, h.ExpiresAt = &id, &until
	p := &pendingCommand{user: user, event: *h, among: among}
	c := &s.commands
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = map[uuid.UUID]*pendingCommand{}
	}
	p.expiry = time.AfterFunc(wait, func() {
		if s.takePending(user, id) != nil { // no answer means no
			p.event.Status = "expired"
			bus.Publish(s.o.Bus, user, p.event)
		}
	})
	c.pending[id] = p
}

func (s *Service) takePending(user, id uuid.UUID) *pendingCommand {
	c := &s.commands
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[id]
	if p == nil || p.user != user {
		return nil
	}
	delete(c.pending, id)
	p.expiry.Stop()
	return p
}

// Confirm answers a pending command. Only a command that is accepted in time runs.
func (s *Service) Confirm(ctx context.Context, p ConfirmParams) (out ConfirmResult, err error) {
	user := identity.UserID(ctx)
	was := s.takePending(user, p.PendingID)
	if was == nil {
		return out, fault.NotFoundf("This command no longer waits for an answer. Say it again.")
	}
	h := was.event
	h.PendingID, h.ExpiresAt, h.Candidates = &p.PendingID, nil, nil
	if answered := page(ctx); answered != nil {
		h.SessionID = answered
	}
	chosen := &was.among[0]
	if h.Decision == DecideAmbiguous && p.Accept {
		chosen = nil
		for i := range was.among {
			if p.CommandID != nil && was.among[i].ID == *p.CommandID {
				chosen = &was.among[i]
			}
		}
		if chosen == nil {
			s.commands.mu.Lock()
			was.expiry.Reset(time.Until(*was.event.ExpiresAt))
			s.commands.pending[p.PendingID] = was
			s.commands.mu.Unlock()
			return out, fault.InvalidField("commandId", fault.CodeInvalid, "Choose one of the candidates with commandId.")
		}
	}
	h.describe(chosen)
	if p.Accept {
		s.perform(ctx, chosen, &h)
	} else {
		h.Status = "declined"
	}
	bus.Publish(s.o.Bus, user, h)
	return ConfirmResult{h.Status, h.RunID, h.Error}, nil
}

// perform starts a command and describes the outcome in h.
func (s *Service) perform(ctx context.Context, m *match, h *CommandHeard) {
	h.Status = "failed"
	run, err := s.startCommand(ctx, m)
	if err != nil {
		h.Error = fault.As(err).Message
		if fault.Is(err, fault.Internal) {
			s.o.Logger.Error("start a voice command", "command", m.ID, "err", err)
		}
		return
	}
	h.Status = "done"
	if run != uuid.Nil {
		h.Status, h.RunID = "started", &run
	}
}

// startCommand starts what a command does. A run is created in the transaction that counts the use.
func (s *Service) startCommand(ctx context.Context, m *match) (run uuid.UUID, err error) {
	if m.Problem != "" {
		return run, fault.Conflictf("%s", m.Problem)
	}
	if m.ActionType == ActionSystem {
		if err := s.systemAction(ctx, m.SystemAction); err != nil {
			return run, err
		}
	}
	var starter callable.Starter
	var input []byte
	if m.target.ID != "" {
		again := m.command // the target may have changed since the question
		if err := s.resolve(ctx, &again); err != nil {
			return run, err
		}
		if again.Problem != "" {
			return run, fault.Conflictf("%s", again.Problem)
		}
		if input, err = m.input(); err != nil {
			return run, err
		}
		if err := callable.CheckInput(ctx, m.target, input); err != nil {
			return run, err
		}
		if starter = s.o.Callables.Starter(m.target.Kind); starter == nil {
			return run, fault.Unavailablef("This version of Helix can't start a %s by voice.", m.ActionType)
		}
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if starter != nil {
			run, err = starter.Enqueue(tx, m.target.Ref, callable.Request{
				Input: input, Key: "voice:" + storage.NewID().String(), Hash: m.hash,
				Caller: callable.Caller{Kind: "voice", ID: m.ID.String(), Label: m.Name, Attended: true},
			})
			if err != nil {
				return err
			}
		}
		_, err := tx.Exec(`UPDATE voice_commands SET usage_count = usage_count + 1, last_used = ?1, updated_at = ?1 WHERE id = ?2 AND user_id = ?3`, tx.Now, m.ID, identity.UserID(ctx))
		return err
	})
	if err == nil && starter != nil {
		starter.Start(run)
	}
	return run, err
}

// systemAction controls the recorder. read_last is left to the client, which has a loudspeaker.
func (s *Service) systemAction(ctx context.Context, action string) error {
	var err error
	switch action {
	case "stop":
		_, err = s.Stop(ctx, StopParams{})
	case "pause":
		_, err = s.Pause(ctx, StopParams{})
	case "new_memo":
		_, err = s.Start(ctx, StartParams{Mode: ModeMemo})
	case "undo":
		return s.undoDelete(ctx)
	}
	return err
}

// undoDelete restores the memo that was deleted last.
func (s *Service) undoDelete(ctx context.Context) error {
	var id uuid.UUID
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce((SELECT id FROM voice_memos WHERE user_id = ? AND deleted_at IS NOT NULL ORDER BY deleted_at DESC LIMIT 1), zeroblob(16))`, identity.UserID(ctx)).Scan(&id)
	})
	if err != nil {
		return err
	}
	if id == uuid.Nil {
		return fault.NotFoundf("There is nothing to undo.")
	}
	_, err = s.RestoreMemo(ctx, MemoParams{id})
	return err
}
