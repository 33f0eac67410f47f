package agent

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/segmentio/encoding/json"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	snapshotEach = 200     // events
	partMax      = 4 << 10 // bytes of a result in the transcript
	titleRunes   = 60      // of a title taken from the first message
)

// seal returns the form in which text is stored: unchanged, or encrypted with private storage.
func (s *Service) seal(table, column string, id uuid.UUID, text []byte) (any, error) {
	if !s.o.Private {
		return string(text), nil
	}
	return s.db.Keys().Seal(table, column, id, text)
}

// open reverses seal. A column may hold both forms, because the setting can change.
func (s *Service) open(table, column string, id uuid.UUID, stored []byte) ([]byte, error) {
	if len(stored) > 0 && stored[0] == '{' || len(stored) > 0 && stored[0] == '[' {
		return stored, nil
	}
	return s.db.Keys().Unseal(table, column, id, stored)
}

// readEvents calls fn with the events of a session after a sequence number, in order.
func (s *Service) readEvents(tx *storage.Tx, session uuid.UUID, after int64, limit int, fn func(Event) error) error {
	return tx.Select(`SELECT sequence, type, turn_id, payload_json, schema_version, coalesce(causation, 0), at FROM conversation_events WHERE session_id = ? AND sequence > ? ORDER BY sequence LIMIT ?`, session, after, limit).Each(func(row storage.Row) error {
		var e Event
		var typ, turn, raw sql.RawBytes // valid only until the next row
		var version int
		if err := row.Scan(&e.Seq, &typ, &turn, &raw, &version, &e.Cause, storage.Time(&e.At)); err != nil {
			return err
		}
		plain, err := s.open("conversation_events", "payload_json", session, raw)
		if err != nil {
			return err
		}
		copy(e.Turn[:], turn)
		if e.Body, err = decodePayload(string(typ), version, plain); err != nil {
			return err
		}
		return fn(e)
	})
}

// load folds the log of a session, starting from its snapshot if there is one.
func (s *Service) load(tx *storage.Tx, session uuid.UUID) (*State, error) {
	st := &State{}
	var raw []byte
	err := tx.QueryRow(`SELECT state FROM session_state WHERE session_id = ?`, session).Scan(&raw)
	switch {
	case err == nil:
		plain, err := s.open("session_state", "state", session, raw)
		if err == nil {
			err = json.Unmarshal(plain, st)
		}
		if err != nil { // it can be rebuilt from the log
			s.log.Warn("the snapshot of a session can't be read", "session", session, "err", err)
			st = &State{}
		}
		for i, e := range st.Exchanges { // without the unused capacity that decoding leaves
			for j, m := range e.Messages {
				e.Messages[j].Parts = slices.Clone(m.Parts)
			}
			st.Exchanges[i].Messages = slices.Clone(e.Messages)
		}
	case !errors.Is(err, sql.ErrNoRows):
		return nil, err
	}
	err = s.readEvents(tx, session, st.Seq, -1, func(e Event) error {
		st.apply(e)
		return nil
	})
	return st, err
}

