package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/providers"
)

// A file is attached to a text from the command line and from a line of the chat; the chat is
// exported and imported as JSON lines.
func TestChatWithFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := chatModel(t, dir, providers.ScriptedReply{Text: "A boat."}, providers.ScriptedReply{Text: "A ship."})
	note, photo, lines := filepath.Join(dir, "note.txt"), filepath.Join(dir, "program.exe"), filepath.Join(dir, "chat.jsonl")
	if err := os.WriteFile(note, []byte("The boat is red."), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(photo, []byte{'M', 'Z', 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := helix(t, dir, "", "chat", "-p", "What is it?", "--attach", note); r.code != 0 || r.stdout != "A boat.\n" {
		t.Fatalf("%+v", r)
	}
	if r := helix(t, dir, "/attach "+note+"\nAnd this?\n", "chat"); r.code != 0 || r.stdout != "A ship.\n" {
		t.Errorf("%+v", r)
	}
	for i, q := range srv.Requests() {
		if !strings.Contains(string(q.Body), "The boat is red.") {
			t.Errorf("request %d has no file", i)
		}
	}
	if r := helix(t, dir, "", "chat", "-p", "And that?", "--attach", photo); r.code == 0 || !strings.Contains(r.stderr, "program.exe can't be attached") {
		t.Errorf("%+v", r)
	}
	r := helix(t, dir, "", "chat", "list")
	_, row, _ := strings.Cut(r.stdout, "\n")
	id, _, _ := strings.Cut(row, " ")
	if r := helix(t, dir, "", "chat", "export", id, "--format", "jsonl", "-o", lines); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := helix(t, dir, "", "chat", "import", lines); r.code != 0 || !strings.Contains(r.stdout, "messages") {
		t.Errorf("%+v", r)
	}
	if r := helix(t, dir, "", "chat", "import", note); r.code == 0 || !strings.Contains(r.stderr, "Line 1") {
		t.Errorf("%+v", r)
	}
}
