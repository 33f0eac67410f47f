package sandbox

import (
	"testing"
)

func t1(c Call) Call {
	c.Tier = tier1
	return c
}

func TestTier1Runs(t *testing.T) {
	t.Parallel()
	res := run1(t, `export default function(p) { console.log("hi", p.a); return p.a + 1 }`, t1(Call{Input: input(map[string]int{"a": 41})}))
	if string(res.Output) != "42" || res.Tier != tier1 || len(res.Logs) != 1 || res.Logs[0].Message != "hi 41" {
		t.Errorf("got %+v", res)
	}
	if isolationRank(res.Isolation) < isolationRank(IsolationProcess) || isolationRank(res.Isolation) > isolationRank(IsolationBwrap) {
		t.Errorf("isolation %q %v", res.Isolation, res.Reasons)
	}
	t.Log(res.Isolation, res.Reasons, res.Usage, shared.Status().Tiers)
}
