package cli

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/gateway"
)

// lastEventLimit is how long to wait for the event of something that is known to have happened.
const lastEventLimit = 10 * time.Second

// eventLog collects events of chats until they are printed.
type eventLog struct {
	more  chan struct{} // has a value if list may have events
	ended chan error    // has the error with which the events ended

	mu   sync.Mutex
	list []event
}

func (l *eventLog) put(e event) error {
	l.mu.Lock()
	l.list = append(l.list, e)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return nil
}

func (l *eventLog) take() (list []event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, l.list = l.list, nil
	return list
}

// chatEvents collects the events of chats from now on, until stop is called.
func (c *command) chatEvents() (l *eventLog, stop func(), err error) {
	topics := []string{"chat.*"}
	var now gateway.EventsState
	if _, err := c.call("events.subscribe", gateway.TopicsParams{Topics: topics}, &now); err != nil {
		return nil, nil, err
	}
	l = &eventLog{more: make(chan struct{}, 1), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.ended <- c.conn.Events(ctx, topics, int64(min(now.Seq, 1<<62)), l.put)
	}()
	return l, func() { cancel(); <-done }, nil
}

// printEvents prints the events of a chat as lines of JSON until a turn ends or waits for an answer.
func (c *command) printEvents(l *eventLog, session, turn uuid.UUID) error {
	type answer struct {
		turn agent.Turn
		err  error
	}
	answers := make(chan answer, 1)
	wait := func() {
		var got agent.TurnResult
		_, err := c.call("chat.wait", agent.WaitParams{TurnID: turn, WaitMs: 20_000}, &got)
		answers <- answer{got.Turn, err}
	}
	go wait()
	var waiting []uuid.UUID // the questions that the turn waits for; their events come before or after this is known
	var late <-chan time.Time
	var last agent.Turn
	shown := map[uuid.UUID]bool{}
	for {
		select {
		case <-l.more:
			for _, e := range l.take() {
				ended, asked, err := c.printEvent(e, session, turn)
				if err != nil {
					return err
				}
				if ended != nil {
					return turnError(*ended)
				}
				shown[asked] = true
			}
		case a := <-answers:
			switch last = a.turn; {
			case a.err != nil && c.ctx.Err() != nil:
				return c.cancelTurn(session, turn)
			case a.err != nil:
				return a.err
			case last.State == agent.Waiting && len(last.Approvals) > 0:
				waiting = last.Approvals
			case last.FinishedAt == nil:
				go wait()
				continue
			}
			late = time.After(lastEventLimit)
		case <-late:
			if waiting == nil {
				return turnError(last)
			}
			return c.waitsForAnswer(last)
		case err := <-l.ended:
			if c.ctx.Err() != nil {
				return c.cancelTurn(session, turn)
			}
			return err
		}
		if waiting != nil && !slices.ContainsFunc(waiting, func(id uuid.UUID) bool { return !shown[id] }) {
			return c.waitsForAnswer(last)
		}
	}
}

// printEvent prints an event of the chat. ended is the turn if the event is its end, asked the question
// if the event is one.
func (c *command) printEvent(e event, session, turn uuid.UUID) (ended *agent.Turn, asked uuid.UUID, err error) {
	var p struct {
		Data struct {
			SessionID  uuid.UUID       `json:"sessionId"`
			ApprovalID uuid.UUID       `json:"approvalId"`
			Turn       json.RawMessage `json:"turn"` // a turn, or in chat.turn_progress the number of a step
		} `json:"data"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil || p.Data.SessionID != session {
		return nil, uuid.Nil, err
	}
	if err := json.NewEncoder(c.env.Stdout).Encode(e); err != nil {
		return nil, uuid.Nil, err
	}
	switch e.Method {
	case "chat.turn_completed", "chat.turn_cancelled", "chat.turn_failed":
		var t agent.Turn
		if err := json.Unmarshal(p.Data.Turn, &t); err != nil {
			return nil, uuid.Nil, err
		}
		if t.TurnID == turn {
			ended = &t
		}
	}
	return ended, p.Data.ApprovalID, nil
}
