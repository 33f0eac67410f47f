package skills

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/skills/machine"
)

// TestBombsOfRunsAndEvaluateEndWithLimit is not parallel: it counts what the process allocates.
func TestBombsOfRunsAndEvaluateEndWithLimit(t *testing.T) {
	b := newFixture(t)
	big := fmt.Sprintf(`{"input":%q}`, strings.Repeat("x", 590_000))
	repeat := func(s string, n int) string { return "[" + strings.Repeat(s+",", n-1) + s + "]" }
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	many := func(n int) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(`"p%d":"$.input.input"`, i)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	const most = 256 << 20
	bounded := func(name string, f func()) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%s: %d MiB allocated", name, used>>20)
		}
	}
	for name, p := range map[string]EvaluateParams{
		"the input 20,000 times":    {Document: json.RawMessage(big), Expression: json.RawMessage(`{"value":` + repeat(`"$.input"`, 20_000) + `}`), As: "template"},
		"the document 50,000 times": {Document: json.RawMessage(big), Expression: json.RawMessage(repeat(`"$"`, 50_000)), As: "template"},
		"a deep document":           {Document: json.RawMessage(deep), Expression: json.RawMessage(`"$..*"`), As: "path"},
		"an expression of 2 MiB":    {Document: json.RawMessage(big), Expression: json.RawMessage(repeat(`"$"`, 500_000)), As: "template"},
	} {
		bounded(name, func() {
			out, err := b.s.Evaluate(b.ctx, p)
			if err == nil && out.Error != nil {
				err = &fault.Error{Kind: fault.Kind(out.Error.Kind), Message: out.Error.Message}
			}
			if !fault.Is(err, fault.Limit) || string(out.Value) != "null" || len(out.Matches) != 0 {
				t.Errorf("%s: %v, %d bytes, %d matches", name, err, len(out.Value), len(out.Matches))
			}
		})
	}
	for name, skill := range map[string]string{
		"value":             `{"name":"v","steps":[{"stepId":"v","toolType":"transform","value":` + repeat(`"$.input.input"`, 5_000) + `}]}`,
		"input mapping":     `{"name":"i","steps":[{"stepId":"i","toolType":"custom","toolName":"ok","inputMapping":` + many(5_000) + `}]}`,
		"output mapping":    `{"name":"o","steps":[{"stepId":"o","toolType":"custom","toolName":"ok","outputMapping":` + repeat(`"$"`, 9_000) + `,"inputMapping":{"x":"$.input.input"}}]}`,
		"output of a run":   `{"name":"r","outputMapping":` + repeat(`"$.input.input"`, 5_000) + `,"steps":[{"stepId":"r","toolType":"transform","value":1}]}`,
		"shown to a person": `{"name":"s","steps":[{"stepId":"s","toolType":"approval","title":"x","show":["$.input","$.input.input","$.run","$['input']"]}]}`,
	} {
		bounded(name, func() {
			if out := b.run(json.RawMessage(skill), big); out.Status != machine.Failed || out.Error.Kind != string(fault.Limit) {
				t.Errorf("%s: %s %+v", name, out.Status, out.Error)
			}
		})
	}
}
