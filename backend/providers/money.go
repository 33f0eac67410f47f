package providers

import (
	"encoding/json"
	"errors"
	"math/bits"
	"net"
	"strconv"
	"strings"

	"helix/backend/fault"
)

// Micros is an amount in millionths of a US dollar.
type Micros = int64

const maxMicros = 1 << 62

// decimalMicros parses a decimal number and returns it times 10^shift, rounded up. A shift of 6
// converts dollars. ok is false unless the text is a decimal of at least 0 within the limit on
// amounts.
func decimalMicros(s string, shift int) (Micros, bool) {
	s = strings.TrimSpace(s)
	mantissa, exponent, has := strings.Cut(strings.ToLower(s), "e")
	if has {
		e, err := strconv.Atoi(exponent)
		if err != nil || e < -400 || e > 400 {
			return 0, false
		}
		shift += e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	digits = strings.TrimLeft(digits, "0")
	point := len(digits) - len(fraction) + shift // digits before the point
	if digits == "" {
		return 0, true
	}
	if point > 18 {
		return 0, false
	}
	for len(digits) < point {
		digits += "0"
	}
	point = max(point, 0)
	up := strings.Trim(digits[point:], "0") != "" || digits != "" && shift < 0 && point == 0
	var n int64
	if point > 0 {
		var err error
		if n, err = strconv.ParseInt(digits[:point], 10, 64); err != nil {
			return 0, false
		}
	}
	if up {
		n++
	}
	return n, true
}

// Price holds prices in micros per million tokens; nil means that the catalog has none.
type Price struct {
	Input      *Micros `json:"input,omitempty"`
	Output     *Micros `json:"output,omitempty"`
	CacheRead  *Micros `json:"cacheRead,omitempty"`
	CacheWrite *Micros `json:"cacheWrite,omitempty"`
	Reasoning  *Micros `json:"reasoning,omitempty"`
	// Over holds the prices of prompts above given sizes.
	Over []Tier `json:"over,omitempty"`
}

// Tier is a price for prompts of more than Above tokens.
type Tier struct {
	Above int64 `json:"above"`
	Price
}

// Known reports whether both input and output have prices.
func (p Price) Known() bool { return p.Input != nil && p.Output != nil }

// Cost returns the cost of u, and whether its price is known.
func (p Price) Cost(u Usage) (Micros, bool) {
	best := int64(-1)
	for _, t := range p.Over {
		if u.Prompt() > t.Above && t.Above > best && t.Known() {
			best = t.Above
			over := t.Price
			over.Over = nil
			p.Input, p.Output, p.CacheRead, p.CacheWrite, p.Reasoning = over.Input, over.Output, over.CacheRead, over.CacheWrite, over.Reasoning
		}
	}
	if !p.Known() {
		return 0, false
	}
	or := func(a, b *Micros) Micros {
		if a != nil {
			return *a
		}
		return *b
	}
	reasoning := min(u.Reasoning, u.Output)
	return sumMicros(
		u.Input, *p.Input,
		u.CacheRead, or(p.CacheRead, p.Input),
		u.CacheWrite, or(p.CacheWrite, p.Input),
		u.CacheWrite1h, or(p.CacheWrite, p.Input),
		u.Output-reasoning, *p.Output,
		reasoning, or(p.Reasoning, p.Output),
	), true
}

// sumMicros adds the products of pairs of counts and prices in 128 bits and divides the sum by a
// million, rounding up.
func sumMicros(pairs ...int64) Micros {
	var hi, lo uint64
	for i := 0; i < len(pairs); i += 2 {
		h, l := bits.Mul64(uint64(max(pairs[i], 0)), uint64(max(pairs[i+1], 0)))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	const million = 1_000_000
	lo, carry := bits.Add64(lo, million-1, 0)
	if hi += carry; hi >= million {
		return maxMicros
	}
	q, _ := bits.Div64(hi, lo, million)
	return int64(min(q, maxMicros))
}

// catalogCost is the cost member of the catalog: dollars per million tokens, as decimal text.
type catalogCost struct {
	Input       json.Number  `json:"input,omitempty"`
	Output      json.Number  `json:"output,omitempty"`
	CacheRead   json.Number  `json:"cache_read,omitempty"`
	CacheWrite  json.Number  `json:"cache_write,omitempty"`
	Reasoning   json.Number  `json:"reasoning,omitempty"`
	ContextOver *catalogCost `json:"context_over_200k,omitempty"`
}

func (c catalogCost) price() Price {
	read := func(n json.Number) *Micros {
		if m, ok := decimalMicros(string(n), 6); ok {
			return &m
		}
		return nil
	}
	p := Price{Input: read(c.Input), Output: read(c.Output), CacheRead: read(c.CacheRead), CacheWrite: read(c.CacheWrite), Reasoning: read(c.Reasoning)}
	if c.ContextOver != nil {
		p.Over = []Tier{{Above: 200_000, Price: c.ContextOver.price()}}
	}
	return p
}

// settled returns the usage to charge for a call, which is never less than the service may bill. For
// a complete answer that is the last report. An interrupted answer may be longer than its last
// report, and an answer without a report is charged the most that its texts may take.
func settled(u Usage, whole, ran bool, input int64, received int) Usage {
	output := int64(float64(received)/leastRatio) + 1
	switch {
	case u.Requests > 0 && whole:
	case u.Requests > 0:
		u.Output, u.Estimated = max(u.Output, output), true
	case whole || ran:
		u = Usage{Input: input, Output: output, Requests: 1, Estimated: true}
	}
	return u
}

// mayHaveRun reports whether the service may have processed a call that failed without an answer: the
// call was sent, and the connection then broke or timed out. Services do not bill calls that they
// answer with an error.
func mayHaveRun(err error) bool {
	var s *ServiceError
	var dial *net.OpError
	if err == nil || errors.As(err, &s) || errors.Is(err, errHTML) || errors.As(err, &dial) && dial.Op == "dial" {
		return false
	}
	k := fault.KindOf(err)
	return k == fault.Timeout || k == fault.Unavailable || k == fault.Canceled
}

// cost returns the price of usage; unknown reports that no price was known and the assumed price was
// used.
func (r *Router) cost(t target, u Usage) (micros Micros, unknown bool) {
	if cost, ok := t.info.Prices.Cost(u); ok {
		return cost, false
	}
	if t.entry.local() {
		return 0, true
	}
	cost, _ := r.o.AssumedPrice.Cost(u)
	return cost, true
}
