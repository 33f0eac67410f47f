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

// The time at which a threshold is reached is where the curve has it.
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

func TestPace(t *testing.T) {
	t.Parallel()
	conf, at := defaults(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	value := func(tier string, pinned bool) float64 {
		return conf.retention(item{layer: 1, strength: 1, tier: tier, pinned: pinned, anchor: at}, at.Add(720*time.Hour))
	}
	if m := value("medium", false); math.Abs(m-0.5) > 1e-12 {
		t.Errorf("medium after a half-life is %g", m)
	}
	if value("critical", false) != 1 || value("medium", true) != 1 {
		t.Error("what is critical or pinned fades")
	}
	if !(value("high", false) > value("medium", false) && value("medium", false) > value("low", false)) {
		t.Error("tiers are out of order")
	}
	conf.Rate = 0.8
	if value("medium", false) >= 0.5 {
		t.Error("a lower rate does not fade faster")
	}
	conf.Layers["1"] = false
	if value("medium", false) != 1 {
		t.Error("a layer that is off fades")
	}
}

func BenchmarkRetention(b *testing.B) {
	l := LawOf(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Retention(0.9, float64(i%8760), 0.1)
	}
}
