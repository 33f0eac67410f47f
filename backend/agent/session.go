package agent

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage"
	"helix/backend/trash"
)

func checkModes(mode, queue string) error {
	switch mode {
	case ModeAsk, ModeRead, ModeWork:
	default:
		return fault.Invalidf("mode must be ask, read or work.")
	}
	switch queue {
	case QueueFollowup, QueueSteer, QueueCollect, QueueInterrupt:
		return nil
	}
	return fault.Invalidf("queueMode must be followup, steer, collect or interrupt.")
}

// mayWork rejects the mode work for callers who can't answer approvals.
func mayWork(ctx context.Context, mode string) error {
	if who, _ := identity.From(ctx); mode == ModeWork && !who.Scopes.Has(identity.Approve) {
		return fault.Deniedf("Work mode writes files without asking. Only a person can choose it.")
	}
	return nil
}

func (b Budget) check() error {
	if b.MaxTurns < 0 || b.MaxTokens < 0 || b.MaxCostMicros < 0 || b.MaxWallMs < 0 {
		return fault.Invalidf("A budget limit can't be negative.")
	}
	return nil
}

// Create creates a new chat.
func (s *Service) Create(ctx context.Context, p CreateParams) (SessionResult, error) {
	mode, queue := cmp.Or(p.Mode, ModeAsk), cmp.Or(p.QueueMode, QueueFollowup)
	var budget Budget
	if p.Budget != nil {
		budget = *p.Budget
	}
	if err := errors.Join(checkModes(mode, queue), mayWork(ctx, mode), budget.check()); err != nil {
		return SessionResult{}, err
	}
	if p.ProjectDir != "" && !filepath.IsAbs(p.ProjectDir) {
		return SessionResult{}, fault.Invalidf("projectDir must be an absolute path.")
	}
	if len(p.Title) > 400 {
		return SessionResult{}, fault.Invalidf("A title can have at most 400 bytes.")
	}
	out, err := s.openSession(ctx, storage.NewID(), strings.TrimSpace(p.Title), queue, p.Remember == nil || *p.Remember, &created{Kind: KindChat, Agent: cmp.Or(p.AgentName, DefaultAgent), Model: p.Model, Mode: mode, Budget: budget, ProjectDir: p.ProjectDir})
	if err != nil {
		return out, err
	}
	if err := s.archiveOldest(ctx, out.Session.ID); err != nil {
		s.log.Warn("archive a chat that is idle", "err", err)
	}
	return out, nil
}

// announced notifies clients of a new session and returns it.
func (s *Service) announced(ctx context.Context, id uuid.UUID) (SessionResult, error) {
	out, err := s.get(ctx, id)
	if err == nil {
		bus.Publish(s.bus, identity.UserID(ctx), SessionCreated{id, &out.Session})
	}
	return out, err
}

// openSession stores a new session and keeps it in memory.
func (s *Service) openSession(ctx context.Context, id uuid.UUID, title, queue string, remember bool, first *created) (SessionResult, error) {
	user := identity.UserID(ctx)
	l := &live{s: s, id: id, user: user, remember: remember, state: &State{QueueMode: queue}, canceled: map[uuid.UUID]bool{}, children: map[uuid.UUID]struct{}{}}
	first.Prompt, first.Boundary = []PromptPart{}, newBoundary()
	if first.Parent != nil {
		first.Prompt = []PromptPart{{Kind: "system", Name: "Subagent", Text: subagentRules}}
	} else if err := s.apply(ctx, first); err != nil {
		return SessionResult{}, err
	}
	l.mu.Lock()
	err := l.appendLocked(ctx, uuid.Nil, func(tx *storage.Tx) error { return s.insertSession(tx, l, title, queue, first) }, first)
	l.mu.Unlock()
	if err != nil {
		return SessionResult{}, err
	}
	l.used.Store(time.Now().UnixNano())
	s.mu.Lock()
	s.all[id] = l
	s.mu.Unlock()
	return s.announced(ctx, id)
}

