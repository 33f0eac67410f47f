package tools

import (
	"regexp"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
)

// emptyFor finds texts that may contain such a loop. It begins with a literal, which makes
// the search fast.
var emptyFor = regexp.MustCompile(`for\s*\(\s*;\s*;`)

// emptyForPlaces returns the offsets of "for (;;)" in source order. The syntax tree has no node
// with the position of such a loop. A slash is taken for a regular expression where a value may
// begin; a wrong guess loses positions but no findings.
func emptyForPlaces(text []byte) []int {
	if !emptyFor.Match(text) { // the usual case: no need to tokenize
		return nil
	}
	buf := make([]byte, len(text), len(text)+1)
	copy(buf, text)
	in := parse.NewInputBytes(buf)
	l := js.NewLexer(in)
	var out []int
	want := []js.TokenType{js.ForToken, js.OpenParenToken, js.SemicolonToken, js.SemicolonToken, js.CloseParenToken}
	step, start := 0, 0
	valueBefore := false
	for {
		tt, data := l.Next()
		if (tt == js.DivToken || tt == js.DivEqToken) && !valueBefore {
			tt, data = l.RegExp()
		}
		switch tt {
		case js.ErrorToken:
			return out
		case js.WhitespaceToken, js.LineTerminatorToken, js.CommentToken, js.CommentLineTerminatorToken:
			continue
		}
		valueBefore = js.IsIdentifier(tt) || js.IsNumeric(tt) || tt == js.StringToken || tt == js.RegExpToken ||
			tt == js.CloseParenToken || tt == js.CloseBracketToken || tt == js.CloseBraceToken || tt == js.ThisToken
		if tt != want[step] {
			step = 0
		}
		if tt == want[step] {
			if step == 0 {
				start = in.Offset() - len(data)
			}
			if step++; step == len(want) {
				out, step = append(out, start), 0
			}
		}
	}
}
