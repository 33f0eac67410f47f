package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/registry"
	"github.com/theory/jsonpath/spec"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// newParser returns a parser for one expression with the functions of RFC 9535. It replaces match
// and search, because those of the library fail on an argument that matches nothing, compile the
// pattern for each node, and anchor only the outer alternatives of a pattern.
func newParser() *jsonpath.Parser {
	r := registry.New()
	patterns := patternCache{all: map[patternKey]*regexp.Regexp{}}
	for name, whole := range map[string]bool{"match": true, "search": false} {
		err := r.Register(ours+name, spec.FuncLogical, twoValues, func(args []spec.PathValue) spec.PathValue {
			return spec.Logical(patterns.matches(args, whole))
		})
		if err != nil {
			panic(err) // the names are constants
		}
	}
	return jsonpath.NewParser(jsonpath.WithRegistry(r))
}

func twoValues(args []spec.FuncExprArg) error {
	if len(args) != 2 {
		return errors.New("two arguments are needed")
	}
	for _, a := range args {
		if !a.ConvertsTo(spec.FuncValue) {
			return errors.New("both arguments must be single values")
		}
	}
	return nil
}

func (c *patternCache) matches(args []spec.PathValue, whole bool) bool {
	var s [2]string
	for i := range s {
		v := spec.ValueFrom(args[i])
		if v == nil {
			return false
		}
		var ok bool
		if s[i], ok = v.Value().(string); !ok {
			return false
		}
	}
	re := c.get(s[1], whole)
	return re != nil && re.MatchString(s[0])
}

// maxPatterns is the maximum number of cached patterns.
const maxPatterns = 256

type patternKey struct {
	text  string
	whole bool
}

// patternCache caches the compiled patterns of one expression, which may come from the document. It
// is cleared when full.
type patternCache struct {
	mu  sync.Mutex
	all map[patternKey]*regexp.Regexp // nil: an invalid pattern
}

// get compiles a regular expression of RFC 9485 for RE2. A dot does not match a line end.
func (c *patternCache) get(text string, whole bool) *regexp.Regexp {
	if len(text) > MaxText {
		return nil
	}
	k := patternKey{text, whole}
	c.mu.Lock()
	re, ok := c.all[k]
	c.mu.Unlock()
	if ok {
		return re
	}
	re = compilePattern(text, whole)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= maxPatterns {
		clear(c.all)
	}
	c.all[k] = re
	return re
}

func compilePattern(text string, whole bool) *regexp.Regexp {
	tree, err := syntax.Parse(text, syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil
	}
	dots(tree)
	text = tree.String()
	if whole {
		text = `\A(?:` + text + `)\z`
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return re
}

// notLineEnd is the meaning of a dot in RFC 9485.
var notLineEnd = func() *syntax.Regexp {
	re, err := syntax.Parse(`[^\n\r]`, syntax.Perl)
	if err != nil {
		panic(err)
	}
	return re
}()

func dots(re *syntax.Regexp) {
	if re.Op == syntax.OpAnyChar {
		*re = *notLineEnd
		return
	}
	for _, sub := range re.Sub {
		dots(sub)
	}
}

func decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fault.Invalidf("not JSON: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fault.Invalidf("not JSON: there is more after the value")
	}
	if err := jcs.CheckNumbers(b); err != nil {
		return nil, err
	}
	return v, nil
}
