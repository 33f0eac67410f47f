package providers

import (
	"bytes"
	"encoding/json"
	"testing"
)

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
