package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"helix/backend/callable"
	"helix/backend/fault"
)

type callCmd struct {
	Name    string `arg:"" optional:"" help:"Name or ID, with the kind if ambiguous, such as tool:NAME or skill:ID."`
	Input   string `help:"JSON, @file or -. Default: {}." placeholder:"JSON"`
	Version string `help:"Call this version."`
	List    bool   `help:"List everything that can be called, or only what matches NAME."`
}

func (r *callCmd) Run(c *command) error {
	c.runsCode = true
	if r.List || r.Name == "" {
		return r.list(c)
	}
	input, err := c.input(r.Input)
	if err != nil {
		return err
	}
	p := callable.CallParams{Name: r.Name, Input: input, Version: r.Version}
	if kind, name, ok := strings.Cut(r.Name, ":"); ok {
		p.Kind, p.Name = callable.Kind(kind), name
	}
	var out callable.CallResult
	raw, err := c.call("callables.call", p, &out)
	if err != nil {
		return c.refused(err)
	}
	for _, n := range out.Notes {
		c.say("%s", plain(n))
	}
	if c.JSON {
		return c.printJSON(raw)
	}
	return c.printJSON(out.Output)
}

// refused prints how to answer the approval of a refused call.
func (c *command) refused(err error) error {
	var waiting struct{ PendingApprovalID string }
	b, jerr := json.Marshal(fault.As(err).Details)
	if jerr != nil || json.Unmarshal(b, &waiting) != nil || waiting.PendingApprovalID == "" || strings.Trim(waiting.PendingApprovalID, "0-") == "" {
		return err
	}
	fmt.Fprintf(c.env.Stderr, "helix: %s\nAnswer it with: helix approvals decide %s --approve\n", fault.As(err).Message, waiting.PendingApprovalID)
	return failed{ExitCode(fault.As(err).Kind)}
}

func (r *callCmd) list(c *command) error {
	var out callable.ListResult
	raw, err := c.call("callables.list", callable.ListParams{Query: r.Name}, &out)
	if err != nil || c.JSON {
		if err == nil {
			err = c.printJSON(raw)
		}
		return err
	}
	list(c, out.Callables, "", []string{"KIND", "NAME", "BLOCKED", "DESCRIPTION"}, func(i callable.Info) []string {
		return []string{string(i.Kind), plain(i.Name), string(i.Blocked), plain(i.Description)}
	})
	return nil
}
