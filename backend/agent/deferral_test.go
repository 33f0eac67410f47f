package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"helix/backend/callable"
	"helix/backend/providers"
)

// More tools than fit are found by a search and declared only then, in the same order at each start.
func TestManyToolsAreFoundBySearchAndThenDeclared(t *testing.T) {
	t.Parallel()
	const n, wanted = 800, "mcp_calendar_tool_417"
	names := func(q providers.Request) (out []string) {
		for _, d := range q.Tools {
			out = append(out, d.Name)
		}
		return out
	}
	start := func() (first []string) {
		reg, set := callable.NewRegistry(nil), callable.NewSet("mcp", nil)
		reg.Add(set)
		var ran atomic.Int64
		for i := range n {
			set.Add(callable.Func{
				Info: callable.Info{Name: fmt.Sprintf("calendar.tool_%03d", i), Description: fmt.Sprintf("Finds entries of the calendar number %d.", i), Effects: callable.Effects{ReadOnly: true}, Untrusted: true,
					Input: []byte(`{"type":"object","properties":{"from":{"type":"string","description":"The first day"},"to":{"type":"string","description":"The last day"}}}`)},
				Run: func(context.Context, callable.Request) (any, error) {
					ran.Add(int64(i))
					return "found", nil
				},
			})
		}
		step := 0
		k := newTalk(t, spoken{window: 32_000, answer: func(_ context.Context, q providers.Request) (providers.Reply, error) {
			step++
			if cost := estimateTools(q.Tools); float64(cost) > deferAbove*32_000 {
				t.Errorf("request %d: the tools cost %d tokens", step, cost)
			}
			switch step {
			case 1:
				first = names(q)
				if !slices.Contains(first, toolSearchName) || slices.ContainsFunc(first, func(s string) bool { return strings.HasPrefix(s, "mcp_") }) {
					t.Errorf("declared at first: %q", first)
				}
				return providers.Reply{Parts: []providers.Part{callOf("1", toolSearchName, `{"query":"tool_417"}`)}}, nil
			case 2:
				if !slices.Contains(names(q), wanted) {
					t.Errorf("after the search: %q", names(q))
				}
				return providers.Reply{Parts: []providers.Part{callOf("2", wanted, `{"from":"today"}`)}}, nil
			}
			return answered("Done.")
		}}, func(o *Options) { o.Callables = reg })
		if turn := k.say(k.begin(), "What is in calendar 417?"); turn.State != Completed || step != 3 || ran.Load() != 417 {
			t.Errorf("%+v %+v after %d requests; ran %d", turn, turn.Error, step, ran.Load())
		}
		return first
	}
	if a, b := start(), start(); !slices.Equal(a, b) {
		t.Errorf("another order:\n%q\n%q", a, b)
	}
}
