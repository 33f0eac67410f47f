package agent

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage"
)

// EventsParams selects events of a session's log.
type EventsParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	AfterSeq  int64     `json:"afterSeq,omitempty"`
	Limit     int       `json:"limit,omitempty"` // 1 to 1000, default 1000
}

// LogEvent is an entry of a session's log. Data is the payload as stored.
type LogEvent struct {
	Seq    int64           `json:"seq"`
	Type   string          `json:"type"`
	TurnID *uuid.UUID      `json:"turnId,omitempty"`
	At     time.Time       `json:"at"`
	Data   json.RawMessage `json:"data"`
}

// EventsResult holds events in order.
type EventsResult struct {
	Events  []LogEvent `json:"events"`
	LastSeq int64      `json:"lastSeq"` // last sequence number of the log
}

// Events reads the log of a session.
func (s *Service) Events(ctx context.Context, p EventsParams) (out EventsResult, err error) {
	offset := 0
	if err := storage.CheckPage(&p.Limit, &offset, 1000, 1000); err != nil {
		return out, err
	}
	out.Events = []LogEvent{}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if _, err := s.sessionRow(tx, identity.UserID(ctx), p.SessionID); err != nil {
			return err
		}
		if err := tx.QueryRow(`SELECT coalesce(max(sequence), 0) FROM conversation_events WHERE session_id = ?`, p.SessionID).Scan(&out.LastSeq); err != nil {
			return err
		}
		return s.readEvents(tx, p.SessionID, p.AfterSeq, p.Limit, func(e Event) error {
			v := LogEvent{Seq: e.Seq, Type: e.Body.eventType(), At: e.At}
			if e.Turn != uuid.Nil {
				v.TurnID = &e.Turn
			}
			var err error
			v.Data, err = json.Marshal(e.Body)
			out.Events = append(out.Events, v)
			return err
		})
	})
	return out, err
}

// ContextPart is one part of the next request.
type ContextPart struct {
	Kind   string `json:"kind"` // tools, system, soul, skills, summary, history or volatile
	Name   string `json:"name"`
	Tokens int64  `json:"tokens"` // an estimate
	Cached bool   `json:"cached"` // the service may have cached it from the last request
	Text   string `json:"text,omitempty"`
}

// ContextResult describes the next request of a chat.
type ContextResult struct {
	Window     int           `json:"window"`
	Used       int64         `json:"used"`
	Parts      []ContextPart `json:"parts"`
	Omitted    []string      `json:"omitted"`    // what is left out because it does not fit, in sentences
	Precedence []string      `json:"precedence"` // texts of the prompt, highest precedence first
}

