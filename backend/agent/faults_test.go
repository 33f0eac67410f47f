package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
	"helix/backend/storage"
)

var allWires = []string{providers.WireChat, providers.WireResponses, providers.WireAnthropic, providers.WireGemini}

// askServers returns a talk whose role chat is a chain of emulated services, named a, b and so on.
func askServers(t *testing.T, servers ...*providerstest.Server) *talk {
	t.Helper()
	entries := make([]providers.Entry, len(servers))
	for i, s := range servers {
		entries[i] = s.Entry()
	}
	return askServices(t, entries)
}

func askServices(t *testing.T, entries []providers.Entry, change ...func(*Options)) *talk {
	t.Helper()
	return newTalkWith(t, func(db *storage.DB, ledger *Ledger) Models {
		windows := map[string]any{} // emulators written by others do not report a window
		for i := range entries {
			windows["provider_defaults."+string(rune('a'+i))+".window"] = int64(128_000)
		}
		models, err := providers.New(db, providers.ServiceOptions{HTTP: providerstest.Client(t), Meter: ledger, Caps: func() map[string]any { return windows }})
		if err != nil {
			t.Fatal(err)
		}
		ctx := identity.With(t.Context(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin.Closed()})
		var chain []providers.ModelRef
		for i, e := range entries {
			name := string(rune('a' + i))
			if _, err := models.Set(ctx, providers.SetParams{Name: name, Entry: e}); err != nil {
				t.Fatal(err)
			}
			chain = append(chain, providers.ModelRef(name+"/one"))
		}
		if _, err := models.SetRole(ctx, providers.SetRoleParams{Role: providers.RoleChat, Chain: chain}); err != nil {
			t.Fatal(err)
		}
		return models
	}, change...)
}

// answers returns the assistant's texts in a chat.
func (k *talk) answers(session uuid.UUID) (out []string) {
	k.t.Helper()
	list, err := k.Messages(k.ctx, MessagesParams{SessionID: session})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, m := range list.Messages {
		text := ""
		for _, p := range m.Parts {
			if m.Role == "assistant" && p.Kind == PartText {
				text += p.Text
			}
		}
		if m.Role == "assistant" {
			out = append(out, text)
		}
	}
	return out
}

// paid returns the ledger rows of a talk.
func (k *talk) paid() (rows []LedgerRow) {
	k.t.Helper()
	out, err := k.o.Ledger.List(k.ctx, LedgerParams{Limit: 100})
	if err != nil {
		k.t.Fatal(err)
	}
	return out.Rows
}

