package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// maxDetail is how many lines of a tool's input and result are shown, maxQueue how many inputs that
// wait, maxAsked how many lines of a question.
const maxDetail, maxQueue, maxAsked, maxColumn = 20, 3, 6, 110

// block is a part of the transcript.
type block struct {
	id    uuid.UUID // of its message; Nil: the live answer
	seq   int64     // of its message
	lines []string
	calls map[int]string // which lines are rows of calls
	tight bool           // no empty line before it
}

// cached is a block that was drawn for a width and a state of folds.
type cached struct {
	width, folds int
	block        block
}

// anchor is the line that stands at the top of the pane while the person has scrolled up.
type anchor struct {
	id   uuid.UUID
	line int
}

func itoa(n int) string { return strconv.Itoa(n) }

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
	y := len(rows) - 1 // the hints stand under the input
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

// frameRows are the rows around the pane and the input; the last of them stands under the input. A
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

// header says which chat this is and how it stands.
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
	right := OneLine(strings.Join(slices.DeleteFunc([]string{model, mode, Dollars(s.CostMicros), state}, func(s string) bool { return s == "" }), " · "))
	if m.width < 60 {
		right = state
	}
	return beside(m.st.bold.Render(ansi.Truncate(title, m.width-ansi.StringWidth(right)-2, "…")), right, m.width)
}

// panels stand over the input: what waits, the question, and the completions.
func (m *Model) panels() (rows []string) {
	var waits []string
	for _, q := range m.chat.Queue {
		waits = append(waits, "waiting: "+OneLine(q.Text))
	}
	for i, o := range m.outbox {
		if i > 0 || m.conn == nil {
			waits = append(waits, "to send: "+OneLine(o.text))
		}
	}
	for i, w := range waits {
		if i == maxQueue {
			rows = append(rows, m.st.faint.Render("  and "+itoa(len(waits)-i)+" more"))
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
				rows = append(rows, bar+m.st.faint.Render(itoa(len(lines)-i)+" more lines"))
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

// statusRow is the line over the input: what happens, and what is out of sight.
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
		case m.chat.Tool != "":
			what = "Running " + OneLine(m.chat.Tool)
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
			left += " · step " + itoa(t.Steps)
		}
		left += " · Esc stops"
	}
	switch n := m.below(); {
	case m.sheet != nil:
	case m.top != nil && n > 0:
		right = " " + itoa(n) + " new below · End "
	case m.top != nil:
		right = " End goes to the last message "
	}
	if left != "" {
		left = " " + ansi.Truncate(left, m.width-ansi.StringWidth(right)-4, "…") + " "
	}
	rule := func(n int) string { return m.st.faint.Render(strings.Repeat("─", max(n, 0))) }
	return rule(2) + left + rule(m.width-4-ansi.StringWidth(left)-ansi.StringWidth(right)) + right + rule(2)
}

// below counts the messages that came after the person scrolled up.
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