// Context reports what the next request of a chat contains and how many tokens it takes.
func (s *Service) Context(ctx context.Context, p SessionParams) (out ContextResult, err error) {
	l, err := s.session(ctx, p.SessionID)
	if err != nil {
		return out, err
	}
	l.mu.Lock()
	st := *l.state
	l.mu.Unlock()
	next := &turnState{Window: assumedWindow}
	if i, err := s.o.Models.Describe(ctx, providers.Request{Role: st.role(), Model: st.Model}); err == nil {
		next.Window, next.Output = i.Window, min(i.Output, i.Window/4)
	}
	list, err := s.tools(ctx, &st)
	if err != nil {
		return out, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()                // a running turn changes the parts of the request
	if st = *l.state; st.Turn == nil { // as at the start of a turn
		st.Turn = next
		st.Tools, _ = declared(list, next.Window)
	}
	q, left := st.plan()
	out = ContextResult{Window: st.Turn.Window, Parts: []ContextPart{}, Omitted: []string{}, Precedence: precedence(st.Created.Prompt)}
	add := func(kind, name, text string, tokens int64, cached bool) {
		out.Parts = append(out.Parts, ContextPart{kind, name, tokens, cached, text})
		out.Used += tokens
	}
	add("tools", fmt.Sprintf("%d tools", len(q.Tools)), "", estimateTools(q.Tools), true)
	add("system", "Built-in rules", rules, estimate(rules), true)
	for _, x := range st.Created.Prompt {
		add(x.Kind, x.Name, x.Text, estimate(x.Text), true)
	}
	if st.Summary != "" {
		add("summary", "summary", st.Summary, estimate(st.Summary), true)
	}
	shown := st.Exchanges[left:]
	for i, x := range shown {
		name, _ := clip(x.Text, 80)
		add("history", name, "", estimateMessages(x.messages(st.Created.Boundary, "")), i < len(shown)-1)
	}
	if st.Turn.Block != "" {
		add("volatile", "this turn", st.Turn.Block, estimate(st.Turn.Block), false)
	}
	if left > 0 {
		out.Omitted = append(out.Omitted, fmt.Sprintf("%d earlier messages with their answers do not fit.", left))
	}
	if st.Dropped > 0 {
		out.Omitted = append(out.Omitted, fmt.Sprintf("%d earlier messages with their answers are replaced by the summary.", st.Dropped))
	}
	return out, nil
}

// CostRow is the sum of a group of model calls.
type CostRow struct {
	Key        string           `json:"key"`
	Calls      int              `json:"calls"`
	CostMicros providers.Micros `json:"costMicros"`
	Tokens     int64            `json:"tokens"` // prompts and answers
}

// CostResult is the cost of a chat.
type CostResult struct {
	CostMicros      providers.Micros `json:"costMicros"`
	EstimatedMicros providers.Micros `json:"estimatedMicros"` // the part for calls whose cost the service did not report
	Tokens          providers.Usage  `json:"tokens"`
	Calls           int              `json:"calls"`
	ByModel         []CostRow        `json:"byModel"`
	ByPurpose       []CostRow        `json:"byPurpose"`
	ByTurn          []CostRow        `json:"byTurn"`   // by id, the newest first
	Children        []CostRow        `json:"children"` // additional cost of subagents, by session
}

// Cost returns the cost of a chat, broken down by its causes.
func (s *Service) Cost(ctx context.Context, p SessionParams) (out CostResult, err error) {
	out.ByModel, out.ByPurpose, out.ByTurn, out.Children = []CostRow{}, []CostRow{}, []CostRow{}, []CostRow{}
	add := func(list *[]CostRow, key string, r CostRow) {
		i := slices.IndexFunc(*list, func(x CostRow) bool { return x.Key == key })
		if i < 0 {
			*list, i = append(*list, CostRow{Key: key}), len(*list)
		}
		x := &(*list)[i]
		x.Calls, x.CostMicros, x.Tokens = x.Calls+1, x.CostMicros+r.CostMicros, x.Tokens+r.Tokens
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if _, err := s.sessionRow(tx, identity.UserID(ctx), p.SessionID); err != nil {
			return err
		}
		if out.Children, err = storage.Collect(tx.Select(sessionsBelow+` SELECT session_id, count(*), sum(cost_micros), sum(input + cache_read + cache_write + output) FROM agent_ledger
			WHERE session_id IN (SELECT id FROM below) AND session_id <> ?1 AND state <> 'released' GROUP BY session_id ORDER BY session_id`, p.SessionID), func(row storage.Row) (r CostRow, err error) {
			var id uuid.UUID
			err = row.Scan(&id, &r.Calls, &r.CostMicros, &r.Tokens)
			r.Key = id.String()
			return r, err
		}); err != nil {
			return err
		}
		return tx.Select(`SELECT turn_id, purpose, provider || '/' || model, cost_micros, estimated, input, cache_read, cache_write, output, reasoning FROM agent_ledger
			WHERE session_id = ? AND state <> 'released' ORDER BY at DESC`, p.SessionID).Each(func(row storage.Row) error {
			var turn uuid.NullUUID
			var purpose, model string
			var estimated bool
			var r CostRow
			var u providers.Usage
			if err := row.Scan(&turn, &purpose, &model, &r.CostMicros, &estimated, &u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning); err != nil {
				return err
			}
			r.Tokens = u.Prompt() + u.Output
			out.Calls, out.CostMicros, out.Tokens = out.Calls+1, out.CostMicros+r.CostMicros, addUsage(out.Tokens, u)
			if estimated {
				out.EstimatedMicros += r.CostMicros
			}
			add(&out.ByModel, model, r)
			add(&out.ByPurpose, purpose, r)
			if turn.Valid {
				add(&out.ByTurn, turn.UUID.String(), r)
			}
			return nil
		})
	})
	for _, list := range [][]CostRow{out.ByModel, out.ByPurpose} {
		slices.SortStableFunc(list, func(a, b CostRow) int { return cmp.Compare(b.CostMicros, a.CostMicros) })
	}
	return out, err
}

// ForkParams names a chat and the end of the copy.
type ForkParams struct {
	SessionID uuid.UUID `json:"sessionId"`
	AtSeq     int64     `json:"atSeq,omitempty"` // the copy ends with the turn of this entry; 0: with the last finished turn
}

// Fork copies a chat up to the end of a turn. The copy is independent of the original. Queued inputs
// and costs are not copied.
func (s *Service) Fork(ctx context.Context, p ForkParams) (SessionResult, error) {
	user, id := identity.UserID(ctx), storage.NewID()
	src, err := s.get(ctx, p.SessionID)
	switch {
	case err != nil:
		return SessionResult{}, err
	case src.Session.Deleted:
		return SessionResult{}, fault.NotFoundf("This chat is in the trash. Restore it first.")
	case !src.Session.Here:
		return s.forkTranscript(ctx, p)
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		var last sql.NullInt64
		err := tx.QueryRow(`SELECT min(sequence) FROM conversation_events WHERE session_id = ?1 AND type = 'turn_finished' AND sequence >= ?2`, p.SessionID, p.AtSeq).Scan(&last)
		if err == nil && (p.AtSeq == 0 || !last.Valid) {
			err = tx.QueryRow(`SELECT max(sequence) FROM conversation_events WHERE session_id = ? AND type = 'turn_finished'`, p.SessionID).Scan(&last)
		}
		if err != nil {
			return err
		}
		if !last.Valid {
			return fault.Conflictf("Nothing in this chat has been answered yet, so there is nothing to copy.")
		}
		if _, err := tx.Exec(`INSERT INTO sessions (id, user_id, device_id, kind, title, agent_name, forked_from, mode, queue_mode, model, project_dir, budget, remember, created_at, updated_at)
			SELECT ?, user_id, ?, ?, title, agent_name, id, mode, queue_mode, model, project_dir, budget, remember, ?, ? FROM sessions WHERE id = ?`,
			id, s.db.Device().ID, KindChat, tx.Now, tx.Now, p.SessionID); err != nil {
			return err
		}
		return s.copyLog(ctx, tx, p.SessionID, id, user, last.Int64)
	})
	if err != nil {
		return SessionResult{}, err
	}
	return s.announced(ctx, id)
}

