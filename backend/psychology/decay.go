// Package psychology holds a person's inner map in seven layers of entries that the person owns,
// and lets entries and memories fade by known laws, and shows why. Retention is a pure function of
// the time since the last reinforcement: how often it is computed never matters.
package psychology

import (
	"math"
	"time"
)

// Model is a law of forgetting.
type Model string

// The laws; s is the initial strength, t the hours since the last reinforcement.
const (
	Exponential Model = "exponential" // s·0.5^(t/h), with the half-life h
	Ebbinghaus  Model = "ebbinghaus"  // s·e^(−t/c), with the time constant c
	Power       Model = "power"       // s·(1+t)^(−b), with the exponent b
)

// Law is a model with its parameter, in hours but for Power.
type Law struct {
	Model     Model   `json:"model"`
	Parameter float64 `json:"parameter"`
}

// LawOf is the law of a layer.
func LawOf(layer int) Law {
	if layer < 1 || layer > 7 {
		return layers[0].law
	}
	return layers[layer].law
}

// Retention is what is left of strength s after t hours of effective time under a law: 0 to 1. It
// never falls below floor or s, whichever is lower, so that a floor raises nothing. Times below zero
// count as zero; a strength outside 0 to 1 or NaN is a caller's mistake and gives NaN. A time that is NaN is one
// that is not known: nothing fades.
func (l Law) Retention(s, t, floor float64) float64 {
	if !(s >= 0 && s <= 1) {
		return math.NaN()
	}
	if !(t > 0) { // NaN too
		return s
	}
	r := s
	switch l.Model {
	case Exponential:
		r *= math.Exp2(-t / l.Parameter)
	case Power:
		r *= math.Pow(1+t, -l.Parameter)
	default:
		r *= math.Exp(-t / l.Parameter)
	}
	return max(r, min(floor, s), 0)
}

// after is the effective time at which retention has fallen to r; infinite when it never does.
func (l Law) after(s, r, floor float64) float64 {
	switch {
	case s <= r:
		return 0
	case r <= 0 || min(floor, s) > r:
		return math.Inf(1)
	}
	switch l.Model {
	case Exponential:
		return l.Parameter * math.Log2(s/r)
	case Power:
		return math.Pow(s/r, 1/l.Parameter) - 1
	}
	return l.Parameter * math.Log(s/r)
}

// tierPace is how fast a tier fades against medium.
var tierPace = map[string]float64{"critical": 0, "high": 0.2, "medium": 1, "low": 3}

// pace turns hours into effective hours: of the tier, and of the person's rate against the default one.
func pace(tier string, rate float64) float64 {
	p, ok := tierPace[tier]
	if !ok {
		p = 1
	}
	if rate == defaultRate {
		return p
	}
	return p * math.Log(rate) / math.Log(defaultRate)
}

// thresholds at which a change of retention is noted.
var thresholds = []float64{0.7, 0.5, 0.3}

// fadingLine is the retention under which something counts as fading.
const fadingLine = 0.3

// item is what decay knows of one memory, entry or layer.
type item struct {
	layer    int
	strength float64
	tier     string
	pinned   bool
	anchor   time.Time
	stored   *float64 // the last computed retention
}

// frozen reports whether an item keeps its retention: it is pinned, or its layer is off.
func (s Settings) frozen(x item) bool {
	return x.pinned || !s.Enabled || !s.DecayEnabled || !s.on(x.layer)
}

// floor is the retention below which x does not fall.
func (s Settings) floor(x item) float64 {
	f := s.MinimumIntensity
	if s.PreserveHighSalience && x.tier == "high" {
		f = max(f, x.strength/2)
	}
	return f
}

// retention of x at a time.
func (s Settings) retention(x item, at time.Time) float64 { return s.curve(x).at(at) }

// curve is the retention of one item over time: what is the same at all times is computed once.
type curve struct {
	law             Law // without a model it stays as it is
	pace            float64
	strength, floor float64
	anchor          time.Time
}

func (s Settings) curve(x item) curve {
	if s.frozen(x) {
		if x.stored != nil {
			return curve{strength: *x.stored}
		}
		return curve{strength: x.strength}
	}
	return curve{LawOf(x.layer), pace(x.tier, s.Rate), x.strength, s.floor(x), x.anchor}
}

func (c curve) at(t time.Time) float64 {
	if c.law.Model == "" {
		return c.strength
	}
	return c.law.Retention(c.strength, t.Sub(c.anchor).Hours()*c.pace, c.floor)
}

// crosses is when the retention of x falls to r; ok is false when it never does.
func (s Settings) crosses(x item, r float64) (at time.Time, ok bool) {
	p := pace(x.tier, s.Rate)
	if s.frozen(x) || p == 0 {
		return at, false
	}
	hours := LawOf(x.layer).after(x.strength, r, s.floor(x)) / p
	const century = 100 * 365 * 24
	if hours > century { // infinite too
		return at, false
	}
	return x.anchor.Add(time.Duration(hours * float64(time.Hour))), true
}
