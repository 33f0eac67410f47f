package permission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
)

// good returns an input that the rules allow by its grant.
func good() *input {
	h := host{name: "api.example.com", port: 443}
	r := rule{cap: NetworkHTTPS, raw: "api.example.com", host: h}
	return &input{
		state: Active, definition: true, hash: [32]byte{1}, res: concrete{cap: NetworkHTTPS, host: h, text: h.String()}, tier: SideEffecting, declared: []rule{r}, now: 1000,
		grants: []grant{{rule: r, id: uuid.UUID{1}, hash: [32]byte{1}, scope: "always"}},
	}
}

// TestRuleOrder violates each rule alone, then each pair: the earlier rule determines the reason.
func TestRuleOrder(t *testing.T) {
	t.Parallel()
	rules := []struct {
		reason string
		effect Effect
		breaks func(*input)
	}{
		{ReasonNever, Deny, func(in *input) { in.malformed = errors.New("x") }},
		{ReasonInactive, Deny, func(in *input) { in.state = Suspended }},
		{ReasonDefinitionChanged, Deny, func(in *input) { in.definition = false }},
		{ReasonDeniedByUser, Deny, func(in *input) { in.denials = []rule{{cap: NetworkHTTPS, any: true}} }},
		{ReasonUndeclared, Deny, func(in *input) { in.declared = nil }},
		{ReasonCallerLacks, Deny, func(in *input) { in.callerLacks = true }},
		{ReasonNeedsApproval, Ask, func(in *input) { in.grants = nil }},
	}
	if d, g := decide(good()); d.Effect != Allow || d.Reason != ReasonGranted || g == nil || d.GrantID != g.id {
		t.Fatalf("%+v", d)
	}
	for i, a := range rules {
		for j, b := range rules {
			t.Run(fmt.Sprint(a.reason, " and ", b.reason), func(t *testing.T) {
				t.Parallel()
				in := good()
				a.breaks(in)
				b.breaks(in)
				first := rules[min(i, j)]
				if d, g := decide(in); d.Effect != first.effect || d.Reason != first.reason || g != nil {
					t.Fatalf("%+v, want %s", d, first.reason)
				}
			})
		}
	}
	for _, state := range []string{"", Disabled, Suspended, Revoked, PendingApproval, "other"} {
		in := good()
		in.state = state
		if d, _ := decide(in); d.Reason != ReasonInactive {
			t.Errorf("%q: %+v", state, d)
		}
	}
	in := &input{state: Active, definition: true, res: concrete{cap: Call, text: "read_only"}, tier: ReadOnly}
	if d, _ := decide(in); d.Effect != Allow || d.Reason != ReasonReadOnly {
		t.Errorf("%+v", d)
	}
	in.tier, in.res.text = SideEffecting, "side_effecting"
	if d, _ := decide(in); d.Effect != Ask {
		t.Errorf("%+v", d)
	}
	in.grants = []grant{{rule: rule{cap: Call, raw: "side_effecting"}, scope: "always"}}
	if d, _ := decide(in); d.Effect != Allow {
		t.Errorf("%+v", d)
	}
	in.tier, in.res.text = Privileged, "privileged"
	if d, _ := decide(in); d.Effect != Ask {
		t.Errorf("a grant for effects covered a privileged call: %+v", d)
	}
}

