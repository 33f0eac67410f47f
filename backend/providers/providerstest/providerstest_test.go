package providerstest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
	"helix/backend/providers/recordings"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

var wires = []string{providers.WireChat, providers.WireResponses, providers.WireAnthropic, providers.WireGemini}

var answer = providers.ScriptedReply{
	Reasoning: "Two files are large.", Text: "Reading both files now, žluťoučký 😀.",
	Calls: []providers.ScriptedCall{{ID: "call_a", Name: "files_read", Args: json.RawMessage(`{"path":"a b"}`)}, {ID: "call_b", Name: "files_list"}},
	Usage: providers.Usage{Input: 201, CacheRead: 30, Output: 40},
}

// ledger is a Meter that counts calls.
type ledger struct {
	mu            sync.Mutex
	open, settled int
	used          providers.Usage
}

func (l *ledger) Reserve(context.Context, providers.Estimate) (providers.Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	return l, nil
}

func (l *ledger) Settle(u providers.Usage, _ providers.Micros, _ string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.settled++
	l.used.Input += u.Prompt()
	l.used.Output += u.Output
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// router returns a router that tries the servers in order.
func router(t *testing.T, servers ...*providerstest.Server) (*providers.Router, *ledger) {
	t.Helper()
	l := &ledger{}
	entries, chain := map[string]providers.Entry{}, []providers.ModelRef{}
	for i, s := range servers {
		name := fmt.Sprint("p", i)
		entries[name] = s.Entry()
		chain = append(chain, providers.ModelRef(name+"/m"))
	}
	r, err := providers.Open(providers.Options{
		Config: func(context.Context) (map[string]providers.Entry, map[providers.Role]providers.RoleConfig, error) {
			return entries, map[providers.Role]providers.RoleConfig{providers.RoleChat: {Chain: chain}}, nil
		},
		Key:  func(context.Context, string, providers.Entry) (string, string, error) { return "", "", nil },
		HTTP: providerstest.Client(t), Meter: l, Rand: func() float64 { return 0 },
	})
	must(t, err)
	t.Cleanup(func() {
		if l.open != 0 {
			t.Errorf("%d holds were not settled", l.open)
		}
	})
	return r, l
}

func question() providers.Request {
	return providers.Request{Role: providers.RoleChat, Messages: []providers.Message{{Role: providers.User, Parts: []providers.Part{providers.TextPart("Which files are large?")}}}}
}

// show returns what all wires must agree on.
func show(r providers.Reply) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %s %d+%d/%d", r.ReasoningText(), r.Text(), r.Reason, r.Usage.Input, r.Usage.CacheRead, r.Usage.Output)
	for _, c := range r.Calls() {
		fmt.Fprintf(&b, " %s %s %s", c.ID, c.Name, c.Args)
	}
	return b.String()
}

const shown = `"Two files are large." "Reading both files now, žluťoučký 😀." tool_calls 201+30/40 call_a files_read {"path":"a b"} call_b files_list {}`

func TestFaultsThatClientsMustNotNotice(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		for name, chaos := range map[string]providerstest.Chaos{
			"none": {}, "split": {Split: true}, "drip": {Drip: true}, "noise": {Noise: true}, "usage twice": {DuplicateUsage: true},
			"end twice": {DuplicateEnd: true}, "header by bytes": {DripHeader: true}, "content type": {ContentType: "text/html; charset=latin1"}, "latency": {Latency: time.Millisecond},
			"all": {Split: true, Noise: true, DuplicateUsage: true, DuplicateEnd: true, ContentType: "text/plain"},
		} {
			for seed := range uint64(3) {
				s := providerstest.New(t, providerstest.Options{Wire: wire, Replies: []providers.ScriptedReply{answer}, Repeat: true, Chaos: chaos, Seed: seed})
				r, l := router(t, s)
				for _, whole := range []bool{false, true} {
					q := question()
					q.NoStream = whole
					reply, err := r.Complete(t.Context(), q)
					if got := show(reply); err != nil || got != shown {
						t.Errorf("%s, %s, seed %d, in one piece %v: %v\n got %s\nwant %s", wire, name, seed, whole, err, got, shown)
					}
				}
				if u := s.Served(); s.Calls() != 2 || u.Requests != 2 || u.Input+u.CacheRead != l.used.Input || u.Output != l.used.Output {
					t.Errorf("%s, %s: %d calls, served %+v, settled %+v", wire, name, s.Calls(), u, l.used)
				}
			}
		}
	}
}

