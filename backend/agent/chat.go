package agent

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Get returns a chat and its current activity.
func (s *Service) Get(ctx context.Context, p SessionParams) (out GetResult, err error) {
	l, err := s.session(ctx, p.SessionID)
	if err != nil {
		return out, err
	}
	row, err := s.get(ctx, p.SessionID)
	if err != nil {
		return out, err
	}
	out.Session, out.Queue = row.Session, []QueuedInput{}
	l.mu.Lock()
	var active uuid.UUID
	if t := l.state.Turn; t != nil {
		active = t.ID
		if l.partial.TurnID == t.ID && l.partial.Text != "" {
			copied := l.partial
			out.Partial = &copied
		}
	}
	out.LastSeq = l.state.Seq
	for _, w := range l.state.Queue {
		out.Queue = append(out.Queue, w.queued())
	}
	l.mu.Unlock()
	if active != uuid.Nil {
		t, err := s.turn(ctx, l.user, active)
		if err != nil {
			return out, err
		}
		out.ActiveTurn = &t
	}
	return out, nil
}

// Messages returns a page of the transcript, in order.
func (s *Service) Messages(ctx context.Context, p MessagesParams) (out MessagesResult, err error) {
	offset := 0
	if err := storage.CheckPage(&p.Limit, &offset, 100, 200); err != nil {
		return out, err
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if _, err := s.sessionRow(tx, identity.UserID(ctx), p.SessionID); err != nil {
			return err
		}
		before := p.Before
		if before == 0 {
			before = 1 << 62
		}
		order := "DESC"
		if p.After > 0 {
			order = "ASC"
		}
		out.Messages, err = s.messageRows(tx, `WHERE m.session_id = ? AND m.seq < ? AND m.seq > ? ORDER BY m.seq `+order+` LIMIT ?`, p.SessionID, before, p.After, p.Limit+1)
		return err
	})
	if out.More = len(out.Messages) > p.Limit; out.More {
		out.Messages = out.Messages[:p.Limit]
	}
	if p.After == 0 {
		for i, j := 0, len(out.Messages)-1; i < j; i, j = i+1, j-1 {
			out.Messages[i], out.Messages[j] = out.Messages[j], out.Messages[i]
		}
	}
	return out, err
}

// Send adds an input to a chat and returns at once. The turn runs in the background.
func (s *Service) Send(ctx context.Context, p SendParams) (SendResult, error) {
	switch {
	case strings.TrimSpace(p.Text) == "" && len(p.Attachments) == 0:
		return SendResult{}, fault.Invalidf("Write something first.")
	case len(p.Text) > maxText:
		return SendResult{}, fault.Invalidf("The text has more than 256 KiB. Attach it as a file.")
	}
	who, _ := identity.From(ctx)
	in := &input{Text: p.Text, Origin: Origin{Kind: OriginUser}, Model: p.Model, Attended: who.Client != identity.ClientProgram}
	if p.Budget != nil {
		in.Budget = *p.Budget
	}
	id := storage.NewID()
	if p.TurnID != nil {
		id = *p.TurnID
	}
	if len(p.Attachments) > 0 {
		l, err := s.session(ctx, p.SessionID)
		if err != nil {
			return SendResult{}, err
		}
		if in.Files, err = s.attachments(ctx, l, p.Attachments, p.Model); err != nil {
			return SendResult{}, err
		}
		in.Private, in.Untrusted = true, true // the person may not have written the file
	}
	return s.enqueue(ctx, p.SessionID, id, p.QueueMode, in)
}

