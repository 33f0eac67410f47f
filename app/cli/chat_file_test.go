package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
	"helix/backend/testkit"
)

// A file is attached to a text from the command line and from a line of the chat; the chat is
// exported and imported as JSON lines.
func TestChatWithFiles(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
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

// Ctrl-C stops the turn of a running Helix, so that it spends nothing more. What failed decides the
// exit code, and an answer that is not complete says so.
func TestChatPromptEnds(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	step := make(chan struct{})
	srv := providerstest.New(t, providerstest.Options{Step: step, Repeat: true, Replies: []providers.ScriptedReply{{Text: "One two three."}}})
	useModel(t, dir, srv)
	serve, stop := context.WithCancel(t.Context())
	var out lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(serve, []string{"--data-dir", dir, "serve", "--addr", "127.0.0.1:0", "--link"}, Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &bytes.Buffer{}, Keyring: noKeyring{}, Worker: worker})
	}()
	defer func() {
		stop()
		<-ended
	}()
	if out.wait(t, regexp.MustCompile(`#ticket=`)) == "" {
		t.Fatal(out.String())
	}
	var progress lockedBuffer
	run, interrupt := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- Main(run, []string{"--data-dir", dir, "chat", "-p", "Count"}, Env{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &progress, Keyring: noKeyring{}, Worker: worker})
	}()
	if progress.wait(t, regexp.MustCompile(`Chat \S+\n`)) == "" {
		t.Fatal(progress.String())
	}
	interrupt()
	if c := <-code; c != 130 || !strings.Contains(progress.String(), "The turn was canceled.") {
		t.Errorf("exit %d: %s", c, progress.String())
	}
	testkit.Eventually(t, "the end of the turn", func() string { return helix(t, dir, "", "agent", "status").stdout }, func(status string) bool {
		return strings.Contains(status, "running:  0")
	})
	for _, x := range []struct {
		turn agent.Turn
		kind fault.Kind
	}{
		{agent.Turn{StopReason: agent.StopError, Error: &agent.TurnError{Kind: "denied", Message: "No."}}, fault.Denied},
		{agent.Turn{StopReason: agent.StopError, Error: &agent.TurnError{Kind: "limit", Message: "No."}}, fault.Limit},
		{agent.Turn{StopReason: agent.StopError, Error: &agent.TurnError{Kind: "unavailable", Message: "No."}}, fault.Unavailable},
		{agent.Turn{StopReason: agent.StopError, Error: &agent.TurnError{Kind: "invalid", Message: "No."}}, fault.Internal},
		{agent.Turn{StopReason: agent.StopDenied}, fault.Denied},
		{agent.Turn{StopReason: agent.StopLoop}, fault.Limit},
	} {
		if err := turnError(x.turn); fault.KindOf(err) != x.kind {
			t.Errorf("%+v: %v", x.turn, err)
		}
	}
}
