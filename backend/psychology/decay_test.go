package psychology

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"
)

func TestLawsAtKnownPoints(t *testing.T) {
	t.Parallel()
	hours := []float64{0, 0.5, 1, 24, 168, 720, 8760}
	for layer, f := range map[int]func(float64) float64{
		1: func(t float64) float64 { return math.Pow(0.5, t/720) },
		2: func(t float64) float64 { return math.Exp(-t / 168) },
		3: func(t float64) float64 { return 1 / math.Sqrt(1+t) },
		4: func(t float64) float64 { return math.Pow(0.5, t/360) },
		5: func(t float64) float64 { return math.Exp(-t / 240) },
		6: func(t float64) float64 { return math.Pow(0.5, t/480) },
		7: func(t float64) float64 { return math.Exp(-t / 1440) },
		9: func(t float64) float64 { return math.Exp(-t / 168) },
	} {
		for _, h := range hours {
			if got, want := LawOf(layer).Retention(1, h, 0), f(h); math.Abs(got-want) > 1e-12 {
				t.Errorf("layer %d after %g h: %g, want %g", layer, h, got, want)
			}
		}
	}
	if got := LawOf(1).Retention(0.6, 720, 0.1); math.Abs(got-0.3) > 1e-12 {
		t.Errorf("0.6 after a half-life is %g", got)
	}
}

func TestRetentionIsBoundedAndMonotone(t *testing.T) {
	t.Parallel()
	f := func(layer uint8, s, a, b, floor float64) bool {
		l := LawOf(int(layer % 9))
		s, floor = math.Abs(math.Mod(s, 1)), math.Abs(math.Mod(floor, 1))
		if math.IsNaN(s) || math.IsNaN(floor) {
			return true
		}
		x, y := l.Retention(s, a, floor), l.Retention(s, b, floor)
		if !(x >= 0 && x <= 1 && x <= s && x >= min(floor, s)) {
			return false
		}
		return !(a <= b) || x >= y
	}
	if err := quick.Check(f, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1} {
		if got := LawOf(1).Retention(0.5, bad, 0.1); bad != math.Inf(1) && got != 0.5 || bad == math.Inf(1) && got != 0.1 {
			t.Errorf("after %g hours: %g", bad, got)
		}
		if !math.IsNaN(LawOf(1).Retention(bad, 1, 0)) {
			t.Errorf("a strength of %g is taken", bad)
		}
	}
}

// The time at which a threshold is crossed matches the curve.
func TestCrossingsAreOnTheCurve(t *testing.T) {
	t.Parallel()
	conf := defaults()
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		x := item{layer: 1 + r.IntN(7), strength: r.Float64(), tier: []string{"high", "medium", "low"}[r.IntN(3)], anchor: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		for _, th := range thresholds {
			at, ok := conf.crosses(x, th)
			if !ok {
				if end := conf.retention(x, x.anchor.AddDate(99, 0, 0)); end < th-1e-9 {
					t.Fatalf("%+v never reaches %g but is at %g", x, th, end)
				}
				continue
			}
			if got := conf.retention(x, at); math.Abs(got-min(th, x.strength)) > 1e-6 {
				t.Fatalf("%+v is at %g when it should reach %g", x, got, th)
			}
		}
	}
}

