package tui

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/permission"
	"helix/backend/providers"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// noon returns the time of the tests.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// id returns the n-th id of the tests.
func id(n int) uuid.UUID { return uuid.UUID{14: byte(n >> 8), 15: byte(n)} }

// backend is a chat set up by tests, behind the methods that the interface calls.
type backend struct {
	get      agent.GetResult
	messages []agent.Message
	status   agent.StatusResult
	list     []agent.Session
	approval permission.Approval
	decided  []permission.AnswerParams
	sent     []agent.SendParams
	calls    []string
	fail     error // of chat.send
}

func newBackend() *backend {
	b := &backend{}
	b.get.Session = agent.Session{ID: id(1), Title: "Boat plans", Mode: "ask", CostMicros: 12_300, State: "idle"}
	b.get.Queue = []agent.QueuedInput{}
	b.status = agent.StatusResult{Ready: true, Roles: []providers.RoleView{{Role: providers.RoleChat, Chain: []providers.ModelRef{"emulated/one"}}}}
	return b
}

// say adds a message of a turn.
func (b *backend) say(turn int, role string, parts ...agent.Part) {
	seq := int64(len(b.messages) + 1)
	b.messages = append(b.messages, agent.Message{ID: id(1000 + int(seq)), SessionID: id(1), Seq: seq, TurnID: id(turn), Role: role, Parts: parts, At: noon()})
}

func text(s string) agent.Part { return agent.Part{Kind: agent.PartText, Text: s} }

func call(tool, args, status string) agent.Part {
	return agent.Part{Kind: agent.PartToolCall, CallID: tool, Tool: tool, Args: json.RawMessage(args), Status: status}
}

// run makes a turn the active one.
func (b *backend) run(turn int, state string) {
	at := noon().Add(-3 * time.Second)
	b.get.ActiveTurn = &agent.Turn{TurnID: id(turn), SessionID: id(1), State: state, Steps: 1, StartedAt: &at, Approvals: []uuid.UUID{}}
}

