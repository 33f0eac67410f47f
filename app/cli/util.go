package cli

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"

	"helix/backend/fault"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// setIf sets key to v unless v is empty.
func setIf(m map[string]any, key, v string) {
	if v != "" {
		m[key] = v
	}
}

// first returns the first of its arguments that is not empty.
func first(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}

// secret reads one value from standard input, never from an argument, which other programs on this
// computer can see.
func (c *command) secret(prompt string) (string, error) {
	if isTerminal(c.env.Stdin) {
		c.say("%s(end with Enter, then Ctrl-D)", prompt)
	}
	b, err := io.ReadAll(io.LimitReader(c.env.Stdin, 1<<20))
	if err != nil {
		return "", err
	}
	v := strings.TrimRight(string(b), "\r\n")
	if v == "" {
		return "", fault.Invalidf("Standard input was empty.")
	}
	return v, nil
}
