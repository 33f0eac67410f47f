package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"helix/backend/fault"
)

type approvalsCmd struct {
	List   approvalsListCmd   `cmd:"" default:"withargs" help:"List requests that wait for an answer."`
	Show   approvalsShowCmd   `cmd:"" help:"Show one request in full."`
	Decide approvalsDecideCmd `cmd:"" help:"Approve or deny; needs a terminal."`
	Watch  approvalsWatchCmd  `cmd:"" help:"Print each new request until interrupted."`
}

type approval struct {
	ID             string
	Kind           string
	Status         string
	Tier           string
	Subject        struct{ Kind, ID, Name string }
	DefinitionHash string
	Requested      []struct{ Capability, Resource, Why string }
	Sentence       string
	Question       *struct {
		Message string
		Details json.RawMessage
		Choices []struct {
			ID, Label string
			Approves  bool
		}
	}
	Count     int
	CreatedAt time.Time
	LastAt    time.Time
	ExpiresAt time.Time
}

// wants returns what is asked: the capabilities, or a question with its choices.
func (a approval) wants() string {
	if a.Question != nil {
		ids := []string{}
		for _, c := range a.Question.Choices {
			ids = append(ids, c.ID)
		}
		return a.Sentence + " [" + strings.Join(ids, ", ") + "]"
	}
	parts := []string{}
	for _, r := range a.Requested {
		parts = append(parts, capability(r.Capability, r.Resource))
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

func (l *approvalsListCmd) Run(c *command) error {
	return show(c, "approvals.list", map[string]any{"status": l.Status, "limit": 100, "offset": 0}, func(r struct{ Approvals []approval }) {
		if len(r.Approvals) == 0 {
			c.say("No requests are waiting.")
			return
		}
		rows := [][]string{}
		for _, a := range r.Approvals {
			rows = append(rows, []string{a.ID, first(a.Subject.Name, a.Subject.ID), a.wants(), fmt.Sprint(a.Count), ago(a.CreatedAt)})
		}
		c.table([]string{"ID", "WHO", "WANTS", "COUNT", "ASKED"}, rows)
	})
}

type approvalsShowCmd struct {
	ID string `arg:""`
}

func (s *approvalsShowCmd) Run(c *command) error {
	raw, err := c.call("approvals.get", map[string]any{"id": s.ID}, nil)
	if err != nil {
		return err
	}
	return c.printJSON(raw)
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
	var got struct {
		Approval approval
		approval
	}
	raw, err := c.call("approvals.get", map[string]any{"id": d.ID}, &got)
	if err != nil {
		return err
	}
	a := got.Approval
	if a.ID == "" {
		if err := json.Unmarshal(raw, &a); err != nil {
			return err
		}
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
	c.say("%s asks for %s.", plain(first(a.Subject.Name, a.Subject.ID)), plain(a.wants()))
	return show(c, "approvals.decide", p, func(r struct{ Status, RunID string }) {
		c.say("%s.", r.Status)
		if r.RunID != "" {
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
	List    permissionsListCmd    `cmd:"" default:"withargs" help:"List grants and denials."`
	Revoke  permissionsRevokeCmd  `cmd:"" help:"Revoke a grant; runs that use it stop."`
	Preview permissionsPreviewCmd `cmd:"" help:"Show what a tool may do, without running it."`
}

type permissionsListCmd struct {
	State   string `help:"active, suspended, revoked or expired."`
	Subject string `help:"Only of this subject id."`
}

func (l *permissionsListCmd) Run(c *command) error {
	p := map[string]any{"limit": 100, "offset": 0}
	setIf(p, "state", l.State)
	setIf(p, "subjectId", l.Subject)
	return show(c, "permissions.list", p, func(r struct {
		Grants []struct {
			ID, SubjectKind, SubjectID, SubjectName, Capability, Resource, Scope, State string
			CreatedAt                                                                   time.Time
		}
		Denials []struct{ ID, SubjectKind, SubjectID, SubjectName, Capability, Resource string }
	}) {
		rows := [][]string{}
		for _, g := range r.Grants {
			rows = append(rows, []string{"allow", g.ID, first(g.SubjectName, g.SubjectID), capability(g.Capability, g.Resource), g.Scope, g.State, ago(g.CreatedAt)})
		}
		for _, d := range r.Denials {
			rows = append(rows, []string{"deny", d.ID, first(d.SubjectName, d.SubjectID), capability(d.Capability, d.Resource), "", "", ""})
		}
		if len(rows) == 0 {
			c.say("No grants or denials.")
			return
		}
		c.table([]string{"", "ID", "WHO", "WHAT", "SCOPE", "STATE", "SINCE"}, rows)
	})
}

type permissionsRevokeCmd struct {
	ID string `arg:"" help:"Id of a grant."`
}

func (r *permissionsRevokeCmd) Run(c *command) error {
	return show(c, "permissions.revoke", map[string]any{"grantId": r.ID}, func(res struct{ Revoked int }) {
		c.say("%d revoked.", res.Revoked)
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