func TestCrossingsThatNeverCome(t *testing.T) {
	t.Parallel()
	conf, at := defaults(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	conf.MinimumIntensity, conf.PreserveHighSalience = 0, false
	for _, c := range []struct {
		x    item
		r    float64
		want bool
	}{
		{item{layer: 7, strength: 1, tier: "high"}, 0.1, true},       // in two years
		{item{layer: 3, strength: 1, tier: "medium"}, 0.0005, false}, // in five centuries
		{item{layer: 1, strength: 0.2, tier: "critical"}, 0.3, false},
		{item{layer: 1, strength: 1, tier: "critical"}, 0.3, false},
		{item{layer: 1, strength: 1, tier: "medium", pinned: true}, 0.3, false},
		{item{layer: 1, strength: 1, tier: "medium"}, 0, false},
	} {
		c.x.anchor = at
		if _, ok := conf.crosses(c.x, c.r); ok != c.want {
			t.Errorf("%+v reaches %g: %v", c.x, c.r, ok)
		}
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	conf, at := defaults(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	value := func(tier string, pinned bool) float64 {
		return conf.retention(item{layer: 1, strength: 1, tier: tier, pinned: pinned, anchor: at}, at.Add(720*time.Hour))
	}
	if m := value("medium", false); math.Abs(m-0.5) > 1e-12 {
		t.Errorf("medium after a half-life is %g", m)
	}
	for tier, want := range map[string]float64{"high": math.Pow(0.5, 0.2), "low": 0.125, "of no name": 0.5} {
		if got := value(tier, false); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s after a half-life is %g, want %g", tier, got, want)
		}
	}
	if value("critical", false) != 1 || value("medium", true) != 1 {
		t.Error("what is critical or pinned fades")
	}
	if !(value("high", false) > value("medium", false) && value("medium", false) > value("low", false)) {
		t.Error("tiers are out of order")
	}
	for preserved, want := range map[bool]float64{true: 0.5, false: 0.25} {
		conf.PreserveHighSalience = preserved
		for tier, want := range map[string]float64{"high": want, "medium": conf.MinimumIntensity} {
			x := item{layer: 1, strength: 1, tier: tier, anchor: at}
			if got := conf.retention(x, at.Add(7200*time.Hour)); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s after ten half-lives, preserved %v: %g, want %g", tier, preserved, got, want)
			}
		}
	}
	conf.PreserveHighSalience = true
	if got := conf.retention(item{layer: 1, strength: 0.15, tier: "high", anchor: at}, at.AddDate(10, 0, 0)); got != conf.MinimumIntensity {
		t.Errorf("what was weak ends at %g", got)
	}
	conf.Rate = 0.9
	if got, want := value("medium", false), math.Pow(0.5, math.Log(0.9)/math.Log(0.95)); math.Abs(got-want) > 1e-12 {
		t.Errorf("at a rate of 0.9 medium after a half-life is %g, want %g", got, want)
	}
	conf.Layers["1"] = false
	if value("medium", false) != 1 {
		t.Error("a layer that is off fades")
	}
}

// Retention does not decrease with strength, and is never lower for what decays more slowly.
func TestRetentionIsMonotoneInStrengthRateAndTier(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := rand.New(rand.NewPCG(5, 5))
	for range 20_000 {
		slow, fast := defaults(), defaults()
		slow.Rate, slow.MinimumIntensity = 0.8+0.19*r.Float64(), 0.5*r.Float64()
		fast.Rate, fast.MinimumIntensity = 0.8+(slow.Rate-0.8)*r.Float64(), slow.MinimumIntensity
		x := item{layer: r.IntN(9), strength: r.Float64(), tier: "medium", anchor: at}
		then := at.Add(time.Duration(r.Float64() * 3000 * float64(time.Hour)))
		base, stronger := slow.retention(x, then), x
		stronger.strength += (1 - x.strength) * r.Float64()
		if slow.retention(stronger, then) < base {
			t.Fatalf("%+v: more strength leaves less", x)
		}
		if fast.retention(x, then) > base+1e-12 {
			t.Fatalf("%+v: a rate of %g leaves more than %g", x, fast.Rate, slow.Rate)
		}
		last := 0.0
		for _, tier := range []string{"low", "medium", "high", "critical"} {
			x.tier = tier
			got := slow.retention(x, then)
			if got < last {
				t.Fatalf("%+v has less than the tier below", x)
			}
			last = got
		}
		if last != x.strength {
			t.Fatalf("%+v fades", x)
		}
	}
}

func TestCrossedThreshold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ was, now, floor, want float64 }{
		{1, 0.71, 0.1, 0}, {1, 0.7, 0.1, 0.7}, {0.8, 0.6, 0.1, 0.7}, {0.6, 0.45, 0.1, 0.5}, {0.45, 0.31, 0.1, 0}, {0.4, 0.25, 0.1, 0.3},
		{1, 0.2, 0.1, 0.3}, {0.2, 0.1, 0.1, 0.1}, {0.2, 0.15, 0.1, 0}, {0.2, 0, 0, 0}, {0.25, 0.6, 0.1, 0.3}, {0.45, 0.6, 0.1, 0.5},
	} {
		if got := crossing(c.was, c.now, c.floor); got != c.want {
			t.Errorf("from %g to %g with a floor of %g: %g, want %g", c.was, c.now, c.floor, got, c.want)
		}
	}
	if fadingLine != 0.3 {
		t.Errorf("what counts as fading begins at %g", fadingLine)
	}
}

func BenchmarkRetention(b *testing.B) {
	l := LawOf(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Retention(0.9, float64(i%8760), 0.1)
	}
}

// The time at which the floor is reached is known, as mode hard requires; nothing below it is reached.
func TestTimeAtWhichTheFloorIsReached(t *testing.T) {
	t.Parallel()
	l := LawOf(1)
	if got := l.after(0.8, 0.1, 0.1); math.Abs(got-2160) > 1e-9 {
		t.Errorf("the floor is reached after %g h", got)
	}
	if got := l.after(0.8, 0.0999, 0.1); !math.IsInf(got, 1) {
		t.Errorf("below the floor after %g h", got)
	}
}

func TestEachSwitchFreezes(t *testing.T) {
	t.Parallel()
	x := item{layer: 2, strength: 0.8, tier: "medium", stored: new(float64)}
	*x.stored = 0.7
	at := x.anchor.Add(1000 * time.Hour)
	for name, off := range map[string]func(*Settings, *item){
		"psychology": func(s *Settings, _ *item) { s.Enabled = false }, "decay": func(s *Settings, _ *item) { s.DecayEnabled = false },
		"layer": func(s *Settings, _ *item) { s.Layers["2"] = false }, "pin": func(_ *Settings, x *item) { x.pinned = true },
	} {
		s, y := defaults(), x
		if s.frozen(y) || s.retention(y, at) >= 0.7 {
			t.Fatal("it is frozen from the start")
		}
		off(&s, &y)
		if got := s.retention(y, at); got != 0.7 {
			t.Errorf("%s: %g", name, got)
		}
		if _, ok := s.crosses(y, 0.3); ok {
			t.Errorf("%s: it still crosses", name)
		}
		y.stored = nil
		if got := s.retention(y, at); got != 0.8 {
			t.Errorf("%s, never computed: %g", name, got)
		}
	}
}
