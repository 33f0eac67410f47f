package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/jcs"
)

func compile(t testing.TB, raw string) *Schema {
	t.Helper()
	s, err := Compile([]byte(raw))
	if err != nil {
		t.Fatalf("%.300s: %v", raw, err)
	}
	return s
}

func decode(t testing.TB, raw string) any {
	t.Helper()
	v, err := jcs.Decode([]byte(raw), 5000, 0)
	if err != nil {
		t.Fatalf("%.300s: %v", raw, err)
	}
	return v
}

func TestFindingsNameThePlaceAndTheKeyword(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"type":"object","required":["n"],"additionalProperties":false,"properties":{
		"n":{"type":"integer","minimum":0,"maximum":10,"multipleOf":2},"s":{"type":"string","minLength":2,"pattern":"^a","format":"email"},
		"l":{"uniqueItems":true,"maxItems":2,"contains":{"const":1},"items":{"type":["number","null"]}},"e":{"enum":["x",1]},"not":{"not":{}},
		"any":{"anyOf":[{"type":"null"},{"type":"object","required":["z"]}]},"one":{"oneOf":[{"minimum":1},{"minimum":2}]},"x/y":false}}`)
	for value, want := range map[string]string{
		`{"n":2}`: "", `{}`: "/n required", `[]`: " type", `{"n":3}`: "/n multipleOf", `{"n":-2}`: "/n minimum", `{"n":12}`: "/n maximum",
		`{"n":1.5}`: "/n type", `{"n":2e0,"s":"b"}`: "/s format", `{"n":2,"l":[1,1.0]}`: "/l uniqueItems", `{"n":2,"l":["x",1]}`: "/l/0 type",
		`{"n":2,"l":[2]}`: "/l/0 const", `{"n":2,"l":[]}`: "/l contains", `{"n":2,"e":2}`: "/e enum", `{"n":2,"e":1.0}`: "", `{"n":2,"not":1}`: "/not not",
		`{"n":2,"any":{}}`: "/any type", `{"n":2,"any":{"z":1}}`: "", `{"n":2,"one":3}`: "/one oneOf", `{"n":2,"one":1}`: "", `{"n":2,"x/y":1}`: "/x~1y schema", `{"n":2,"":1}`: "/ additionalProperties",
	} {
		list, err := Mismatches(s.Check(t.Context(), decode(t, value)))
		got := ""
		if len(list) > 0 {
			got = list[0].Path + " " + list[0].Keyword
		}
		if err != nil || got != want || len(list) > 0 && list[0].Message == "" {
			t.Errorf("%s: %q %v, want %q", value, got, err, want)
		}
	}
	many := strings.Repeat(`"x",`, 50) + `"x"`
	list, err := Mismatches(s.Check(t.Context(), decode(t, `{"n":2,"l":[`+many+`]}`)))
	if err != nil || len(list) != MaxFindings {
		t.Errorf("%d findings, %v", len(list), err)
	}
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	list := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		raw, path string
		kind      fault.Kind
	}{
		"no JSON":                      {`{`, "", fault.Invalid},
		"no schema":                    {`[1]`, "", fault.Invalid},
		"duplicate keys":               {`{"type":"object","type":"string"}`, "", fault.Invalid},
		"wrong type":                   {`{"type":"strange"}`, "/type", fault.Invalid},
		"another document":             {`{"properties":{"a":{"$ref":"https://example.org/x.json"}}}`, "/properties/a/$ref", fault.Invalid},
		"a file":                       {`{"$ref":"file:///etc/passwd"}`, "/$ref", fault.Invalid},
		"a metaschema":                 {`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, "/$ref", fault.Invalid},
		"a place that is not there":    {`{"$ref":"#/$defs/none"}`, "", fault.Invalid},
		"look-ahead":                   {`{"properties":{"a":{"pattern":"(?=x)"}}}`, "/properties/a/pattern", fault.Invalid},
		"look-ahead in a name":         {`{"patternProperties":{"(?=x)":{}}}`, "", fault.Invalid},
		"a large number":               {`{"properties":{"a":{"minimum":1e100000000}}}`, "/properties/a/minimum", fault.Invalid},
		"a large number in const":      {`{"const":[1e-100000000]}`, "/const/0", fault.Invalid},
		"too many bytes":               {`{"description":"` + strings.Repeat("x", MaxBytes) + `"}`, "", fault.Limit},
		"too deep":                     {strings.Repeat(`{"not":`, 70) + "{}" + strings.Repeat("}", 70), "", fault.Invalid},
		"too many values":              {`{"enum":[` + list(21_000, "%d,") + `1]}`, "", fault.Invalid},
		"too many subschemas":          {`{"allOf":[` + strings.Repeat("true,", 2000) + `true]}`, "", fault.Limit},
		"a long name over many":        {`{"properties":{"` + strings.Repeat("x", 150_000) + `":{"allOf":[true,true,true,true,true,true,true,true]}}}`, "", fault.Limit},
		"many parts with an id":        {`{"allOf":[` + list(120, `{"$id":"https://example.org/%d"},`) + `true]}`, "", fault.Limit},
		"references to odd places":     {`{"x":[` + strings.Repeat("{},", 120) + `1],"allOf":[` + list(120, `{"$ref":"#/x/%d"},`) + `true]}`, "", fault.Limit},
		"a large schema in such place": {`{"x":{"allOf":[` + strings.Repeat("true,", 2000) + `true]},"$ref":"#/x"}`, "", fault.Limit},
		"a pattern that repeats":       {`{"pattern":"(abcdefghijkl){999}"}`, "/pattern", fault.Invalid},
		"a pattern that is long":       {`{"pattern":"` + strings.Repeat("a", 5000) + `"}`, "/pattern", fault.Invalid},
		"patterns large together":      {`{"allOf":[` + list(60, `{"pattern":"%d(a{999})"},`) + `true]}`, "", fault.Invalid},
		"many classes":                 {`{"pattern":"[` + strings.Repeat(`\\pL`, 40) + `]"}`, "/pattern", fault.Invalid},
	} {
		_, err := Compile([]byte(c.raw))
		p, ok := fault.As(err).Details.(Problem)
		if !fault.Is(err, c.kind) || !ok || c.path != "" && p.Path != c.path {
			t.Errorf("%s: %v at %q, want %s at %q", name, err, p.Path, c.kind, c.path)
		}
	}
}

