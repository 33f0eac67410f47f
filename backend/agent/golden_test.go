package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// storedEvent is a line of testdata/logs: an event as stored by some version of Helix.
type storedEvent struct {
	Type    string          `json:"type"`
	Version int             `json:"version"`
	Turn    uuid.UUID       `json:"turn"`
	At      time.Time       `json:"at"`
	Payload json.RawMessage `json:"payload"`
}

// Logs stored by older versions give the same results as before: the session's next effect after each
// event, each request to the model, and the state. The logs are never rewritten; -update writes the
// results.
func TestStoredLogs(t *testing.T) {
	t.Parallel()
	logs, err := filepath.Glob("testdata/logs/*.jsonl")
	if err != nil || len(logs) < 5 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	seen := map[string]bool{}
	for _, file := range logs {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		st := &State{}
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var e storedEvent
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s, line %d: %v", file, i+1, err)
			}
			body, err := decodePayload(e.Type, e.Version, e.Payload)
			if err != nil {
				t.Fatalf("%s, line %d: %v", file, i+1, err)
			}
			seen[e.Type] = true
			if _, ok := body.(*callStarted); ok && st.Turn != nil {
				q, left := st.plan()
				raw, err := json.MarshalIndent(q, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "request, %d exchanges left out:\n%s\n", left, raw)
			}
			st.apply(Event{Seq: int64(i) + 1, Turn: e.Turn, At: e.At, Body: body})
			next := st.todo()
			fmt.Fprintf(&b, "%d %s: then %s", i+1, e.Type, [...]string{"nothing", "start", "call", "tools", "finish"}[next.kind])
			if next.kind == effectFinish {
				fmt.Fprintf(&b, " as %s, %s", next.end.State, next.end.Reason)
			}
			b.WriteByte('\n')
		}
		state, err := json.MarshalIndent(st, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "state:\n%s\n", state)
		golden := strings.TrimSuffix(file, ".jsonl") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, []byte(b.String())) {
			t.Errorf("%s gives something else:\n%s", file, firstDifference(string(want), b.String()))
		}
	}
	// Without a log for each type, a change of its payload would go unnoticed.
	for _, typ := range payloadTypes(t) {
		if !seen[typ] {
			t.Errorf("no log has an event of type %s", typ)
		}
	}
}

// payloadTypes returns the types of events that newPayload knows, read from its source.
func payloadTypes(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile("event.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "func newPayload")
	list, _, _ = strings.Cut(list, "\n}\n")
	for _, part := range strings.Split(list, `case "`)[1:] {
		typ, _, _ := strings.Cut(part, `"`)
		out = append(out, typ)
	}
	return out
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %q, was %q", i+1, b[i], a[i])
		}
	}
	return fmt.Sprintf("%d lines, were %d", len(b), len(a))
}