// failures are faults that occur before anything was delivered, so that a retry is invisible.
var failures = map[string]providerstest.Chaos{
	"429": {Status: 429, RetryAfter: time.Millisecond}, "500": {Status: 500}, "503": {Status: 503, RetryAfter: time.Millisecond}, "529": {Status: 529},
	"reset": {Reset: -1}, "empty": {Truncate: -1},
}

func TestFailuresAreRetriedAndTheRetryGetsTheAnswer(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		for name, chaos := range failures {
			chaos.Times = 2
			s := providerstest.New(t, providerstest.Options{Wire: wire, Replies: []providers.ScriptedReply{answer}, Chaos: chaos})
			r, l := router(t, s)
			reply, err := r.Complete(t.Context(), question())
			if err != nil || show(reply) != shown || s.Calls() != 3 || l.settled != 3 {
				t.Errorf("%s, %s: %d calls, %d settled, %s, %v", wire, name, s.Calls(), l.settled, show(reply), err)
			}
		}
	}
}

func TestTheNextModelAnswersAndTheCircuitKeepsAFailingOneAlone(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		for name, chaos := range failures {
			bad := providerstest.New(t, providerstest.Options{Wire: wire, Replies: []providers.ScriptedReply{answer}, Chaos: chaos})
			good := providerstest.New(t, providerstest.Options{Wire: wire, Replies: []providers.ScriptedReply{answer}, Repeat: true})
			r, _ := router(t, bad, good)
			for range 4 {
				reply, err := r.Complete(t.Context(), question())
				if err != nil || show(reply) != shown || reply.Provider != "p1" {
					t.Fatalf("%s, %s: %s of %s, %v", wire, name, show(reply), reply.Provider, err)
				}
			}
			want := 5 // five failures open the circuit
			if name == "429" {
				want = 12 // a limit is not a failure of the service
			}
			if bad.Calls() != want || good.Calls() != 4 {
				t.Errorf("%s, %s: the failing one was called %d times, the other %d times", wire, name, bad.Calls(), good.Calls())
			}
		}
	}
}

func TestAnAnswerCutAnywhereIsNeverDoubledNorTakenForWhole(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 7))
	for _, wire := range wires {
		for range 40 {
			at := 1 + rnd.IntN(1500)
			for name, chaos := range map[string]providerstest.Chaos{"truncated": {Truncate: at, Times: 1}, "reset": {Reset: at, Times: 1, Split: true}, "garbage": {Garbage: true, Times: 1}} {
				for _, discard := range []bool{false, true} {
					s := providerstest.New(t, providerstest.Options{Wire: wire, Replies: []providers.ScriptedReply{answer}, Chaos: chaos, Seed: uint64(at)})
					r, _ := router(t, s)
					q := question()
					q.AllowDiscard = discard
					reply, err := providers.Fold(func(yield func(providers.Event, error) bool) {
						for e, err := range r.Stream(t.Context(), q) {
							if e.Type == providers.EventDiscard && !discard {
								t.Errorf("%s, %s at %d: a discard that was not allowed", wire, name, at)
							}
							if !yield(e, err) {
								return
							}
						}
					})
					switch {
					case err == nil && show(reply) == shown:
					case err == nil && name != "garbage" && s.Calls() == 1: // complete except for what follows the end
						if reply.Text() != answer.Text || reply.Reason != providers.FinishToolCalls {
							t.Errorf("%s, %s at %d counts as whole: %s", wire, name, at, show(reply))
						}
					case discard || !fault.Is(err, fault.Unavailable) || !strings.HasPrefix(answer.Text, reply.Text()) || !strings.HasPrefix(answer.Reasoning, reply.ReasoningText()):
						t.Errorf("%s, %s at %d, discard %v: %s, %v", wire, name, at, discard, show(reply), err)
					}
				}
			}
		}
	}
}

