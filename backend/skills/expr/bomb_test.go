package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"helix/backend/fault"
)

var long = strings.Repeat("n", 500_000)

// bombs generates templates with a huge value.
type bombs struct {
	r   *rand.Rand
	doc any
}

func newBombs(seed uint64) *bombs {
	b := &bombs{r: rand.New(rand.NewPCG(seed, 1))}
	deep := any("x")
	for range 1 + b.r.IntN(3000) {
		deep = []any{deep}
	}
	var wide []any
	for i := range b.r.IntN(20000) {
		wide = append(wide, json.Number(fmt.Sprint(i)))
	}
	b.doc = map[string]any{
		"input": strings.Repeat([]string{"a", "\"", "ü", "\x01", "\xff"}[b.r.IntN(5)], 1+b.r.IntN(600_000)),
		"deep":  deep, "wide": wide, "small": map[string]any{"a": json.Number("1"), "b": "two"},
	}
	return b
}

func (b *bombs) path() string {
	return []string{"$", "$.input", "$.deep", "$.wide", "$.wide[*]", "$..*", "$..a", "$.deep..*", "$.small", "$.none[*]", "$..[?@ == 1]", "$.wide[::2]"}[b.r.IntN(12)]
}

// template returns a random part of a template, with at most the given depth.
func (b *bombs) template(depth int) any {
	many := func(most int) []any {
		one := b.template(depth - 1)
		list := make([]any, 1+b.r.IntN(most))
		for i := range list {
			if list[i] = one; b.r.IntN(50) == 0 {
				list[i] = b.path()
			}
		}
		return list
	}
	if depth <= 0 {
		return b.path()
	}
	switch b.r.IntN(9) {
	case 0:
		return map[string]any{"$path": b.path(), "optional": true, "mode": []string{"one", "first", "all"}[b.r.IntN(3)], "default": long[:b.r.IntN(100_000)]}
	case 1:
		return map[string]any{"$concat": many(3000)}
	case 2:
		return map[string]any{"$merge": many(3000)}
	case 3:
		return map[string]any{"$literal": long[:b.r.IntN(400_000)]}
	case 4:
		out := map[string]any{}
		for i := range b.r.IntN(200) {
			out[long[:b.r.IntN(300)]+fmt.Sprint(i)] = b.template(depth - 1)
		}
		return out
	case 5: // a long name with many parts below it
		return map[string]any{long[:b.r.IntN(500_000)]: many(9000)}
	}
	return many([]int{3, 300, 20_000}[b.r.IntN(3)])
}

// mostAllocated limits the memory that parsing and evaluating a template may allocate. The values
// of the bombs have up to gigabytes.
const mostAllocated = 128 << 20

// TestTemplateBombsEndWithLimit is not parallel: it counts what the process allocates.
func TestTemplateBombsEndWithLimit(t *testing.T) {
	n := 50
	if os.Getenv("HELIX_LONG") != "" {
		n = 500
	}
	type bomb struct {
		name          string
		template, doc any
	}
	var list []bomb
	repeat := func(v any, n int) []any {
		out := make([]any, n)
		for i := range out {
			out[i] = v
		}
		return out
	}
	input := map[string]any{"input": strings.Repeat("x", 590_000)}
	list = append(list,
		bomb{"the input many times", map[string]any{"value": repeat("$.input", 20_000)}, input},
		bomb{"the document many times", repeat("$", 50_000), input},
		bomb{"joined texts", map[string]any{"$concat": repeat("$.input", 9_000)}, input},
		bomb{"a long name above many paths", map[string]any{strings.Repeat("n", 500_000): repeat("$.none[*]", 9_000)}, input},
	)
	for seed := range uint64(n) {
		b := newBombs(seed)
		given := b.template(2)
		for size(given, MaxSize) > MaxSize { // definitions are not larger
			given = b.template(2)
		}
		list = append(list, bomb{fmt.Sprint("seed ", seed), given, b.doc})
	}
	limits, values, most := 0, 0, uint64(0)
	for _, x := range list {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var value json.RawMessage
		tmpl, err := ParseTemplate(x.template)
		if err == nil {
			var v any
			if v, err = tmpl.Eval(x.doc); err == nil {
				value, err = Encode(v, MaxSize)
			}
		}
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		most = max(most, used)
		switch {
		case used > mostAllocated:
			t.Errorf("%s: %d MiB allocated", x.name, used>>20)
		case fault.Is(err, fault.Limit):
			limits++
		case fault.Is(err, fault.Invalid): // such as joining strings with arrays
		case err != nil:
			t.Errorf("%s: %v", x.name, err)
		case len(value) > MaxSize:
			t.Errorf("%s: %d bytes", x.name, len(value))
		default:
			values++
		}
	}
	t.Logf("%d templates: %d ended with limit, %d with a value; at most %d MiB allocated", len(list), limits, values, most>>20)
	if limits < n/4 || values == 0 {
		t.Errorf("the bombs are no test: %d ended with limit, %d with a value", limits, values)
	}
}

// FuzzTemplateSize checks that a template ends with an error or with a value that is within the
// limit and has the computed size.
func FuzzTemplateSize(f *testing.F) {
	for _, s := range []string{`["$","$.a",{"$concat":["$.a","x"]}]`, `{"k\u2028":"$..*","m":{"$merge":["$","$"]}}`, `{"$path":"$.none","default":"\ud800 \u0001\n"}`} {
		f.Add(s, `{"a":"\"q\" \u2028","b":[1.5e3,true,null,{}]}`)
	}
	f.Fuzz(func(t *testing.T, text, document string) {
		given, err := Decode([]byte(text))
		if err != nil {
			t.Skip()
		}
		doc, err := Decode([]byte(document))
		if err != nil {
			t.Skip()
		}
		tmpl, err := ParseTemplate(given)
		if err != nil {
			return
		}
		const most = 4096
		v, err := tmpl.EvalWithin(doc, NewMeter(most))
		if err != nil {
			if k := fault.KindOf(err); k != fault.Limit && k != fault.Invalid {
				t.Fatal(err)
			}
			return
		}
		b, err := Encode(v, 1<<30)
		if err != nil || len(b) != size(v, 1<<30) {
			t.Fatalf("%d bytes counted, %d written: %v", size(v, 1<<30), len(b), err)
		}
		if len(b) > most+len("null") {
			t.Fatalf("%d bytes, %d allowed", len(b), most)
		}
		if _, err := Encode(v, len(b)); err != nil {
			t.Fatal(err)
		}
		if _, err := Encode(v, len(b)-1); !fault.Is(err, fault.Limit) {
			t.Fatalf("one byte too many: %v", err)
		}
		if !json.Valid(b) || bytes.ContainsRune(b, '\n') {
			t.Fatalf("%q", b)
		}
	})
}