// enqueue stores an input without the secrets in it, and its turn, with the events that precede it.
// Sending the same turn again returns its current state.
func (s *Service) enqueue(ctx context.Context, session, turn uuid.UUID, queue string, in *input, before ...payload) (SendResult, error) {
	if err := in.Budget.check(); err != nil {
		return SendResult{}, err
	}
	l, err := s.session(ctx, session)
	if err != nil {
		return SendResult{}, err
	}
	in.Text = s.o.Scrub(ctx, in.Text)
	l.mu.Lock()
	in.QueueMode = cmp.Or(queue, l.state.QueueMode, QueueFollowup)
	if err := checkModes(ModeAsk, in.QueueMode); err != nil {
		l.mu.Unlock()
		return SendResult{}, err
	}
	out := SendResult{TurnID: turn, State: Queued, Position: len(l.state.Queue) + 1}
	if l.state.Turn == nil && len(l.state.Queue) == 0 {
		out.State, out.Position = Running, 0
	}
	var there string // state of the turn when it was sent before
	err = l.appendAfter(ctx, turn, func(tx *storage.Tx) (err error) {
		if there, err = s.accepts(tx, l, turn); err == nil && there != "" {
			return errSent
		}
		return err
	}, func(tx *storage.Tx) error { return s.keepAttachments(tx, l, in.Files) }, append(before, in)...)
	if there != "" {
		l.mu.Unlock()
		return SendResult{TurnID: turn, State: there}, nil
	}
	var interrupt *uuid.UUID
	if t := l.state.Turn; err == nil && t != nil && in.QueueMode == QueueInterrupt {
		interrupt = &t.ID
	}
	l.mu.Unlock()
	if err != nil {
		return SendResult{}, err
	}
	if interrupt != nil {
		if _, err := s.Cancel(ctx, TurnParams{session, interrupt}); err != nil {
			return out, err
		}
	}
	s.wake(l)
	return out, nil
}

// queued returns the input as clients see it.
func (w waitingInput) queued() QueuedInput {
	q := QueuedInput{TurnID: w.Turn, Text: w.Text, QueueMode: w.QueueMode, Origin: w.Origin, Files: []string{}, At: w.At}
	for _, a := range w.Files {
		q.Files = append(q.Files, a.Name)
	}
	return q
}

// errSent aborts the transaction for an input that was sent before.
var errSent = errors.New("sent before")

// accepts returns the state of a turn that already exists, or "" if it does not, and rejects inputs
// that the session can't take.
func (s *Service) accepts(tx *storage.Tx, l *live, turn uuid.UUID) (state string, err error) {
	var deleted, archived bool
	var device uuid.UUID
	var owner uuid.NullUUID
	err = tx.QueryRow(`SELECT s.deleted_at IS NOT NULL, s.archived_at IS NOT NULL, s.device_id, t.session_id, coalesce(t.state, '')
		FROM sessions s LEFT JOIN agent_turns t ON t.id = ? AND t.pending IS NULL WHERE s.id = ? AND s.user_id = ?`, turn, l.id, l.user).Scan(&deleted, &archived, &device, &owner, &state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", fault.NotFoundf("Chat not found.")
	case err != nil:
		return "", err
	case deleted:
		return "", fault.NotFoundf("This chat is in the trash. Restore it first.")
	case device != s.db.Device().ID:
		return "", fault.Conflictf("This chat runs on another device. Nothing was sent.")
	case archived:
		return "", fault.Conflictf("This chat is archived. Unarchive it first.")
	case owner.Valid && owner.UUID != l.id:
		return "", fault.Conflictf("This turn belongs to another chat. Nothing was sent.")
	case state == "" && len(l.state.Queue) >= maxQueued:
		return "", fault.Limitf("%d inputs wait in this chat already. Nothing was sent.", maxQueued)
	}
	return state, nil
}

// Cancel ends a turn; if none is named, the active one. Its effects and its messages so far are kept.
func (s *Service) Cancel(ctx context.Context, p TurnParams) (StateResult, error) {
	l, err := s.session(ctx, p.SessionID)
	if err != nil {
		return StateResult{}, err
	}
	l.mu.Lock()
	var turn uuid.UUID
	switch {
	case p.TurnID != nil:
		turn = *p.TurnID
	case l.state.Turn != nil:
		turn = l.state.Turn.ID
	case len(l.state.Queue) > 0:
		turn = l.state.Queue[0].Turn
	}
	l.mu.Unlock()
	if turn == uuid.Nil {
		return StateResult{"idle"}, nil
	}
	type open struct{ turn, session uuid.UUID }
	list, err := storage.Result(ctx, s.db.Write, func(tx *storage.Tx) ([]open, error) {
		return storage.Collect(tx.Select(turnsBelow+` UPDATE agent_turns SET cancel_requested_at = ?2 WHERE id IN (SELECT id FROM below) AND user_id = ?3 AND state IN ('queued', 'running', 'waiting') RETURNING id, session_id`, turn, tx.Now, l.user), func(row storage.Row) (o open, err error) {
			err = row.Scan(&o.turn, &o.session)
			return o, err
		})
	})
	if err != nil {
		return StateResult{}, err
	}
	stopped := false
	for _, o := range list {
		x, err := s.session(ctx, o.session)
		if err != nil {
			return StateResult{}, err
		}
		did, err := s.stopTurn(ctx, x, o.turn)
		if err != nil {
			return StateResult{}, err
		}
		stopped = stopped || did
	}
	if !stopped { // it has ended meanwhile
		got, err := s.turn(ctx, l.user, turn)
		return StateResult{got.State}, err
	}
	return StateResult{Canceled}, nil
}

