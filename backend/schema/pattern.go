package schema

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of patterns. Without them, a pattern of a few bytes could become a program of more than a
// hundred megabytes.
const (
	maxPatternBytes  = 4 << 10
	maxProgram       = 10_000 // instructions of one pattern
	maxPrograms      = 50_000 // of all patterns in a schema
	maxPatternEffort = 32 << 10
	classEffort      = 1000 // a Unicode class or a folded range counts as this many bytes
)

var (
	errPatternSize = errors.New("it is too large")
	errPatterns    = errors.New("the patterns of the schema are too large together")
)

// pattern is a regular expression with a known running time: at most size steps per rune.
type pattern struct {
	*regexp.Regexp
	size int
}

// patterns compiles the regular expressions of one schema within one limit.
type patterns struct {
	known  map[string]*pattern
	size   int
	effort int
}

func newPatterns() *patterns { return &patterns{known: map[string]*pattern{}} }

func (ps *patterns) compile(text string) (jsonschema.Regexp, error) {
	if p := ps.known[text]; p != nil {
		return p, nil
	}
	size, err := parsePattern(text)
	if err != nil {
		return nil, err
	}
	if ps.effort += effort(text); ps.effort > maxPatternEffort {
		return nil, errPatterns
	}
	if ps.size += size; ps.size > maxPrograms {
		return nil, errPatterns
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := &pattern{compiled, size}
	ps.known[text] = p
	return p, nil
}

// parsePattern returns the size of a pattern's program without compiling it.
func parsePattern(text string) (size int, err error) {
	if len(text) > maxPatternBytes || effort(text) > maxPatternEffort {
		return 0, errPatternSize
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		var e *syntax.Error
		if errors.As(err, &e) && e.Code == syntax.ErrInvalidPerlOp {
			return 0, errors.New("patterns have no look-around and no back-references")
		}
		return 0, fmt.Errorf("it is not a regular expression without look-around and back-references: %w", err)
	}
	if size = programSize(re); size > maxProgram {
		return 0, errPatternSize
	}
	return size, nil
}

// effort returns the cost of parsing a pattern, in bytes of plain text.
func effort(text string) int {
	n := len(text) + classEffort*(strings.Count(text, `\p`)+strings.Count(text, `\P`))
	if strings.Contains(text, "(?") {
		n += classEffort * strings.Count(text, "-")
	}
	return n
}

// programSize returns an upper bound of the number of instructions of a parsed pattern before it is
// compiled.
func programSize(re *syntax.Regexp) int {
	n := 1
	for _, sub := range re.Sub {
		n = min(n+programSize(sub), maxProgram+1)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpCapture:
		n++
	case syntax.OpRepeat:
		n *= max(re.Min, re.Max, 1) + 1
	}
	return min(n, maxProgram+1)
}

// match counts the work of a match, and stops when the work is used up.
func (c *checker) match(p *pattern, s string) bool {
	perRune := 1 + p.size
	if len(s)*perRune <= lookEvery {
		c.spend(20 + len(s)*perRune)
		return p.MatchString(s)
	}
	c.spend(20)
	r := &countedReader{s: s, c: c, cost: perRune}
	ok := p.MatchReader(r)
	c.look = c.left // reading may have stopped for either reason
	c.spend(r.spent + 1)
	return ok
}

// countedReader ends early when the check has no work left. It must not panic, because the regular
// expression would not release its machine.
type countedReader struct {
	s     string
	c     *checker
	cost  int
	spent int
}

// ReadRune implements io.RuneReader.
func (r *countedReader) ReadRune() (rune, int, error) {
	if r.s == "" || r.spent > r.c.left {
		return 0, 0, io.EOF
	}
	if r.spent += r.cost; r.spent > lookEvery {
		r.c.left -= r.spent
		if r.spent = 0; r.c.ctx.Err() != nil {
			r.s = ""
			return 0, 0, io.EOF
		}
	}
	x, n := utf8.DecodeRuneInString(r.s)
	r.s = r.s[n:]
	return x, n, nil
}
