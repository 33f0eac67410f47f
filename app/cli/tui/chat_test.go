package tui

import (
	"context"
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

// Whatever moments the connection is lost at, and in whatever order calls answer, the answer is on the
// screen once: never doubled, never with a hole, and whole in the end.
func TestAnswerIsShownOnceAfterRandomCuts(t *testing.T) {
	t.Parallel()
	const whole = "An answer of many words, with 界 and 🎉 and a second line.\nIt ends here."
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := newBackend()
		b.say(2, "user", text("Tell me"))
		b.run(2, agent.Running)
		s := newScreen(t, b, 200, 60)
		var waiting []tea.Cmd // calls that have not been made, and answers that have not come
		var do func(tea.Cmd)
		do = func(cmd tea.Cmd) {
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
				if _, made := msg.(answer); !made && r.IntN(2) == 0 { // it comes later
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
			switch {
			case len(waiting) > 0 && r.IntN(2) == 0:
				step()
			case r.IntN(8) == 0 && up:
				up = false
				update(lostMsg{1})
			case r.IntN(3) == 0 && !up:
				up = true
				update(connectedMsg{b})
			}
		}
		shown := func() string {
			if l := s.m.chat.Live; l != nil {
				return l.Text()
			}
			return ""
		}
		update(connectedMsg{b})
		tell("chat.turn_progress", agent.TurnProgress{SessionID: id(1), TurnID: id(2), Kind: "provider_call", Turn: 1, MaxTurns: 100})
		said, discarded := "", r.IntN(2)
		for attempt := range discarded + 1 {
			goal := whole
			if attempt < discarded {
				goal = "A wrong beginning of " + whole[:r.IntN(20)]
			}
			for said = ""; said != goal; noise() {
				n := min(1+r.IntN(6), len(goal)-len(said))
				for n < len(goal)-len(said) && goal[len(said)+n]&0xc0 == 0x80 {
					n++
				}
				d := delta(2, attempt, len(said), goal[len(said):len(said)+n])
				said += d.Delta
				b.get.Partial = &agent.Partial{TurnID: id(2), Attempt: attempt, Text: said}
				tell("chat.assistant_delta", d)
				if got := shown(); !strings.HasPrefix(whole, got) && !strings.HasPrefix("A wrong beginning of "+whole, got) {
					t.Fatalf("seed %d: %q is shown of %q", seed, got, said)
				}
			}
			if attempt < discarded {
				b.get.Partial = nil
				tell("chat.attempt_discarded", agent.AttemptDiscarded{SessionID: id(1), TurnID: id(2), Attempt: attempt})
			}
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
		settle()
		if got := shown(); got != whole {
			t.Fatalf("seed %d: %q is shown of %q", seed, got, whole)
		}
		b.get.Partial, b.get.ActiveTurn = nil, nil
		b.say(2, "assistant", text(whole))
		tell("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
		noise()
		settle()
		if n := strings.Count(s.frame(), "It ends here."); n != 1 || s.m.chat.Live != nil {
			t.Fatalf("seed %d: the answer is shown %d times", seed, n)
		}
	}
}

// answer is what a call gave, on its way.
type answer struct{ tea.Msg }

// Text before a call of a tool stays until its message is read, and is then shown once.
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