func TestCancelMidStreamHangsUpAndSettles(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		for _, stalled := range []bool{false, true} {
			step := make(chan struct{}, 8)
			for range cap(step) { // the server sends exactly this many events
				step <- struct{}{}
			}
			o := providerstest.Options{Wire: wire, Replies: []providers.ScriptedReply{{Text: strings.Repeat("word ", 100)}}, Step: step}
			if stalled {
				o.Step, o.Chaos = nil, providerstest.Chaos{Stall: 1200}
			}
			s := providerstest.New(t, o)
			r, l := router(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			var last error
			texts, after := 0, 0
			for e, err := range r.Stream(ctx, question()) {
				if last = err; e.Type != providers.EventText {
					continue
				}
				if texts++; texts == 3 {
					cancel()
				}
				if texts > 3 {
					after++
				}
			}
			<-s.HungUp()
			// Events that had arrived with the third one may still be delivered, but never a complete
			// answer.
			if !fault.Is(last, fault.Canceled) || after > 12 || l.settled != 1 || l.used.Output == 0 || s.Calls() != 1 {
				t.Errorf("%s, stalled %v: %v after %d more texts, %d settled with %+v", wire, stalled, last, after, l.settled, l.used)
			}
			cancel()
		}
	}
}

func TestChanceIsDrawnFromTheSeed(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (out string) {
		s := providerstest.New(t, providerstest.Options{Replies: []providers.ScriptedReply{{Text: "Yes"}}, Repeat: true, Chaos: providerstest.Chaos{Status: 500, Rate: 0.4}, Seed: seed})
		r, _ := router(t, s)
		for range 10 {
			reply, err := r.Complete(t.Context(), question())
			out += fmt.Sprint(reply.Attempts, err == nil, " ")
		}
		return out
	}
	if a, b, c := run(1), run(1), run(2); a != b || a == c {
		t.Errorf("seed 1: %s\nagain:  %s\nseed 2: %s", a, b, c)
	}
}

func TestRepliesMatchAndEnd(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		s := providerstest.New(t, providerstest.Options{Wire: wire, Replies: []providers.ScriptedReply{{Match: "large", Text: "These."}, {Match: "small", Text: "Those."}}})
		r, _ := router(t, s)
		reply, err := r.Complete(t.Context(), question())
		must(t, err)
		if reply.Text() != "These." {
			t.Errorf("%s: %s", wire, show(reply))
		}
		for range 2 {
			if _, err := r.Complete(t.Context(), question()); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "small") {
				t.Errorf("%s: %v", wire, err)
			}
		}
	}
}

func TestRecordingsThroughTheNetwork(t *testing.T) {
	t.Parallel()
	all, err := recordings.Read(testkit.Data(t, "providers"))
	must(t, err)
	for i, x := range all {
		if i%3 != 0 { // a third of each folder; the test of the decoders reads all
			continue
		}
		want, err := providers.Fold(providers.Decode(x.Wire, strings.NewReader(x.Body), providers.DecodeOptions{}))
		must(t, err)
		s := providerstest.New(t, providerstest.Options{Wire: x.Wire, Replies: []providers.ScriptedReply{{Body: x.Body}}, Chaos: providerstest.Chaos{Split: true}, Seed: uint64(i)})
		r, _ := router(t, s)
		reply, err := r.Complete(t.Context(), question())
		if err != nil || reply.Text() != want.Text() || reply.Usage != want.Usage || len(reply.Calls()) != len(want.Calls()) || reply.Reason != want.Reason {
			t.Errorf("%s: %v, %+v, want %+v", x.Name, err, reply.Usage, want.Usage)
		}
	}
}