// snapshot stores the folded state, so that opening the session again reads few events.
func (s *Service) snapshot(ctx context.Context, session, user uuid.UUID, st *State) error {
	raw, err := json.Marshal(st)
	if err != nil {
		return err
	}
	sealed, err := s.seal("session_state", "state", session, raw)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO session_state (session_id, user_id, sequence, state, updated_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (session_id) DO UPDATE SET sequence = excluded.sequence, state = excluded.state, updated_at = excluded.updated_at WHERE excluded.sequence > sequence`, session, user, st.Seq, sealed, tx.Now)
		return err
	})
}

// appendTx writes events after those already folded into the state, and updates the rows that show
// them. The caller folds the events once tx is committed.
func (s *Service) appendTx(ctx context.Context, tx *storage.Tx, l *live, turn uuid.UUID, bodies ...payload) ([]Event, error) {
	out := make([]Event, len(bodies))
	var projected = *l.state
	if l.state.Turn != nil {
		t := *l.state.Turn
		projected.Turn = &t
	}
	for i, b := range bodies {
		e := Event{Seq: l.state.Seq + int64(i) + 1, Turn: turn, Cause: l.state.Seq, At: tx.Now, Body: b}
		if err := s.writeEvent(tx, l.id, e); err != nil {
			return nil, err
		}
		if err := s.project(ctx, tx, l, &projected, e); err != nil {
			return nil, err
		}
		out[i] = e
	}
	return out, nil
}

// writeEvent appends an event to the log of a session.
func (s *Service) writeEvent(tx *storage.Tx, session uuid.UUID, e Event) error {
	raw, err := json.Marshal(e.Body)
	if err != nil {
		return err
	}
	sealed, err := s.seal("conversation_events", "payload_json", session, raw)
	if err != nil {
		return err
	}
	var owner any
	if e.Turn != uuid.Nil {
		owner = e.Turn
	}
	_, err = tx.Exec(`INSERT INTO conversation_events (session_id, sequence, type, turn_id, payload_json, schema_version, causation, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		session, e.Seq, e.Body.eventType(), owner, sealed, schemaVersion, e.Cause, e.At)
	return err
}

// project updates the rows that show an event: the transcript, the turn and the session.
func (s *Service) project(ctx context.Context, tx *storage.Tx, l *live, st *State, e Event) error {
	turn := func(set string, args ...any) error {
		_, err := tx.Exec(`UPDATE agent_turns SET `+set+` WHERE id = ?`, append(args, e.Turn)...)
		return err
	}
	switch b := e.Body.(type) {
	case *input:
		lane := laneChat
		if !b.Attended {
			lane = laneBackground
		}
		var report any // whom to notify of its end
		if p := l.state.Created.Parent; p != nil && p.Detached {
			report = p.Session
		}
		_, err := tx.Exec(`INSERT INTO agent_turns (id, session_id, user_id, state, queue_mode, lane, retry_of, report_to, created_at) VALUES (?, ?, ?, 'queued', ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET pending = NULL WHERE pending IS NOT NULL`,
			e.Turn, l.id, l.user, b.QueueMode, lane, b.Of, report, tx.Now)
		return err
	case *withdrawn:
		return turn(`state = ?, stop_reason = ?, finished_at = ?`, Canceled, b.Reason, tx.Now)
	case *turnStarted:
		if err := s.userMessage(ctx, tx, l, e, append([]uuid.UUID{e.Turn}, b.Joined...)); err != nil {
			return err
		}
		if err := s.shown(ctx, tx, l, true, l.state.Created.instructions()); err != nil {
			return err
		}
		return turn(`state = 'running', phase = 'streaming', started_at = ?, model = ?`, tx.Now, string(b.Ref))
	case *steered:
		return s.userMessage(ctx, tx, l, e, b.Turns)
	case *callStarted:
		return turn(`state = 'running', phase = 'streaming', wait_reason = '', steps = ?`, b.Step)
	case *replied:
		parts := []Part{}
		for _, p := range b.Parts {
			switch p.Kind {
			case providers.PartText, providers.PartReasoning:
				if p.Text != "" {
					parts = append(parts, Part{Kind: p.Kind, Text: p.Text})
				}
			case providers.PartToolCall:
				args := json.RawMessage(p.Args)
				if !json.Valid(args) {
					args, _ = json.Marshal(p.Args)
				}
				parts = append(parts, Part{Kind: PartToolCall, CallID: p.ID, Tool: p.Name, Title: s.titleOf(l, p.Name), Tier: s.tierOf(l, p.Name), Args: args})
			}
		}
		for _, src := range b.Sources {
			parts = append(parts, Part{Kind: PartSource, URL: src.URL, Name: src.Title})
		}
		if err := turn(`provider = ?, model = ?`, b.Provider, b.Model); err != nil {
			return err
		}
		if b.Failure != nil && len(parts) == 0 {
			return nil
		}
		return s.message(tx, l, e, "assistant", parts, nil, b.Provider+"/"+b.Model)
	case *callSettled:
		if st.Turn != nil {
			st.Turn.Micros += b.Micros
			st.Turn.Usage = addUsage(st.Turn.Usage, b.Usage)
			usage, err := json.Marshal(st.Turn.Usage)
			if err != nil {
				return err
			}
			if err := turn(`usage = ?, cost_micros = ?`, string(usage), st.Turn.Micros); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`UPDATE sessions SET cost_micros = cost_micros + ?, updated_at = ? WHERE id = ?`, b.Micros, tx.Now, l.id)
		return err
	case *toolIntent:
		return turn(`state = 'running', phase = 'toolExecution', wait_reason = ''`)
	case *toolOutcome:
		text, cut := clip(b.Text, partMax)
		if cut {
			text += "…"
		}
		c := l.state.Turn.call(b.CallID)
		p := Part{Kind: PartToolResult, CallID: b.CallID, Text: text, Status: b.Status, TookMs: b.TookMs, Blob: b.Blob, Bytes: b.Bytes, Untrusted: b.Untrusted, UndoToken: b.Undo, Error: b.Status != statusDone, ApprovalID: b.Approval}
		if c != nil {
			p.Tool = c.Name
			if b.Status == statusDone && !returnsConversation(c.Name) {
				if err := s.shown(ctx, tx, l, false, b.Text); err != nil {
					return err
				}
			}
		}
		return s.message(tx, l, e, "tool", []Part{p}, nil, "")
	case *approvalAsked:
		reason := "approval"
		if b.Unknown {
			reason = "unknown_outcome"
		}
		return turn(`state = 'waiting', phase = 'yielding', wait_reason = ?`, reason)
	case *subagentEnded:
		if _, err := tx.Exec(`UPDATE agent_turns SET cost_micros = cost_micros + ? WHERE id = ?`, b.Micros, b.For); err != nil {
			return err
		}
		if st.Turn != nil && st.Turn.ID == b.For {
			st.Turn.Micros += b.Micros
			st.Turn.Usage = addUsage(st.Turn.Usage, b.Usage)
		}
		_, err := tx.Exec(`UPDATE sessions SET cost_micros = cost_micros + ?, updated_at = ? WHERE id = ?`, b.Micros, tx.Now, l.id)
		return err
	case *noticed:
		return s.message(tx, l, e, "system", []Part{{Kind: PartNotice, Title: b.Title, Text: b.Text, Status: b.Kind}}, nil, "")
	case *mediaSent:
		parts := []Part{b.File.shown()}
		if b.Text != "" {
			parts = append(parts, Part{Kind: PartText, Text: b.Text})
		}
		if err := s.keepBlob(tx, l, b.File.Blob, b.File.Name, b.File.Mime, b.File.Bytes, "out"); err != nil {
			return err
		}
		return s.message(tx, l, e, "assistant", parts, nil, "")
	case *turnFinished:
		kind, message := "", ""
		if b.Error != nil {
			kind, message = b.Error.Kind, b.Error.Message
		}
		if err := turn(`state = ?, stop_reason = ?, phase = '', wait_reason = '', error_kind = ?, error_message = ?, finished_at = ?`, b.State, b.Reason, kind, message, tx.Now); err != nil {
			return err
		}
		if l.state.Created.Once {
			if _, err := tx.Exec(`UPDATE sessions SET archived_at = ?, updated_at = ? WHERE id = ?`, tx.Now, tx.Now, l.id); err != nil {
				return err
			}
		}
		if b.Reason != StopAnswer {
			if message == "" {
				message = stopSentence(b.Reason)
			}
			if err := s.message(tx, l, e, "system", []Part{{Kind: PartNotice, Text: message, Status: b.Reason}}, nil, ""); err != nil {
				return err
			}
		}
		if text := l.state.answer(); text != "" && b.State == Completed {
			return s.remember(ctx, tx, l, e.Turn, "assistant", text, tx.Now)
		}
	}
	return nil
}

// userMessage adds inputs that are answered together to the transcript, and to memory if the session
// is remembered.
func (s *Service) userMessage(ctx context.Context, tx *storage.Tx, l *live, e Event, turns []uuid.UUID) error {
	var texts []string
	var files []Attachment
	var origin *Origin
	for _, w := range l.state.Queue {
		if !slices.Contains(turns, w.Turn) {
			continue
		}
		if origin == nil {
			origin = &w.Origin
		}
		if w.Text != "" {
			texts = append(texts, w.Text)
		}
		files = append(files, w.Files...)
		if w.Turn != e.Turn {
			if _, err := tx.Exec(`UPDATE agent_turns SET state = 'completed', stop_reason = 'superseded', started_at = ?, finished_at = ? WHERE id = ?`, tx.Now, tx.Now, w.Turn); err != nil {
				return err
			}
		}
		if w.Origin.Kind == OriginUser && w.Of == nil {
			if err := s.remember(ctx, tx, l, w.Turn, "user", w.Text, w.At); err != nil {
				return err
			}
		}
	}
	parts := []Part{}
	if text := strings.Join(texts, "\n\n"); text != "" || len(files) == 0 {
		parts = append(parts, Part{Kind: PartText, Text: text})
	}
	for _, a := range files {
		parts = append(parts, a.shown())
	}
	return s.message(tx, l, e, "user", parts, origin, "")
}

// message adds an entry to the transcript.
func (s *Service) message(tx *storage.Tx, l *live, e Event, role string, parts []Part, origin *Origin, model string) error {
	id := storage.NewID()
	raw, err := json.Marshal(parts)
	if err != nil {
		return err
	}
	sealed, err := s.seal("session_messages", "content", id, raw)
	if err != nil {
		return err
	}
	var from any
	if origin != nil {
		text, err := json.Marshal(origin)
		if err != nil {
			return err
		}
		from = string(text)
	}
	if _, err := tx.Exec(`INSERT INTO session_messages (id, session_id, user_id, seq, turn_id, role, content, origin, model, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, l.id, l.user, e.Seq, e.Turn, role, sealed, from, model, e.At, tx.Now); err != nil {
		return err
	}
	if text := words(parts); text != "" && !s.o.Private {
		if _, err := tx.Exec(`INSERT INTO session_messages_fts (message_id, text) VALUES (?, ?)`, id, text); err != nil {
			return err
		}
	}
	title := ""
	if role == "user" {
		title = titleOf(parts)
	}
	_, err = tx.Exec(`UPDATE sessions SET message_count = message_count + 1, last_message_at = ?, updated_at = ?, title = CASE WHEN title = '' THEN ? ELSE title END WHERE id = ?`, tx.Now, tx.Now, title, l.id)
	return err
}

// remember stores a text as part of the person's conversations.
func (s *Service) remember(ctx context.Context, tx *storage.Tx, l *live, turn uuid.UUID, role, text string, at time.Time) error {
	if !l.remember || s.o.Memory == nil || strings.TrimSpace(text) == "" || l.state.Created.Kind != KindChat {
		return nil
	}
	return s.o.Memory.Said(ctx, tx, l.id, role, turn.String()+" "+role, text, at)
}

// shown records a text that the model reads, so that it does not save it as a memory.
func (s *Service) shown(ctx context.Context, tx *storage.Tx, l *live, prompt bool, text string) error {
	if s.o.Memory == nil {
		return nil
	}
	return s.o.Memory.Shown(ctx, tx, l.id, prompt, text)
}

// returnsConversation reports whether a tool returns what the person or the model said, which may be saved, or
// memories, which have a log of their own.
func returnsConversation(tool string) bool {
	return strings.HasPrefix(tool, "scratchpad_") || strings.HasPrefix(tool, "history_") || strings.HasPrefix(tool, "memory_")
}

// words returns the searchable text of a message.
func words(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Kind == PartText || p.Kind == PartNotice || p.Kind == PartToolResult {
			b.WriteString(p.Text)
			b.WriteByte('\n')
		}
		if p.Kind == PartImage || p.Kind == PartFile {
			b.WriteString(p.Name)
			b.WriteByte('\n')
		}
	}
	return strings.TrimSpace(b.String())
}

// titleOf returns the first line of a message, cut at a word boundary.
func titleOf(parts []Part) string {
	line, _, _ := strings.Cut(words(parts), "\n")
	runes := []rune(strings.TrimSpace(line))
	if len(runes) <= titleRunes {
		return string(runes)
	}
	text := string(runes[:titleRunes])
	if i := strings.LastIndexByte(text, ' '); i > len(text)/2 {
		text = text[:i]
	}
	return text + "…"
}

// clip cuts a text at a character boundary and reports whether it did.
func clip(text string, most int) (string, bool) {
	if len(text) <= most {
		return text, false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}

// answer returns the text of the last reply of the turn.
func (s *State) answer() string {
	if len(s.Exchanges) == 0 {
		return ""
	}
	list := s.Exchanges[len(s.Exchanges)-1].Messages
	if len(list) == 0 || list[len(list)-1].Role != providers.Assistant {
		return ""
	}
	return providers.Reply{Parts: list[len(list)-1].Parts}.Text()
}

// stopSentence returns a sentence on why a turn ended without an answer.
func stopSentence(reason string) string {
	switch reason {
	case StopMaxTurns:
		return "The turn has used all its steps."
	case StopBudget:
		return "The budget is spent."
	case StopLoop:
		return "The model repeated itself without getting anywhere."
	case StopTimeout:
		return "The turn took too long."
	case StopLength:
		return "The answer reached the model's length limit."
	case StopRefusal:
		return "The model refused to answer."
	case StopCanceled:
		return "Canceled."
	case StopDenied:
		return "A permission is missing. The question waits in Approvals."
	}
	return "The turn ended with an error."
}

// publish notifies clients of an event, once it is committed.
func (s *Service) publish(l *live, e Event) {
	switch b := e.Body.(type) {
	case *turnStarted:
		bus.Publish(s.bus, l.user, TurnStarted{l.id, e.Turn, e.Seq})
	case *toolIntent:
		args := json.RawMessage("{}")
		if t := l.state.Turn; t != nil {
			if c := t.call(b.CallID); c != nil && json.Valid([]byte(c.Args)) {
				args = json.RawMessage(c.Args)
			}
		}
		bus.Publish(s.bus, l.user, ToolStarted{l.id, e.Turn, e.Seq, b.CallID, b.Tool, args})
	case *toolOutcome:
		bus.Publish(s.bus, l.user, ToolFinished{l.id, e.Turn, e.Seq, b.CallID, "", b.Status, b.TookMs})
	case *approvalAsked:
		bus.Publish(s.bus, l.user, NoticeEvent{SessionID: l.id, TurnID: e.Turn, Seq: e.Seq, Kind: "approval", Text: "The chat waits for an answer in Approvals.", ApprovalID: &b.Approval, CallID: b.CallID})
	case *mediaSent:
		bus.Publish(s.bus, l.user, MediaAttachment{l.id, e.Turn, e.Seq, b.File.Blob, b.File.Name, b.File.Mime, b.File.Bytes, b.Text})
	case *noticed:
		bus.Publish(s.bus, l.user, NoticeEvent{SessionID: l.id, TurnID: e.Turn, Seq: e.Seq, Kind: b.Kind, Text: b.Text})
	case *input, *withdrawn, *configured, *approvalAnswered, *replied, *subagentStarted, *subagentEnded:
		bus.Publish(s.bus, l.user, SessionChanged{SessionID: l.id})
	}
	switch e.Body.(type) {
	case *turnStarted, *callStarted, *approvalAsked, *approvalAnswered:
		s.tellAbove(l)
	}
}

// sessionRow reads one session of the caller.
func (s *Service) sessionRow(tx *storage.Tx, user, id uuid.UUID) (Session, error) {
	list, err := s.sessionRows(tx, `WHERE s.id = ? AND s.user_id = ?`, id, user)
	if err != nil {
		return Session{}, err
	}
	if len(list) == 0 {
		return Session{}, fault.NotFoundf("Chat not found.")
	}
	return list[0], nil
}

const sessionColumns = `s.id, s.kind, s.title, s.agent_name, s.mode, s.queue_mode, s.model, s.project_dir, s.budget, s.remember, s.pinned, s.message_count, s.cost_micros,
	s.parent_session_id, s.forked_from, s.device_id, s.last_message_at, s.archived_at, s.created_at, s.updated_at, s.deleted_at IS NOT NULL,
	coalesce((SELECT CASE WHEN sum(state = 'waiting') > 0 THEN 'waiting' WHEN sum(state = 'running') > 0 THEN 'running' WHEN count(*) > 0 THEN 'queued' END FROM agent_turns t WHERE t.session_id = s.id AND t.state IN ('queued', 'running', 'waiting')), 'idle')`

func (s *Service) sessionRows(tx *storage.Tx, where string, args ...any) ([]Session, error) {
	here := s.db.Device().ID
	return storage.Collect(tx.Select(`SELECT `+sessionColumns+` FROM sessions s `+where, args...), func(row storage.Row) (x Session, err error) {
		var parent, forked uuid.NullUUID
		var device uuid.UUID
		err = row.Scan(&x.ID, &x.Kind, &x.Title, &x.AgentName, &x.Mode, &x.QueueMode, &x.Model, &x.ProjectDir, storage.JSON(&x.Budget), &x.Remember, &x.Pinned, &x.MessageCount, &x.CostMicros,
			&parent, &forked, &device, storage.TimePtr(&x.LastMessageAt), storage.TimePtr(&x.ArchivedAt), storage.Time(&x.CreatedAt), storage.Time(&x.UpdatedAt), &x.Deleted, &x.State)
		if parent.Valid {
			x.Parent = &parent.UUID
		}
		if forked.Valid {
			x.ForkedFrom = &forked.UUID
		}
		x.Here = device == here
		return x, err
	})
}

const turnColumns = `id, session_id, state, phase, wait_reason, stop_reason, steps, usage, cost_micros, provider, model, error_kind, error_message, created_at, started_at, finished_at`

func turnRows(tx *storage.Tx, where string, args ...any) ([]Turn, error) {
	return storage.Collect(tx.Select(`SELECT `+turnColumns+` FROM agent_turns `+where, args...), func(row storage.Row) (t Turn, err error) {
		var e TurnError
		err = row.Scan(&t.TurnID, &t.SessionID, &t.State, &t.Phase, &t.WaitReason, &t.StopReason, &t.Steps, storage.JSON(&t.Usage), &t.CostMicros, &t.Provider, &t.Model, &e.Kind, &e.Message,
			storage.Time(&t.CreatedAt), storage.TimePtr(&t.StartedAt), storage.TimePtr(&t.FinishedAt))
		if e.Kind != "" {
			t.Error = &e
		}
		t.Approvals = []uuid.UUID{}
		return t, err
	})
}

// messageRows reads messages of a session.
func (s *Service) messageRows(tx *storage.Tx, where string, args ...any) ([]Message, error) {
	return storage.Collect(tx.Select(`SELECT m.id, m.session_id, m.seq, m.turn_id, m.role, m.content, m.origin, m.model, m.cost_micros, m.created_at, EXISTS (SELECT 1 FROM agent_turns r WHERE r.retry_of = m.turn_id AND r.session_id = m.session_id)
		FROM session_messages m `+where, args...), func(row storage.Row) (m Message, err error) {
		var raw []byte
		var origin sql.NullString
		if err := row.Scan(&m.ID, &m.SessionID, &m.Seq, &m.TurnID, &m.Role, &raw, &origin, &m.Model, &m.CostMicros, storage.Time(&m.At), &m.Hidden); err != nil {
			return m, err
		}
		plain, err := s.open("session_messages", "content", m.ID, raw)
		if err != nil {
			return m, err
		}
		if origin.Valid {
			m.Origin = &Origin{}
			if err := json.Unmarshal([]byte(origin.String), m.Origin); err != nil {
				return m, err
			}
		}
		return m, json.Unmarshal(plain, &m.Parts)
	})
}

// asUser returns a context for background work on behalf of a user.
func (s *Service) asUser(ctx context.Context, user uuid.UUID) context.Context {
	return identity.With(ctx, identity.Identity{User: user, Scopes: identity.Write.Closed(), Client: identity.ClientProgram, Label: "agent", Pipe: "background"})
}
