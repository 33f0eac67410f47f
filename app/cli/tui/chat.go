package tui

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/gateway"
)

const (
	maxMessages = 1000 // newest messages that a Chat keeps
	pageSize    = 200
)

// Topics returns the events that Chat.Event understands, and those that report that models were set
// up.
func Topics() []string { return []string{"chat.*", "providers.changed"} }

// Chat is the known state of one conversation, folded from the backend's events and results: stored
// messages, and the streaming answer. Deltas are not replayed, so some are lost with a connection
// and some arrive twice, once in chat.get and once as an event; their offsets determine their
// position. A Chat has no clock and makes no calls. The zero Chat is empty; set Session.ID before
// its first event.
type Chat struct {
	Session  agent.Session
	Turn     *agent.Turn // the active one
	Queue    []agent.QueuedInput
	Messages []agent.Message // in the order of the log, without gaps
	Older    bool            // there are earlier messages
	Live     *Live
	Tool     string // the running one
	Waiting  string // the service whose rate limit the turn waits for

	// epoch counts model calls and lost connections: a result of chat.get that was requested in an
	// earlier epoch does not apply to the current text.
	epoch int
	whole bool // a retry may have replaced stored messages
}

// Live is the answer of a model call while it streams.
type Live struct {
	TurnID    uuid.UUID
	Attempt   int
	Restarted bool   // a previous attempt was discarded
	Thinking  bool   // the model is reasoning and has not begun to answer
	Before    string // the answer of the previous call, until its message is read

	step   int // of the turn, from 1: its message has this number
	text   []byte
	later  []agent.AssistantDelta // after a gap, until the missing part is read
	unsure bool                   // the connection was lost: no delta applies before chat.get is read
}

// Text returns the answer so far.
func (l *Live) Text() string { return string(l.text) }

// put applies a delta: it skips the known part, and stores a delta after a gap for later.
func (l *Live) put(d agent.AssistantDelta) {
	l.later = append(l.later, d)
	for i := 0; i < len(l.later) && !l.unsure; {
		d := l.later[i]
		if d.Offset > len(l.text) {
			i++
			continue
		}
		if known := len(l.text) - d.Offset; known < len(d.Delta) {
			l.text = append(l.text, d.Delta[known:]...)
		}
		l.later = slices.Delete(l.later, i, i+1)
		i = 0
	}
}

// restart starts another attempt of the same call.
func (l *Live) restart(attempt int, discarded bool) *Live {
	return &Live{TurnID: l.TurnID, step: l.step, Attempt: attempt, Before: l.Before, Restarted: l.Restarted || discarded}
}

// Gap reports whether a part of the answer is missing, so that Query must be read.
func (c *Chat) Gap() bool { return c.Live != nil && (c.Live.unsure || len(c.Live.later) > 0) }

// Lost records that the connection was lost: deltas may be missing.
func (c *Chat) Lost() {
	c.epoch++
	c.whole = true
	if c.Live != nil {
		c.Live.Attempt, c.Live.later, c.Live.unsure = 0, nil, true
	}
}

// Event applies a notification and reports whether something must be read (Query).
func (c *Chat) Event(e gateway.Event) (read bool) {
	var about agent.SessionParams
	if json.Unmarshal(e.Data, &about) != nil || about.SessionID != c.Session.ID || c.Session.ID == uuid.Nil {
		return false
	}
	switch e.Name {
	case "chat.assistant_delta", "chat.reasoning_delta":
		var d agent.AssistantDelta
		if json.Unmarshal(e.Data, &d) != nil {
			return false
		}
		if l := c.liveOf(d.TurnID, d.Attempt); l != nil {
			c.Live, c.Tool = l, ""
			if l.Thinking = e.Name == "chat.reasoning_delta" && len(l.text) == 0; e.Name == "chat.assistant_delta" {
				l.put(d)
			}
		}
		return c.Gap()
	case "chat.attempt_discarded":
		var d agent.AttemptDiscarded
		if l := c.Live; json.Unmarshal(e.Data, &d) == nil && l != nil && l.TurnID == d.TurnID && d.Attempt >= l.Attempt {
			if l.unsure {
				l.Attempt, l.Restarted = d.Attempt+1, true
				l.later = slices.DeleteFunc(l.later, func(p agent.AssistantDelta) bool { return p.Attempt <= d.Attempt })
			} else {
				c.Live = l.restart(d.Attempt+1, true)
			}
		}
		return false
	case "chat.turn_progress":
		var p agent.TurnProgress
		if json.Unmarshal(e.Data, &p) != nil {
			return false
		}
		c.Tool, c.Waiting = "", ""
		switch p.Kind {
		case "waiting_rate":
			c.Waiting = p.Message
		case "tool_execution", "tool_heartbeat":
			c.Tool = p.Message
		case "provider_call":
			l := &Live{TurnID: p.TurnID, step: p.Turn}
			if old := c.Live; old != nil && old.TurnID == p.TurnID && old.step < p.Turn {
				if l.Before = old.Text(); l.Before == "" {
					l.Before = old.Before
				}
			}
			c.epoch++
			c.Live = l
			c.settle()
			if c.Live == nil {
				c.Live = l
			}
		}
		return false
	case "chat.turn_started":
		c.whole = true
	}
	return true
}

