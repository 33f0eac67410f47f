package jcs

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzDecode compares with encoding/json: what both accept has the same value, and what
// encoding/json rejects is rejected.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,"x\ny",null,true,{}]}`, `{"a":1,"a":2}`, `[1,]`, `"\ud800"`, "\"\xff\"", `01`, `1.`, `-`, `[[[[]]]]`, ` { } `, `1 2`, `"\u00`, "\"\t\"", `nul`, `{"a" 1}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Decode(raw, 10_000, 0)
		if !json.Valid(raw) {
			if err == nil {
				t.Fatalf("%q was taken", raw)
			}
			return
		}
		if err != nil {
			return // duplicate keys, large numbers
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var want any
		if dec.Decode(&want) != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q gave %v, want %v", raw, got, want)
		}
	})
}
