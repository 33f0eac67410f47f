//go:build engine

package synthesis

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

// engineModel asks a real engine.
type engineModel struct {
	r    *providers.Router
	seed int64
}

func (m *engineModel) Destination(context.Context) (Destination, error) {
	return Destination{Model: "llama/random", Local: true, Window: 8192}, nil
}

// plausible is a schema within that of patterns, with plausible but unverified answers: half of its
// words are allowed, and its numbers are arbitrary.
const plausible = `{"type":"object","additionalProperties":false,"required":["patterns"],"properties":{"patterns":{"type":"array","minItems":1,"maxItems":1,"items":{"type":"object","additionalProperties":false,
"required":["type","layer","description","subjects","confidence","evidence","recommendations"],"properties":{"type":{"enum":["goal","destiny"]},"layer":{"enum":[0,4,5,9]},"description":{"enum":["You want to run.", " "]},
"subjects":{"type":"array","maxItems":1,"items":{"enum":["Marathon"]}},"confidence":{"type":"number"},"recommendations":{"type":"array","maxItems":3,"items":{"enum":["Rest."]}},
"evidence":{"type":"array","minItems":3,"maxItems":3,"items":{"type":"object","additionalProperties":false,"required":["id","quote"],"properties":{"id":{"enum":["t1","t2","t3","t9"]},"quote":{"enum":["marathon","I want to run"]}}}}}}}}}`

// Ask restricts every tenth answer only to the given schema, with arbitrary texts.
func (m *engineModel) Ask(ctx context.Context, to Destination, rules, text string, doc json.RawMessage) (json.RawMessage, Spent, error) {
	if m.seed++; m.seed%10 != 0 {
		doc = json.RawMessage(plausible)
	}
	q := providers.Request{Model: providers.ModelRef(to.Model), Seed: &m.seed, MaxOutput: 500, System: []providers.Part{providers.TextPart(rules)}, Messages: []providers.Message{{Role: providers.User, Parts: []providers.Part{providers.TextPart(text)}}}}
	value, report, err := providers.Structured(ctx, m.r, q, doc, true, nil)
	return value, Spent{InputTokens: report.Usage.Input, OutputTokens: report.Usage.Output}, err
}

func (m *engineModel) Scrub(_ context.Context, text string) string { return text }

type freeMeter struct{}

func (freeMeter) Reserve(context.Context, providers.Estimate) (providers.Hold, error) {
	return freeMeter{}, nil
}
func (freeMeter) Settle(providers.Usage, providers.Micros, string) {}

// A model with random weights that is restricted to the schema writes valid but meaningless JSON.
// Nothing that violates the rules is stored.
func TestNonsenseOfAnEngineIsNeverStored(t *testing.T) {
	l := providerstest.NewLlama(t)
	r, err := providers.Open(providers.Options{
		Config: func(context.Context) (map[string]providers.Entry, map[providers.Role]providers.RoleConfig, error) {
			return map[string]providers.Entry{"llama": l.Entry()}, nil, nil
		},
		Key:  func(context.Context, string, providers.Entry) (string, string, error) { return "", "", nil },
		HTTP: providerstest.Client(t), Meter: freeMeter{},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, Options{Model: &engineModel{r: r}})
	ids := f.remember(t, 0, "I want to run a marathon.", "Today I began to train for the marathon.", "Bought shoes for the marathon.")
	completed, failed := 0, 0
	for range 100 {
		job := f.ended(t, f.ctx, SynthesizeParams{SynthesisType: Full, Engine: "llm", Confidence: ptr(0.1)})
		switch {
		case job.Status == "failed":
			failed++
		case job.Analysis == nil:
			t.Fatalf("%+v", job)
		default:
			completed++
			for _, x := range job.Analysis.Patterns {
				if x.Layer < 1 || x.Layer > 7 || !(x.Confidence >= 0 && x.Confidence <= 1) || len(x.Evidence) == 0 || slices.ContainsFunc(x.Evidence, func(id string) bool { return !slices.Contains(ids, id) }) {
					t.Errorf("stored: %+v", x)
				}
			}
		}
	}
	t.Logf("%d completed, %d failed, %d patterns stored, %+v", completed, failed, f.rows(t, "memory_patterns"), l.Stats(t))
	if stats := l.Stats(t); completed == 0 || stats.Begun < 100 {
		t.Errorf("%d analyses were completed by %d answers", completed, stats.Begun)
	}
}