// However a service misbehaves, on each wire: the transcript contains the answer once, complete or up
// to the point of failure, and so does the next request; the ledger has at least what the service
// counted, and never twice; and the log replays.
func TestServicesThatMisbehave(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("The boat is moored at the pier, as it was yesterday. ", 12)
	text = strings.TrimSpace(text)
	usage := providers.Usage{Input: 201, Output: 77, Requests: 1}
	for name, x := range map[string]struct {
		chaos providerstest.Chaos
		calls int // for both turns
		fails bool
	}{
		"in pieces":             {providerstest.Chaos{Split: true, Noise: true}, 2, false},
		"byte by byte":          {providerstest.Chaos{Drip: true}, 2, false},
		"usage twice":           {providerstest.Chaos{DuplicateUsage: true}, 2, false},
		"cut in the middle":     {providerstest.Chaos{Truncate: 700, Times: 1}, 3, false},
		"reset in the middle":   {providerstest.Chaos{Reset: 700, Times: 2}, 4, false},
		"cut at the beginning":  {providerstest.Chaos{Truncate: -1, Times: 1}, 3, false},
		"too many requests":     {providerstest.Chaos{Status: 429, RetryAfter: time.Millisecond, Times: 2}, 4, false},
		"overloaded":            {providerstest.Chaos{Status: 529, Times: 1}, 3, false},
		"garbage in the middle": {providerstest.Chaos{Garbage: true, Times: 1}, 3, false},
		"cut each time":         {providerstest.Chaos{Truncate: 700}, 5, true}, // then the circuit opens
	} {
		for _, wire := range allWires {
			t.Run(name+" "+wire, func(t *testing.T) {
				t.Parallel()
				srv := providerstest.New(t, providerstest.Options{Wire: wire, Chaos: x.chaos, Repeat: true, Replies: []providers.ScriptedReply{{Text: text, Usage: usage}}})
				k := askServers(t, srv)
				session := k.begin()
				for n := range 2 {
					turn := k.say(session, fmt.Sprint("Question ", n))
					if (turn.State != Completed) != x.fails {
						t.Fatalf("%+v %+v", turn, turn.Error)
					}
				}
				for n, got := range k.answers(session) {
					if got != text && !(x.fails && strings.HasPrefix(text, got)) {
						t.Errorf("answer %d: %q", n, got)
					}
				}
				if got := len(k.answers(session)); got != 2 {
					t.Errorf("%d answers", got)
				}
				requests := srv.Requests()
				if len(requests) != x.calls {
					t.Errorf("%d calls, want %d", len(requests), x.calls)
				}
				if n := strings.Count(string(requests[len(requests)-1].Body), "moored"); n > 12 {
					t.Errorf("the last request has the answer more than once: %d", n)
				}
				var input, output, served int64
				rows := k.paid()
				for _, r := range rows {
					input, output = input+r.Input, output+r.Output
					if r.State == stateReserved {
						t.Errorf("a call is not settled: %+v", r)
					}
				}
				served = srv.Served().Input
				if input < served || len(rows) != x.calls {
					t.Errorf("the ledger has %d of %d tokens in, in %d rows", input, served, len(rows))
				}
				if x.calls == 2 && (input != 2*usage.Input || output != 2*usage.Output) {
					t.Errorf("the ledger has %d and %d tokens of two calls of %d and %d", input, output, usage.Input, usage.Output)
				}
				if r, err := k.Replay(k.ctx, ReplayParams{SessionID: session}); err != nil || !r.Identical {
					t.Errorf("replay: %+v, %v", r, err)
				}
			})
		}
	}
}