// hostile generates one case of each class that made checks long, large or fatal.
var hostile = map[string]func(m maker) (schema, value string){
	"numbers": func(m maker) (string, string) {
		k := m.pick(`"minimum":0`, `"maximum":1`, `"exclusiveMinimum":0`, `"multipleOf":3`, `"multipleOf":1e-300`, `"enum":[1,2]`, `"const":1`, `"type":"integer"`, `"uniqueItems":true`)
		n := m.pick("1e400", "-1e-400", "1"+strings.Repeat("0", 990), "0."+strings.Repeat("3", 990), strings.Repeat("9", 500)+"."+strings.Repeat("7", 490)+"e400", "1e399")
		return `{` + k + `,"items":{` + k + `}}`, m.pick(n, `[`+strings.Repeat(n+",", 1+m.IntN(2000))+n+`]`)
	},
	"propertyNames": func(m maker) (string, string) {
		return `{"propertyNames":` + m.bomb(12) + `}`, m.object(200 + m.IntN(2000))
	},
	"cyclic allOf": func(m maker) (string, string) {
		n := 5 + m.IntN(30)
		k := m.pick("allOf", "anyOf", "oneOf")
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i))
		}
		var defs []string
		for i := range n {
			defs = append(defs, fmt.Sprintf(`"d%d":{%q:[%s],"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"}}}`, i, k, strings.Join(append(append([]string{}, all[:i]...), all[i+1:]...), ","), m.IntN(n)))
		}
		return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `}}`, m.nest(`{"a":`, m.IntN(40))
	},
	"enum of large arrays": func(m maker) (string, string) {
		item := m.pick(`"x"`, `1`, `[1,2,{"a":1}]`, `{"a":"b"}`)
		list := `[` + strings.Repeat(item+",", 200+m.IntN(800)) + item + `]`
		return `{"items":{"enum":[` + strings.TrimSuffix(strings.Repeat(`[`+strings.Repeat(item+",", 20)+item+`],`, 50), ",") + `]}}`, `[` + strings.TrimSuffix(strings.Repeat(list+",", 15), ",") + `]`
	},
	"patternProperties": func(m maker) (string, string) {
		var rules []string
		for i := range 50 + m.IntN(300) {
			rules = append(rules, fmt.Sprintf(`"(a|b|k)*%d?$":%s`, i, m.pick("{}", `{"type":"object"}`, `{"$ref":"#"}`)))
		}
		return `{"patternProperties":{` + strings.Join(rules, ",") + `}}`, m.object(500 + m.IntN(3000))
	},
	"patterns": func(m maker) (string, string) {
		p := m.pick(`^(a+)+$`, `(a?){500}a{500}`, `(.*.*.*.*.*=)*`, `^(([a-z])+.)+[A-Z]([a-z])+$`, `(?i)(ſ|k)*x{200}`, `\\pL{300}$`)
		return `{"pattern":"` + p + `"}`, `"` + strings.Repeat(m.pick("a", "é", "ab="), 1000+m.IntN(300_000)) + `!"`
	},
	"format regex": func(m maker) (string, string) {
		return `{"items":{"format":"regex"}}`, `[` + strings.TrimSuffix(strings.Repeat(`"`+m.pick(`((((a{100}){9}){9}){9}`, `(?i)[A-\\uffff]`, `[\\pL\\PN]`, strings.Repeat("(", 900), `a{1000}b{1000}c{1000}`)+`",`, 100+m.IntN(2000)), ",") + `]`
	},
	"dynamicRef": func(m maker) (string, string) {
		defs := ""
		for i := range 2 + m.IntN(20) {
			defs += fmt.Sprintf(`"r%d":{"$id":"https://example.org/%d","$dynamicAnchor":"x","allOf":[{"$dynamicRef":"#x"},{"$ref":"https://example.org/%d"}],"properties":{"a":{"$dynamicRef":"#x"}}},`, i, i, i)
		}
		ref := m.pick(`{"$dynamicRef":"#x"}`, `{"$ref":"#/$defs/r0"}`)
		return `{"$dynamicAnchor":"x","anyOf":[` + ref + `,` + ref + `],"properties":{"a":{"anyOf":[` + strings.Repeat(`{"$dynamicRef":"#x"},`, 3) + ref + `]}},"$defs":{` + defs + `"z":{}}}`, m.nest(`{"a":`, 50)
	},
	"recursiveRef": func(m maker) (string, string) {
		return `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"anyOf":[` + strings.Repeat(`{"$recursiveRef":"#"},`, 2+m.IntN(5)) + `{"not":{"$recursiveRef":"#"}}]}},"required":["b"]}`, m.nest(`{"a":`, 50+m.IntN(50))
	},
	"dependencies": func(m maker) (string, string) {
		k := m.pick("dependencies", "dependentSchemas")
		return strings.Replace(`{"dep":{"a":{"$ref":"#/$defs/x"},"k1":{"$ref":"#/$defs/x"}},"$defs":{"x":{"dep":{"a":`+m.bomb(14)+`,"k2":`+m.bomb(14)+`}}}}`, "dep", k, -1), m.object(10 + m.IntN(500))
	},
	"additionalItems": func(m maker) (string, string) {
		return `{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":` + m.bomb(10) + `}`, `[` + strings.Repeat("{},", 500+m.IntN(3000)) + `1]`
	},
	"deep values": func(m maker) (string, string) {
		open := m.pick(`[`, `{"a":`)
		return `{"items":{"$ref":"#"},"properties":{"a":{"allOf":[{"$ref":"#/$defs/x"}]}},"$defs":{"x":{"$ref":"#/$defs/y"},"y":{"$ref":"#/$defs/z"},"z":{"$ref":"#"}}}`, m.nest(open, 100+m.IntN(4000))
	},
	"unevaluated": func(m maker) (string, string) {
		refs := strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/x"},`, 5+m.IntN(60)), ",")
		k := m.pick("unevaluatedProperties", "unevaluatedItems")
		return fmt.Sprintf(`{"allOf":[%s],%q:{"$ref":"#/$defs/y"},"$defs":{"x":{"anyOf":[%s]},"y":{"anyOf":[%s,{%q:false}]}}}`, refs, k, strings.ReplaceAll(refs, "/x", "/y"), strings.ReplaceAll(refs, "#/$defs/x", "#/$defs/z")+`,true],"allOf":[true`, k)[0:0] +
			fmt.Sprintf(`{"allOf":[%s],%q:{"type":"integer"},"$defs":{"x":{"anyOf":[%s]},"y":{"minimum":5}}}`, refs, k, strings.ReplaceAll(refs, "/x", "/y")), m.pick(m.object(3000), `[`+strings.Repeat("1,", 5000)+`1]`)
	},
	"contains": func(m maker) (string, string) {
		return `{"contains":` + m.bomb(8) + `,"minContains":0,"maxContains":1}`, `[` + strings.Repeat("1,", 500+m.IntN(5000)) + `1]`
	},
	"uniqueItems": func(m maker) (string, string) {
		return `{"uniqueItems":true,"allOf":[` + strings.Repeat(`{"uniqueItems":true},`, 1+m.IntN(300)) + `true]}`, `[` + strings.Repeat("1,", m.IntN(2)) + m.numbers(8_000) + `]`
	},
	"if": func(m maker) (string, string) {
		inner := m.bomb(10)
		return `{"if":` + inner + `,"then":` + inner + `,"else":{"not":` + inner + `},"$defs":{"b":{}}}`, m.object(20)
	},
}