func TestGrantLife(t *testing.T) {
	t.Parallel()
	run, session := uuid.New(), uuid.New()
	for name, c := range map[string]struct {
		edit func(*grant)
		ok   bool
	}{
		"always":          {func(*grant) {}, true},
		"expired":         {func(g *grant) { g.expires = 1000 }, false},
		"not yet expired": {func(g *grant) { g.expires = 1001 }, true},
		"revoked":         {func(g *grant) { g.revoked = true }, false},
		"suspended":       {func(g *grant) { g.suspended = true }, false},
		"other hash":      {func(g *grant) { g.hash = [32]byte{2} }, false},
		"other host":      {func(g *grant) { g.host.name = "b.example.com" }, false},
		"other port":      {func(g *grant) { g.host.port = 8443 }, false},
		"wildcard":        {func(g *grant) { g.host = host{wild: true, name: "example.com", port: 443} }, true},
		"other cap":       {func(g *grant) { g.cap = NetworkLocalhost }, false},
		"once":            {func(g *grant) { g.scope, g.uses = "once", 1 }, true},
		"spent":           {func(g *grant) { g.scope, g.uses = "once", 0 }, false},
		"this run":        {func(g *grant) { g.scope, g.run = "run", run }, true},
		"other run":       {func(g *grant) { g.scope, g.run = "run", uuid.New() }, false},
		"no run yet":      {func(g *grant) { g.scope = "run" }, false},
		"this session":    {func(g *grant) { g.scope, g.session = "session", session }, true},
		"other session":   {func(g *grant) { g.scope, g.session = "session", uuid.New() }, false},
		"unknown scope":   {func(g *grant) { g.scope = "forever" }, false},
	} {
		in := good()
		in.run, in.session = run, session
		c.edit(&in.grants[0])
		if d, _ := decide(in); (d.Effect == Allow) != c.ok {
			t.Errorf("%s: %+v", name, d)
		}
	}
	in := good()
	once := in.grants[0]
	once.scope, once.uses, once.id = "once", 1, uuid.UUID{2}
	in.grants = append([]grant{once}, in.grants...)
	if d, _ := decide(in); d.GrantID != (uuid.UUID{1}) {
		t.Error("a once grant was spent although a lasting one was there")
	}
}

// TestMonotone checks that removing a grant or adding a denial never allows anything.
func TestMonotone(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	pick := func() rule {
		c := []Capability{NetworkHTTPS, State, ToolCall}[r.IntN(3)]
		return compile(c, randomPattern(r, c), &space{}, Subject{})
	}
	allowed := 0
	for range 30000 {
		in := good()
		in.declared = append(in.declared, pick())
		for range r.IntN(4) {
			g := grant{rule: pick(), id: uuid.New(), hash: [32]byte{byte(1 + r.IntN(2))}, scope: []string{"always", "once", "run"}[r.IntN(3)], uses: int64(r.IntN(2)), suspended: r.IntN(4) == 0}
			in.grants = append(in.grants, g)
		}
		if r.IntN(2) == 0 {
			in.grants = in.grants[1:]
		}
		if r.IntN(4) == 0 {
			in.denials = append(in.denials, pick())
		}
		in.callerLacks = r.IntN(8) == 0
		before, _ := decide(in)
		less := *in
		if len(less.grants) > 0 {
			k := r.IntN(len(less.grants))
			less.grants = append(append([]grant{}, less.grants[:k]...), less.grants[k+1:]...)
		}
		if r.IntN(2) == 0 {
			less.denials = append(append([]rule{}, less.denials...), pick())
		}
		after, _ := decide(&less)
		if before.Effect != Allow && after.Effect == Allow {
			t.Fatalf("%+v became %+v", before, after)
		}
		if before.Effect == Allow {
			allowed++
		}
	}
	if allowed < 1000 {
		t.Fatalf("only %d of the inputs were allowed", allowed)
	}
}

// FuzzNarrow checks that for any two valid patterns the intersection is covered by both.
func FuzzNarrow(f *testing.F) {
	f.Add("*.a.example.com", "b.a.example.com", uint8(0))
	f.Add("/a/**", "/A/b", uint8(1))
	f.Add("1-100", "50-200", uint8(2))
	f.Add("a.*", "a.b.c", uint8(3))
	f.Fuzz(func(t *testing.T, a, b string, k uint8) {
		c := []Capability{NetworkHTTPS, FilesystemRead, NetworkLocalhost, MCP, State, ToolCall}[int(k)%6]
		a, err := Normalize(c, a)
		b, err2 := Normalize(c, b)
		if err != nil || err2 != nil {
			return
		}
		x, ok := narrow(c, a, b)
		y, ok2 := narrow(c, b, a)
		if x != y || ok != ok2 || ok && (!Covers(c, a, x) || !Covers(c, b, x)) {
			t.Fatalf("%s: %q ∩ %q = %q %v / %q %v", c, a, b, x, ok, y, ok2)
		}
	})
}
