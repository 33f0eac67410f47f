package jcs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"helix/backend/fault"
)

// TestPublished checks the examples of RFC 8785 and its published test data.
func TestPublished(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"rfc 3.2.2", `{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`, `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"weird", `{
  "\u20ac": "Euro Sign",
  "\r": "Carriage Return",
  "\ufb33": "Hebrew Letter Dalet With Dagesh",
  "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face",
  "\u0080": "Control\u007f",
  "\u00f6": "Latin Small Letter O With Diaeresis",
  "</script>": "Browser Challenge"
}`, "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"</script>\":\"Browser Challenge\",\"\u0080\":\"Control\u007f\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		{"structures", `{"1": {"f": {"f": "hi","F": 5} ,"\n": 56.0}, "10": { }, "": "empty", "a": { }, "111": [ {"e": "yes","E": "no" } ], "A": { }}`,
			`{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}`},
		{"arrays", `[ 56, { "d": true, "10": null, "1": [ ] } ]`, `[56,{"1":[],"10":null,"d":true}]`},
		{"french", `{"peach": "This sorting order","péché": "is wrong according to French","pêche": "but canonicalization MUST","sin":   "ignore locale"}`,
			`{"peach":"This sorting order","péché":"is wrong according to French","pêche":"but canonicalization MUST","sin":"ignore locale"}`},
		{"unicode is not normalised", "{\"Unnormalized Unicode\":\"A\\u030a\"}", "{\"Unnormalized Unicode\":\"A\u030a\"}"},
		{"scalars", ` "x" `, `"x"`},
		{"minus zero", `[-0, -0.0, 0e5, -1, 100000000000000000000, 1e21]`, `[0,0,0,-1,100000000000000000000,1e+21]`},
	} {
		got, err := Canonicalize([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s:\n got %q (%v)\nwant %q", c.name, got, err, c.want)
		}
	}
}

// TestNumbersAppendixB checks the samples of RFC 8785, appendix B.
func TestNumbersAppendixB(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0", 0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992", 0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23", 0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332", 0x41b3de4355555554: "333333333.33333325", 0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334", 0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		if got := string(appendNumber(nil, math.Float64frombits(bits))); got != want {
			t.Errorf("%016x: got %s, want %s", bits, got, want)
		}
	}
}

// TestNumberFile recreates the beginning of the published file of 100 million numbers (its fixed
// lines, 2,000 neighbors of the smallest normal, then doubles from a SHA-256 chain) and compares
// its published checksums.
func TestNumberFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/es6-fixed.txt")
	if err != nil {
		t.Fatal(err)
	}
	var values []uint64
	for _, f := range strings.Fields(string(text)) {
		var v uint64
		if _, err := fmt.Sscanf(f, "%x", &v); err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	for i := range uint64(2000) {
		values = append(values, 0x0010000000000000+i)
	}
	want := map[int]string{
		1000:   "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687",
		10000:  "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892",
		100000: "22776e6d4b49fa294a0d0f349268e5c28808fe7e0cb2bcbe28f63894e494d4c7",
	}
	sum, block := sha256.New(), [32]byte{}
	var line []byte
	for n := 0; n < 100000; {
		if len(values) == 0 {
			block = sha256.Sum256(block[:])
			for i := 0; i < 32; i += 8 {
				values = append(values, binary.LittleEndian.Uint64(block[i:]))
			}
		}
		v := values[0]
		values = values[1:]
		f := math.Float64frombits(v)
		if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 && n > 2168 {
			continue
		}
		n++
		line = fmt.Appendf(line[:0], "%x,", v)
		line = append(appendNumber(line, f), '\n')
		sum.Write(line)
		if w, ok := want[n]; ok && hex.EncodeToString(sum.Sum(nil)) != w {
			t.Fatalf("the first %d lines differ", n)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		``, ` `, `{`, `[1,]`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `[1 2]`, `01`, `1.`, `.5`, `1e`, `+1`, `-`, `NaN`, `Infinity`, `1e400`, `-1e999`,
		`"`, `"\x"`, `"\u12"`, `"\ud800"`, `"\ud800\u0041"`, `"\udc00"`, "\"\x01\"", "\"\xff\"", "\"\xed\xa0\x80\"", `tru`, `nulll`, `1 2`, `{"a":1,"a":2}`,
		`{"b":0,"a":1,"\u0061":2}`, "\ufeff1", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
	} {
		if out, err := Canonicalize([]byte(in)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.40q gave %.40q, %v", in, out, err)
		}
	}
	if _, err := Canonicalize([]byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))); err != nil {
		t.Error(err)
	}
}

func TestHash(t *testing.T) {
	t.Parallel()
	a, err := Hash("t", map[string]any{"b": 1, "a": "<&>"})
	b, err2 := Hash("t", json.RawMessage(`{ "a": "\u003c&>", "b": 1.0 }`))
	c, err3 := Hash("u", json.RawMessage(`{ "a": "\u003c&>", "b": 1.0 }`))
	if err != nil || err2 != nil || err3 != nil || a != b || a == c {
		t.Fatalf("%x %x %x (%v %v %v)", a, b, c, err, err2, err3)
	}
	if want := sha256.Sum256([]byte("t\x00{\"a\":\"<&>\",\"b\":1}")); a != want {
		t.Fatalf("got %x, want %x", a, want)
	}
	if _, err := Hash("t", make(chan int)); err == nil {
		t.Fatal("a channel was hashed")
	}
}

// FuzzCanonicalize checks that the form is stable, has the same meaning and is valid JSON.
func FuzzCanonicalize(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"\u00e9\n"],"\u20ac":null,"😀":{"z":1,"y":0}}`, `"\ud83d\ude00"`, `-0.0`, `[[],{}]`, `{"\\":1,"\u005d":2,"\"":3}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := Canonicalize(in)
		if err != nil {
			return
		}
		twice, err := Canonicalize(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q became %q, then %q (%v)", in, once, twice, err)
		}
		var a, b any
		if json.Unmarshal(in, &a) != nil || json.Unmarshal(once, &b) != nil {
			t.Fatalf("%q or %q is not JSON", in, once)
		}
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if !bytes.Equal(x, y) && !bytes.Contains(x, []byte("-0")) {
			t.Fatalf("%s became %s", x, y)
		}
	})
}

func BenchmarkCanonicalize(b *testing.B) {
	text := []byte(`{"name":"word count","description":"Counts words in a text","code":"` + strings.Repeat("const x = helix.input\\n", 300) + `","limits":{"wall":10000,"cpu":2000},"capabilities":["network:https(api.example.com)"],"parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Canonicalize(text); err != nil {
			b.Fatal(err)
		}
	}
}
