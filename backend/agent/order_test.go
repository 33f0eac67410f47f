package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/providers"
)

// Eight calls of a step that only read run at once: each ends when all have begun. A call that writes
// waits for those before it and those after it wait for it. The model gets the results in the order of
// its calls.
func TestCallsThatReadRunTogether(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	waiting := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
	reading := map[string]int{}
	reg, set := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
	reg.Add(set)
	input := []byte(`{"type":"object","properties":{"group":{"type":"string"},"n":{"type":"integer"}}}`)
	type args struct {
		Group string
		N     int
	}
	set.Add(callable.Func{Info: callable.Info{Name: "probe.read", Input: input, Effects: callable.Effects{ReadOnly: true}}, Run: callable.Typed(func(ctx context.Context, _ callable.Request, in args) (any, error) {
		mu.Lock()
		order = append(order, "read "+in.Group)
		if reading[in.Group]++; reading[in.Group] == parallelCalls {
			close(waiting[in.Group])
		}
		mu.Unlock()
		select {
		case <-waiting[in.Group]:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return fmt.Sprintf("%s %d", in.Group, in.N), nil
	})})
	set.Add(callable.Func{Info: callable.Info{Name: "file.write", Input: input}, Run: callable.Typed(func(context.Context, callable.Request, args) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, "write")
		return "written", nil
	})})
	var calls []providers.Part
	var want []string
	for n := range parallelCalls {
		calls = append(calls, callOf(fmt.Sprintf("a%d", n), "probe_read", fmt.Sprintf(`{"group":"a","n":%d}`, n)))
		want = append(want, fmt.Sprintf("a %d", n))
	}
	calls, want = append(calls, callOf("w", "file_write", `{}`)), append(want, "written")
	for n := range parallelCalls - 1 { // with the write, at most 16 calls
		calls = append(calls, callOf(fmt.Sprintf("b%d", n), "probe_read", fmt.Sprintf(`{"group":"b","n":%d}`, n)))
		want = append(want, fmt.Sprintf("b %d", n))
	}
	reading["b"] = 1
	var got []string
	k := newTalk(t, spoken{window: assumedWindow, answer: func(_ context.Context, q providers.Request) (providers.Reply, error) {
		last := q.Messages[len(q.Messages)-1]
		if last.Role != providers.Tool {
			return providers.Reply{Parts: calls}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		for _, m := range q.Messages {
			for _, p := range m.Parts {
				if p.Kind == providers.PartToolResult {
					got = append(got, p.Text)
				}
			}
		}
		return answered("Done.")
	}}, func(o *Options) { o.Callables = reg })
	made, err := k.Create(k.ctx, CreateParams{Mode: ModeWork})
	if err != nil {
		t.Fatal(err)
	}
	if turn := k.say(made.Session.ID, "Read and write"); turn.State != Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(got, want) {
		t.Errorf("the results %q, want %q", got, want)
	}
	if at := slices.Index(order, "write"); at != parallelCalls || slices.Contains(order[:at], "read b") || slices.Contains(order[at:], "read a") {
		t.Errorf("the calls ran in the order %q", order)
	}
}

