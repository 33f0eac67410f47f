package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

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

// readFile reads a file that the command names.
func readFile(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.NotFoundf("File %s not found.", name)
	}
	if err != nil {
		return nil, fault.Invalidf("Couldn't read %s.", name).WithCause(err)
	}
	return b, nil
}

// approveByName shows what is asked for, and wants its name typed: a script can't approve.
func (c *command) approveByName(name string, show func()) error {
	if !isTerminal(c.env.Stdin) {
		return fault.Deniedf("Only a person can approve a tool. Run this command in a terminal.")
	}
	show()
	fmt.Fprintf(c.env.Stderr, "Type the name of the tool to approve it: ")
	var answer string
	if _, err := fmt.Fscanln(c.env.Stdin, &answer); err != nil || answer != name {
		return fault.New(fault.Canceled, "Nothing was approved.")
	}
	return nil
}

// callAfterInterrupt makes a call, such as one that cancels, after Ctrl-C.
func (c *command) callAfterInterrupt(method string, params, out any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 10*time.Second)
	defer cancel()
	return c.conn.Call(ctx, method, params, out)
}
