package tui

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/duration"
)

// block is a part of the transcript.
type block struct {
	id    uuid.UUID // of its message; Nil: the live answer
	seq   int64     // of its message
	lines []string
	calls map[int]string // lines that are rows of calls
	tight bool           // no empty line before it
}

// cached is a block drawn for a width and a fold state.
type cached struct {
	width, folds int
	block        block
}

// anchor is the line at the top of the pane while the user has scrolled up.
type anchor struct {
	id   uuid.UUID
	line int
}

// height returns the number of lines of a block, including the empty line before it.
func (b block) height(first bool) int {
	if first || b.tight {
		return len(b.lines)
	}
	return len(b.lines) + 1
}

// place returns the first line to show in n lines, and the total height.
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

// flatten returns n lines of the blocks, starting at the line top.
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

// scroll scrolls the pane; at the end it follows new lines.
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

// column returns the width of the transcript: long lines are hard to read.
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
		if k, ok := m.cache[msg.ID]; ok && !active && k.width == m.width && (k.folds == m.folds || len(k.block.calls) == 0) {
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
				b.lines = append(b.lines, wrapped(m.st.warn.Render(oneLine(p.Text)), m.column(), "· ", "  ")...)
			}
		case agent.PartToolCall:
			if texts {
				b.lines = append(b.lines, "")
				texts = false
			}
			b.calls[len(b.lines)] = p.CallID
			b.lines = append(b.lines, m.toolCall(p, results[msg.TurnID.String()+p.CallID], msg.At, active)...)
		case agent.PartImage, agent.PartFile, agent.PartSource:
			b.lines = append(b.lines, m.st.faint.Render(ansi.Truncate("  ["+p.Kind+" "+oneLine(cmp.Or(p.Name, p.URL))+"]", m.width, "…")))
		}
	}
	b.tight = len(b.calls) > 0 && b.calls[0] != ""
	if len(b.lines) == 0 {
		b.tight = true
	}
	return b
}

// toolCall draws a call as one row, followed by its input and result if it is unfolded.
func (m *Model) toolCall(p agent.Part, result *agent.Part, at time.Time, active bool) []string {
	status, mark, style := "skipped", "-", m.st.faint
	took := time.Duration(0)
	switch {
	case result != nil:
		status, took = result.Status, duration.Of(result.TookMs, time.Millisecond)
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
	right := cmp.Or(words[status], status)
	if took >= 50*time.Millisecond {
		right += fmt.Sprintf(" · %.1f s", took.Seconds())
	}
	open := m.isOpen(p.CallID)
	right += map[bool]string{true: " ▾", false: " ▸"}[open]
	about := string(p.Args)
	if about == "" || about == "{}" {
		about = p.Title
	}
	left := "  " + style.Render(mark) + " " + m.st.bold.Render(oneLine(p.Tool)) + " " + m.st.faint.Render(oneLine(about))
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
				out = append(out, m.st.faint.Render("    │ "+strconv.Itoa(len(lines)-i)+" more lines"))
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

// welcome draws the pane of a chat without messages.
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
		say(m.st.bold.Render("Ask a question or give Helix a task."))
		say("")
		say(m.st.faint.Render("/sessions continues an earlier chat, /help shows what you can do."))
	}
	return out
}

// TextOf returns the text of a message.
func TextOf(msg agent.Message) string {
	var texts []string
	for _, p := range msg.Parts {
		if p.Kind == agent.PartText && p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "")
}