// When the first model of the chain fails permanently in the middle of its answer, the second gives
// the complete answer and the first model's text is discarded. A signature of the first model is sent
// only to that model.
func TestFallbackInsideATurn(t *testing.T) {
	t.Parallel()
	text := strings.TrimSpace(strings.Repeat("The boat is moored at the pier. ", 20))
	second := providerstest.New(t, providerstest.Options{Repeat: true, Replies: []providers.ScriptedReply{{Text: text}}})
	broken := providerstest.New(t, providerstest.Options{Wire: providers.WireAnthropic, Chaos: providerstest.Chaos{Status: 503}, Repeat: true, Replies: []providers.ScriptedReply{{Text: text}}})
	k := askServers(t, broken, second)
	session := k.begin()
	if turn := k.say(session, "Where is it?"); turn.State != Completed || turn.Provider != "b" {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	if got := k.answers(session); len(got) != 1 || got[0] != text || broken.Calls() != 3 {
		t.Errorf("%q after %d calls of the first", got, broken.Calls())
	}

	thinking := providerstest.New(t, providerstest.Options{Wire: providers.WireAnthropic, Repeat: true, Replies: []providers.ScriptedReply{{Reasoning: "It floats.", Text: "At the pier."}}})
	k = askServers(t, thinking, second)
	session = k.begin()
	k.say(session, "Where is it?")
	k.say(session, "Really?")
	if body := string(thinking.Requests()[1].Body); strings.Count(body, "c2lnbmF0dXJl") != 1 || !strings.Contains(body, "It floats.") {
		t.Errorf("the signature did not go back to its model: %s", body)
	}
	before := second.Calls()
	sent, err := k.Send(k.ctx, SendParams{SessionID: session, Text: "And you?", Model: "b/one"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.Wait(k.ctx, WaitParams{TurnID: sent.TurnID, WaitMs: longestWait.Milliseconds()}); err != nil || got.Turn.Provider != "b" {
		t.Fatalf("%+v, %v", got.Turn, err)
	}
	if body := string(second.Requests()[before].Body); strings.Contains(body, "c2lnbmF0dXJl") || strings.Contains(body, "It floats.") || !strings.Contains(body, "At the pier.") {
		t.Errorf("another model got the signature or what it signs: %s", body)
	}
}

// Canceling a waiting input does not affect the running turn, which can still be canceled afterwards.
func TestCancelOfAWaitingInput(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	k := newTalk(t, spoken{window: assumedWindow, answer: func(ctx context.Context, _ providers.Request) (providers.Reply, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return providers.Reply{}, ctx.Err()
	}})
	session := k.begin()
	var turns []uuid.UUID
	for range 2 {
		sent, err := k.Send(k.ctx, SendParams{SessionID: session, Text: "Is it so?"})
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, sent.TurnID)
	}
	<-begun
	if _, err := k.Cancel(k.ctx, TurnParams{session, &turns[1]}); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Wait(k.ctx, WaitParams{TurnID: turns[1], WaitMs: longestWait.Milliseconds()}); err != nil || got.Turn.State != Canceled {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := k.Wait(k.ctx, WaitParams{TurnID: turns[0]}); err != nil || got.Turn.State != Running {
		t.Fatalf("the turn that works: %+v, %v", got, err)
	}
	if _, err := k.Cancel(k.ctx, TurnParams{SessionID: session}); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Wait(k.ctx, WaitParams{TurnID: turns[0], WaitMs: longestWait.Milliseconds()}); err != nil || got.Turn.State != Canceled || got.Turn.FinishedAt == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Once a turn is being canceled, its questions no longer count: Wait returns at its end.
func TestWaitAfterCancelIgnoresQuestions(t *testing.T) {
	t.Parallel()
	reg, set := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
	reg.Add(set)
	set.Add(callable.Func{Info: callable.Info{Name: "mail.send"}, Run: func(context.Context, callable.Request) (any, error) { return "sent", nil }})
	k := newTalk(t, spoken{window: assumedWindow, answer: func(context.Context, providers.Request) (providers.Reply, error) {
		return providers.Reply{Parts: []providers.Part{callOf("c1", "mail_send", `{}`)}}, nil
	}}, func(o *Options) { o.Callables = reg })
	session := k.begin()
	turn := k.say(session, "Send it")
	if turn.State != Waiting || len(turn.Approvals) != 1 {
		t.Fatalf("%+v", turn)
	}
	l, err := k.session(k.ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.canceled[turn.TurnID] = true // the moment before the turn notices
	l.mu.Unlock()
	got, err := k.Wait(k.ctx, WaitParams{TurnID: turn.TurnID})
	if err != nil || len(got.Turn.Approvals) != 0 {
		t.Errorf("%+v, %v", got.Turn, err)
	}
}

// A model that writes past the limit that the budget left it is stopped in the middle of its answer,
// which is kept with its cost.
func TestTurnStopsWhenAnAnswerPassesItsReservation(t *testing.T) {
	t.Parallel()
	for _, wire := range allWires {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			srv := providerstest.New(t, providerstest.Options{Wire: wire, Repeat: true, Replies: []providers.ScriptedReply{{Text: strings.Repeat("And so on. ", 20_000)}}})
			k := askServers(t, srv)
			made, err := k.Create(k.ctx, CreateParams{Budget: &Budget{MaxTokens: 12_000}})
			if err != nil {
				t.Fatal(err)
			}
			turn := k.say(made.Session.ID, "Tell me all of it")
			if turn.State != Failed || turn.StopReason != StopBudget || turn.Error == nil || !strings.Contains(turn.Error.Message, "sent more than") {
				t.Fatalf("%+v %+v", turn, turn.Error)
			}
			answers, rows := k.answers(made.Session.ID), k.paid()
			if len(answers) != 1 || !strings.HasPrefix(answers[0], "And so on. And") || len(answers[0]) > 100_000 {
				t.Errorf("%d answers, the first of %d bytes", len(answers), len(answers[0]))
			}
			if len(rows) != 1 || rows[0].State != stateSettled || rows[0].Output == 0 || srv.Calls() != 1 {
				t.Errorf("%d calls, the ledger has %+v", srv.Calls(), rows)
			}
		})
	}
}
