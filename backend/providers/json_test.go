package providers

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestEveryByteIsWrittenInEveryPlace(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		for at := range 20 {
			s := strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat("b", 19-at)
			var b bytes.Buffer
			writeString(&b, s)
			var got string
			must(t, json.Unmarshal(b.Bytes(), &got))
			if want := strings.ToValidUTF8(s, "\ufffd"); got != want {
				t.Fatalf("%q was written as %s", s, b.Bytes())
			}
		}
	}
}

func FuzzWriteJSON(f *testing.F) {
	f.Add("a\x00\"\\\n<é😀\u2028\xff", int64(-7), 0.1)
	f.Fuzz(func(t *testing.T, s string, n int64, x float64) {
		v := object{s: []any{s, nil, int(n), n, true, object{}}, "a": []object{{"b": s}, nil}, "none": []object(nil), "texts": []string{s}, "raw": json.RawMessage(`{ "a" : [ 1 ] }`)}
		if x == x && x-x == 0 {
			v["x"] = &x
		}
		var b bytes.Buffer
		must(t, writeJSON(&b, v))
		var got, want any
		must(t, json.Unmarshal(b.Bytes(), &got))
		text, err := json.Marshal(v)
		must(t, err)
		must(t, json.Unmarshal(text, &want))
		one, err := json.Marshal(got)
		must(t, err)
		two, err := json.Marshal(want)
		must(t, err)
		if !bytes.Equal(one, two) {
			t.Fatalf("got %s\nwant %s", one, two)
		}
	})
}
