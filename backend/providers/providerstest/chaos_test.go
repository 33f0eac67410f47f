package providerstest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

// booking is the settlement of one attempt.
type booking struct {
	usage   providers.Usage
	micros  providers.Micros
	outcome string
	settled bool
}

// journal is a Meter that records each attempt in order.
type journal struct {
	mu   sync.Mutex
	list []*booking
}

// Reserve implements providers.Meter.
func (j *journal) Reserve(context.Context, providers.Estimate) (providers.Hold, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := &hold{journal: j, b: &booking{}}
	j.list = append(j.list, h.b)
	return h, nil
}

type hold struct {
	journal *journal
	b       *booking
}

// Settle implements providers.Hold.
func (h *hold) Settle(u providers.Usage, cost providers.Micros, outcome string) {
	h.journal.mu.Lock()
	defer h.journal.mu.Unlock()
	if h.b.settled {
		panic("settled twice")
	}
	*h.b = booking{u, cost, outcome, true}
}

// priced is a catalog in which every model of these tests has prices.
const priced = `{"p":{"id":"p","models":{"m":{"id":"m","tool_call":true,"cost":{"input":3,"output":15,"cache_read":0.3},"limit":{"context":100000,"output":1000}}}}}`

// Services of all wires misbehave at random. A router must never deliver a text twice, deliver part
// of an abandoned attempt without a Discard, lose a reported count, or charge less than that costs.
func TestRouterUnderChaos(t *testing.T) {
	t.Parallel()
	catalog, err := providers.ParseCatalog([]byte(priced))
	must(t, err)
	info, _ := catalog.Info("p", "m")
	faults := []func(c *providerstest.Chaos, n int){
		func(c *providerstest.Chaos, _ int) { c.Status, c.RetryAfter = 429, time.Millisecond },
		func(c *providerstest.Chaos, _ int) { c.Status = 500 },
		func(c *providerstest.Chaos, _ int) { c.Status = 529 },
		func(c *providerstest.Chaos, _ int) { c.WebPage = true },
		func(c *providerstest.Chaos, _ int) { c.Garbage = true },
		func(c *providerstest.Chaos, _ int) { c.Reset = -1 },
		func(c *providerstest.Chaos, n int) { c.Reset = n },
		func(c *providerstest.Chaos, _ int) { c.Truncate = -1 },
		func(c *providerstest.Chaos, n int) { c.Truncate = n },
		func(c *providerstest.Chaos, n int) { c.Stall = n },
		func(c *providerstest.Chaos, _ int) { c.Hang = true },
	}
	whole, discards, failures := 0, 0, 0
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		entries, chain := map[string]providers.Entry{}, []providers.ModelRef{}
		for i := range 1 + rnd.IntN(3) {
			chaos := providerstest.Chaos{
				Split: rnd.IntN(2) == 0, Noise: rnd.IntN(2) == 0, DuplicateUsage: rnd.IntN(2) == 0, DuplicateEnd: rnd.IntN(2) == 0,
				DripHeader: rnd.IntN(4) == 0, Rate: []float64{0.5, 0.9, 0}[rnd.IntN(3)],
			}
			if rnd.IntN(3) == 0 {
				chaos.ContentType, chaos.Latency = "text/plain", time.Millisecond
			}
			faults[rnd.IntN(len(faults))](&chaos, 1+rnd.IntN(2000))
			s := providerstest.New(t, providerstest.Options{Wire: wires[(int(seed)+i)%len(wires)], Replies: []providers.ScriptedReply{answer}, Repeat: true, Chaos: chaos, Seed: seed})
			name := fmt.Sprint("p", i)
			e := s.Entry()
			e.CatalogProvider, e.TimeoutIdleMs = "p", 100 // the timeout may fire early under load, which does not affect the checks below
			entries[name] = e
			chain = append(chain, providers.ModelRef(name+"/m"))
		}
		j := &journal{}
		r, err := providers.Open(providers.Options{
			Config: func(context.Context) (map[string]providers.Entry, map[providers.Role]providers.RoleConfig, error) {
				return entries, map[providers.Role]providers.RoleConfig{providers.RoleChat: {Chain: chain}}, nil
			},
			Key:     func(context.Context, string, providers.Entry) (string, string, error) { return "", "", nil },
			Catalog: func() (*providers.Catalog, error) { return catalog, nil },
			HTTP:    providerstest.Client(t), Meter: j, Rand: func() float64 { return 0 },
		})
		must(t, err)
		for range 3 {
			q := question()
			q.AllowDiscard = rnd.IntN(2) == 0
			j.list = nil
			var text, reasoning, problem string
			var reported []providers.Usage // of each attempt
			var bytes []int
			visible, reason := false, ""
			var end error
			for e, err := range r.Stream(t.Context(), q) {
				if end = err; err != nil {
					continue
				}
				if n := len(reported); e.Type != providers.EventAttempt && e.Type != providers.EventDiscard && n != len(j.list) {
					problem = fmt.Sprintf("%s belongs to attempt %d of %d", e.Type, n, len(j.list))
				}
				switch e.Type {
				case providers.EventAttempt:
					if visible {
						problem = "an attempt follows what was shown"
					}
					reported, bytes = append(reported, providers.Usage{}), append(bytes, 0)
				case providers.EventText:
					text, visible = text+e.Delta, true
				case providers.EventReasoning:
					reasoning, visible = reasoning+e.Delta, true
				case providers.EventToolStart, providers.EventToolDelta:
					visible = true
				case providers.EventUsage:
					reported[len(reported)-1] = *e.Usage
				case providers.EventDiscard:
					if !q.AllowDiscard {
						problem = "a discard that was not allowed"
					}
					text, reasoning, visible = "", "", false
					discards++
				case providers.EventFinish:
					reason = e.Reason
				}
				if len(bytes) > 0 {
					bytes[len(bytes)-1] += len(e.Delta)
				}
				if !strings.HasPrefix(answer.Text, text) || !strings.HasPrefix(answer.Reasoning, reasoning) {
					problem = fmt.Sprintf("doubled: %q, %q", reasoning, text)
				}
			}
			switch {
			case end == nil && (text != answer.Text || reason != providers.FinishToolCalls):
				problem = fmt.Sprintf("%q counts as whole, %s", text, reason)
			case end == nil:
				whole++
			default:
				failures++
			}
			if len(j.list) != len(reported) {
				problem = fmt.Sprintf("%d attempts were reserved, %d seen", len(j.list), len(reported))
			}
			for i, b := range j.list {
				cost, known := info.Prices.Cost(reported[i])
				if !b.settled || b.usage.Prompt() < reported[i].Prompt() || b.usage.Output < max(reported[i].Output, int64(bytes[i]/4)) || !known || b.micros < cost {
					problem = fmt.Sprintf("attempt %d was booked as %+v, reported were %+v and %d bytes", i+1, b, reported[i], bytes[i])
				}
				if b.outcome == "done" && (b.usage.Input != answer.Usage.Input || b.usage.Output != answer.Usage.Output || b.usage.Estimated) {
					problem = fmt.Sprintf("a whole answer was booked as %+v", b.usage)
				}
			}
			if problem != "" {
				t.Fatalf("seed %d, %+v: %s (%v)", seed, entries, problem, end)
			}
		}
	}
	if whole < 40 || discards < 5 || failures < 5 {
		t.Errorf("the faults are not mixed: %d whole answers, %d discards, %d failures", whole, discards, failures)
	}
}

// A thousand abandoned streams leave no goroutine, no open call and no budget held.
func TestAbandonedStreamsLeaveNothing(t *testing.T) {
	t.Parallel()
	for _, wire := range wires {
		s := providerstest.New(t, providerstest.Options{Wire: wire, Replies: []providers.ScriptedReply{answer}, Repeat: true})
		r, l := router(t, s)
		var wg sync.WaitGroup
		for worker := range 10 {
			wg.Go(func() {
				for i := range 25 {
					ctx, cancel := context.WithCancel(t.Context())
					seen := 0
					for _, err := range r.Stream(ctx, question()) {
						if seen++; err != nil || seen > (worker+i)%7 {
							break // by the consumer
						}
						if seen == 5 {
							cancel() // or by its context
						}
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if l.open != 0 || l.settled == 0 {
			t.Errorf("%s: %d open, %d settled", wire, l.open, l.settled)
		}
	}
}