// bomb returns a schema in which each of n levels refers to the next one twice.
func (m maker) bomb(n int) string {
	s := m.pick(`{"type":"object"}`, `{"minLength":1}`, `{"pattern":"a*b*c*"}`)
	for range n {
		s = fmt.Sprintf(m.pick(`{"allOf":[%s,{"not":%s}]}`, `{"anyOf":[{"not":%s},%s]}`, `{"if":%s,"then":%s}`), "\x00", s)
		s = strings.Replace(s, "\x00", `{"minProperties":0}`, 1)
	}
	return s
}

func (m maker) object(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%d,`, i, m.IntN(100))
	}
	return `{` + b.String() + `"a":1}`
}

func (m maker) numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `%d,`, i)
	}
	return b.String() + "-1"
}

func (m maker) nest(open string, n int) string {
	end := "]"
	if open[0] == '{' {
		end = "}"
	}
	return strings.Repeat(open, n) + "1" + strings.Repeat(end, n)
}

// No schema and no value can make a check cost more than its limit, or crash the process.
func TestHostileSchemasEndWithinTheirWork(t *testing.T) {
	t.Parallel()
	for name, make := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string]int{}
			for seed := range uint64(cases(50, 500)) {
				raw, value := make(maker{rand.New(rand.NewPCG(seed, 3))})
				s, err := Compile([]byte(raw))
				if err != nil {
					if answers["refused"]++; name != "patterns" && name != "dynamicRef" {
						t.Fatalf("seed %d: %.300s: %v", seed, raw, err)
					}
					continue
				}
				v := decode(t, value)
				left, err := s.check(t.Context(), v)
				if left < -2*lookEvery {
					t.Fatalf("seed %d: %.300s: %d units over the limit", seed, raw, -left)
				}
				answers[string(fault.KindOf(err))]++
				if err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Limit) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if _, err := s.FillDefaults(t.Context(), v); err != nil && !fault.Is(err, fault.Limit) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				s.Redact(v, "[masked]")
			}
			t.Log(answers)
		})
	}
}

func TestNumbersBeyondTheLimitsAreRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"properties":{"n":{"minimum":0}}}`, `{"properties":{"n":{"multipleOf":2}}}`, `{"properties":{"n":{"enum":[1]}}}`, `{"properties":{"n":{"type":"integer"}}}`, `{"uniqueItems":true}`, `true`} {
		for _, n := range []string{"1e100000000", "1e-100000000", "1e99999999999999999999", strings.Repeat("9", 1100)} {
			err := compile(t, raw).Check(t.Context(), map[string]any{"n": json.Number(n)})
			list, _ := fault.As(err).Details.(Findings)
			if !fault.Is(err, fault.Invalid) || len(list.Errors) != 1 || list.Errors[0].Path != "/n" {
				t.Errorf("%s %.20s: %v", raw, n, err)
			}
		}
	}
}