// An input for the running turn becomes a part of it only if it is from the same sender: text of a channel
// gets no permission of the person's turn, and waits for a turn of its own.
func TestOnlyTheSenderSteersATurn(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		origin   Origin
		attended bool
		steers   bool
	}{
		"the person":               {Origin{Kind: OriginUser}, true, true},
		"the person, by a program": {Origin{Kind: OriginUser}, false, false},
		"a channel":                {Origin{Kind: OriginChannel, Label: "Nora"}, false, false},
		"a subagent":               {Origin{Kind: OriginSubagent, Label: "Find it"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg, set := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
			reg.Add(set)
			begun, goOn := make(chan struct{}), make(chan struct{})
			set.Add(callable.Func{Info: callable.Info{Name: "probe.read", Effects: callable.Effects{ReadOnly: true}}, Run: func(ctx context.Context, _ callable.Request) (any, error) {
				close(begun)
				select {
				case <-goOn:
				case <-ctx.Done():
				}
				return "read", nil
			}})
			var mu sync.Mutex
			var steered []bool // for each request: whether it has the second input
			k := newTalk(t, spoken{window: assumedWindow, answer: func(_ context.Context, q providers.Request) (providers.Reply, error) {
				mu.Lock()
				defer mu.Unlock()
				steered = append(steered, strings.Contains(fmt.Sprint(q.Messages), "Also the other one"))
				if len(steered) == 1 {
					return providers.Reply{Parts: []providers.Part{callOf("1", "probe_read", `{}`)}}, nil
				}
				return answered("Done.")
			}}, func(o *Options) { o.Callables = reg })
			session := k.begin()
			first, err := k.Send(k.ctx, SendParams{SessionID: session, Text: "Read"})
			if err != nil {
				t.Fatal(err)
			}
			<-begun
			second := uuid.New()
			if _, err := k.enqueue(k.ctx, session, second, QueueSteer, &input{Text: "Also the other one", Origin: x.origin, Attended: x.attended}); err != nil {
				t.Fatal(err)
			}
			close(goOn)
			for _, id := range []uuid.UUID{first.TurnID, second} {
				if got, err := k.Wait(k.ctx, WaitParams{TurnID: id, WaitMs: longestWait.Milliseconds()}); err != nil || got.Turn.State != Completed {
					t.Fatalf("%+v, %v", got.Turn, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if len(steered) < 2 || steered[1] != x.steers || !x.steers && (len(steered) != 3 || !steered[2]) {
				t.Errorf("the requests have the input: %v", steered)
			}
		})
	}
}

// In each queue mode an input of another sender gets a turn of its own, with its own origin: it is never
// joined with the person's, and only an interrupt ends the turn that works.
func TestQueueModesKeepSendersApart(t *testing.T) {
	t.Parallel()
	senders := map[string]Origin{"the person": {Kind: OriginUser}, "a channel": {Kind: OriginChannel, Label: "Nora"}, "a subagent": {Kind: OriginSubagent, Label: "Find it"}, "a schedule": {Kind: OriginSchedule, Label: "Morning"}}
	for _, mode := range []string{QueueFollowup, QueueCollect, QueueInterrupt} {
		for name, origin := range senders {
			if mode != QueueCollect && origin.Kind != OriginUser && origin.Kind != OriginChannel {
				continue // only inputs that may be joined depend on more than whose they are
			}
			t.Run(mode+" "+name, func(t *testing.T) {
				t.Parallel()
				begun, goOn := make(chan struct{}), make(chan struct{})
				var mu sync.Mutex
				var requests []string // their last messages
				k := newTalk(t, spoken{window: assumedWindow, answer: func(ctx context.Context, q providers.Request) (providers.Reply, error) {
					mu.Lock()
					requests = append(requests, fmt.Sprint(q.Messages[len(q.Messages)-1]))
					first := len(requests) == 1
					mu.Unlock()
					if first {
						close(begun)
						select {
						case <-goOn:
						case <-ctx.Done():
							return providers.Reply{}, ctx.Err()
						}
					}
					return answered("Done.")
				}})
				session := k.begin()
				turns := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
				send := func(n int, text, mode string, o Origin) {
					t.Helper()
					if _, err := k.enqueue(k.ctx, session, turns[n], mode, &input{Text: text, Origin: o, Attended: o.Kind == OriginUser}); err != nil {
						t.Fatal(err)
					}
				}
				send(0, "Begin", QueueFollowup, Origin{Kind: OriginUser})
				<-begun
				first := mode
				if mode == QueueInterrupt {
					first = QueueFollowup
				}
				send(1, "By the person", first, Origin{Kind: OriginUser})
				send(2, "By another", mode, origin)
				close(goOn)
				var states []string
				for _, id := range turns {
					got, err := k.Wait(k.ctx, WaitParams{TurnID: id, WaitMs: longestWait.Milliseconds()})
					if err != nil || got.Turn.FinishedAt == nil {
						t.Fatalf("%+v, %v", got.Turn, err)
					}
					states = append(states, got.Turn.State)
				}
				mu.Lock()
				defer mu.Unlock()
				joined := slices.ContainsFunc(requests, func(r string) bool { return strings.Contains(r, "By the person") && strings.Contains(r, "By another") })
				if want := mode == QueueCollect && origin.Kind == OriginUser; joined != want {
					t.Errorf("joined: %v, want %v: %q", joined, want, requests)
				}
				if !slices.ContainsFunc(requests, func(r string) bool { return strings.Contains(r, "By another") }) {
					t.Errorf("the second input got no answer: %v, %q", states, requests)
				}
				list, err := k.Messages(k.ctx, MessagesParams{SessionID: session})
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range list.Messages {
					if m.Role == "user" && strings.Contains(m.Parts[0].Text, "By another") && (m.Origin == nil || *m.Origin != origin) {
						t.Errorf("the input of %s is shown as %+v", name, m.Origin)
					}
				}
			})
		}
	}
}
