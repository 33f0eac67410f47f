package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/uuid"

	"helix/backend/agent"
)

const keysHelp = `Enter           send
Alt+Enter       new line; Ctrl+J too
Up              edit the last input, when the line is empty
Tab             complete a command
Esc             stop the answer
PgUp, PgDn      scroll; also the mouse wheel
Home, End       first message, last message, when the line is empty
Ctrl+O          unfold and fold all tool calls; a click does one
Shift and drag  select text
Ctrl+C twice    leave; Ctrl+D too`

// maxDetail is the maximum number of lines shown of a tool's input and result, maxQueue that of
// waiting inputs, maxAsked that of the lines of a question.
const maxDetail, maxQueue, maxAsked, maxColumn = 20, 3, 6, 110

func (m *Model) resize(w, h int) {
	m.width, m.height = max(w, 1), max(h, 1)
	m.input.MaxHeight = max(min(inputRows, m.height/2-2), 1)
	m.input.SetWidth(m.width)
}

// View draws the interface.
func (m *Model) View() tea.View {
	above, below := m.frameRows()
	pane := m.paneLines(m.height - len(above) - len(below) - m.input.Height())
	rows := append(append(above, pane...), below...)
	y := len(rows) - 1 // the hints are below the input
	if len(below) == 0 {
		y = len(rows)
	}
	rows = slices.Insert(rows, y, strings.Split(m.input.View(), "\n")...)
	for i, r := range rows {
		rows[i] = ansi.Truncate(r, m.width, "")
	}
	v := tea.NewView(strings.Join(rows[:min(len(rows), m.height)], "\n"))
	v.AltScreen, v.MouseMode = true, tea.MouseModeCellMotion
	v.WindowTitle = "Helix"
	if v.Cursor = m.input.Cursor(); v.Cursor != nil {
		v.Cursor.X, v.Cursor.Y = min(v.Cursor.X, m.width-1), min(v.Cursor.Y+y, m.height-1)
	}
	return v
}

// frameRows returns the rows around the pane and the input; the last of them is below the input. A
// low terminal shows fewer.
func (m *Model) frameRows() (above, below []string) {
	if m.height >= 8 {
		above = []string{m.header(), m.st.faint.Render(strings.Repeat("─", m.width))}
	}
	if m.height >= 5 {
		below = append(m.panels(), m.statusRow(), m.hints())
	}
	if n := len(above) + len(below) + m.input.Height() + 1 - m.height; n > 0 {
		below = below[min(n, max(len(below)-2, 0)):]
	}
	return above, below
}

func (m *Model) paneHeight() int {
	above, below := m.frameRows()
	return max(m.height-len(above)-len(below)-m.input.Height(), 0)
}

// header returns the line with the title and state of the chat.
func (m *Model) header() string {
	s := m.chat.Session
	title, mode, state := "New chat", m.set.Mode, "ready"
	if s.ID != uuid.Nil {
		title = Title(s)
	}
	if s.Mode != "" {
		mode = s.Mode
	}
	model := string(m.set.Model)
	if model == "" && (m.known || s.Model != "") {
		model = modelOf(s, m.all)
	}
	switch t := m.chat.Turn; {
	case m.conn == nil:
		state = "not connected"
	case t != nil && t.State == agent.Waiting:
		state = "waits for you"
	case t != nil:
		state = t.State
	}
	right := oneLine(strings.Join(slices.DeleteFunc([]string{model, mode, dollars(s.CostMicros), state}, func(s string) bool { return s == "" }), " · "))
	if m.width < 60 {
		right = state
	}
	return beside(m.st.bold.Render(ansi.Truncate(title, m.width-ansi.StringWidth(right)-2, "…")), right, m.width)
}

// panels returns the rows above the input: waiting inputs, the question, and the completions.
func (m *Model) panels() (rows []string) {
	var waits []string
	for _, q := range m.chat.Queue {
		waits = append(waits, "waiting: "+oneLine(q.Text))
	}
	for i, o := range m.outbox {
		if i > 0 || m.conn == nil {
			waits = append(waits, "to send: "+oneLine(o.text))
		}
	}
	for i, w := range waits {
		if i == maxQueue {
			rows = append(rows, m.st.faint.Render("  and "+strconv.Itoa(len(waits)-i)+" more"))
			break
		}
		rows = append(rows, m.st.faint.Render(ansi.Truncate("  "+w, m.width, "…")))
	}
	if q := m.question; q != nil {
		bar := m.st.warn.Render("┃ ")
		rows = append(rows, wrapped(m.st.bold.Render(q.Sentence()), m.width, bar, bar)...)
		lines := q.Lines()
		for i, l := range lines {
			if i == maxAsked-1 && len(lines) > maxAsked {
				rows = append(rows, bar+m.st.faint.Render(strconv.Itoa(len(lines)-i)+" more lines"))
				break
			}
			rows = append(rows, bar+ansi.Truncate(l, m.width-2, "…"))
		}
		keys := "…"
		switch {
		case m.input.Value() != "":
			keys = "Send or clear the input to answer with a key."
		case m.armed:
			keys = q.Keys()
		}
		rows = append(rows, wrapped(m.st.warn.Render(keys), m.width, bar, bar)...)
	}
	list := m.completions()
	from := max(m.pick-7, 0)
	for i, c := range list[from:min(len(list), from+8)] {
		mark, style := "  ", m.st.faint
		if i+from == m.pick {
			mark, style = "> ", m.st.bold
		}
		rows = append(rows, style.Render(ansi.Truncate(fmt.Sprintf("%s%-18s%s", mark, strings.TrimSpace(c.name+" "+c.args), c.help), m.width, "…")))
	}
	if len(rows) > 0 && m.height >= 16 {
		rows = append([]string{""}, rows...)
	}
	return rows
}

