package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"helix/backend/providers"
)

// printed returns the names of the events that were printed as lines.
func printed(t *testing.T, out string) (names []string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var e struct {
			Method string
			Params struct {
				Data struct{ SessionID string }
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.HasPrefix(e.Method, "chat.") || e.Params.Data.SessionID == "" {
			t.Errorf("the line %q is no event of a chat: %v", line, err)
		}
		names = append(names, e.Method)
	}
	return names
}

// With --json a prompt prints the events of its turn as lines, up to its end or its question.
func TestPromptPrintsEventsAsLines(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	chatModel(t, dir, providers.ScriptedReply{Text: "Good day."},
		providers.ScriptedReply{Calls: []providers.ScriptedCall{{Name: "file_write", Args: json.RawMessage(`{"path":"/shared/a.txt","text":"x"}`)}}})
	r := helix(t, dir, "", "--json", "chat", "-p", "Hello")
	names := printed(t, r.stdout)
	if r.code != 0 || len(names) == 0 || names[len(names)-1] != "chat.turn_completed" || !slices.Contains(names, "chat.turn_started") {
		t.Fatalf("exit %d, %q: %s", r.code, names, r.stderr)
	}
	if lines := strings.Split(strings.TrimSpace(r.stdout), "\n"); !strings.Contains(lines[len(lines)-1], `"response":"Good day."`) {
		t.Errorf("the last line has no answer: %s", lines[len(lines)-1])
	}
	r = helix(t, dir, "", "--json", "chat", "-p", "Write it")
	names = printed(t, r.stdout)
	if r.code != 4 || !slices.Contains(names, "chat.notice") || slices.Contains(names, "chat.turn_completed") || !strings.Contains(r.stderr, "helix approvals decide") {
		t.Errorf("exit %d, %q: %s", r.code, names, r.stderr)
	}
	r = helix(t, dir, "", "--json", "chat", "-p", "The script has no reply to this")
	if names = printed(t, r.stdout); r.code == 0 || len(names) == 0 || names[len(names)-1] != "chat.turn_failed" {
		t.Errorf("exit %d, %q: %s", r.code, names, r.stderr)
	}
}

// A prompt sets the mode of the chat that it continues, and says that the agent of a chat is fixed.
func TestPromptInAChatTakesItsModeAndRefusesAnotherAgent(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	chatModel(t, dir, providers.ScriptedReply{Text: "One."}, providers.ScriptedReply{Text: "Two."}, providers.ScriptedReply{Text: "Three."})
	id := func(stderr string) string {
		_, after, _ := strings.Cut(stderr, "Chat ")
		id, _, _ := strings.Cut(after, "\n")
		return id
	}
	mode := func(session string) string {
		var got struct{ Sessions []struct{ ID, Mode string } }
		r := helix(t, dir, "", "--json", "chat", "list")
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Sessions) != 1 || got.Sessions[0].ID != session {
			t.Fatalf("%v: %+v", err, r)
		}
		return got.Sessions[0].Mode
	}
	r := helix(t, dir, "", "chat", "-p", "Hello")
	session := id(r.stderr)
	if r.code != 0 || mode(session) != "ask" {
		t.Fatalf("%+v, mode %q", r, mode(session))
	}
	if r := helix(t, dir, "", "chat", "-p", "Only read", "--session", session, "--mode", "read"); r.code != 0 || mode(session) != "read" {
		t.Errorf("%+v, mode %q", r, mode(session))
	}
	if r := helix(t, dir, "", "chat", "-p", "Again", "--session", session); r.code != 0 || mode(session) != "read" {
		t.Errorf("%+v, mode %q", r, mode(session))
	}
	if r := helix(t, dir, "", "chat", "-p", "Again", "--session", session, "--agent", "helix"); r.code != 2 || !strings.Contains(r.stderr, "--agent is for a new chat") {
		t.Errorf("%+v", r)
	}
}

// A key is never an argument, which every program of this computer could read in the list of processes.
func TestKeyIsNeverAnArgument(t *testing.T) {
	t.Parallel()
	dir, key := dataFolder(t), "sk-argument-0123456789"
	for _, args := range [][]string{{"--key", key}, {"--key=" + key}} {
		r := helix(t, dir, "", append([]string{"providers", "add", "mine", "--type", "openai"}, args...)...)
		if r.code != 2 || strings.Contains(r.stdout, "added") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := helix(t, dir, key+"\n", "providers", "add", "mine", "--type", "openai", "--base-url", "http://127.0.0.1:1", "--key", "-"); r.code != 0 || strings.Contains(r.stdout+r.stderr, key) {
		t.Errorf("%+v", r)
	}
	if r := helix(t, dir, "", "providers", "show", "mine"); r.code != 0 || !strings.Contains(r.stdout, "secret") || strings.Contains(r.stdout+r.stderr, key) {
		t.Errorf("%+v", r)
	}
}
