package tui

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/gateway"
	"helix/backend/permission"
)

type ctx = context.Context

func questionOfCrash() *permission.Question {
	return &permission.Question{Choices: []permission.Choice{{ID: "happened", Label: "It happened", Approves: true}, {ID: "again", Label: "Run again", Approves: true}, {ID: "stop", Label: "Stop"}}}
}

// Whenever the connection is lost, and in whatever order calls return, the answer is on the screen
// once: never duplicated, never with a gap, and complete in the end.
func TestAnswerIsShownOnceAfterRandomCuts(t *testing.T) {
	t.Parallel()
	const calls = 8
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := newBackend()
		b.say(2, "user", text("Tell me"))
		b.run(2, agent.Running)
		s := newScreen(t, b, 200, 60)
		var waiting []tea.Cmd // calls that have not been made, and results that have not arrived
		do := func(cmd tea.Cmd) {
			if cmd != nil {
				waiting = append(waiting, cmd)
			}
		}
		update := func(msg tea.Msg) {
			_, cmd := s.m.Update(msg)
			do(cmd)
		}
		step := func() {
			i := r.IntN(len(waiting))
			cmd := waiting[i]
			waiting = append(waiting[:i], waiting[i+1:]...)
			switch msg := cmd().(type) {
			case nil:
			case tea.BatchMsg:
				for _, c := range msg {
					do(c)
				}
			default:
				if _, made := msg.(answer); !made && r.IntN(2) == 0 { // it arrives later
					waiting = append(waiting, func() tea.Msg { return answer{msg} })
				} else {
					if a, ok := msg.(answer); ok {
						msg = a.Msg
					}
					update(msg)
				}
			}
		}
		up := true
		tell := func(name string, data any) {
			if up {
				update(eventsMsg{notification(t, name, data)})
			}
		}
		noise := func() {
			switch n := r.IntN(12); {
			case len(waiting) > 0 && n < 6:
				step()
			case n == 6 && up:
				up = false
				update(lostMsg{1})
			case n < 9 && !up:
				up = true
				update(connectedMsg{b})
			case n == 9:
				tell("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
			}
		}
		shown := func() string {
			if l := s.m.chat.Live; l != nil {
				return l.Text()
			}
			return ""
		}
		settle := func() {
			if !up {
				up = true
				update(connectedMsg{b})
			}
			for n := 0; len(waiting) > 0; n++ {
				if step(); n > 10_000 {
					t.Fatalf("seed %d: it reads for ever", seed)
				}
			}
		}
		update(connectedMsg{b})
		for call := 1; call <= calls; call++ {
			whole := fmt.Sprintf("Answer %d has 界 and 🎉\nand ends.", call)
			b.get.ActiveTurn.Steps = call
			tell("chat.turn_progress", agent.TurnProgress{SessionID: id(1), TurnID: id(2), Kind: "provider_call", Turn: call, MaxTurns: 100})
			discarded := r.IntN(3)
			for attempt := range discarded + 1 {
				goal := whole
				if attempt < discarded {
					goal = fmt.Sprintf("Wrong %d.%d %s", call, attempt, whole[:r.IntN(20)])
				}
				for said := ""; said != goal; noise() {
					n := min(1+r.IntN(6), len(goal)-len(said))
					for n < len(goal)-len(said) && goal[len(said)+n]&0xc0 == 0x80 {
						n++
					}
					d := delta(2, attempt, len(said), goal[len(said):len(said)+n])
					tell("chat.assistant_delta", d)
					if r.IntN(4) == 0 {
						noise()
					}
					said += d.Delta
					b.get.Partial = &agent.Partial{TurnID: id(2), Attempt: attempt, Text: said} // after the event, as in the backend
				}
				if attempt < discarded {
					b.get.Partial = nil
					tell("chat.attempt_discarded", agent.AttemptDiscarded{SessionID: id(1), TurnID: id(2), Attempt: attempt})
				}
			}
			if r.IntN(2) == 0 { // otherwise the next call starts while results are on their way
				if settle(); up && r.IntN(2) == 0 {
					tell("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
					settle()
				}
				if got := shown(); got != whole {
					t.Fatalf("seed %d, call %d: %q is shown of %q", seed, call, got, whole)
				}
			}
			b.get.Partial = nil
			b.say(2, "assistant", text(whole))
			tell("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
			noise()
		}
		b.get.ActiveTurn = nil
		tell("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
		settle()
		frame := s.frame()
		for call := 1; call <= calls; call++ {
			if n := strings.Count(frame, fmt.Sprintf("Answer %d", call)); n != 1 || s.m.chat.Live != nil {
				t.Fatalf("seed %d: answer %d is shown %d times", seed, call, n)
			}
		}
	}
}

// answer is the result of a call, on its way.
type answer struct{ tea.Msg }

// Text before a tool call stays until its message is read, and is then shown once.
func TestTextBeforeAToolIsShownOnce(t *testing.T) {
	t.Parallel()
	var c Chat
	c.Session.ID = id(1)
	event := func(name string, data any) { c.Event(notification(t, name, data)) }
	progress := func(step int) {
		event("chat.turn_progress", agent.TurnProgress{SessionID: id(1), TurnID: id(2), Kind: "provider_call", Turn: step})
	}
	progress(1)
	event("chat.assistant_delta", delta(2, 0, 0, "I will look."))
	progress(2)
	if c.Live == nil || c.Live.Before != "I will look." || c.Live.Text() != "" {
		t.Fatalf("%+v", c.Live)
	}
	b := newBackend()
	b.say(2, "assistant", text("I will look."), call("file_list", "{}", ""))
	b.run(2, agent.Running)
	p, err := c.Query().Read(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(p)
	if c.Live == nil || c.Live.Before != "" || len(c.Messages) != 1 {
		t.Errorf("%+v", c.Live)
	}
}

// A wait for a rate limit and a tool that runs long are shown until the next event of the turn.
func TestWhatATurnDoesIsShown(t *testing.T) {
	t.Parallel()
	var c Chat
	c.Session.ID = id(1)
	for _, x := range []struct{ kind, message, tool, waiting string }{
		{"provider_call", "", "", ""}, {"waiting_rate", "a", "", "a"}, {"waiting_rate", "", "", ""}, {"tool_execution", "web_fetch", "web_fetch", ""},
		{"tool_heartbeat", "web_fetch", "web_fetch", ""}, {"waiting_rate", "a", "", "a"}, {"provider_call", "", "", ""},
	} {
		c.Event(notification(t, "chat.turn_progress", agent.TurnProgress{SessionID: id(1), TurnID: id(2), Kind: x.kind, Message: x.message, Turn: 1}))
		if c.Tool != x.tool || c.Waiting != x.waiting {
			t.Errorf("%s %s: the tool %q, waiting for %q", x.kind, x.message, c.Tool, c.Waiting)
		}
	}
}

func TestEventsOfOtherChatsChangeNothing(t *testing.T) {
	t.Parallel()
	var c Chat
	c.Session.ID = id(1)
	for _, e := range []gateway.Event{notification(t, "chat.session_changed", agent.SessionEvent{SessionID: id(2)}), {Name: "chat.notice", Data: []byte("no JSON")}, {Name: "chat.notice", Data: []byte(`{}`)}} {
		if c.Event(e) {
			t.Errorf("%s is taken over", e.Name)
		}
	}
	if (&Chat{}).Event(notification(t, "chat.notice", agent.NoticeEvent{SessionID: uuid.Nil})) {
		t.Error("a chat that does not exist has events")
	}
}

func TestOnlyTheNewestMessagesAreKept(t *testing.T) {
	t.Parallel()
	b := newBackend()
	for i := range 1001 {
		b.say(10+i, "user", text("x"))
	}
	s := connected(t, b, 80, 24)
	if n := len(s.m.chat.Messages); n != maxMessages || s.m.chat.Messages[0].Seq != 2 {
		t.Errorf("%d messages, the first is %d", n, s.m.chat.Messages[0].Seq)
	}
}
