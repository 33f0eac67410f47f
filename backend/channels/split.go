package channels

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// split cuts a text into parts that fit the limits, at paragraphs, lines or words where possible. A code
// fence that is cut is closed and opened again.
func split(text string, l Limits) (parts []string) {
	text = strings.TrimSpace(text)
	fence := "" // the line that opened the block of code that text continues
	for text != "" {
		head := fence
		if head != "" {
			head += "\n"
		}
		if l.Unit(head+text) <= l.Text {
			return append(parts, head+text)
		}
		const closing = "\n```"
		room := l.Text - l.Unit(head) - l.Unit(closing)
		n := cut(text, room, l.Unit)
		part := head + strings.TrimRight(text[:n], " \n")
		text = strings.TrimLeft(text[n:], "\n")
		if fence = openFence(part); fence != "" {
			part += closing
		} else {
			text = strings.TrimLeft(text, " ")
		}
		if strings.TrimSpace(part) != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// cut returns the length of the longest beginning of a text that fits room, cut at the best border.
func cut(text string, room int, unit func(string) int) int {
	n, used := 0, 0
	state := -1
	for rest := text; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		size := unit(cluster)
		if used+size > room {
			if n == 0 { // one character larger than a message
				n = runesThatFit(cluster, room, unit)
			}
			break
		}
		n, used = n+len(cluster), used+size
	}
	for _, border := range []string{"\n\n", "\n", " "} {
		if i := strings.LastIndex(text[:n], border); i > n/4 {
			return i + len(border)
		}
	}
	return n
}

func runesThatFit(s string, room int, unit func(string) int) (n int) {
	for n < len(s) {
		_, size := utf8.DecodeRuneInString(s[n:])
		if n > 0 && unit(s[:n+size]) > room {
			break
		}
		n += size
	}
	return n
}

// openFence returns the line that opened a block of code which the text does not close; "": none.
func openFence(text string) (open string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "```") {
			if open == "" {
				open = line[:min(len(line), 40)]
			} else if strings.Trim(line, "`") == "" {
				open = ""
			}
		}
	}
	return strings.ToValidUTF8(open, "")
}

// utf16Units counts a text as Telegram does.
func utf16Units(s string) (n int) {
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}