func TestEqualNumbersAreEqual(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"1", "1.0"}, {"100", "1e2"}, {"0", "-0.0e5"}, {"0.5", "5e-1"}, {"1e400", "10E+399"}, {"-12.50", "-1.25e1"}} {
		if err := compile(t, `{"const":`+c[0]+`}`).Check(t.Context(), json.Number(c[1])); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// ending is a context that is canceled after it has been checked a number of times.
type ending struct {
	context.Context
	asked, most int
}

func (c *ending) Err() error {
	if c.asked++; c.asked > c.most {
		return context.Canceled
	}
	return nil
}

func TestCheckEndsWithItsContext(t *testing.T) {
	t.Parallel()
	raw, value := hostile["cyclic allOf"](maker{rand.New(rand.NewPCG(1, 3))})
	for name, c := range map[string][2]string{"references": {raw, value}, "a long text": {`{"pattern":"(a?){400}a{400}$"}`, `"` + strings.Repeat("a", 300_000) + `!"`}} {
		s, v := compile(t, c[0]), decode(t, c[1])
		if err := s.Check(t.Context(), v); !fault.Is(err, fault.Limit) {
			t.Fatalf("%s: %v: it must need much work", name, err)
		}
		ctx := &ending{Context: t.Context(), most: 3}
		left, err := s.check(ctx, v)
		if !fault.Is(err, fault.Canceled) || left < maxWork/2 {
			t.Errorf("%s: %v with %d of %d units left", name, err, left, maxWork)
		}
		past, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("over"))
		if err := s.Check(past, v); err == nil {
			t.Errorf("%s: checked after its end", name)
		}
	}
}

