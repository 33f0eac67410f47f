package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"helix/backend/fault"
	"helix/backend/permission"
)

type approvalsCmd struct {
	List approvalsListCmd `cmd:"" default:"withargs" help:"List requests waiting for an answer." with:"{\"limit\":100}"`
	Show struct {
		ID string `arg:""`
	} `cmd:"" help:"Show one request in full." call:"approvals.get"`
	Decide approvalsDecideCmd `cmd:"" help:"Approve or deny; needs a terminal."`
	Watch  approvalsWatchCmd  `cmd:"" help:"Print each new request until interrupted."`
}

// wanted returns what is asked: the capabilities, or a question with its choices.
func wanted(a *permission.Approval) string {
	if a.Question != nil {
		ids := []string{}
		for _, c := range a.Question.Choices {
			ids = append(ids, c.ID)
		}
		return a.Sentence + " [" + strings.Join(ids, ", ") + "]"
	}
	parts := []string{}
	for _, r := range a.Requested {
		parts = append(parts, capability(string(r.Capability), r.Resource))
	}
	return strings.Join(parts, ", ")
}

func capability(c, r string) string {
	if r == "" {
		return c
	}
	return c + "(" + r + ")"
}

type approvalsListCmd struct {
	Status string `default:"pending" help:"pending, approved, denied, expired or superseded."`
}

func (*approvalsListCmd) Run(c *command) error {
	return answer(c, "approvals.list", func(r permission.ListApprovalsResult) {
		if len(r.Approvals) == 0 {
			c.say("No requests are waiting.")
			return
		}
		rows := [][]string{}
		for i := range r.Approvals {
			a := &r.Approvals[i]
			rows = append(rows, []string{a.ID.String(), first(a.Subject.Name, a.Subject.ID), wanted(a), fmt.Sprint(a.Count), ago(a.CreatedAt)})
		}
		c.table([]string{"ID", "WHO", "WANTS", "COUNT", "ASKED"}, rows)
	})
}

type approvalsDecideCmd struct {
	ID       string        `arg:""`
	Approve  bool          `xor:"answer" required:"" help:"Approve it."`
	Deny     bool          `xor:"answer" required:"" help:"Deny it."`
	Choice   string        `help:"Choice to select, such as retry."`
	Data     string        `help:"Form data as JSON."`
	Scope    string        `default:"once" enum:"once,run,session,always" help:"How long the approval lasts (${enum})."`
	Expires  time.Duration `help:"With --scope=always: expire after this long."`
	Rerun    bool          `help:"Run again with the same input."`
	Remember bool          `help:"With --deny: always deny this request."`
}

func (d *approvalsDecideCmd) Run(c *command) error {
	if !isTerminal(c.env.Stdin) {
		return fault.Deniedf("Approving needs a person. Run this in a terminal.")
	}
	var a permission.GetApprovalResult
	if _, err := c.call("approvals.get", map[string]any{"id": d.ID}, &a); err != nil {
		return err
	}
	p := map[string]any{"id": d.ID, "definitionHash": a.DefinitionHash, "decision": "deny"}
	if d.Approve {
		p["decision"], p["scope"] = "approve", d.Scope
		if d.Expires > 0 {
			p["expiresAt"] = time.Now().Add(d.Expires).UTC()
		}
	}
	setIf(p, "choice", d.Choice)
	if d.Data != "" {
		p["data"] = json.RawMessage(d.Data)
	}
	if d.Rerun {
		p["rerun"] = true
	}
	if d.Remember {
		p["remember"] = true
	}
	c.say("%s asks for %s.", plain(first(a.Subject.Name, a.Subject.ID)), plain(wanted(&a.Approval)))
	return show(c, "approvals.decide", p, func(r permission.AnswerResult) {
		c.say("%s.", r.Status)
		if r.RunID != nil {
			fmt.Fprintln(c.env.Stdout, r.RunID)
		}
	})
}

type approvalsWatchCmd struct{}

func (w *approvalsWatchCmd) Run(c *command) error {
	e := eventsCmd{Topics: []string{"approvals.changed"}, After: -1}
	return e.Run(c)
}

type permissionsCmd struct {
	List   permissionsListCmd `cmd:"" default:"withargs" help:"List grants and denials." with:"{\"limit\":100}"`
	Revoke struct {
		ID string `arg:"" param:"grantId" help:"ID of a grant."`
	} `cmd:"" help:"Revoke a grant; runs that use it stop." call:"permissions.revoke" say:"$revoked revoked."`
	Preview permissionsPreviewCmd `cmd:"" help:"Show what a tool can do, without running it."`
}

type permissionsListCmd struct {
	State   string `help:"active, suspended, revoked or expired."`
	Subject string `param:"subjectId" help:"Only for this subject ID."`
}

func (*permissionsListCmd) Run(c *command) error {
	return answer(c, "permissions.list", func(r permission.ListResult) {
		rows := [][]string{}
		for _, g := range r.Grants {
			rows = append(rows, []string{"allow", g.ID.String(), first(g.Subject.Name, g.Subject.ID), capability(string(g.Capability), g.Resource), g.Scope, g.State, ago(g.CreatedAt)})
		}
		for _, d := range r.Denials {
			rows = append(rows, []string{"deny", d.ID.String(), first(d.Subject.Name, d.Subject.ID), capability(string(d.Capability), d.Resource), "", "", ""})
		}
		if len(rows) == 0 {
			c.say("No grants or denials.")
			return
		}
		c.table([]string{"", "ID", "WHO", "WHAT", "SCOPE", "STATE", "SINCE"}, rows)
	})
}

type permissionsPreviewCmd struct {
	Kind string `arg:"" help:"tool, skill, …"`
	ID   string `arg:""`
}

func (p *permissionsPreviewCmd) Run(c *command) error {
	raw, err := c.call("permissions.preview", map[string]any{"subject": map[string]any{"kind": p.Kind, "id": p.ID}}, nil)
	if err != nil {
		return err
	}
	return c.printJSON(raw)
}
