package memory

import (
	"strings"
	"unicode/utf8"

	"helix/backend/memory/search"
)

// section is a part of a Markdown text under one heading, in bytes.
type section struct {
	heading    string
	start, end int
}

const headingMax = 120 // characters of one heading

// cutSections cuts Markdown at its headings (# to ######, CommonMark 0.31 section 4.2), ignoring
// fenced code blocks. A heading with no text under it belongs to the section that follows.
func cutSections(text string) []section {
	var out []section
	var path [6]string
	heading, start, bare := "", 0, false // bare: only headings since start
	fence := ""
	for pos := 0; pos < len(text); {
		end := len(text)
		if i := strings.IndexByte(text[pos:], '\n'); i >= 0 {
			end = pos + i + 1
		}
		line := strings.TrimSpace(text[pos:end])
		level, title := 0, ""
		switch {
		case fence != "":
			if strings.HasPrefix(line, fence) && strings.Trim(line, fence[:1]) == "" {
				fence = ""
			}
		case strings.HasPrefix(line, "```"), strings.HasPrefix(line, "~~~"):
			fence = line[:len(line)-len(strings.TrimLeft(line, line[:1]))]
		default:
			level, title = atxHeading(text[pos:end])
		}
		switch {
		case level > 0:
			if pos > start && !bare {
				out = append(out, section{heading, start, pos})
				start = pos
			}
			path[level-1] = title
			clear(path[level:])
			heading, bare = joinHeadings(path[:level]), true
		case line != "":
			bare = false
		}
		pos = end
	}
	return append(out, section{heading, start, len(text)})
}

// atxHeading parses a heading line. Level 0 means that the line is not a heading.
func atxHeading(line string) (level int, title string) {
	s := strings.TrimLeft(line, " ")
	if len(line)-len(s) > 3 {
		return 0, ""
	}
	rest := strings.TrimLeft(s, "#")
	level = len(s) - len(rest)
	if level < 1 || level > 6 || rest != "" && !strings.ContainsAny(rest[:1], " \t\r\n") {
		return 0, ""
	}
	title = strings.TrimSpace(rest)
	if bare := strings.TrimRight(title, "#"); bare == "" || strings.HasSuffix(bare, " ") {
		title = strings.TrimSpace(bare)
	}
	return level, cutRunes(title, headingMax)
}

func joinHeadings(path []string) string {
	var named []string
	for _, h := range path {
		if h != "" {
			named = append(named, h)
		}
	}
	return strings.Join(named, search.HeadingJoin)
}

// cutRunes returns the first n characters of s, or all of s if it is shorter.
func cutRunes(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	return s[:forward(s, 0, len(s), n)]
}
