package openapi

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// countRefs counts the references in a tree.
func countRefs(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["$ref"].(string); ok {
			n++
		}
		for _, x := range v {
			n += countRefs(x)
		}
	case []any:
		for _, x := range v {
			n += countRefs(x)
		}
	}
	return n
}

// refError is a reference that cannot be followed.
type refError struct{ ref, why string }

func (e *refError) Error() string { return fmt.Sprintf("the reference %.200q %s", e.ref, e.why) }

// follow returns the object that v is, or refers to. Only references within the document are
// followed; nothing is ever fetched.
func (d *Document) follow(v any) (map[string]any, error) {
	m := object(v)
	for range maxRefChain {
		ref, ok := m["$ref"].(string)
		if !ok {
			return m, nil
		}
		to, err := d.at(ref)
		if err != nil {
			return nil, err
		}
		if m, ok = to.(map[string]any); !ok {
			return nil, &refError{ref, "doesn't lead to an object"}
		}
	}
	return nil, &refError{text(m["$ref"]), "leads in a circle"}
}

// at returns the value that a reference names.
func (d *Document) at(ref string) (any, error) {
	parts, err := pointer(ref)
	if err != nil {
		return nil, err
	}
	v := any(d.root)
	for _, p := range parts {
		ok := false
		switch x := v.(type) {
		case map[string]any:
			v, ok = x[p]
		case []any:
			i, err := strconv.Atoi(p)
			if ok = err == nil && i >= 0 && i < len(x) && strconv.Itoa(i) == p; ok {
				v = x[i]
			}
		}
		if !ok {
			return nil, &refError{ref, "leads nowhere"}
		}
	}
	return v, nil
}

// pointer splits a reference within the document into its parts.
func pointer(ref string) ([]string, error) {
	frag, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, &refError{ref, "leads out of the document"}
	}
	if frag == "" {
		return nil, nil
	}
	if frag[0] != '/' {
		return nil, &refError{ref, "is not a JSON pointer"}
	}
	if s, err := url.PathUnescape(frag); err == nil {
		frag = s
	}
	parts := strings.Split(frag[1:], "/")
	for i, p := range parts {
		parts[i] = unescapePointer.Replace(p)
	}
	return parts, nil
}

var (
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
)