// stopTurn ends a turn whose cancellation is recorded, unless it has ended meanwhile.
func (s *Service) stopTurn(ctx context.Context, l *live, turn uuid.UUID) (stopped bool, err error) {
	l.mu.Lock()
	active := l.state.Turn != nil && l.state.Turn.ID == turn
	queued := slices.ContainsFunc(l.state.Queue, func(w waitingInput) bool { return w.Turn == turn })
	cancel := l.cancel
	l.canceled[turn] = true // also for a scheduled turn whose input is not logged yet
	if queued {
		err = l.appendLocked(ctx, turn, nil, &withdrawn{StopCanceled})
	}
	l.mu.Unlock()
	switch {
	case queued:
		s.ended(ctx, l, turn)
		return true, err
	case !active:
		return false, nil
	case cancel != nil:
		cancel(errCanceled)
	}
	s.wake(l)
	return true, nil
}

// CancelAll ends every turn of the caller.
func (s *Service) CancelAll(ctx context.Context, _ struct{}) (CountResult, error) {
	return s.cancelAll(ctx, nil)
}

// cancelAll ends the turns of one session and its subagents, or of all sessions. Waiting turns are
// ended first, so that none of them starts.
func (s *Service) cancelAll(ctx context.Context, session *uuid.UUID) (out CountResult, err error) {
	open, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]Turn, error) {
		return turnRows(tx, `WHERE user_id = ? AND state IN ('queued', 'running', 'waiting') AND (? IS NULL OR session_id IN (`+sessionsBelow+` SELECT id FROM below)) ORDER BY state = 'queued' DESC`, identity.UserID(ctx), session, session)
	})
	for _, t := range open {
		if _, err := s.Cancel(ctx, TurnParams{t.SessionID, &t.TurnID}); err != nil {
			return out, err
		}
		out.Count++
	}
	return out, err
}

// Wait returns when a turn has ended or waits for a person, or after waitMs.
func (s *Service) Wait(ctx context.Context, p WaitParams) (out TurnResult, err error) {
	if p.WaitMs < 0 || p.WaitMs > longestWait.Milliseconds() {
		return out, fault.Invalidf("waitMs is at most %d.", longestWait.Milliseconds())
	}
	timer := time.NewTimer(duration.Of(p.WaitMs, time.Millisecond))
	defer timer.Stop()
	for {
		ch, forget := s.waiter(p.TurnID)
		out.Turn, err = s.turn(ctx, identity.UserID(ctx), p.TurnID)
		if err != nil || out.Turn.FinishedAt != nil || s.asksNow(ctx, out.Turn) || p.WaitMs == 0 {
			forget()
			return out, err
		}
		select {
		case <-ch: // the question may have been answered meanwhile
		case <-timer.C:
			p.WaitMs = 0
		case <-ctx.Done():
			forget()
			return out, fault.As(ctx.Err())
		}
		forget()
	}
}

// waiter returns a channel that is closed at the next end or question of a turn.
func (s *Service) waiter(turn uuid.UUID) (ch chan struct{}, forget func()) {
	ch = make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[turn] = append(s.waits[turn], ch)
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waits[turn] = slices.DeleteFunc(s.waits[turn], func(c chan struct{}) bool { return c == ch })
		if len(s.waits[turn]) == 0 {
			delete(s.waits, turn)
		}
	}
}

// asksNow reports whether a question of the turn is still unanswered.
func (s *Service) asksNow(ctx context.Context, t Turn) bool {
	return slices.ContainsFunc(t.Approvals, func(id uuid.UUID) bool {
		status, err := s.o.Gate.ApprovalStatus(ctx, id)
		return err == nil && status == "pending"
	})
}

