package tui

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/fault"
)

// has checks the content of the screen.
func (s *screen) has(texts ...string) {
	s.t.Helper()
	frame := s.frame()
	for _, text := range texts {
		if !strings.Contains(frame, text) {
			s.t.Errorf("the screen has no %q:\n%s", text, frame)
		}
	}
}

func (s *screen) lacks(text string) {
	s.t.Helper()
	if frame := s.frame(); strings.Contains(frame, text) {
		s.t.Errorf("the screen has %q:\n%s", text, frame)
	}
}

func TestSendingMakesAChatAndFollowsIt(t *testing.T) {
	t.Parallel()
	b := newBackend()
	b.get.Session.ID = uuid.Nil
	s := connected(t, b, 80, 24)
	b.get.Session.ID = id(1)
	b.say(101, "user", text("Hello\nyou"))
	s.keys("Hello", "alt+enter", "you", "enter")
	if len(b.sent) != 1 || b.sent[0].Text != "Hello\nyou" || b.sent[0].SessionID != id(1) {
		t.Errorf("sent %+v", b.sent)
	}
	s.has("Boat plans", "> Hello")
	s.keys("up")
	if got := s.m.input.Value(); got != "Hello\nyou" {
		t.Errorf("Up gives %q", got)
	}
}

// A paste is one input, whatever line ends it has.
func TestPasteOfManyLinesIsOneInput(t *testing.T) {
	t.Parallel()
	b := answered()
	s := connected(t, b, 80, 24)
	s.send(tea.PasteMsg{Content: strings.ReplaceAll(lines(100), "\n", "\r\n")})
	if len(b.sent) != 0 {
		t.Fatal("a paste sends itself")
	}
	s.keys("enter")
	if len(b.sent) != 1 || b.sent[0].Text != lines(100) {
		t.Errorf("sent %+v", b.sent)
	}
}

func TestRefusedTextComesBackAsDraft(t *testing.T) {
	t.Parallel()
	b := answered()
	b.fail = refusal("Set up a model first.")
	s := connected(t, b, 80, 24)
	s.keys("Hello", "enter")
	s.has("Set up a model first.", "> Hello")
	if len(s.m.outbox) != 0 {
		t.Error("it is sent again")
	}
}

func TestKeysAnswerAQuestionOnlyWhileNothingIsTyped(t *testing.T) {
	t.Parallel()
	b := asked()
	s := connected(t, b, 80, 24)
	s.has("Run the tool file_write")
	s.lacks("y once")
	s.keys("y") // before the person can have read it
	if len(b.decided) != 0 || s.m.input.Value() != "y" {
		t.Fatalf("a letter that was typed answered: %+v", b.decided)
	}
	s.wait()
	s.has("clear the input to answer")
	s.keys("n", "v", "backspace", "backspace", "backspace", "y")
	if len(b.decided) != 0 || s.m.input.Value() != "y" {
		t.Fatalf("a letter that was typed answered: %+v", b.decided)
	}
	s.keys("backspace")
	s.wait()
	s.keys("v")
	s.has("side effecting")
	s.keys("esc", "y")
	if len(b.decided) != 1 || b.decided[0].Decision != "approve" || b.decided[0].Scope != "once" || b.decided[0].DefinitionHash != "abc" {
		t.Errorf("decided %+v", b.decided)
	}
}

func TestDigitsAnswerChoices(t *testing.T) {
	t.Parallel()
	b := asked()
	b.approval.Question = questionOfCrash()
	s := connected(t, b, 80, 24)
	s.wait()
	s.keys("y", "backspace")
	s.wait()
	s.keys("3")
	if len(b.decided) != 1 || b.decided[0].Choice != "stop" || b.decided[0].Decision != "deny" {
		t.Errorf("decided %+v", b.decided)
	}
}

