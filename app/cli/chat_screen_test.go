package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/app/cli/tui"
	"helix/backend/gateway"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

// panicCommand makes this test program show a chat that panics at the first input.
const panicCommand = "panic-in-chat"

func runPanic() int {
	_, _, err := tui.Run(context.Background(), tui.Options{Conn: nowhere{}, Now: time.Now, NewID: func() uuid.UUID { panic("a defect") }, In: os.Stdin, Out: os.Stdout, Env: os.Environ()})
	if err == nil {
		return 0
	}
	return 1
}

// nowhere is a connection to no backend.
type nowhere struct{}

func (nowhere) Call(context.Context, string, any, any) error { return errors.New("nobody answers") }

func (nowhere) Follow(ctx context.Context, _ []string, _ func(gateway.Event), _ func()) error {
	<-ctx.Done()
	return nil
}

func (nowhere) Close() error { return nil }

// fullScreen runs the full-screen chat between two readings of the terminal settings.
const fullScreen = `stty cols 80 rows 24; before=$(stty -g); sh -c 'echo "pid $$ "; exec "$HELIX"'; code=$?; test "$before" = "$(stty -g)" && echo "restored $code"`

// On the full screen a text is sent, a tool asks and is allowed with a key, a turn is stopped, and
// in the end the terminal is restored.
func TestChatOnTheWholeScreen(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	step := make(chan struct{}, 64)
	srv := providerstest.New(t, providerstest.Options{Step: step, Replies: []providers.ScriptedReply{
		{Calls: []providers.ScriptedCall{{Name: "file_write", Args: json.RawMessage(`{"path":"/shared/a.txt","text":"hello"}`)}}},
		{Text: "Written."}, {Text: "Endless."},
	}})
	useModel(t, dir, srv)
	for range 32 {
		step <- struct{}{}
	}
	x := inShell(t, fullScreen, dir, "chat")
	x.expect("\x1b[?1049h")
	x.expect("Ctrl+C twice leaves")
	x.press("Write a file\r")
	x.expect("y once, n deny, v view")
	x.press("y")
	x.expect("Written.")
	// A frame contains only the changed cells, so ask Helix itself when the turn has ended.
	idle := func() bool {
		return strings.Contains(helix(t, dir, "", "--json", "agent", "status").stdout, `"idle":true`)
	}
	for !idle() {
	}
	for len(step) > 0 { // from here on the model does not answer
		<-step
	}
	x.press("And now\r")
	for idle() {
	}
	x.forget() // the first turn was working too
	x.expect("Working")
	x.press("\x1b")
	x.expect("Canceled.")
	x.press("\x03\x03")
	x.expect("\x1b[?1049l")
	x.expect("helix chat --session ")
	x.expect("restored 0")
	if err := <-x.done; err != nil {
		t.Error(err)
	}
	if text := x.text(); strings.Contains(text, "\x1b[38;5") || strings.Contains(text, "\x1b[31m") {
		t.Error("there are colors in spite of NO_COLOR")
	}
}

// The chat reconnects to Helix after a kill in the middle of an answer, at another port, and the
// new answer is shown once.
func TestChatFindsHelixAgain(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	step := make(chan struct{}, 64)
	srv := providerstest.New(t, providerstest.Options{Step: step, Replies: []providers.ScriptedReply{{Text: "Interrupted."}, {Text: "Uninterrupted."}}})
	useModel(t, dir, srv)
	serve := func() (kill func()) {
		cmd := process(t, dir, "serve", "--addr", "127.0.0.1:0")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	}
	kill := serve()
	x := inShell(t, fullScreen, dir, "chat")
	x.expect("Ctrl+C twice leaves")
	step <- struct{}{}
	step <- struct{}{}
	x.press("Tell me\r")
	x.expect("Answering")
	kill()
	x.expect("Reconnecting")
	for range 32 {
		step <- struct{}{}
	}
	kill = serve()
	defer kill()
	x.expect("Uninterrupted.")
	x.press("/quit\r")
	x.expect("restored 0")
	_, id, _ := strings.Cut(x.text(), "--session ")
	if r := helix(t, dir, "", "chat", "show", id[:36]); strings.Count(r.stdout, "nterrupted.") != 1 {
		t.Errorf("%+v", r)
	}
}

// While a chat has opened the data folder itself, other commands can connect to it.
func TestCommandsReachAChat(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	x := inShell(t, fullScreen, dir, "chat")
	x.expect("Choose a model")
	chatModel(t, dir)
	x.expect("Ask a question")
	x.press("\x04")
	x.expect("restored 0")
}

// The terminal is restored, whatever ends the interface.
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(x *terminal, pid int){
		"SIGTERM": func(x *terminal, pid int) { x.signal(pid, syscall.SIGTERM) },
		"SIGHUP":  func(x *terminal, pid int) { x.signal(pid, syscall.SIGHUP) },
		"panic":   func(x *terminal, _ int) { x.press("boom\r") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dataFolder(t)
			args := []string{"chat"}
			if name == "panic" {
				args = []string{panicCommand}
			}
			x := inShell(t, fullScreen, dir, args...)
			x.expect("pid ")
			var pid int
			if _, err := fmt.Sscan(x.text()[x.from:], &pid); err != nil {
				t.Fatal(err)
			}
			x.expect("\x1b[?1049h")
			x.expect("Ctrl+C twice leaves")
			end(x, pid)
			x.expect("\x1b[?1049l")
			x.expect("restored")
			if err := <-x.done; err != nil {
				t.Error(err)
			}
			if shown := x.text(); !strings.HasSuffix(shown[:strings.LastIndex(shown, "\x1b[?25h")+6], "\x1b[?25h") || strings.LastIndex(shown, "\x1b[?25h") < strings.LastIndex(shown, "\x1b[?25l") {
				t.Error("the cursor is hidden")
			}
		})
	}
}

// A terminal without cursor control gets the chat line by line.
func TestDumbTerminalGetsLines(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	chatModel(t, dir)
	x := inShell(t, `TERM=dumb exec "$HELIX"`, dir, "chat")
	x.expect("Helix. Type /help")
	x.write("/quit")
	if err := <-x.done; err != nil || strings.Contains(x.text(), "\x1b[") {
		t.Errorf("%v: %q", err, x.text())
	}
}
