// Package lazyregexp compiles regular expressions at their first use, like internal/lazyregexp in
// the source of Go. A program that starts for one command pays only for the expressions it needs.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expr. Its first call panics if expr is not a
// regular expression.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
