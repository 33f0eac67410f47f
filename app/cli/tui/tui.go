// Package tui is the chat of the command line: the state of a chat, folded from events (Chat), the
// handling of inputs (Do), and the full-screen interface (Run). The interface is a pure model: it
// returns its calls as commands. Only app/cli imports it.
package tui

import (
	"context"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/gateway"
)

const (
	maxInput  = 256 << 10 // characters
	inputRows = 10
	tick      = 100 * time.Millisecond
	// guard is how long a question must be visible, without typing, before keys answer it.
	guard     = 500 * time.Millisecond
	callLimit = 30 * time.Second
	poll      = 2 * time.Second
)

// Model is the state of the interface. Create it with newModel.
type Model struct {
	o     Options
	conn  Conn // nil: lost
	links int  // connections so far; the result of a call over an earlier one may be outdated
	tries int  // attempts to reconnect
	st    styles
	md    markers

	set    Settings
	chat   Chat
	all    agent.StatusResult
	known  bool // everything was read
	polls  bool // polled, because no model is set up
	outbox []outgoing
	busy   bool // the first of outbox is being executed
	read   bool // a Query is running
	again  bool // and another is needed

	question *Question
	asking   uuid.UUID // the question that is shown or being read
	armed    bool      // keys answer it
	edits    int

	input textarea.Model
	last  string // the last input
	pick  int    // index in the completions
	note  string
	// stopping is the turn that the user has stopped.
	stopping uuid.UUID
	// stopNext: Esc was pressed while an input was on its way; its turn is stopped when it is known.
	stopNext bool
	sheet    *sheet
	leave    bool // Ctrl+C was pressed once
	ticks    bool
	frame    int
	seen     int64 // seq of the newest message when the user scrolled up
	top      *anchor
	open     map[string]bool // calls whose fold state differs from openAll
	unfold   bool
	folds    int
	cache    map[uuid.UUID]cached
	width    int
	height   int
	after    func(time.Duration, tea.Msg) tea.Cmd
}

type outgoing struct {
	turn uuid.UUID
	text string
}

// sheet is a text, or a list of chats to choose from, shown instead of the transcript.
type sheet struct {
	title string
	lines []string
	pick  bool
	at    int // first line shown, or the chosen one
}

type (
	connectedMsg struct{ conn Conn }
	lostMsg      struct{ tries int }
	eventsMsg    []gateway.Event
	pageMsg      struct {
		link int
		page Page
		err  error
	}
	doneMsg struct {
		link int
		out  Outcome
		err  error
	}
	statusMsg struct {
		all agent.StatusResult
		err error
	}
	askedMsg struct {
		id  uuid.UUID
		q   *Question
		err error
	}
	calledMsg struct{ err error }
	armMsg    struct{ edits int }
	pollMsg   struct{}
	tickMsg   struct{}
)

func newModel(o Options) *Model {
	in := textarea.New()
	in.Placeholder = "Write a message"
	in.ShowLineNumbers = false
	in.CharLimit, in.MaxContentHeight = maxInput, maxInput
	in.DynamicHeight, in.MinHeight, in.MaxHeight = true, 1, inputRows
	in.EndOfBufferCharacter = ' '
	in.SetPromptFunc(2, func(p textarea.PromptInfo) string {
		if p.LineNumber == 0 {
			return "> "
		}
		return "  "
	})
	in.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "ctrl+j", "shift+enter"))
	in.SetVirtualCursor(false)
	st := newStyles()
	state := textarea.StyleState{Placeholder: st.faint, Prompt: st.person}
	in.SetStyles(textarea.Styles{Focused: state, Blurred: state, Cursor: textarea.CursorStyle{Shape: tea.CursorBlock, Blink: true}})
	in.Focus()
	m := &Model{o: o, st: st, md: newMarkers(), set: o.Settings, input: in, open: map[string]bool{}, cache: map[uuid.UUID]cached{}, width: 80, height: 24,
		after: func(d time.Duration, msg tea.Msg) tea.Cmd { return tea.Tick(d, func(time.Time) tea.Msg { return msg }) }}
	m.chat.Session.ID = o.Settings.SessionID
	m.resize(80, 24)
	return m
}

