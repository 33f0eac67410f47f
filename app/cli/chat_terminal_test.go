package cli

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

// chatModel sets up a model for the role chat with the given replies.
func chatModel(t *testing.T, dir string, replies ...providers.ScriptedReply) *providerstest.Server {
	t.Helper()
	srv := providerstest.New(t, providerstest.Options{Replies: replies})
	useModel(t, dir, srv)
	return srv
}

// useModel makes the role chat use a server.
func useModel(t *testing.T, dir string, srv *providerstest.Server) {
	t.Helper()
	entry := srv.Entry()
	for _, args := range [][]string{{"providers", "add", "emulated", "--type", entry.Type, "--base-url", entry.BaseURL}, {"providers", "role", "chat", "emulated/one"}} {
		if r := helix(t, dir, "", args...); r.code != 0 {
			t.Fatalf("%v: %+v", args, r)
		}
	}
}

// Without a terminal each line is answered in turn, in one chat.
func TestChatOfLines(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	if r := helix(t, dir, "Hello\n", "chat"); r.code != 6 || !strings.Contains(r.stderr, "Set up a model first") {
		t.Errorf("without a model: %+v", r)
	}
	srv := chatModel(t, dir, providers.ScriptedReply{Text: "Good day.\x1b]52;c;aGk=\x07"}, providers.ScriptedReply{Text: "Yes, again."})
	r := helix(t, dir, "Hello\n\nAgain?\n", "chat")
	if r.code != 0 || r.stdout != "Good day.\ufffd]52;c;aGk=\ufffd\nYes, again.\n" {
		t.Errorf("%+v", r)
	}
	if n := srv.Calls(); n != 2 || !strings.Contains(string(srv.Requests()[1].Body), "Good day.") {
		t.Errorf("%d calls", n)
	}
	if r := helix(t, dir, "", "chat", "list"); strings.Count(r.stdout, "\n") != 2 {
		t.Errorf("chats: %s", r.stdout)
	}
}

// terminal is a command in a separate terminal.
type terminal struct {
	t    *testing.T
	in   io.Writer
	mu   sync.Mutex
	seen strings.Builder
	from int
	more chan struct{} // something was written
	done chan error
}

func inTerminal(t *testing.T, dir string, args ...string) *terminal {
	t.Helper()
	return inShell(t, os.Args[0], dir, args...)
}

// inShell runs a script in a separate terminal; $HELIX in it is the command.
func inShell(t *testing.T, shell, dir string, args ...string) *terminal {
	t.Helper()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("there is no script(1) to make a terminal with")
	}
	inner := process(t, dir, args...)
	cmd := exec.CommandContext(t.Context(), script, "-qec", shell, os.DevNull)
	cmd.Env = append(inner.Env, "TERM=xterm-256color", "NO_COLOR=1", "HELIX="+os.Args[0])
	x := &terminal{t: t, done: make(chan error, 1), more: make(chan struct{}, 1)}
	if x.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := out.Read(buf)
			x.mu.Lock()
			x.seen.Write(buf[:n])
			x.mu.Unlock()
			select {
			case x.more <- struct{}{}:
			default:
			}
			if err != nil {
				x.done <- cmd.Wait()
				return
			}
		}
	}()
	return x
}

// expect waits until the terminal shows text after the previously expected text.
func (x *terminal) expect(text string) {
	x.t.Helper()
	deadline := time.NewTimer(5 * time.Minute) // a hanging test reports where
	defer deadline.Stop()
	for {
		x.mu.Lock()
		all := x.seen.String()
		x.mu.Unlock()
		if i := strings.Index(all[x.from:], text); i >= 0 {
			x.from += i + len(text)
			return
		}
		select {
		case <-x.more:
		case <-deadline.C:
			x.t.Fatalf("no %q in %q", text, all[x.from:])
		}
	}
}

// forget makes expect ignore what was shown until now.
func (x *terminal) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.from = x.seen.Len()
}

// text returns everything that the terminal showed.
func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen.String()
}

func (x *terminal) signal(pid int, s syscall.Signal) {
	x.t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		x.t.Fatal(err)
	}
	if err := p.Signal(s); err != nil {
		x.t.Fatal(err)
	}
}

// press types keys.
func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.in, keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) write(line string) {
	x.t.Helper()
	x.press(line + "\n")
}

// In a terminal the answer streams, tools ask there, and commands work.
func TestChatInTerminal(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	write := func(name string) providers.ScriptedReply {
		return providers.ScriptedReply{Calls: []providers.ScriptedCall{{Name: "file_write", Args: json.RawMessage(`{"path":"/shared/` + name + `","text":"hello"}`)}}}
	}
	srv := chatModel(t, dir, write("a.txt"), providers.ScriptedReply{Text: "It is written.\x1b[2J"}, write("b.txt"), providers.ScriptedReply{Text: "Then not."}, providers.ScriptedReply{Text: "All three lines."})
	x := inTerminal(t, dir, "chat", "--plain")
	x.expect("> ")
	x.write("/dance")
	x.expect("There is no command /dance")
	x.write("Write a file")
	x.expect("asks:")
	x.expect("/shared/a.txt")
	x.expect("[y once, n deny, v view]")
	x.write("v")
	x.expect("side effecting")
	x.expect("/shared/a.txt")
	x.expect("v view]")
	x.write("y")
	x.expect("· file_write …")
	x.expect("· file_write: done")
	x.expect("It is written.\ufffd[2J")
	x.expect("> ")
	x.write("Another")
	x.expect("v view]")
	x.write("n")
	x.expect("Then not.")
	x.expect("> ")
	x.write("one\ntwo\nthree")
	x.expect("All three lines.")
	x.expect("> ")
	x.write("/cost")
	x.expect("5 calls of a model")
	x.write("/quit")
	if err := <-x.done; err != nil {
		t.Error(err)
	}
	if body := string(srv.Requests()[4].Body); !strings.Contains(body, `one\ntwo\nthree`) {
		t.Errorf("a paste is not one text: %s", body)
	}
}