// statusRow returns the line above the input: the current activity, and what is out of view.
func (m *Model) statusRow() string {
	left, right := "", ""
	switch t := m.chat.Turn; {
	case m.note != "":
		left = m.note
	case m.conn == nil || t == nil:
	case t.TurnID == m.stopping:
		left = "Stopping…"
	case t.State == agent.Waiting:
	default:
		what := "Working"
		switch l := m.chat.Live; {
		case m.chat.Waiting != "":
			what = "Waiting for " + oneLine(m.chat.Waiting) + " (rate limit)"
		case m.chat.Tool != "":
			what = "Running " + oneLine(m.chat.Tool)
		case l != nil && l.Thinking:
			what = "Thinking"
		case l != nil && len(l.text) > 0:
			what = "Answering"
		}
		left = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}[m.frame%10] + " " + what
		if t.StartedAt != nil {
			left += fmt.Sprintf(" · %d s", max(int(m.o.Now().Sub(*t.StartedAt).Seconds()), 0))
		}
		if t.Steps > 1 {
			left += " · step " + strconv.Itoa(t.Steps)
		}
		left += " · Esc stops"
	}
	switch n := m.below(); {
	case m.sheet != nil:
	case m.top != nil && n > 0:
		right = " " + strconv.Itoa(n) + " new below · End "
	case m.top != nil:
		right = " End goes to the last message "
	}
	if left != "" {
		left = " " + ansi.Truncate(left, m.width-ansi.StringWidth(right)-4, "…") + " "
	}
	rule := func(n int) string { return m.st.faint.Render(strings.Repeat("─", max(n, 0))) }
	return rule(2) + left + rule(m.width-4-ansi.StringWidth(left)-ansi.StringWidth(right)) + right + rule(2)
}

// below returns the number of messages that arrived after the user scrolled up.
func (m *Model) below() (n int) {
	for _, msg := range slices.Backward(m.chat.Messages) {
		if msg.Seq <= m.seen {
			break
		}
		if msg.Role != "tool" && !msg.Hidden {
			n++
		}
	}
	return n
}

// hints returns the last line.
func (m *Model) hints() string {
	switch {
	case m.leave:
		return m.st.warn.Render("Press Ctrl+C again to leave. The chat stays.")
	case m.conn == nil && m.tries > 0:
		return m.st.warn.Render("The connection was lost. Reconnecting… (try " + strconv.Itoa(m.tries) + ")")
	case m.sheet != nil && m.sheet.pick:
		return m.st.faint.Render("Up and Down choose · Enter continues the chat · Esc closes")
	case m.sheet != nil:
		return m.st.faint.Render("Up and Down scroll · Esc closes")
	}
	return m.st.faint.Render("Enter sends · Alt+Enter new line · /help · Ctrl+C twice leaves")
}

// paneLines draws the pane with exactly n lines.
func (m *Model) paneLines(n int) []string {
	n = max(n, 0)
	if m.sheet != nil {
		return filled(m.sheetLines(n), n)
	}
	blocks := m.blocks()
	top, _ := m.place(blocks, n)
	return filled(flatten(blocks, top, n), n)
}

func filled(lines []string, n int) []string {
	lines = lines[:min(len(lines), n)]
	return append(lines, make([]string, n-len(lines))...)
}

func (m *Model) sheetLines(n int) []string {
	s := m.sheet
	more := ""
	if !s.pick && s.at < m.sheetEnd() {
		more = " more below"
	}
	out := []string{beside(m.st.bold.Render(s.title), m.st.faint.Render(more), m.width), ""}
	from := s.at
	if s.pick {
		from = max(s.at-max(n-3, 0), 0)
	}
	for i, line := range s.lines {
		if i < from {
			continue
		}
		switch {
		case s.pick && i == s.at:
			out = append(out, m.st.person.Render(ansi.Truncate("> "+line, m.width, "…")))
		case s.pick:
			out = append(out, ansi.Truncate("  "+line, m.width, "…"))
		default:
			out = append(out, wrapped(line, m.width, "  ", "  ")...)
		}
	}
	if len(s.lines) == 0 {
		out = append(out, m.st.faint.Render("  Nothing here yet."))
	}
	return out
}