// insertSession writes the row of a new session.
func (s *Service) insertSession(tx *storage.Tx, l *live, title, queue string, first *created) error {
	var above, turn any
	if p := first.Parent; p != nil {
		above, turn = p.Session, p.Turn
	}
	_, err := tx.Exec(`INSERT INTO sessions (id, user_id, device_id, kind, title, agent_name, mode, queue_mode, model, budget, remember, parent_session_id, parent_turn_id, project_dir, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		l.id, l.user, s.db.Device().ID, first.Kind, title, first.Agent, first.Mode, queue, string(first.Model), jsonText(first.Budget), l.remember, above, turn, first.ProjectDir, tx.Now, tx.Now)
	return err
}

func (s *Service) get(ctx context.Context, id uuid.UUID) (out SessionResult, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		out.Session, err = s.sessionRow(tx, identity.UserID(ctx), id)
		return err
	})
	return out, err
}

// List lists the chats of the caller, pinned ones first, then by the newest message.
func (s *Service) List(ctx context.Context, p ListParams) (out ListResult, err error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	where := `s.user_id = ? AND (s.deleted_at IS NOT NULL) = ? AND (? OR s.archived_at IS NULL) AND (? = '' OR s.title LIKE ? ESCAPE '\') AND (? OR s.kind <> 'subagent') AND (? = '' OR s.kind = ?) AND (? = '' OR s.agent_name = ?)`
	args := []any{identity.UserID(ctx), p.Trash, p.IncludeArchived, p.Query, "%" + storage.Like(p.Query) + "%", p.IncludeSubagents || p.Kind == KindSubagent, p.Kind, p.Kind, p.AgentName, p.AgentName}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if err := tx.QueryRow(`SELECT count(*) FROM sessions s WHERE `+where, args...).Scan(&out.Total); err != nil {
			return err
		}
		out.Sessions, err = s.sessionRows(tx, `WHERE `+where+` ORDER BY s.pinned DESC, coalesce(s.last_message_at, s.created_at) DESC, s.id LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...)
		return err
	})
	return out, err
}

// change updates the row of one of the caller's sessions.
func (s *Service) change(ctx context.Context, id uuid.UUID, set string, args ...any) (SessionResult, error) {
	return s.changeWith(ctx, id, func(*storage.Tx) error { return nil }, set, args...)
}

// changeWith is change that also runs more in the same transaction.
func (s *Service) changeWith(ctx context.Context, id uuid.UUID, more func(*storage.Tx) error, set string, args ...any) (out SessionResult, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := s.sessionRow(tx, identity.UserID(ctx), id); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE sessions SET `+set+`, updated_at = ? WHERE id = ?`, append(args, tx.Now, id)...); err != nil {
			return err
		}
		if err := more(tx); err != nil {
			return err
		}
		out.Session, err = s.sessionRow(tx, identity.UserID(ctx), id)
		return err
	})
	if err == nil {
		bus.Publish(s.bus, identity.UserID(ctx), SessionChanged{id, &out.Session})
	}
	return out, err
}

// Rename sets the title of a chat.
func (s *Service) Rename(ctx context.Context, p RenameParams) (SessionResult, error) {
	title := strings.TrimSpace(p.Title)
	if title == "" || len(title) > 400 {
		return SessionResult{}, fault.Invalidf("A title must have 1 to 400 bytes.")
	}
	return s.change(ctx, p.SessionID, `title = ?`, title)
}

// Pin moves a chat to the top of the list, or back.
func (s *Service) Pin(ctx context.Context, p PinParams) (SessionResult, error) {
	return s.change(ctx, p.SessionID, `pinned = ?`, p.Pinned)
}

