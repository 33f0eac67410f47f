package tools

import (
	"regexp"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/js"
)

// emptyFor finds texts that may hold such a loop. It begins with a fixed word, which makes
// the search fast.
var emptyFor = regexp.MustCompile(`for\s*\(\s*;\s*;`)

// emptyForPlaces lists where "for (;;)" stands, in source order: such a loop has no part
// in the tree that would tell its place. A slash is read as a regular expression where a
// value may start; where that guess is wrong, places are missing, never findings.
func emptyForPlaces(text []byte) []int {
	if !emptyFor.Match(text) { // nearly always: the lexer need not run
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
