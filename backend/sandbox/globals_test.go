package sandbox

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestGlobals compares the web globals with the results of a browser engine for the same
// expressions; the expected values in testdata/globals.json were recorded from V8.
func TestGlobals(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/globals.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		JS   string          `json:"js"`
		Want json.RawMessage `json:"want"`
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	var src strings.Builder
	src.WriteString("const u = (v) => v === undefined ? null : v;\nreturn [\n")
	for _, c := range cases {
		src.WriteString("u(" + c.JS + "),\n")
	}
	src.WriteString("]")
	var got []json.RawMessage
	if err := json.Unmarshal(run1(t, src.String(), Call{}).Output, &got); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if a, b := compact(t, got[i]), compact(t, c.Want); a != b {
			t.Errorf("%s\n got %s\nwant %s", c.JS, a, b)
		}
	}
}

func compact(t *testing.T, b json.RawMessage) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