// A question that was answered elsewhere disappears.
func TestQuestionAnsweredElsewhereDisappears(t *testing.T) {
	t.Parallel()
	b := asked()
	s := connected(t, b, 80, 24)
	s.wait()
	b.get.ActiveTurn = nil
	s.event("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
	s.lacks("Run the tool file_write")
	s.keys("y")
	if len(b.decided) != 0 || s.m.input.Value() != "y" {
		t.Error("the key answers a question that is gone")
	}
}

func TestEscStopsAndCtrlCTwiceLeaves(t *testing.T) {
	t.Parallel()
	b := answered()
	b.run(3, agent.Running)
	s := connected(t, b, 80, 24)
	s.keys("/s", "esc")
	if !slices.Contains(b.calls, "chat.cancel") || s.m.input.Value() != "/s" {
		t.Errorf("calls: %v", b.calls)
	}
	s.has("Stopping…")
	b.get.ActiveTurn = nil
	s.event("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
	s.lacks("Stopping…")
	s.keys("ctrl+c")
	s.has("Press Ctrl+C again")
	s.keys("x", "ctrl+c")
	if s.quit {
		t.Error("left with another key in between")
	}
	if s.keys("ctrl+c"); !s.quit {
		t.Error("still there")
	}
}

// Esc right after Enter stops the turn of an input that is still being sent.
func TestEscStopsWhatIsBeingSent(t *testing.T) {
	t.Parallel()
	b := answered()
	s := connected(t, b, 80, 24)
	s.keys("Hello")
	_, sending := s.m.Update(tea.KeyPressMsg(tea.Key{Code: tea.KeyEnter}))
	s.keys("esc")
	if slices.Contains(b.calls, "chat.cancel") {
		t.Fatal("there is nothing to cancel yet")
	}
	b.run(3, agent.Running)
	s.do(sending)
	if n := len(slices.DeleteFunc(slices.Clone(b.calls), func(c string) bool { return c != "chat.cancel" })); n != 1 {
		t.Errorf("%d calls of chat.cancel: %v", n, b.calls)
	}
	s.has("Stopping…")
}

func TestTicksOnlyWhileSomethingRuns(t *testing.T) {
	t.Parallel()
	b := asked()
	s := connected(t, b, 80, 24)
	if s.tick {
		t.Error("ticks while a question waits")
	}
	b.run(3, agent.Running)
	s.event("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
	if !s.tick {
		t.Fatal("no tick while a turn runs")
	}
	s.tick = false
	if s.send(tickMsg{}); !s.tick {
		t.Error("one tick only")
	}
	b.get.ActiveTurn = nil
	s.event("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
	s.tick = false
	if s.send(tickMsg{}); s.tick {
		t.Error("ticks for ever")
	}
	s.send(lostMsg{1})
	if s.tick {
		t.Error("ticks without a connection")
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	b := answered()
	s := connected(t, b, 80, 24)
	s.keys("/co", "tab")
	if got := s.m.input.Value(); got != "/cost" {
		t.Errorf("Tab gives %q", got)
	}
	s.keys("enter")
	s.has("2 calls of a model, $0.0123", "emulated/one: $0.0123 in 2 calls, 900 tokens")
	s.keys("esc", "/mod", "enter")
	if got := s.m.input.Value(); got != "/model " {
		t.Errorf("Enter on a command with an argument gives %q", got)
	}
	s.keys("tab", "enter")
	if s.m.set.Model != "emulated/one" {
		t.Errorf("model %q", s.m.set.Model)
	}
	s.keys("/mode ", "down", "down", "enter")
	if s.m.set.Mode != "work" {
		t.Errorf("mode %q", s.m.set.Mode)
	}
	s.keys("/mode all", "enter", "/dance", "enter")
	s.has("There is no command /dance")
	s.keys("/etc/hosts is a file", "enter")
	if len(b.sent) != 1 {
		t.Error("a path is not sent as a text")
	}
}

func TestPickerSwitchesChats(t *testing.T) {
	t.Parallel()
	b := answered()
	b.list = []agent.Session{{ID: id(1), Title: "Boat plans"}, {ID: id(2), Title: "Recipes"}}
	s := connected(t, b, 80, 24)
	s.keys("/sessions", "enter", "down", "down", "down")
	b.get.Session = agent.Session{ID: id(2), Title: "Recipes"}
	b.messages = nil
	s.keys("enter")
	s.has("Recipes")
	s.lacks("Boats")
	s.keys("/switch 9", "enter")
	s.has("Choose a number of /sessions.")
	s.keys("/new", "enter")
	s.has("New chat")
	s.keys("/quit", "enter")
	if !s.quit {
		t.Error("still there")
	}
}

// Output of models and tools cannot move the cursor, set the title or write to the clipboard.
func TestControlCharactersAreNeutralized(t *testing.T) {
	t.Parallel()
	evil := "a\x1b[2Jb\x1b]52;c;aGk=\x07c\x9b31md\u202ee\x1b]0;title\x07\x00\x7f\r\b"
	b := asked()
	b.get.Session.Title = evil
	b.say(3, "assistant", text(evil+"\n```\n"+evil+"\n```\n- "+evil), call(evil, `{"x":"`+`\u001b[2J`+`"}`, ""))
	b.say(3, "user", text(evil))
	b.say(3, "system", agent.Part{Kind: agent.PartNotice, Text: evil})
	b.approval.Sentence, b.approval.Requested[0].Why = evil, evil
	b.get.Queue = []agent.QueuedInput{{Text: evil}}
	b.list = []agent.Session{{Title: evil}}
	s := connected(t, b, 200, 60)
	s.wait()
	s.event("chat.assistant_delta", delta(3, 0, 0, evil))
	s.keys("ctrl+o")
	check := func() {
		t.Helper()
		content := s.m.View().Content
		for _, r := range content {
			if r < ' ' && r != '\n' && r != '\x1b' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
				t.Fatalf("%q reaches the terminal in %q", r, content)
			}
		}
		for rest := content; ; { // the only escapes are colors
			_, after, found := strings.Cut(rest, "\x1b")
			if !found {
				return
			}
			body, _, ok := strings.Cut(after, "m")
			if !ok || !strings.HasPrefix(body, "[") || strings.Trim(body[1:], "0123456789;") != "" {
				t.Fatalf("an escape reaches the terminal: %q", after[:min(len(after), 20)])
			}
			rest = after
		}
	}
	check()
	s.keys("v")
	check()
	s.keys("esc", "/sessions", "enter")
	check()
}

// A text entered while the connection is lost is sent once, after a reconnect.
func TestInputWaitsForTheConnection(t *testing.T) {
	t.Parallel()
	b := answered()
	s := connected(t, b, 80, 24)
	b.fail = fault.Unavailablef("The connection to Helix was lost.")
	s.m.conn = lossy{b, s}
	s.keys("Hello", "enter")
	if len(b.sent) != 1 {
		t.Fatalf("sent %d times", len(b.sent))
	}
	s.has("to send: Hello", "Reconnecting")
	b.fail = nil
	s.send(connectedMsg{b})
	if len(b.sent) != 2 || *b.sent[0].TurnID != *b.sent[1].TurnID {
		t.Errorf("the repeated input is not the same: %+v", b.sent)
	}
	s.lacks("to send")
}

// Esc removes inputs that have not been sent yet.
func TestEscRemovesUnsentInputs(t *testing.T) {
	t.Parallel()
	b := answered()
	s := connected(t, b, 80, 24)
	s.send(lostMsg{1})
	s.keys("Hello", "enter", "esc")
	if s.m.input.Value() != "Hello" || len(s.m.outbox) != 0 {
		t.Errorf("the input is %q", s.m.input.Value())
	}
	s.send(connectedMsg{b})
	if len(b.sent) != 0 {
		t.Error("it was sent")
	}
}

// lossy loses the connection during a call.
type lossy struct {
	*backend
	s *screen
}

func (l lossy) Call(ctx ctx, method string, params, result any) error {
	err := l.backend.Call(ctx, method, params, result)
	if err != nil {
		l.s.send(lostMsg{1})
	}
	return err
}

// The pane keeps its position while messages arrive, are loaded before it, and the size changes.
func TestScrollKeepsItsPlace(t *testing.T) {
	t.Parallel()
	b := newBackend()
	for i := range 600 {
		b.say(10+i, "user", text(fmt.Sprintf("Message %d.", i+1)))
	}
	s := connected(t, b, 80, 24)
	if n := len(s.m.chat.Messages); n != 600 {
		t.Fatalf("%d messages were read", n)
	}
	s.has("Message 600.")
	for range 20 {
		s.keys("pgup")
	}
	top := strings.Split(s.frame(), "\n")[2]
	b.say(900, "assistant", text(lines(50)))
	s.event("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
	if got := strings.Split(s.frame(), "\n")[2]; got != top || top == "" {
		t.Errorf("the first line was %q and is %q", top, got)
	}
	s.has("1 new below")
	s.send(tea.WindowSizeMsg{Width: 40, Height: 30})
	if got := strings.Split(s.frame(), "\n")[2]; got != top {
		t.Errorf("the first line was %q and is %q", top, got)
	}
	s.keys("end")
	s.has("line 50")
	s.lacks("new below")
	s.send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	s.lacks("line 50")
	s.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	s.has("line 50")
}

func TestWaitBeforeConnecting(t *testing.T) {
	t.Parallel()
	if d := waitBefore(1, 0.5); d != 250*time.Millisecond {
		t.Errorf("first %s", d)
	}
	for try := 1; try < 100; try++ {
		for _, dice := range []float64{0, 0.999} {
			if d := waitBefore(try, dice); d < 200*time.Millisecond || d > 5*time.Second || try > 20 && d < 3*time.Second {
				t.Errorf("try %d: %s", try, d)
			}
		}
	}
}

// An attached file is sent with the next text, once; a rejected text keeps it.
func TestAttachedFilesGoWithTheNextText(t *testing.T) {
	t.Parallel()
	b := answered()
	s := connected(t, b, 80, 24)
	path := filepath.Join(t.TempDir(), "boat.txt")
	if err := os.WriteFile(path, []byte("A boat"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.keys("/attach "+path, "enter")
	s.has("Goes with your next text: boat.txt")
	s.keys("/attach "+path+".none", "enter")
	s.has("Couldn't open")
	b.fail = refusal("This model takes no files.")
	s.keys("Look", "enter")
	s.has("This model takes no files.")
	b.fail = nil
	s.keys("enter") // the text was restored as a draft
	s.keys("And", "enter")
	if n := len(b.sent); n != 3 || len(b.sent[0].Attachments) != 1 || len(b.sent[1].Attachments) != 1 || b.sent[1].Attachments[0].Name != "boat.txt" || len(b.sent[2].Attachments) != 0 {
		t.Errorf("%+v", b.sent)
	}
	s.keys("/attach "+path, "enter", "/attach -", "enter")
	s.has("Nothing is attached.")
}
