package tui

import (
	"regexp"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Visible keeps the lines of a text and replaces characters that could move a terminal's cursor or
// change the direction of the text after them. Direction marks, which right-to-left texts use, are
// removed.
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case r == '\u200e' || r == '\u200f' || r == '\u061c':
			return -1
		case unicode.IsControl(r), unicode.In(r, unicode.Bidi_Control), r == '\u2028', r == '\u2029':
			return '\ufffd'
		}
		return r
	}, s)
}

// oneLine makes a text safe to show in one line.
func oneLine(s string) string { return strings.Join(strings.Fields(Visible(s)), " ") }

// styles of the interface. They use the colors of the terminal's theme, and are never the only
// distinction.
type styles struct{ faint, bold, code, person, good, bad, warn lipgloss.Style }

func newStyles() styles {
	s := lipgloss.NewStyle
	color := func(c string) lipgloss.Style { return s().Foreground(lipgloss.Color(c)) }
	return styles{s().Faint(true), s().Bold(true), color("6"), color("4").Bold(true), color("2"), color("1"), color("3")}
}

// tidy expands tabs, so that columns of code stay aligned, and makes a text safe to show.
func tidy(s string) string {
	return Visible(strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\t", "    "))
}

// wrapped breaks a styled text into lines of the given width. first is the prefix of the first
// line, rest that of the others; both must have the same width.
func wrapped(s string, width int, first, rest string) (out []string) {
	width = max(width-ansi.StringWidth(first), 1)
	for i, line := range strings.Split(lipgloss.Wrap(s, width, ""), "\n") {
		if ansi.StringWidth(line) > width { // a wide character does not fit into the remaining width
			line = ansi.Truncate(line, width, "")
		}
		if i > 0 {
			first = rest
		}
		out = append(out, strings.TrimRight(first+line, " "))
	}
	return out
}

// fit truncates a text to a width and pads it with spaces.
func fit(s string, width int) string {
	s = ansi.Truncate(s, max(width, 0), "…")
	return s + strings.Repeat(" ", max(width-ansi.StringWidth(s), 0))
}

// beside puts two texts at the ends of a line. The left one is truncated if necessary.
func beside(left, right string, width int) string {
	right = ansi.Truncate(right, max(width, 0), "…")
	return fit(left, width-ansi.StringWidth(right)) + right
}

// markers match the beginnings of Markdown lines.
type markers struct{ item, heading, rule *regexp.Regexp }

func newMarkers() markers {
	return markers{regexp.MustCompile(`^( *)([-*+]|\d{1,3}[.)]) +(.*)$`), regexp.MustCompile(`^#{1,6} +(.*?)[ #]*$`), regexp.MustCompile(`^ {0,3}(?:-{3,}|\*{3,}|_{3,})$`)}
}

// markdown renders the Markdown that models write as lines of the given width: headings, bold,
// code, lists and quotations. Anything else is left unchanged.
func (m *Model) markdown(text string, width int) (out []string) {
	fence := ""
	for line := range strings.SplitSeq(strings.TrimRight(tidy(text), "\n"), "\n") {
		trimmed := strings.TrimSpace(line)
		mark := trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`~"))]
		item := m.md.item.FindStringSubmatch(line)
		switch {
		case fence != "":
			if len(mark) >= len(fence) && mark == trimmed && mark[0] == fence[0] {
				fence = ""
				continue
			}
			bar := m.st.faint.Render("│ ")
			for part := range strings.SplitSeq(ansi.Hardwrap(line, max(width-2, 1), true), "\n") {
				out = append(out, strings.TrimRight(bar+m.st.code.Render(part), " "))
			}
		case len(mark) >= 3:
			fence = mark
		case m.md.rule.MatchString(line):
			out = append(out, m.st.faint.Render(strings.Repeat("─", max(width, 1))))
		case m.md.heading.MatchString(line):
			out = append(out, wrapped(m.st.bold.Render(strings.ReplaceAll(m.md.heading.FindStringSubmatch(line)[1], "**", "")), width, "", "")...)
		case item != nil:
			lead := item[1][:min(len(item[1]), max(width/2, 0))]
			if mark := item[2]; len(mark) == 1 {
				lead += "• "
			} else {
				lead += mark + " "
			}
			out = append(out, wrapped(m.inline(item[3]), width, lead, strings.Repeat(" ", ansi.StringWidth(lead)))...)
		case strings.HasPrefix(trimmed, ">"):
			bar := m.st.faint.Render("▏ ")
			out = append(out, wrapped(m.inline(strings.TrimSpace(trimmed[1:])), width, bar, bar)...)
		default:
			out = append(out, wrapped(m.inline(line), width, "", "")...)
		}
	}
	return out
}

// inline renders **bold** and `code` in a line.
func (m *Model) inline(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, "`*")
		if i < 0 {
			break
		}
		mark, style := s[i:i+1], m.st.code
		if strings.HasPrefix(s[i:], "**") {
			mark, style = "**", m.st.bold
		}
		body := s[i+len(mark):]
		end := strings.Index(body, mark)
		if mark == "*" || end <= 0 || mark == "**" && strings.TrimSpace(body[:end]) != body[:end] {
			b.WriteString(s[:i+len(mark)])
			s = body
			continue
		}
		b.WriteString(s[:i] + style.Render(body[:end]))
		s = body[end+len(mark):]
	}
	return b.String() + s
}
