package providers

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ceil returns r rounded up.
func ceil(r *big.Rat) *big.Int {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// Amounts are exactly what decimal arithmetic without limits gives, rounded up once.
func TestMoneyEqualsDecimalArithmetic(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(4, 2))
	digits := func(most int) (s string) {
		for range rnd.IntN(most + 1) {
			s += fmt.Sprint(rnd.IntN(10))
		}
		return s
	}
	parsed, refused := 0, 0
	for range 20_000 {
		text, shift := digits(12), rnd.IntN(13)-6
		if rnd.IntN(2) == 0 {
			text += "." + digits(14)
		}
		if rnd.IntN(3) == 0 {
			text += fmt.Sprintf("e%d", rnd.IntN(25)-12)
		}
		got, ok := decimalMicros(text, shift)
		exact, valid := new(big.Rat).SetString(text)
		if !valid {
			if ok {
				t.Fatalf("%q is no number, but %d", text, got)
			}
			continue
		}
		power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil))
		if shift < 0 {
			power.Inv(power)
		}
		want := ceil(exact.Mul(exact, power))
		switch {
		case ok && (!want.IsInt64() || want.Int64() != got):
			t.Fatalf("%q shifted by %d is %d, want %d", text, shift, got, want)
		case !ok && want.Cmp(big.NewInt(1e17)) < 0:
			t.Fatalf("%q shifted by %d is refused, want %d", text, shift, want)
		case ok:
			parsed++
		default:
			refused++
		}
	}
	if parsed < 5000 || refused == 0 {
		t.Errorf("%d numbers parsed, %d refused", parsed, refused)
	}
	for range 20_000 {
		price := func() *Micros { n := rnd.Int64N(1 << (1 + rnd.IntN(40))); return &n }
		p, over := Price{Input: price(), Output: price()}, Price{Input: price(), Output: price()}
		for _, x := range []**Micros{&p.CacheRead, &p.CacheWrite, &p.Reasoning, &over.CacheRead, &over.Reasoning} {
			if rnd.IntN(2) == 0 {
				*x = price()
			}
		}
		count := func() int64 { return rnd.Int64N(1 << (1 + rnd.IntN(24))) }
		u := Usage{Input: count(), CacheRead: count(), CacheWrite: count(), CacheWrite1h: count(), Output: count()}
		u.Reasoning = rnd.Int64N(u.Output + 1)
		tier := count()
		p.Over = []Tier{{Above: tier, Price: over}}
		at := p
		if u.Input+u.CacheRead+u.CacheWrite+u.CacheWrite1h > tier {
			at = over
		}
		sum := new(big.Int)
		add := func(n int64, prices ...*Micros) {
			for _, x := range prices {
				if x != nil {
					sum.Add(sum, new(big.Int).Mul(big.NewInt(n), big.NewInt(*x)))
					return
				}
			}
		}
		add(u.Input, at.Input)
		add(u.CacheRead, at.CacheRead, at.Input)
		add(u.CacheWrite+u.CacheWrite1h, at.CacheWrite, at.Input)
		add(u.Output-u.Reasoning, at.Output)
		add(u.Reasoning, at.Reasoning, at.Output)
		want := ceil(new(big.Rat).SetFrac(sum, big.NewInt(1_000_000)))
		if got, ok := p.Cost(u); !ok || !want.IsInt64() || got != want.Int64() {
			t.Fatalf("%+v at %+v costs %d, want %d", u, at, got, want)
		}
	}
}

