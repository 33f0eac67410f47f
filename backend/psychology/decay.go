// Package psychology manages a person's inner map, seven layers of entries that the person owns. It lets
// entries and memories decay by known laws, and explains their retention. Retention is a pure function of
// the time since the last reinforcement, so it does not matter how often it is computed.
package psychology

import (
	"math"
	"time"
)

// Model is a law of forgetting.
type Model string

// The laws. s is the initial strength, t the hours since the last reinforcement.
const (
	Exponential Model = "exponential" // s·0.5^(t/h), with the half-life h
	Ebbinghaus  Model = "ebbinghaus"  // s·e^(−t/c), with the time constant c
	Power       Model = "power"       // s·(1+t)^(−b), with the exponent b
)

// Law is a model with its parameter, which is in hours except for Power.
type Law struct {
	Model     Model   `json:"model"`
	Parameter float64 `json:"parameter"`
}

// LawOf returns the law of a layer.
func LawOf(layer int) Law {
	if layer < 1 || layer > 7 {
		return layers[0].law
	}
	return layers[layer].law
}

// Retention returns the retention, 0 to 1, of strength s after t hours of effective time. It never
// falls below the lower of floor and s, so a floor does not raise it. A negative t counts as zero.
// A strength outside 0 to 1 or NaN is a bug in the caller and yields NaN. A t of NaN means that the
// time is unknown, and nothing decays.
func (l Law) Retention(s, t, floor float64) float64 {
	if !(s >= 0 && s <= 1) {
		return math.NaN()
	}
	if !(t > 0) { // also for NaN
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

// after returns the effective time after which retention has fallen to r; infinity if it never does.
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

// tierPace is the speed of decay of a tier relative to medium.
var tierPace = map[string]float64{"critical": 0, "high": 0.2, "medium": 1, "low": 3}

// pace returns the factor from hours to effective hours, for a tier and the person's rate relative
// to the default one.
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

// thresholds are the retentions whose crossing is recorded.
var thresholds = []float64{0.7, 0.5, 0.3}

// fadingLine is the retention below which an item counts as fading.
const fadingLine = 0.3

// item holds the fields of a memory, entry or layer that decay depends on.
type item struct {
	layer    int
	strength float64
	tier     string
	pinned   bool
	anchor   time.Time
	stored   *float64 // the last computed retention
}

// frozen reports whether an item keeps its retention because it is pinned or its layer is off.
func (s Settings) frozen(x item) bool {
	return x.pinned || !s.Enabled || !s.DecayEnabled || !s.on(x.layer)
}

// floor returns the retention below which x does not fall.
func (s Settings) floor(x item) float64 {
	f := s.MinimumIntensity
	if s.PreserveHighSalience && x.tier == "high" {
		f = max(f, x.strength/2)
	}
	return f
}

// retention returns the retention of x at a time.
func (s Settings) retention(x item, at time.Time) float64 { return s.curve(x).at(at) }

// curve is the retention of one item over time, with the time-independent parts precomputed.
type curve struct {
	law             Law // without a model the retention is constant
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

// crosses returns when the retention of x falls to r. ok is false if it never does.
func (s Settings) crosses(x item, r float64) (at time.Time, ok bool) {
	p := pace(x.tier, s.Rate)
	if s.frozen(x) || p == 0 {
		return at, false
	}
	hours := LawOf(x.layer).after(x.strength, r, s.floor(x)) / p
	const century = 100 * 365 * 24
	if hours > century { // also if infinite
		return at, false
	}
	return x.anchor.Add(time.Duration(hours * float64(time.Hour))), true
}
