package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// maker generates random schemas and values in which most keywords apply to something.
type maker struct{ *rand.Rand }

func (m maker) pick(list ...string) string { return list[m.IntN(len(list))] }

func (m maker) name() string { return m.pick("a", "b", "c", "ab", "x/y", "") }

func (m maker) numeral() string {
	return m.pick("0", "1", "2", "3", "-1", "1.5", "2.0", "1e1", "10", "0.1", "0.3", "12345678901234567890", "1e-3", "1.50e2")
}

func (m maker) value(depth int) any {
	n := 8
	if depth <= 0 {
		n = 5
	}
	switch m.IntN(n) {
	case 0:
		return nil
	case 1:
		return m.IntN(2) == 0
	case 2, 3:
		return json.Number(m.numeral())
	case 4:
		return m.pick("", "a", "ab", "abc", "aaa", "2020-01-02", "x@y.org", "127.0.0.1", "é", "[a-")
	case 5:
		out := []any{}
		for range m.IntN(4) {
			out = append(out, m.value(depth-1))
		}
		return out
	}
	out := map[string]any{}
	for range m.IntN(4) {
		out[m.name()] = m.value(depth - 1)
	}
	return out
}

func (m maker) number(n int) json.Number { return json.Number(fmt.Sprint(m.IntN(n))) }

func (m maker) list(n int, fn func() any) []any {
	out := []any{}
	for range 1 + m.IntN(n) {
		out = append(out, fn())
	}
	return out
}

func (m maker) names() []any {
	out := []any{}
	for _, n := range []string{"a", "b", "c"} {
		if m.IntN(3) == 0 {
			out = append(out, n)
		}
	}
	return out
}

func (m maker) named(fn func() any) map[string]any {
	out := map[string]any{}
	for range 1 + m.IntN(3) {
		out[m.name()] = fn()
	}
	return out
}

// schema returns a schema for a draft: 7, 2019 or 2020.
func (m maker) schema(draft, depth int) any {
	if m.IntN(12) == 0 {
		return m.IntN(3) > 0
	}
	s := map[string]any{}
	sub := func() any { return m.schema(draft, depth-1) }
	for range 1 + m.IntN(4) {
		switch k := m.IntN(40); {
		case k < 2:
			s["type"] = m.pick("null", "boolean", "number", "integer", "string", "array", "object")
		case k < 4:
			s["type"] = []any{"integer", m.pick("object", "string")}
		case k == 4:
			s["enum"] = m.list(4, func() any { return m.value(2) })
		case k == 5:
			s["const"] = m.value(2)
		case k == 6:
			s[m.pick("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")] = json.Number(m.numeral())
		case k == 7:
			s["multipleOf"] = json.Number(m.pick("1", "2", "0.1", "3", "1e1"))
		case k == 8:
			s[m.pick("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")] = m.number(4)
		case k == 9:
			s["pattern"] = m.pick("^a", "b$", "a+", "^$", ".", "[0-9]{2}")
		case k == 10:
			s["format"] = m.pick("date", "email", "ipv4", "regex", "uri", "unknown", "json-pointer")
		case k == 11:
			s["uniqueItems"] = true
		case k == 12:
			s["required"] = m.names()
		case k == 13 && draft > 7:
			s["dependentRequired"] = map[string]any{m.name(): m.names()}
		case k == 14 && draft > 7:
			s[m.pick("minContains", "maxContains")] = m.number(3)
		case k == 15:
			s["$ref"] = m.pick("#", "#/$defs/d", "#/$defs/e", "#/definitions/f")
		case k == 16 && draft == 2020:
			s["$dynamicRef"] = m.pick("#anchor", "#/$defs/d", "#anchor")
		case k == 17 && draft == 2019:
			s["$recursiveRef"] = "#"
		case depth <= 0:
		case k < 20:
			s["properties"] = m.named(sub)
		case k == 20:
			s["patternProperties"] = map[string]any{m.pick("^a", "b", "^$"): sub(), ".": sub()}
		case k == 21:
			s["additionalProperties"] = sub()
		case k == 22:
			s["propertyNames"] = sub()
		case k == 23 && draft > 7:
			s["dependentSchemas"] = m.named(sub)
		case k == 24:
			s["dependencies"] = map[string]any{m.name(): sub(), "c": m.names()}
		case k == 25:
			if draft < 2020 && m.IntN(2) == 0 {
				s["items"] = m.list(3, sub)
			} else {
				s["items"] = sub()
			}
		case k == 26 && draft < 2020:
			s["additionalItems"] = sub()
		case k == 26:
			s["prefixItems"] = m.list(3, sub)
		case k == 27:
			s["contains"] = sub()
		case k < 30 && draft > 7:
			s["unevaluatedProperties"] = m.pickAny(false, sub())
		case k < 32 && draft > 7:
			s["unevaluatedItems"] = m.pickAny(false, sub())
		case k == 32:
			s["not"] = sub()
		case k < 36:
			s[m.pick("allOf", "anyOf", "oneOf")] = m.list(3, sub)
		case k < 38:
			s["if"], s["then"], s["else"] = sub(), sub(), sub()
		}
	}
	return s
}

