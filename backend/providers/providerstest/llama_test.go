//go:build engine

package providerstest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

func engineRouter(t *testing.T, l *providerstest.Llama) (*providers.Router, *ledger) {
	t.Helper()
	meter := &ledger{}
	r, err := providers.Open(providers.Options{
		Config: func(context.Context) (map[string]providers.Entry, map[providers.Role]providers.RoleConfig, error) {
			return map[string]providers.Entry{"llama": l.Entry()}, nil, nil
		},
		Key:  func(context.Context, string, providers.Entry) (string, string, error) { return "", "", nil },
		HTTP: providerstest.Client(t), Meter: meter,
	})
	must(t, err)
	return r, meter
}

func engineQuestion(seed int64, output int) providers.Request {
	temperature := 0.8
	return providers.Request{Model: "llama/random", MaxOutput: output, Temperature: &temperature, Seed: &seed, Messages: []providers.Message{{Role: providers.User, Parts: []providers.Part{providers.TextPart("Which files are large?")}}}}
}

func TestEngineStreamsAndCounts(t *testing.T) {
	l := providerstest.NewLlama(t)
	r, meter := engineRouter(t, l)
	texts := 0
	reply, err := providers.Fold(func(yield func(providers.Event, error) bool) {
		for e, err := range r.Stream(t.Context(), engineQuestion(7, 200)) {
			if e.Type == providers.EventText {
				texts++
			}
			if !yield(e, err) {
				return
			}
		}
	})
	if err != nil || texts < 5 || reply.Usage.Output == 0 || reply.Usage.Input < 20 || reply.Reason != providers.FinishStop && reply.Reason != providers.FinishLength {
		t.Fatalf("%d texts, %+v, %v", texts, reply, err)
	}
	if meter.settled != 1 || meter.used.Output != reply.Usage.Output {
		t.Errorf("settled %+v", meter)
	}
	q := engineQuestion(7, 200)
	q.NoStream = true
	whole, err := r.Complete(t.Context(), q)
	if err != nil || whole.Text() != reply.Text() || whole.Usage != reply.Usage {
		t.Errorf("in one piece: %q, streamed %q, %v", whole.Text(), reply.Text(), err)
	}
}

func TestEngineStopsInTheMiddleOfAnAnswer(t *testing.T) {
	l := providerstest.NewLlama(t)
	r, meter := engineRouter(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	texts := 0
	for e, err := range r.Stream(ctx, engineQuestion(3, 4000)) {
		last = err
		if e.Type == providers.EventText {
			if texts++; texts == 3 {
				cancel()
			}
		}
	}
	if !fault.Is(last, fault.Canceled) || meter.settled != 1 || meter.used.Output == 0 {
		t.Errorf("%v, settled %+v", last, meter)
	}
	// The engine answers one call at a time, so the next answer arrives only after the first has
	// stopped.
	_, err := r.Complete(t.Context(), engineQuestion(4, 8))
	must(t, err)
	if s := l.Stats(t); s.Aborted+s.Finished != 2 || s.Tokens > 3000 {
		t.Errorf("the engine went on: %+v", s)
	}
}

func TestEngineHoldsToAGrammar(t *testing.T) {
	l := providerstest.NewLlama(t)
	r, _ := engineRouter(t, l)
	const doc = `{"type":"object","additionalProperties":false,"required":["pattern","confidence","evidence"],"properties":{
		"pattern":{"enum":["trigger","goal","trust"]},"confidence":{"type":"number","minimum":0,"maximum":1},"evidence":{"type":"array","maxItems":2,"items":{"enum":["c1","c2"]}}}}`
	accepted, refused := 0, map[string]int{}
	for seed := range int64(200) {
		value, report, err := providers.Structured(t.Context(), r, engineQuestion(seed, 120), json.RawMessage(doc), true, nil)
		if report.Mode != "native" {
			t.Fatalf("mode %s", report.Mode)
		}
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			refused[strings.SplitN(err.Error(), ":", 3)[1]]++
			continue
		}
		accepted++
		var v struct {
			Pattern    string
			Confidence *float64
			Evidence   []string
		}
		must(t, json.Unmarshal(value, &v))
		if v.Confidence == nil || math.IsNaN(*v.Confidence) || *v.Confidence < 0 || *v.Confidence > 1 || len(v.Evidence) > 2 || !strings.Contains("trigger goal trust", v.Pattern) {
			t.Errorf("seed %d: %s was accepted", seed, value)
		}
	}
	t.Log(fmt.Sprint(accepted, " accepted, refused: ", refused))
	if accepted == 0 {
		t.Error("no answer was accepted")
	}
}