// liveOf returns the live answer of an attempt; nil if the attempt has ended.
func (c *Chat) liveOf(turn uuid.UUID, attempt int) *Live {
	switch l := c.Live; {
	case l == nil || l.TurnID != turn:
		return &Live{TurnID: turn, step: c.answers(turn) + 1, Attempt: attempt}
	case l.unsure || attempt == l.Attempt:
		return l
	case attempt < l.Attempt:
		return nil
	default:
		return l.restart(attempt, false)
	}
}

// answers returns the number of stored answers of a turn.
func (c *Chat) answers(turn uuid.UUID) (n int) {
	for _, m := range c.Messages {
		if m.TurnID == turn && m.Role == "assistant" {
			n++
		}
	}
	return n
}

// settle removes the part of the live answer that is in the messages.
func (c *Chat) settle() {
	if c.Live == nil {
		return
	}
	switch n := c.answers(c.Live.TurnID); {
	case n >= c.Live.step:
		c.Live = nil
	case n == c.Live.step-1:
		c.Live.Before = ""
	}
}

// Query is what to read to bring a Chat up to date.
type Query struct {
	session uuid.UUID
	epoch   int
	last    int64 // seq of the newest message
	before  int64 // otherwise the messages before this one
	whole   bool
}

// Query returns what to read to bring the Chat up to date; pass the result to Apply.
func (c *Chat) Query() Query {
	q := Query{session: c.Session.ID, epoch: c.epoch, whole: c.whole}
	if n := len(c.Messages); n > 0 {
		q.last = c.Messages[n-1].Seq
	}
	c.whole = false
	return q
}

// OlderQuery returns a query for messages before the first; ok is false if there are none, or
// enough are loaded.
func (c *Chat) OlderQuery() (q Query, ok bool) {
	if !c.Older || len(c.Messages) == 0 || len(c.Messages) >= maxMessages {
		return q, false
	}
	return Query{session: c.Session.ID, before: c.Messages[0].Seq}, true
}

// Page is the result of a Query.
type Page struct {
	query Query
	get   agent.GetResult
	list  agent.MessagesResult
}

// Read executes the query.
func (q Query) Read(ctx context.Context, conn Conn) (p Page, err error) {
	p.query = q
	ask := agent.MessagesParams{SessionID: q.session, Before: q.before, Limit: pageSize}
	if q.before == 0 {
		if !q.whole {
			ask.After = q.last
		}
		if err := conn.Call(ctx, "chat.get", agent.SessionParams{SessionID: q.session}, &p.get); err != nil {
			return p, err
		}
	}
	// The messages are read second, so that they include what ended in between.
	return p, conn.Call(ctx, "chat.messages", ask, &p.list)
}

// Apply applies a result and reports whether to read again.
func (c *Chat) Apply(p Page) (again bool) {
	q := p.query
	if q.session != c.Session.ID {
		return false
	}
	list := p.list.Messages
	switch joins := len(list) == 0 || list[0].Seq <= q.last || !p.list.More; {
	case q.before > 0 || q.last == 0:
		c.Older = p.list.More
		c.merge(list)
	case q.whole && !joins:
		c.Messages, c.Older = list, true
	default:
		c.merge(list)
		again = p.list.More && !q.whole
	}
	c.settle()
	if q.before > 0 {
		return false
	}
	c.Session, c.Turn, c.Queue = p.get.Session, p.get.ActiveTurn, p.get.Queue
	switch {
	case c.Turn == nil:
		c.Live, c.Tool = nil, ""
	case q.epoch == c.epoch:
		c.takePartial(*c.Turn, p.get.Partial)
	}
	return again || c.Gap() || q.epoch != c.epoch
}

// merge inserts messages at their positions; a newer version of a message replaces the older.
func (c *Chat) merge(list []agent.Message) {
	all := append(slices.Clone(list), c.Messages...)
	slices.SortStableFunc(all, func(a, b agent.Message) int { return cmp.Compare(a.Seq, b.Seq) })
	all = slices.CompactFunc(all, func(a, b agent.Message) bool { return a.Seq == b.Seq })
	if n := len(all) - maxMessages; n > 0 {
		all, c.Older = all[n:], true
	}
	c.Messages = all
}

// takePartial applies the partial answer from chat.get. The messages may be newer.
func (c *Chat) takePartial(t agent.Turn, partial *agent.Partial) {
	l := c.Live
	if l != nil && l.TurnID != t.TurnID {
		l = nil
	}
	if l != nil && !l.unsure {
		if partial != nil {
			if same := c.liveOf(t.TurnID, partial.Attempt); same != nil {
				same.put(agent.AssistantDelta{Delta: partial.Text})
				c.Live = same
			}
		}
		return
	}
	c.Live = nil
	if l == nil && partial == nil {
		return
	}
	now := &Live{TurnID: t.TurnID, step: t.Steps}
	if l != nil {
		now.Attempt, now.Restarted, now.later = l.Attempt, l.Restarted, l.later
		if n := len(l.later); n > 0 {
			now.Attempt = l.later[n-1].Attempt
		}
	}
	known := ""
	if partial != nil && (l == nil || partial.Attempt >= l.Attempt) {
		now.Attempt, known = partial.Attempt, partial.Text
	}
	now.later = slices.DeleteFunc(now.later, func(d agent.AssistantDelta) bool { return d.Attempt != now.Attempt })
	now.put(agent.AssistantDelta{Attempt: now.Attempt, Delta: known})
	c.Live = now
	c.settle()
}
