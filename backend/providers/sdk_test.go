package providers

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The goldens of this test do not depend on our decoders: build/bench/providers reads the recordings
// with the official SDKs and stores the results. Every difference is listed with its reason.
func TestRecordingsAreReadAsTheOfficialSDKsReadThem(t *testing.T) {
	t.Parallel()
	hash := func(s string) string {
		if s == "" {
			return ""
		}
		return fmt.Sprintf("%d bytes %.12x", len(s), sha256.Sum256([]byte(s)))
	}
	reasons := map[string]bool{}
	list, err := os.ReadFile("testdata/sdk_differences.txt")
	must(t, err)
	for line := range strings.Lines(string(list)) {
		if key, reason, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && reason != "" && !strings.HasPrefix(line, "#") {
			reasons[key] = true
		}
	}
	stored, err := os.ReadFile("testdata/sdk.jsonl")
	must(t, err)
	lines := bufio.NewScanner(bytes.NewReader(stored))
	lines.Buffer(nil, 1<<20)
	for _, x := range recorded(t) {
		if !lines.Scan() {
			t.Fatalf("no golden of %s", x.Name)
		}
		var theirs struct {
			Name, Text, Reasoning, Calls, Raw string
			Error                             bool
			Input, Output                     int64
		}
		must(t, json.Unmarshal(lines.Bytes(), &theirs))
		if theirs.Name != x.Name {
			t.Fatalf("the golden of %s is that of %s", x.Name, theirs.Name)
		}
		_, r, err := decodeAll(x.Wire, strings.NewReader(x.Body))
		must(t, err)
		var calls strings.Builder
		for _, c := range r.Calls() {
			var args any
			must(t, json.Unmarshal([]byte(c.Args), &args))
			inOrder, err := json.Marshal(args)
			must(t, err)
			calls.WriteString(c.Name + "\x00" + string(inOrder) + "\x00")
		}
		for member, differs := range map[string]bool{
			"error":     theirs.Error,
			"text":      theirs.Text != hash(r.Text()),
			"reasoning": theirs.Reasoning != "-" && theirs.Reasoning != hash(r.ReasoningText()),
			"calls":     theirs.Calls != hash(calls.String()),
			"raw":       theirs.Raw != r.Raw,
			"input":     theirs.Input != r.Usage.Prompt(),
			"output":    theirs.Output != r.Usage.Output,
		} {
			key := x.Name + " " + member
			if differs && (member == "error" || !theirs.Error) && !reasons[key] {
				t.Errorf("%s: a difference without a reason: ours has %q, %q, %d in, %d out, %s; the SDK %s", key, tail(r.Text()), calls.String(), r.Usage.Prompt(), r.Usage.Output, r.Raw, lines.Text())
			}
			if differs {
				delete(reasons, key)
			}
		}
	}
	for key := range reasons {
		t.Errorf("%s: this difference is gone", key)
	}
}

func tail(s string) string { return s[max(0, len(s)-60):] }