// SetMode sets what the tools of a chat may do without asking.
func (s *Service) SetMode(ctx context.Context, p ModeParams) (SessionResult, error) {
	if err := errors.Join(checkModes(p.Mode, QueueFollowup), mayWork(ctx, p.Mode)); err != nil {
		return SessionResult{}, err
	}
	l, err := s.session(ctx, p.SessionID)
	if err != nil {
		return SessionResult{}, err
	}
	if err := l.append(ctx, uuid.Nil, nil, &configured{Mode: &p.Mode}); err != nil {
		return SessionResult{}, err
	}
	return s.change(ctx, p.SessionID, `mode = ?`, p.Mode)
}

// SetQueueMode sets how inputs that arrive during a turn are handled.
func (s *Service) SetQueueMode(ctx context.Context, p QueueModeParams) (SessionResult, error) {
	if err := checkModes(ModeAsk, p.QueueMode); err != nil {
		return SessionResult{}, err
	}
	l, err := s.session(ctx, p.SessionID)
	if err != nil {
		return SessionResult{}, err
	}
	if err := l.append(ctx, uuid.Nil, nil, &configured{QueueMode: &p.QueueMode}); err != nil {
		return SessionResult{}, err
	}
	return s.change(ctx, p.SessionID, `queue_mode = ?`, p.QueueMode)
}

// Archive removes a chat from the list.
func (s *Service) Archive(ctx context.Context, p SessionParams) (SessionResult, error) {
	return s.change(ctx, p.SessionID, `archived_at = ?`, time.Now())
}

// Unarchive returns a chat to the list.
func (s *Service) Unarchive(ctx context.Context, p SessionParams) (SessionResult, error) {
	return s.change(ctx, p.SessionID, `archived_at = NULL`)
}

// Delete moves a chat to the trash. Its turns are canceled, including the waiting ones.
func (s *Service) Delete(ctx context.Context, p SessionParams) (SessionResult, error) {
	note := func(tx *storage.Tx) error { return trash.Deleted(tx, identity.UserID(ctx), p.SessionID) }
	out, err := s.changeWith(ctx, p.SessionID, note, `deleted_at = ?`, time.Now()) // first, so that nothing more can be sent
	if err != nil {
		return out, err
	}
	_, err = s.cancelAll(ctx, &p.SessionID)
	return out, err
}

// Restore returns a chat from the trash.
func (s *Service) Restore(ctx context.Context, p SessionParams) (SessionResult, error) {
	return s.change(ctx, p.SessionID, `deleted_at = NULL`)
}

// Status reports whether the agent can work, and its current activity.
func (s *Service) Status(ctx context.Context, _ struct{}) (out StatusResult, err error) {
	roles, err := s.o.Models.Roles(ctx, struct{}{})
	if err != nil {
		return out, err
	}
	budgets, err := s.o.Ledger.Budgets(ctx, struct{}{})
	if err != nil {
		return out, err
	}
	out.Roles, out.Budgets = roles.Roles, budgets.Limits
	for _, r := range roles.Roles {
		out.Ready = out.Ready || r.Role == providers.RoleChat && len(r.Chain) > 0
	}
	out.Running = []Turn{}
	user := identity.UserID(ctx)
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		open, err := turnRows(tx, `WHERE user_id = ? AND state IN ('queued', 'running', 'waiting') ORDER BY created_at`, user)
		for _, t := range open {
			if t.State == Queued {
				out.Queued++
			} else {
				out.Running = append(out.Running, t)
			}
		}
		return err
	})
	s.mu.Lock()
	for _, x := range []Lane{{laneChat, 0, chatLane}, {laneBackground, 0, backgroundLane}} {
		if ln := s.lanes[laneKey{user: user, background: x.Name == laneBackground}]; ln != nil {
			x.Running = len(ln.places)
		}
		out.Lanes = append(out.Lanes, x)
	}
	s.mu.Unlock()
	out.Idle = len(out.Running) == 0 && out.Queued == 0
	return out, err
}