// Init does nothing: the first message reports that the connection is open.
func (m *Model) Init() tea.Cmd { return nil }

// Update applies a message and returns the calls to make.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmds []tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		cmds = append(cmds, m.press(msg))
	case tea.PasteMsg:
		msg.Content = strings.ReplaceAll(strings.ReplaceAll(msg.Content, "\r\n", "\n"), "\r", "\n")
		cmds = append(cmds, m.edit(msg))
	case tea.MouseWheelMsg:
		m.scroll(map[tea.MouseButton]int{tea.MouseWheelUp: -3, tea.MouseWheelDown: 3}[msg.Button])
	case tea.MouseClickMsg:
		m.click(msg.Y)
	case connectedMsg:
		m.conn, m.tries, m.read, m.asking = msg.conn, 0, false, uuid.Nil
		m.links++
		cmds = append(cmds, m.status(), m.refresh())
	case lostMsg:
		if m.conn != nil {
			m.chat.Lost()
		}
		m.conn, m.tries = nil, msg.tries
	case eventsMsg:
		stale := false
		for _, e := range msg {
			switch e.Name {
			case "events.gap":
				m.chat.Lost()
				stale = true
			case "providers.changed":
				cmds = append(cmds, m.status())
			default:
				stale = m.chat.Event(e) || stale
			}
		}
		if stale {
			cmds = append(cmds, m.refresh())
		}
	case pageMsg:
		cmds = append(cmds, m.page(msg))
	case doneMsg:
		cmds = append(cmds, m.done(msg))
	case statusMsg:
		if msg.err == nil {
			m.all, m.known = msg.all, true
		}
		if !m.all.Ready && !m.polls { // there is no event when a role gets a model
			m.polls = true
			cmds = append(cmds, m.after(poll, pollMsg{}))
		}
	case pollMsg:
		m.polls = false
		cmds = append(cmds, m.status())
	case askedMsg:
		if msg.id == m.asking {
			if m.question = msg.q; msg.err != nil {
				m.asking = uuid.Nil
				m.fail(msg.err)
			}
			cmds = append(cmds, m.arm())
		}
	case calledMsg:
		m.fail(msg.err)
		cmds = append(cmds, m.refresh())
	case armMsg:
		m.armed = msg.edits == m.edits
	case tickMsg:
		m.ticks = false
		m.frame++
	}
	cmds = append(cmds, m.next())
	if m.running() && !m.ticks {
		m.ticks = true
		cmds = append(cmds, m.after(tick, tickMsg{}))
	}
	return m, tea.Batch(cmds...)
}

// running reports whether something on the screen is animated.
func (m *Model) running() bool {
	return m.conn != nil && (m.busy || m.chat.Turn != nil && m.chat.Turn.State != agent.Waiting)
}

// call returns a command that makes calls over the connection.
func (m *Model) call(fn func(ctx context.Context, conn Conn) tea.Msg) tea.Cmd {
	conn := m.conn
	if conn == nil {
		return nil
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		defer cancel()
		return fn(ctx, conn)
	}
}

func (m *Model) status() tea.Cmd {
	return m.call(func(ctx context.Context, conn Conn) (msg tea.Msg) {
		var all agent.StatusResult
		err := conn.Call(ctx, "agent.status", struct{}{}, &all)
		return statusMsg{all, err}
	})
}

// refresh reads what has changed, one query at a time.
func (m *Model) refresh() tea.Cmd {
	if m.again = true; m.read || m.conn == nil || m.chat.Session.ID == uuid.Nil {
		return nil
	}
	m.again = false
	return m.query(m.chat.Query())
}

