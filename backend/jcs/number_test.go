package jcs

import (
	"encoding/json"
	"strings"
	"testing"

	"helix/backend/fault"
)

func TestNumberFits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"0": true, "-1.5": true, "1e400": true, "1E+400": true, "1e-400": true, "1e00000000400": true, strings.Repeat("9", 1000): true,
		"1e401": false, "1e-401": false, "1e100000000": false, "1e99999999999999999999999": false, strings.Repeat("9", 1003): false,
	} {
		if got := NumberFits(text); got != want {
			t.Errorf("%.30s: %v", text, got)
		}
	}
}

func TestCheckNumbersNamesThePlace(t *testing.T) {
	t.Parallel()
	for text, path := range map[string]string{
		`1e100000000`: "", `{"a":[1,{"x/y":-1e100000000}]}`: "/a/1/x~1y", `["1e100000000",1e-100000000]`: "/1", `{"q\"1e999":[1E+999]}`: `/q"1e999/0`,
	} {
		err := CheckNumbers([]byte(text))
		p, ok := fault.As(err).Details.(NumberProblem)
		if !fault.Is(err, fault.Invalid) || !ok || p.Path != path {
			t.Errorf("%s: %v at %q, want %q", text, err, p.Path, path)
		}
		if _, err := Decode([]byte(text), 10, 0); err == nil {
			t.Errorf("%s was decoded", text)
		}
	}
	for _, text := range []string{`{"1e100000000":"1e100000000","a":1e300}`, `"\\"`, `[]`, `"\"1e999"`} {
		if err := CheckNumbers([]byte(text)); err != nil || !json.Valid([]byte(text)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