// catalogSchema describes what the product reads of an entry; other fields are kept as they are.
const catalogSchema = `{
	"type": "object", "required": ["id", "name", "models"],
	"properties": {
		"id": {"type": "string", "minLength": 1}, "name": {"type": "string", "minLength": 1}, "api": {"type": "string"}, "npm": {"type": "string"},
		"env": {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}},
		"models": {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/model"}}
	},
	"$defs": {
		"price": {"type": "number", "minimum": 0, "maximum": 100000},
		"cost": {"type": "object", "properties": {"input": {"$ref": "#/$defs/price"}, "output": {"$ref": "#/$defs/price"}, "cache_read": {"$ref": "#/$defs/price"}, "cache_write": {"$ref": "#/$defs/price"},
			"reasoning": {"$ref": "#/$defs/price"}, "context_over_200k": {"$ref": "#/$defs/cost"}}},
		"model": {
			"type": "object", "required": ["id", "name", "limit"],
			"properties": {
				"id": {"type": "string", "minLength": 1}, "name": {"type": "string", "minLength": 1}, "family": {"type": "string"},
				"attachment": {"type": "boolean"}, "reasoning": {"type": "boolean"}, "tool_call": {"type": "boolean"}, "structured_output": {"type": "boolean"}, "temperature": {"type": "boolean"},
				"status": {"type": "string"}, "release_date": {"type": "string"}, "last_updated": {"type": "string"},
				"modalities": {"type": "object", "additionalProperties": {"type": "array", "items": {"enum": ["text", "image", "audio", "video", "pdf"]}}},
				"cost": {"$ref": "#/$defs/cost"},
				"limit": {"type": "object", "required": ["context", "output"], "properties": {"context": {"type": "integer", "minimum": 0}, "input": {"type": "integer", "minimum": 0}, "output": {"type": "integer", "minimum": 0}}}
			}
		}
	}
}`

// Every entry of the embedded catalog has the fields that the product reads, in their types and ranges,
// under its own id.
func TestEveryCatalogEntryFitsTheSchema(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(catalogSchema)))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("catalog.json", doc))
	schema, err := c.Compile("catalog.json")
	must(t, err)
	z, err := gzip.NewReader(bytes.NewReader(snapshot))
	must(t, err)
	text, err := io.ReadAll(z)
	must(t, err)
	var raw map[string]json.RawMessage
	must(t, json.Unmarshal(text, &raw))
	parsed, err := embeddedCatalog()
	must(t, err)
	models := 0
	for id, entry := range raw {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(entry))
		must(t, err)
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		p := parsed.Providers[id]
		if p.ID != id {
			t.Errorf("%s calls itself %q", id, p.ID)
		}
		for name, m := range p.Models {
			if models++; m.ID != name {
				t.Errorf("%s/%s calls itself %q", id, name, m.ID)
			}
		}
	}
	if len(raw) < 10 || models < 100 {
		t.Errorf("%d services with %d models", len(raw), models)
	}
}

// A model whose price nobody knows is charged at the price that the person assumes for such models, and
// marked; one on this computer costs nothing.
func TestUnknownPriceIsChargedAsAssumed(t *testing.T) {
	t.Parallel()
	in, out := Micros(7_000_000), Micros(9_000_000)
	u := Usage{Input: 1_000_000, Output: 1_000_000}
	far, near := target{entry: Entry{Type: WireChat, BaseURL: "https://far.example"}}, target{entry: Entry{Type: WireChat, BaseURL: "http://127.0.0.1:1"}}
	k := setup(t, nil, nil)
	for _, c := range []struct {
		t       target
		assumed Price
		want    Micros
	}{{far, k.o.AssumedPrice, 90_000_000}, {far, Price{Input: &in, Output: &out}, 16_000_000}, {near, k.o.AssumedPrice, 0}} {
		k.o.AssumedPrice = c.assumed
		if got, unknown := k.cost(c.t, u); got != c.want || !unknown {
			t.Errorf("%s costs %d (unknown: %v), want %d", c.t.entry.BaseURL, got, unknown, c.want)
		}
	}
	far.info.Prices = Price{Input: &in, Output: &in}
	if got, unknown := k.cost(far, u); got != 14_000_000 || unknown {
		t.Errorf("a known price gives %d, unknown: %v", got, unknown)
	}
}