// hints is the last line.
func (m *Model) hints() string {
	switch {
	case m.leave:
		return m.st.warn.Render("Press Ctrl+C again to leave. The chat stays.")
	case m.conn == nil && m.tries > 0:
		return m.st.warn.Render("The connection was lost. Reconnecting… (try " + itoa(m.tries) + ")")
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

// height is how many lines a block takes with the empty one before it.
func (b block) height(first bool) int {
	if first || b.tight {
		return len(b.lines)
	}
	return len(b.lines) + 1
}

// place finds the first line to show in n lines, and the height of all.
func (m *Model) place(blocks []block, n int) (top, total int) {
	at := -1
	for i, b := range blocks {
		if m.top != nil && b.id == m.top.id && at < 0 {
			at = total + min(m.top.line, b.height(i == 0)-1)
		}
		total += b.height(i == 0)
	}
	end := max(total-n, 0)
	if m.top == nil {
		return end, total
	}
	return min(max(at, 0), end), total
}

// flatten gives n lines of the blocks from the line top on.
func flatten(blocks []block, top, n int) (out []string) {
	for i, b := range blocks {
		h := b.height(i == 0)
		if top >= h {
			top -= h
			continue
		}
		lines := b.lines
		if h > len(lines) {
			lines = append([]string{""}, lines...)
		}
		if out = append(out, lines[top:]...); len(out) >= n {
			return out[:n]
		}
		top = 0
	}
	return out
}

// scroll moves the pane by lines; at its end it follows what comes.
func (m *Model) scroll(by int) {
	n := m.paneHeight()
	if m.sheet != nil {
		for range max(by, -by) {
			m.pressSheet(map[bool]string{true: "up", false: "down"}[by < 0])
		}
		return
	}
	blocks := m.blocks()
	top, total := m.place(blocks, n)
	if top = max(top+by, 0); top >= total-n {
		m.top = nil
		return
	}
	if m.top == nil && len(m.chat.Messages) > 0 {
		m.seen = m.chat.Messages[len(m.chat.Messages)-1].Seq
	}
	for i, b := range blocks {
		if h := b.height(i == 0); top >= h {
			top -= h
			continue
		}
		m.top = &anchor{b.id, top}
		return
	}
}

func (m *Model) scrollKey(k string) {
	n := m.paneHeight()
	m.scroll(map[string]int{"pgup": 1 - n, "pgdown": n - 1, "home": -1 << 30, "end": 1 << 30}[k])
}

// click folds or unfolds the call in a row of the screen.
func (m *Model) click(y int) {
	above, _ := m.frameRows()
	blocks := m.blocks()
	top, _ := m.place(blocks, m.paneHeight())
	line := top + y - len(above)
	if m.sheet != nil || y < len(above) || y >= len(above)+m.paneHeight() {
		return
	}
	for i, b := range blocks {
		h := b.height(i == 0)
		if line >= h {
			line -= h
			continue
		}
		if id := b.calls[line-(h-len(b.lines))]; id != "" {
			m.open[id] = !m.isOpen(id)
			m.folds++
		}
		return
	}
}

func (m *Model) isOpen(call string) bool {
	if v, ok := m.open[call]; ok {
		return v
	}
	return m.unfold
}

// column is the width of the transcript: long lines are hard to read.
func (m *Model) column() int { return min(m.width, maxColumn) }

// blocks draws the transcript.
func (m *Model) blocks() (out []block) {
	c := &m.chat
	results := map[string]*agent.Part{}
	for i := range c.Messages {
		if c.Messages[i].Role == "tool" {
			for j := range c.Messages[i].Parts {
				p := &c.Messages[i].Parts[j]
				results[c.Messages[i].TurnID.String()+p.CallID] = p
			}
		}
	}
	if c.Older {
		note := "Reading earlier messages…"
		if len(c.Messages) >= maxMessages {
			note = "Earlier messages are left out: helix chat export " + c.Session.ID.String()
		}
		out = append(out, block{lines: []string{m.st.faint.Render(ansi.Truncate(note, m.width, "…"))}})
	}
	for _, msg := range c.Messages {
		if msg.Role == "tool" || msg.Hidden {
			continue
		}
		active := c.Turn != nil && c.Turn.TurnID == msg.TurnID
		if k, ok := m.cache[msg.ID]; ok && !active && k.width == m.width && k.folds == m.folds {
			out = append(out, k.block)
			continue
		}
		b := m.message(msg, results, active)
		if !active {
			m.cache[msg.ID] = cached{m.width, m.folds, b}
		}
		out = append(out, b)
	}
	if l := c.Live; l != nil {
		var b block
		if l.Restarted {
			b.lines = append(b.lines, m.st.faint.Render("  Answer restarted"))
		}
		for _, text := range []string{l.Before, l.Text()} {
			if text != "" {
				b.lines = append(b.lines, m.indented(text)...)
			}
		}
		if len(b.lines) > 0 {
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		out = append(out, block{lines: m.welcome()})
	}
	return out
}

func (m *Model) indented(text string) []string {
	lines := m.markdown(text, m.column()-2)
	for i, l := range lines {
		if l != "" {
			lines[i] = "  " + l
		}
	}
	return lines
}

// message draws a message.
func (m *Model) message(msg agent.Message, results map[string]*agent.Part, active bool) block {
	b := block{id: msg.ID, seq: msg.Seq, calls: map[int]string{}}
	texts := false
	for _, p := range msg.Parts {
		switch p.Kind {
		case agent.PartText, agent.PartNotice:
			switch {
			case p.Text == "":
			case msg.Role == "user":
				for i, line := range strings.Split(strings.TrimRight(tidy(p.Text), "\n"), "\n") {
					mark := map[bool]string{true: "> ", false: "  "}[i == 0]
					b.lines = append(b.lines, wrapped(m.st.bold.Render(line), m.column(), m.st.person.Render(mark), "  ")...)
				}
			case msg.Role == "assistant":
				texts = true
				b.lines = append(b.lines, m.indented(p.Text)...)
			default:
				b.lines = append(b.lines, wrapped(m.st.warn.Render(OneLine(p.Text)), m.column(), "· ", "  ")...)
			}
		case agent.PartToolCall:
			if texts {
				b.lines = append(b.lines, "")
				texts = false
			}
			b.calls[len(b.lines)] = p.CallID
			b.lines = append(b.lines, m.toolCall(p, results[msg.TurnID.String()+p.CallID], msg.At, active)...)
		case agent.PartImage, agent.PartFile, agent.PartSource:
			b.lines = append(b.lines, m.st.faint.Render(ansi.Truncate("  ["+p.Kind+" "+OneLine(first(p.Name, p.URL))+"]", m.width, "…")))
		}
	}
	b.tight = len(b.calls) > 0 && b.calls[0] != ""
	if len(b.lines) == 0 {
		b.tight = true
	}
	return b
}

func first(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}

// toolCall draws a call as one row, with its input and result below when it is unfolded.
func (m *Model) toolCall(p agent.Part, result *agent.Part, at time.Time, active bool) []string {
	status, mark, style := "skipped", "-", m.st.faint
	took := time.Duration(0)
	switch {
	case result != nil:
		status, took = result.Status, time.Duration(result.TookMs)*time.Millisecond
	case active && m.chat.Turn.State == agent.Waiting:
		status = "waiting"
	case active:
		status, took = "running", m.o.Now().Sub(at)
	}
	switch status {
	case "done":
		mark, style = "✓", m.st.good
	case "failed", "denied":
		mark, style = "✗", m.st.bad
	case "waiting", "unknown":
		mark, style = "?", m.st.warn
	case "running":
		mark = "…"
	}
	words := map[string]string{"waiting": "waits for you", "skipped": "not run"}
	right := first(words[status], status)
	if took >= 50*time.Millisecond {
		right += fmt.Sprintf(" · %.1f s", took.Seconds())
	}
	open := m.isOpen(p.CallID)
	right += map[bool]string{true: " ▾", false: " ▸"}[open]
	about := string(p.Args)
	if about == "" || about == "{}" {
		about = p.Title
	}
	left := "  " + style.Render(mark) + " " + m.st.bold.Render(OneLine(p.Tool)) + " " + m.st.faint.Render(OneLine(about))
	room := m.column() - ansi.StringWidth(right) - 2
	out := []string{beside(ansi.Truncate(left, room, "…"), style.Render(right), m.column())}
	if !open {
		return out
	}
	detail := func(text string) {
		var lines []string
		for l := range strings.SplitSeq(strings.TrimRight(tidy(text), "\n"), "\n") {
			lines = append(lines, strings.Split(ansi.Hardwrap(l, max(m.column()-6, 1), true), "\n")...)
		}
		for i, l := range lines {
			if i == maxDetail {
				out = append(out, m.st.faint.Render("    │ "+itoa(len(lines)-i)+" more lines"))
				break
			}
			out = append(out, strings.TrimRight(m.st.faint.Render("    │ ")+l, " "))
		}
	}
	detail(string(p.Args))
	if result != nil && result.Text != "" {
		if result.Untrusted {
			out = append(out, m.st.warn.Render("    │ From outside:"))
		}
		detail(result.Text)
	}
	return out
}

// welcome is the pane of a chat without messages.
func (m *Model) welcome() (out []string) {
	say := func(text string) { out = append(out, wrapped(text, m.width, "  ", "  ")...) }
	say("")
	switch {
	case m.known && !m.all.Ready && m.set.Model == "":
		say(m.st.bold.Render("Choose a model"))
		say("")
		say("Set up a model first, in another terminal:")
		say("")
		say("helix providers add NAME --type TYPE --base-url URL")
		say("helix providers role chat NAME/MODEL")
		say("")
		say("This page notices it.")
	case m.chat.Session.ID != uuid.Nil && (m.read || m.conn == nil):
		say(m.st.faint.Render("Reading the chat…"))
	default:
		say(m.st.bold.Render("Ask something, or give Helix a job."))
		say("")
		say(m.st.faint.Render("/sessions continues an earlier chat, /help shows what you can do."))
	}
	return out
}

// TextOf is what a message says.
func TextOf(msg agent.Message) string {
	var texts []string
	for _, p := range msg.Parts {
		if p.Kind == agent.PartText && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "")
}
