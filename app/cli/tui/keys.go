package tui

import (
	"context"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"helix/backend/agent"
	"helix/backend/permission"
)

// submit sends the typed text, or executes a command.
func (m *Model) submit() tea.Cmd {
	text := strings.TrimSpace(m.input.Value())
	if text == "" {
		return nil
	}
	if list := m.completions(); len(list) > 0 && text != list[m.pick].name {
		c := list[m.pick]
		if text = c.name; c.args != "" {
			m.input.SetValue(text + " ")
			return nil
		}
	}
	m.last, m.top, m.note, m.pick = text, nil, "", 0
	m.input.Reset()
	switch text {
	case "/quit", "/exit":
		return tea.Quit
	case "/help":
		m.show("Help", Help()+"\n\n"+keysHelp)
		return nil
	}
	m.outbox = append(m.outbox, outgoing{m.o.NewID(), text})
	return nil
}

// completions returns the possible completions of the input.
func (m *Model) completions() (out []command) {
	v := m.input.Value()
	if !strings.HasPrefix(v, "/") || strings.Contains(v, "\n") {
		return nil
	}
	all := commands()
	if strings.HasPrefix(v, "/mode ") {
		all = nil
		for _, s := range modes() {
			all = append(all, command{name: "/mode " + s})
		}
	}
	if strings.HasPrefix(v, "/model ") {
		all = nil
		for _, r := range m.all.Roles {
			for _, ref := range r.Chain {
				if c := (command{name: "/model " + string(ref)}); !slices.Contains(all, c) {
					all = append(all, c)
				}
			}
		}
	}
	for _, c := range all {
		if strings.HasPrefix(c.name, v) {
			out = append(out, c)
		}
	}
	m.pick = min(m.pick, max(len(out)-1, 0))
	return out
}

// press handles a key.
func (m *Model) press(msg tea.KeyPressMsg) tea.Cmd {
	k := msg.String()
	if k == "ctrl+c" {
		if m.leave {
			return tea.Quit
		}
		m.leave = true
		return nil
	}
	m.leave = false
	if k == "ctrl+z" {
		return tea.Suspend
	}
	empty := m.input.Value() == ""
	if m.sheet != nil {
		if used := m.pressSheet(k); used || k == "esc" {
			return nil
		}
	}
	if q := m.question; q != nil && m.armed && empty {
		if k == "v" {
			m.show(q.Sentence(), q.Full())
			return nil
		}
		if p, ok := q.Answer(k); ok {
			return m.decide(p)
		}
	}
	list := m.completions()
	switch k {
	case "ctrl+d":
		if empty {
			return tea.Quit
		}
	case "esc":
		return m.stop()
	case "enter":
		return m.submit()
	case "tab":
		if len(list) > 0 {
			m.input.SetValue(list[m.pick].name + map[bool]string{true: " "}[list[m.pick].args != ""])
		}
		return nil
	case "up", "down":
		switch {
		case len(list) > 0:
			m.pick = (m.pick + map[string]int{"up": len(list) - 1, "down": 1}[k]) % len(list)
			return nil
		case k == "up" && empty:
			m.input.SetValue(m.lastInput())
			return m.arm()
		}
	case "pgup", "pgdown", "ctrl+home", "ctrl+end":
		m.scrollKey(strings.TrimPrefix(k, "ctrl+"))
		return nil
	case "home", "end":
		if empty {
			m.scrollKey(k)
			return nil
		}
	case "ctrl+o":
		m.unfold = !m.unfold
		m.folds++
		clear(m.open)
		return nil
	}
	return m.edit(msg)
}

// edit passes a message to the input.
func (m *Model) edit(msg tea.Msg) tea.Cmd {
	before := m.input.Value()
	var cmd tea.Cmd
	if m.input, cmd = m.input.Update(msg); m.input.Value() == before {
		return cmd
	}
	m.note, m.pick, m.sheet = "", 0, nil
	return tea.Batch(cmd, m.arm())
}

// pressSheet handles a key while a sheet is shown, and reports whether it handled the key.
func (m *Model) pressSheet(k string) bool {
	s, rows, last := m.sheet, max(m.paneHeight()-2, 1), m.sheetEnd()
	switch k {
	case "esc":
		m.sheet = nil
	case "enter":
		m.sheet = nil
		if s.pick && len(s.lines) > 0 {
			m.outbox = append(m.outbox, outgoing{m.o.NewID(), "/switch " + strconv.Itoa(s.at+1)})
		}
	case "up":
		s.at--
	case "down":
		s.at++
	case "pgup":
		s.at -= rows
	case "pgdown":
		s.at += rows
	case "home":
		s.at = 0
	case "end":
		s.at = last
	default:
		return false
	}
	s.at = min(max(s.at, 0), last)
	return true
}

// sheetEnd returns the last position that a sheet can be moved to.
func (m *Model) sheetEnd() int {
	if m.sheet.pick {
		return max(len(m.sheet.lines)-1, 0)
	}
	return max(len(m.sheet.lines)-max(m.paneHeight()-2, 1), 0)
}

func (m *Model) decide(p permission.AnswerParams) tea.Cmd {
	m.question = nil
	return m.call(func(ctx context.Context, conn Conn) tea.Msg { return calledMsg{Decide(ctx, conn, p)} })
}

// stop cancels the turn, or else removes the input that waits to be sent or answered.
func (m *Model) stop() tea.Cmd {
	m.note = ""
	p := agent.TurnParams{SessionID: m.chat.Session.ID}
	switch n := len(m.outbox); {
	case m.chat.Turn != nil:
		turn := m.chat.Turn.TurnID
		m.stopping, p.TurnID = turn, &turn
	case n > 0 && !m.busy:
		m.input.SetValue(m.outbox[n-1].text)
		m.outbox = m.outbox[:n-1]
		return nil
	case len(m.chat.Queue) == 0:
		m.stopNext = m.busy || m.read
		return nil
	}
	return m.call(func(ctx context.Context, conn Conn) tea.Msg {
		return calledMsg{conn.Call(ctx, "chat.cancel", p, nil)}
	})
}

// lastInput returns the last text that the user sent.
func (m *Model) lastInput() string {
	if m.last != "" {
		return m.last
	}
	for _, msg := range slices.Backward(m.chat.Messages) {
		if msg.Role == "user" {
			return TextOf(msg)
		}
	}
	return ""
}