// Retry answers the input of a turn again. The old answer stays in the log and is hidden. A retry that
// has not ended is returned instead of starting another.
func (s *Service) Retry(ctx context.Context, p RetryParams) (SendResult, error) {
	l, err := s.sessionOfTurn(ctx, p.TurnID)
	if err != nil {
		return SendResult{}, err
	}
	var in *input
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return s.readEvents(tx, l.id, 0, -1, func(e Event) error {
			if b, ok := e.Body.(*input); ok && e.Turn == p.TurnID {
				in = b
			}
			return nil
		})
	})
	if err != nil {
		return SendResult{}, err
	}
	l.mu.Lock()
	active := l.state.Turn != nil && l.state.Turn.ID == p.TurnID
	var open *SendResult // a retry of this turn that has not ended
	if t := l.state.Turn; t != nil && t.Input.Of != nil && *t.Input.Of == p.TurnID {
		open = &SendResult{TurnID: t.ID, State: Running}
	}
	for i, w := range l.state.Queue {
		active = active || w.Turn == p.TurnID
		if w.Of != nil && *w.Of == p.TurnID {
			open = &SendResult{TurnID: w.Turn, State: Queued, Position: i + 1}
		}
	}
	l.mu.Unlock()
	switch {
	case in == nil || active:
		return SendResult{}, fault.Conflictf("This turn has not ended yet.")
	case open != nil:
		return *open, nil
	}
	again := *in
	again.Of, again.Model = &p.TurnID, cmp.Or(p.Model, in.Model)
	if in.Origin.Kind == OriginImport { // an imported turn is unattended, its retry is attended
		who, _ := identity.From(ctx)
		again.Attended = who.Client != identity.ClientProgram
	}
	if p.MoreTurns > 0 {
		again.Budget.MaxTurns = firstOf(in.Budget.MaxTurns, defaultSteps) + p.MoreTurns
	}
	if p.MoreTokens > 0 && in.Budget.MaxTokens > 0 {
		again.Budget.MaxTokens = in.Budget.MaxTokens + p.MoreTokens
	}
	if p.MoreCostMicros > 0 && in.Budget.MaxCostMicros > 0 {
		again.Budget.MaxCostMicros = in.Budget.MaxCostMicros + p.MoreCostMicros
	}
	return s.enqueue(ctx, l.id, storage.NewID(), "", &again)
}

// Replay folds the log of a session again and compares the resulting requests with those that were
// sent.
func (s *Service) Replay(ctx context.Context, p ReplayParams) (out ReplayResult, err error) {
	out.Identical = true
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if _, err := s.sessionRow(tx, identity.UserID(ctx), p.SessionID); err != nil {
			return err
		}
		st := &State{}
		return s.readEvents(tx, p.SessionID, 0, -1, func(e Event) error {
			if p.UntilSeq > 0 && e.Seq > p.UntilSeq || !out.Identical {
				return nil
			}
			if e.Seq != st.Seq+1 {
				out.Identical, out.FirstDifference = false, &Difference{e.Seq, "sequence", "the next event", "a gap"}
				return nil
			}
			if b, ok := e.Body.(*callStarted); ok && st.Turn != nil {
				q, _ := st.plan()
				hash, err := requestHash(q)
				if err != nil {
					return err
				}
				out.Requests++
				if hash != b.Hash {
					out.Identical, out.FirstDifference = false, &Difference{e.Seq, "request", b.Hash, hash}
				}
			}
			st.apply(e)
			return nil
		})
	})
	return out, err
}

// rerunPayload names the unattended turn that a permission was missing in.
type rerunPayload struct {
	TurnID uuid.UUID `json:"turnId"`
}

// Rerun implements permission.Rerun: it starts the input of an unattended turn again, after a person has
// allowed what that turn could not do, and returns the new turn.
func (s *Service) Rerun(ctx context.Context, payload json.RawMessage) (uuid.UUID, error) {
	var p rerunPayload
	if err := json.Unmarshal(payload, &p); err != nil {
		return uuid.Nil, err
	}
	l, err := s.sessionOfTurn(ctx, p.TurnID)
	if err != nil {
		return uuid.Nil, err
	}
	if l.state.Created.Once { // its chat was archived at the end, and is again
		if _, err := s.Unarchive(ctx, SessionParams{l.id}); err != nil {
			return uuid.Nil, err
		}
	}
	sent, err := s.Retry(ctx, RetryParams{TurnID: p.TurnID})
	return sent.TurnID, err
}