func (m maker) pickAny(list ...any) any { return list[m.IntN(len(list))] }

// document returns a complete schema with the definitions that its references need.
func (m maker) document() map[string]any {
	draft := []int{7, 2019, 2020}[m.IntN(3)]
	var s map[string]any
	for s == nil {
		s, _ = m.schema(draft, 4).(map[string]any)
	}
	s["$schema"] = map[int]string{7: "http://json-schema.org/draft-07/schema#", 2019: "https://json-schema.org/draft/2019-09/schema", 2020: "https://json-schema.org/draft/2020-12/schema"}[draft]
	defs := map[string]any{"d": m.schema(draft, 2), "e": m.schema(draft, 2)}
	if draft == 2020 {
		s["$dynamicAnchor"] = "anchor"
		inner := map[string]any{"$id": "https://example.org/inner", "$dynamicAnchor": "anchor", "properties": map[string]any{"a": m.schema(2019, 1)}}
		if m.IntN(2) == 0 {
			defs["inner"] = inner
			s["properties"] = map[string]any{"c": map[string]any{"$ref": "#/$defs/inner"}}
			inner["items"] = map[string]any{"$dynamicRef": "#anchor"}
		}
	}
	if draft == 2019 && m.IntN(2) == 0 {
		s["$recursiveAnchor"] = true
	}
	s["$defs"], s["definitions"] = defs, map[string]any{"f": m.schema(draft, 2)}
	return s
}

// peer returns the schema compiled by the library; nil if it cannot be used.
func peer(raw []byte) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	if c.AddResource("helix:peer", must(jcs.Decode(raw, 100, 0))) != nil {
		return nil
	}
	s, err := c.Compile("helix:peer")
	if err != nil {
		return nil
	}
	return s
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cases returns the number of seeded cases of a generated test.
func cases(few, many int) int {
	if os.Getenv("HELIX_LONG") == "1" {
		return many
	}
	return few
}

func TestVerdictsEqualThoseOfTheLibrary(t *testing.T) {
	t.Parallel()
	fit, refused, unusable := 0, 0, 0
	for seed := range uint64(cases(800, 30_000)) {
		m := maker{rand.New(rand.NewPCG(seed, 1))}
		raw := encode(t, m.document())
		s, err := Compile(raw)
		other := peer(raw)
		if (other != nil) != (err == nil) {
			t.Fatalf("seed %d: %s: %v, by the library it can be used: %v", seed, raw, err, other != nil)
		}
		if other == nil {
			unusable++
			continue
		}
		for range 4 {
			v := m.value(4)
			want := other.Validate(v) == nil
			got := s.Check(t.Context(), v)
			if (got == nil) != want && bytes.Contains(raw, []byte("propertyNames")) && (bytes.Contains(raw, []byte("$recursiveRef")) || bytes.Contains(raw, []byte("$dynamicRef"))) {
				continue // at member names, the library drops the schemas that lead there
			}
			if (got == nil) != want || got != nil && !fault.Is(got, fault.Invalid) {
				t.Fatalf("seed %d: %s\nvalue %s\ngave %v, by the library it fits: %v", seed, raw, encode(t, v), got, want)
			}
			if want {
				fit++
			} else {
				refused++
			}
		}
	}
	if fit < 1000 || refused < 1000 {
		t.Errorf("%d fit, %d do not, %d schemas cannot be used: the cases say little", fit, refused, unusable)
	}
	t.Logf("%d fit, %d do not, %d schemas cannot be used", fit, refused, unusable)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// FuzzCheck looks for schemas and values that crash the process, and for verdicts that differ from
// the library's where the library can decide.
func FuzzCheck(f *testing.F) {
	for seed := range uint64(40) {
		m := maker{rand.New(rand.NewPCG(seed, 2))}
		f.Add(encode(f, m.document()), encode(f, m.value(3)))
	}
	f.Add([]byte(`{"minimum":0}`), []byte(`1e100000000`))
	f.Add([]byte(`{"enum":[1e400]}`), []byte(`[1e400,1E+400]`))
	f.Fuzz(func(t *testing.T, raw, value []byte) {
		s, err := Compile(raw)
		if err != nil {
			return
		}
		v, err := jcs.Decode(value, 200, 0)
		if err != nil {
			return
		}
		left, got := s.check(t.Context(), v)
		if left < maxWork-100_000 || len(raw) > 2000 || strings.Contains(string(raw), "json-schema.org") && !strings.Contains(string(raw), "$schema") {
			return
		}
		other := peer(raw)
		if other == nil {
			return
		}
		if want := other.Validate(v) == nil; (got == nil) != want {
			t.Fatalf("%s\nvalue %s\ngave %v, by the library it fits: %v", raw, value, got, want)
		}
	})
}