// forkTranscript copies a chat of another device. Its log stays there, so the copy is made of its messages,
// as an import is, and its text is untrusted here.
func (s *Service) forkTranscript(ctx context.Context, p ForkParams) (SessionResult, error) {
	x, err := s.readChat(ctx, p.SessionID)
	if err != nil {
		return SessionResult{}, err
	}
	end := len(x.messages)
	if at := slices.IndexFunc(x.messages, func(m Message) bool { return m.Seq >= p.AtSeq }); p.AtSeq > 0 && at >= 0 {
		for end = at + 1; end < len(x.messages) && x.messages[end].TurnID == x.messages[at].TurnID; end++ {
		}
	}
	if end > 0 && slices.Contains([]string{"user", "tool"}, x.messages[end-1].Role) { // the other device has not answered yet
		for open := x.messages[end-1].TurnID; end > 0 && x.messages[end-1].TurnID == open; end-- {
		}
	}
	if x.messages = x.messages[:end]; end == 0 {
		return SessionResult{}, fault.Conflictf("Nothing in this chat has been answered yet, so there is nothing to copy.")
	}
	var lines bytes.Buffer
	if err := s.writeLines(&lines, x); err != nil {
		return SessionResult{}, err
	}
	return s.importChat(ctx, x.session.Title, &lines, &p.SessionID)
}

// copyLog copies the log of a session up to a sequence number, with the rows that show it. The copied
// turns get new ids.
func (s *Service) copyLog(ctx context.Context, tx *storage.Tx, from, to, user uuid.UUID, upto int64) error {
	turns, repeats := map[uuid.UUID]uuid.UUID{}, map[uuid.UUID]*uuid.UUID{}
	l := &live{s: s, id: to, user: user, state: &State{}}
	var events []Event
	if err := s.readEvents(tx, from, 0, int(upto), func(e Event) error {
		if _, ok := turns[e.Turn]; !ok && e.Turn != uuid.Nil {
			turns[e.Turn] = storage.NewID()
		}
		events = append(events, e)
		return nil
	}); err != nil {
		return err
	}
	pairs := []string{}
	for old, made := range turns {
		pairs = append(pairs, old.String(), made.String())
	}
	renamed := strings.NewReplacer(pairs...)
	for _, e := range events {
		raw, err := json.Marshal(e.Body)
		if err != nil {
			return err
		}
		raw = []byte(renamed.Replace(string(raw)))
		if e.Body, err = decodePayload(e.Body.eventType(), schemaVersion, raw); err != nil {
			return err
		}
		e.Turn = turns[e.Turn]
		if c, ok := e.Body.(*created); ok {
			c.Kind, c.Once, c.Parent = KindChat, false, nil
		}
		if err := s.writeEvent(tx, to, e); err != nil {
			return err
		}
		if in, ok := e.Body.(*input); ok {
			repeats[e.Turn] = in.Of
		}
		l.state.apply(e)
	}
	for old, made := range turns {
		if _, err := tx.Exec(`INSERT INTO agent_turns (id, session_id, user_id, state, queue_mode, lane, stop_reason, steps, usage, provider, model, error_kind, error_message, created_at, started_at, finished_at, retry_of)
			SELECT ?, ?, user_id, CASE WHEN finished_at IS NULL THEN 'queued' ELSE state END, queue_mode, 'chat', stop_reason, steps, usage, provider, model, error_kind, error_message, created_at, started_at, finished_at, ? FROM agent_turns WHERE id = ?`, made, to, repeats[made], old); err != nil {
			return err
		}
	}
	list, err := s.messageRows(tx, `WHERE m.session_id = ? AND m.seq <= ? ORDER BY m.seq`, from, upto)
	if err != nil {
		return err
	}
	for _, m := range list {
		if err := s.message(tx, l, Event{Seq: m.Seq, Turn: turns[m.TurnID], At: m.At}, m.Role, m.Parts, m.Origin, m.Model); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(`INSERT INTO session_blobs (session_id, user_id, sha256, name, mime, bytes, direction, at) SELECT ?, user_id, sha256, name, mime, bytes, direction, at FROM session_blobs WHERE session_id = ?`, to, from); err != nil {
		return err
	}
	for _, w := range slices.Clone(l.state.Queue) { // queued inputs stay with the original chat
		made, err := s.appendTx(ctx, tx, l, w.Turn, &withdrawn{StopSuperseded})
		if err != nil {
			return err
		}
		for _, e := range made {
			l.state.apply(e)
		}
	}
	return nil
}
