package channels

import (
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// telegramHTML renders Markdown in the HTML that Telegram takes: b, i, s, a, code, pre and blockquote.
// Everything else is text. What is shown has never more characters than the Markdown, so a part that
// fits the limit still does. No tag is inside code, a link or another tag of its kind.
func telegramHTML(text string) string {
	var b strings.Builder
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if i > 0 {
			b.WriteByte('\n')
		}
		line := lines[i]
		if info, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			if n := slices.IndexFunc(lines[i+1:], closesFence); n > 0 {
				writePre(&b, info, strings.Join(lines[i+1:i+1+n], "\n"))
				i += n + 1
				continue
			}
		}
		if quoted(line) {
			b.WriteString("<blockquote>")
			for first := i; i < len(lines) && quoted(lines[i]); i++ {
				if i > first {
					b.WriteByte('\n')
				}
				writeInline(&b, strings.TrimPrefix(strings.TrimPrefix(lines[i], ">"), " "), nil)
			}
			b.WriteString("</blockquote>")
			i--
			continue
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			b.WriteString("<b>")
			writeInline(&b, m[1], []string{"b"})
			b.WriteString("</b>")
			continue
		}
		writeInline(&b, line, nil)
	}
	return b.String()
}

var (
	heading  = regexp.MustCompile(`^#{1,6} +(\S.*)$`)
	language = regexp.MustCompile(`^[A-Za-z0-9_+#.-]{1,32}$`)
)

func closesFence(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "```") && strings.Trim(line, "`") == ""
}

func quoted(line string) bool {
	return strings.HasPrefix(line, ">") && strings.Trim(line, "> \t") != ""
}

func writePre(b *strings.Builder, name, code string) {
	if name = strings.TrimSpace(name); language.MatchString(name) {
		b.WriteString(`<pre><code class="language-` + name + `">` + html.EscapeString(code) + "</code></pre>")
		return
	}
	b.WriteString("<pre>" + html.EscapeString(code) + "</pre>")
}

// marks are the delimiters of inline formats, longer ones first.
var marks = []struct{ mark, tag string }{{"**", "b"}, {"__", "b"}, {"~~", "s"}, {"*", "i"}, {"_", "i"}}

// writeInline writes a line. open lists the tags that are around it.
func writeInline(b *strings.Builder, s string, open []string) {
	plain := 0 // s[plain:i] waits to be written
	for i := 0; i < len(s); {
		skip, write := inlineAt(s, i, open)
		if skip == 0 {
			i++
			continue
		}
		b.WriteString(html.EscapeString(s[plain:i]))
		if write != nil {
			write(b)
		}
		i += skip
		plain = i
	}
	b.WriteString(html.EscapeString(s[plain:]))
}

// inlineAt returns how many bytes the format that begins at s[i] has, and what writes it; 0: none does.
func inlineAt(s string, i int, open []string) (int, func(*strings.Builder)) {
	rest := s[i:]
	switch c := rest[0]; {
	case c == '\\' && len(rest) > 1 && strings.IndexByte("\\`*_{}[]()#+-.!~>", rest[1]) >= 0:
		return 2, func(b *strings.Builder) { b.WriteString(html.EscapeString(rest[1:2])) }
	case c == '`' && len(open) == 0:
		fence := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		if end := strings.Index(rest[len(fence):], fence); end > 0 && strings.TrimSpace(rest[len(fence):len(fence)+end]) != "" {
			code := strings.TrimSpace(rest[len(fence) : len(fence)+end])
			return end + 2*len(fence), func(b *strings.Builder) { b.WriteString("<code>" + html.EscapeString(code) + "</code>") }
		}
		return 0, nil
	case c == '[' && !slices.Contains(open, "a"):
		return linkAt(rest, open)
	}
	for _, m := range marks {
		if !strings.HasPrefix(rest, m.mark) || insideWord(s, i, m.mark) {
			continue
		}
		inner := rest[len(m.mark):]
		end := strings.Index(inner, m.mark)
		if end <= 0 || startsWithSpace(inner) || endsWithSpace(inner[:end]) || m.mark[0] == '_' && insideWord(s, i+len(m.mark)+end, m.mark) {
			continue
		}
		return end + 2*len(m.mark), func(b *strings.Builder) {
			if slices.Contains(open, m.tag) { // such as bold text in a heading
				writeInline(b, inner[:end], open)
				return
			}
			b.WriteString("<" + m.tag + ">")
			writeInline(b, inner[:end], append(open[:len(open):len(open)], m.tag))
			b.WriteString("</" + m.tag + ">")
		}
	}
	return 0, nil
}

// linkAt returns the length of a link [text](address) to the web or of mail, and what writes it.
func linkAt(s string, open []string) (int, func(*strings.Builder)) {
	label, rest, ok := strings.Cut(s[1:], "](")
	address, _, closed := strings.Cut(rest, ")")
	if !ok || !closed || label == "" || strings.ContainsAny(label, "[]") || strings.ContainsAny(address, " \"'<>") {
		return 0, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "mailto" || !utf8.ValidString(address) {
		return 0, nil
	}
	return len(label) + len(address) + 4, func(b *strings.Builder) {
		b.WriteString(`<a href="` + html.EscapeString(address) + `">`)
		writeInline(b, label, append(open[:len(open):len(open)], "a"))
		b.WriteString("</a>")
	}
}

// insideWord reports whether a delimiter has letters or digits on both sides, as in snake_case and 2*3*4.
func insideWord(s string, i int, mark string) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i+len(mark):])
	return word(before) && word(after)
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func startsWithSpace(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsSpace(r)
}

func endsWithSpace(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsSpace(r)
}