// Call implements Conn. Params and results pass through JSON, as on the wire.
func (b *backend) Call(_ context.Context, method string, params, result any) error {
	b.calls = append(b.calls, method)
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	var out any = struct{}{}
	switch method {
	case "agent.status":
		out = b.status
	case "chat.get":
		out = b.get
	case "chat.messages":
		var p agent.MessagesParams
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		list := slices.DeleteFunc(slices.Clone(b.messages), func(m agent.Message) bool {
			return m.Seq <= p.After || p.Before > 0 && m.Seq >= p.Before
		})
		more := len(list) > p.Limit
		switch {
		case more && p.After > 0:
			list = list[:p.Limit]
		case more:
			list = list[len(list)-p.Limit:]
		}
		out = agent.MessagesResult{Messages: list, More: more}
	case "chat.list":
		out = agent.ListResult{Sessions: b.list, Total: len(b.list)}
	case "chat.create":
		out = agent.SessionResult{Session: agent.Session{ID: id(1)}}
	case "chat.send":
		var p agent.SendParams
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		b.sent = append(b.sent, p)
		if b.fail != nil {
			return b.fail
		}
		out = agent.SendResult{TurnID: *p.TurnID, State: agent.Queued}
	case "chat.attach":
		var p agent.AttachParams
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		out = agent.AttachResult{Blob: "b1", Name: p.Name, Mime: "text/plain"}
	case "chat.cancel":
		out = agent.StateResult{State: agent.Running}
	case "chat.cost":
		out = agent.CostResult{CostMicros: 12_300, Calls: 2, ByModel: []agent.CostRow{{Key: "emulated/one", Calls: 2, Tokens: 900, CostMicros: 12_300}}}
	case "approvals.get":
		out = permission.GetApprovalResult{Approval: b.approval}
	case "approvals.decide":
		var p permission.AnswerParams
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		b.decided = append(b.decided, p)
	}
	if raw, err = json.Marshal(out); err != nil || result == nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

func (b *backend) Follow(ctx context.Context, _ []string, _ func(gateway.Event), _ func()) error {
	<-ctx.Done()
	return nil
}

func (b *backend) Close() error { return nil }

// refusal returns an error in the form of the backend.
func refusal(message string) error {
	return fault.Invalidf("%s", message).WithCause(&gateway.RemoteError{})
}

// screen drives a Model as the program would, with commands executed at once.
type screen struct {
	t    *testing.T
	b    *backend
	m    *Model
	arms []tea.Msg // delayed messages, without the tick
	tick bool      // a tick was requested
	quit bool
	ids  int
}

func newScreen(t *testing.T, b *backend, w, h int) *screen {
	t.Helper()
	s := &screen{t: t, b: b, ids: 100}
	s.m = newModel(Options{Settings: Settings{SessionID: b.get.Session.ID, Mode: "ask"}, Now: noon, NewID: func() uuid.UUID { s.ids++; return id(s.ids) }})
	s.m.after = func(_ time.Duration, msg tea.Msg) tea.Cmd {
		if _, ok := msg.(tickMsg); ok {
			s.tick = true
		} else {
			s.arms = append(s.arms, msg)
		}
		return nil
	}
	s.send(tea.WindowSizeMsg{Width: w, Height: h})
	return s
}

// connected returns a screen with an open connection.
func connected(t *testing.T, b *backend, w, h int) *screen {
	t.Helper()
	s := newScreen(t, b, w, h)
	s.send(connectedMsg{b})
	return s
}

func (s *screen) send(msg tea.Msg) {
	if _, ok := msg.(tea.QuitMsg); ok {
		s.quit = true
		return
	}
	_, cmd := s.m.Update(msg)
	s.do(cmd)
}

func (s *screen) do(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	msg := cmd()
	if batch, ok := msg.(tea.BatchMsg); ok {
		for _, c := range batch {
			s.do(c)
		}
		return
	}
	if msg != nil {
		s.send(msg)
	}
}

// wait delivers delayed messages.
func (s *screen) wait() {
	arms := s.arms
	s.arms = nil
	for _, msg := range arms {
		s.send(msg)
	}
}

// keys presses keys by their names; other texts are typed letter by letter.
func (s *screen) keys(names ...string) {
	codes := map[string]tea.Key{"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "tab": {Code: tea.KeyTab},
		"pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "backspace": {Code: tea.KeyBackspace},
		"alt+enter": {Code: tea.KeyEnter, Mod: tea.ModAlt}, "ctrl+j": {Code: 'j', Mod: tea.ModCtrl}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+d": {Code: 'd', Mod: tea.ModCtrl}, "ctrl+o": {Code: 'o', Mod: tea.ModCtrl}}
	for _, name := range names {
		if k, ok := codes[name]; ok {
			s.send(tea.KeyPressMsg(k))
			continue
		}
		for _, r := range name {
			s.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

// event delivers a notification.
func (s *screen) event(name string, data any) {
	s.t.Helper()
	s.send(eventsMsg{notification(s.t, name, data)})
}

func notification(t *testing.T, name string, data any) gateway.Event {
	t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return gateway.Event{Name: name, Data: raw}
}

func delta(turn, attempt, offset int, s string) agent.AssistantDelta {
	return agent.AssistantDelta{SessionID: id(1), TurnID: id(turn), Attempt: attempt, Offset: offset, Delta: s}
}

// frame returns what the terminal shows, without colors. It must fit.
func (s *screen) frame() string {
	s.t.Helper()
	v := s.m.View()
	lines := strings.Split(ansi.Strip(v.Content), "\n")
	if len(lines) != s.m.height {
		s.t.Errorf("%d rows in a terminal of %d", len(lines), s.m.height)
	}
	for i, l := range lines {
		if ansi.StringWidth(l) > s.m.width {
			s.t.Errorf("row %d is %d wide in a terminal of %d: %q", i, ansi.StringWidth(l), s.m.width, l)
		}
		lines[i] = strings.TrimRight(l, " ")
	}
	if c := v.Cursor; c != nil && (c.X < 0 || c.Y < 0 || c.X >= s.m.width || c.Y >= s.m.height) {
		s.t.Errorf("the cursor is at %d, %d", c.X, c.Y)
	}
	return strings.Join(lines, "\n") + "\n"
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./app/cli/tui -update rewrites it):\n%s", name, got)
	}
}

// lines returns numbered lines of text.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