func TestDefaultsAndSecrets(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"properties":{"a":{"default":{"x":1}},"n":{"$ref":"#here"},"l":{"prefixItems":[true],"items":{"properties":{"k":{"default":2}}}},
		"p":{"format":"password"},"o":{"patternProperties":{"^s":{"x-secret":true}}}},"$defs":{"n":{"$anchor":"here","properties":{"d":{"default":3},"q":{"x-secret":true}}}}}`)
	v := decode(t, `{"n":{"q":"deep one"},"l":[{},{}],"p":["word","other"],"o":{"s1":"third","t":"open"}}`)
	changed, err := s.FillDefaults(t.Context(), v)
	if got := string(encode(t, v)); err != nil || !changed || got != `{"a":{"x":1},"l":[{},{"k":2}],"n":{"d":3,"q":"deep one"},"o":{"s1":"third","t":"open"},"p":["word","other"]}` {
		t.Errorf("%s %v", got, err)
	}
	out, found := s.Redact(v, "*")
	if got := string(encode(t, out)); got != `{"a":{"x":1},"l":[{},{"k":2}],"n":{"d":3,"q":"*"},"o":{"s1":"*","t":"open"},"p":"*"}` || len(found) != 4 {
		t.Errorf("%s %v", got, found)
	}
	double := `{"x-secret":true}`
	defs := `"d30":` + double
	for i := range 30 {
		defs += fmt.Sprintf(`,"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"},{"properties":{"a":{"$ref":"#/$defs/d%d"}}}]}`, i, i+1, i+1, i+1)
	}
	bomb := compile(t, `{"properties":{"b":{"$ref":"#/$defs/d0"}},"$defs":{`+strings.ReplaceAll(defs, double, `{"properties":{"zz":{"x-secret":true}}}`)+`}}`)
	out, found = bomb.Redact(decode(t, `{"b":{"zz":"secret"}}`), "*")
	if out != any("*") && string(encode(t, out)) != `{"b":{"zz":"*"}}` || len(found) == 0 {
		t.Errorf("%s %v", encode(t, out), found)
	}
}

func TestCacheEvictsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	var c Cache
	first := must(c.Compile([]byte(`{"const":"kept"}`)))
	for i := range 4 * maxCached {
		if _, err := c.Compile(fmt.Appendf(nil, `{"const":%d}`, i)); err != nil {
			t.Fatal(err)
		}
		if again := must(c.Compile([]byte(`{"const":"kept"}`))); again != first {
			t.Fatal("a schema in use was dropped")
		}
	}
	if n := len(c.young) + len(c.old); n > 2*maxCached {
		t.Errorf("%d schemas are kept", n)
	}
	if _, err := c.Compile([]byte(`{"type":5}`)); err == nil {
		t.Error("compiled")
	}
}

// BenchmarkUnit measures a unit of work; the limits assume 20 ns.
func BenchmarkUnit(b *testing.B) {
	if os.Getenv("HELIX_LONG") == "" {
		b.Skip("set HELIX_LONG=1")
	}
	for name, make := range hostile {
		b.Run(name, func(b *testing.B) {
			raw, value := make(maker{rand.New(rand.NewPCG(7, 3))})
			s, err := Compile([]byte(raw))
			if err != nil {
				b.Skip(err)
			}
			v := decode(b, value)
			units := 0
			for b.Loop() {
				c, err := s.checker(b.Context(), v)
				if err != nil {
					b.Skip(err)
				}
				most := c.left
				left, _ := s.check(b.Context(), v)
				units += most - left
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(units, 1)), "ns/unit")
		})
	}
}