func (m *Model) query(q Query) tea.Cmd {
	m.read = true
	link := m.links
	return m.call(func(ctx context.Context, conn Conn) tea.Msg {
		p, err := q.Read(ctx, conn)
		return pageMsg{link, p, err}
	})
}

func (m *Model) page(msg pageMsg) tea.Cmd {
	if msg.link != m.links {
		return nil
	}
	m.read = false
	if msg.err != nil {
		if refused(msg.err) {
			m.fail(msg.err)
		}
		return nil
	}
	again := m.chat.Apply(msg.page)
	cmds := []tea.Cmd{m.ask()}
	if m.stopNext && !m.busy && (m.chat.Turn != nil || len(m.chat.Queue) > 0 || !again && !m.again) {
		m.stopNext = false
		cmds = append(cmds, m.stop())
	}
	if q, ok := m.chat.OlderQuery(); again || m.again || !ok {
		if again || m.again {
			cmds = append(cmds, m.refresh())
		}
	} else {
		cmds = append(cmds, m.query(q))
	}
	return tea.Batch(cmds...)
}

// ask reads the question that the turn waits for.
func (m *Model) ask() tea.Cmd {
	id := uuid.Nil
	if t := m.chat.Turn; t != nil && t.State == agent.Waiting && len(t.Approvals) > 0 {
		id = t.Approvals[0]
	}
	if id == m.asking {
		return nil
	}
	m.asking, m.question = id, nil
	if id == uuid.Nil {
		return nil
	}
	return m.call(func(ctx context.Context, conn Conn) tea.Msg {
		q, err := Ask(ctx, conn, id)
		return askedMsg{id, q, err}
	})
}

// arm lets keys answer the question after a delay, so that keys which the user is typing do not
// answer it.
func (m *Model) arm() tea.Cmd {
	m.edits++
	if m.armed = false; m.question == nil {
		return nil
	}
	return m.after(guard, armMsg{m.edits})
}

// next executes the first waiting input.
func (m *Model) next() tea.Cmd {
	if m.busy || m.conn == nil || len(m.outbox) == 0 {
		return nil
	}
	m.busy = true
	in, set, link := m.outbox[0], m.set, m.links
	return m.call(func(ctx context.Context, conn Conn) tea.Msg {
		out, err := Do(ctx, conn, set, in.turn, in.text)
		return doneMsg{link, out, err}
	})
}

func (m *Model) done(msg doneMsg) tea.Cmd {
	m.busy, m.set = false, msg.out.Settings
	if msg.err != nil && !refused(msg.err) && (msg.link != m.links || m.conn == nil) {
		return nil // again over the next connection
	}
	in := m.outbox[0]
	m.outbox = m.outbox[1:]
	if m.set.SessionID != m.chat.Session.ID {
		m.chat = Chat{Session: agent.Session{ID: m.set.SessionID}}
		m.top, m.question, m.asking, m.read = nil, nil, uuid.Nil, false
		clear(m.cache)
	}
	switch out := msg.out; {
	case msg.err != nil:
		m.fail(msg.err)
		if m.input.Value() == "" && !isCommand(strings.Fields(in.text)[0]) {
			m.input.SetValue(in.text) // unless there is a draft
		}
	case out.Quit:
		return tea.Quit
	case out.Listed:
		m.sheet = &sheet{title: "Chats", pick: true}
		for i, s := range m.set.Listed {
			m.sheet.lines = append(m.sheet.lines, SessionRow(i, s))
		}
	case strings.Contains(out.Text, "\n"):
		m.show(strings.TrimPrefix(in.text, "/"), out.Text)
	default:
		m.note = oneLine(out.Text)
	}
	return tea.Batch(m.refresh(), m.status())
}

// show shows a text instead of the transcript.
func (m *Model) show(title, text string) {
	m.sheet = &sheet{title: title, lines: strings.Split(Visible(strings.TrimRight(text, "\n")), "\n")}
}

func (m *Model) fail(err error) {
	if err != nil {
		m.note = oneLine(fault.As(err).Message)
	}
}
