package cli

import (
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/fault"
)

type agentTreeCmd struct{ chatID }

func (*agentTreeCmd) Run(c *command) error {
	return answer(c, "agent.tree", func(r agent.TreeResult) {
		rows := [][]string{}
		var add func(list []agent.TreeNode, depth int)
		add = func(list []agent.TreeNode, depth int) {
			for _, n := range list {
				rows = append(rows, []string{strings.Repeat("  ", depth) + n.Goal, first(n.StopReason, n.State), strconv.Itoa(n.Steps), usd(n.CostMicros), n.SessionID.String()})
				add(n.Children, depth+1)
			}
		}
		add(r.Nodes, 0)
		c.table([]string{"GOAL", "STATE", "STEPS", "COST", "CHAT"}, rows)
	})
}

type agentPersonasCmd struct {
	List   personaListCmd   `cmd:"" default:"withargs" help:"List agents."`
	Show   personaShowCmd   `cmd:"" help:"Print the instructions of an agent."`
	Set    personaSetCmd    `cmd:"" help:"Create an agent, or change its files. Edits apply from the next chat."`
	Remove personaRemoveCmd `cmd:"" help:"Remove an agent with its files."`
}

type personaListCmd struct{}

func (*personaListCmd) Run(c *command) error {
	return show(c, "agent.personas", nil, func(r agent.PersonasResult) {
		list(c, r.Personas, "", []string{"NAME", "TITLE", "CHATS", "RUNNING", "PROBLEMS"}, func(p agent.PersonaView) []string {
			return []string{p.Name, p.Title, strconv.Itoa(p.Sessions), strconv.Itoa(p.Running), strings.Join(p.Problems, " ")}
		})
	})
}

type personaShowCmd struct {
	Name string `arg:"" optional:"" help:"Name of the agent. Default: the instructions for all agents."`
}

func (p *personaShowCmd) Run(c *command) error {
	return show(c, "agent.persona", agent.PersonaParams{Name: p.Name}, func(r agent.PersonaResult) {
		for _, f := range [][2]string{{"agent.toml", r.TOML}, {"SYSTEM.md", r.System}, {"SOUL.md", r.Soul}} {
			if f[1] != "" {
				c.printText("# " + f[0] + "\n\n" + f[1] + "\n")
			}
		}
		for _, text := range r.Problems {
			c.say("%s", text)
		}
		c.fields("precedence", strings.Join(r.Precedence, ", "), "hash", r.Hash)
	})
}

type personaSetCmd struct {
	Name     string  `arg:"" optional:"" help:"Name of the agent. Default: the instructions for all agents."`
	Settings *string `placeholder:"FILE" type:"path" help:"Contents of agent.toml."`
	System   *string `placeholder:"FILE" type:"path" help:"Contents of SYSTEM.md."`
	Soul     *string `placeholder:"FILE" type:"path" help:"Contents of SOUL.md."`
}

func (p *personaSetCmd) Run(c *command) error {
	q := agent.SetPersonaParams{Name: p.Name}
	for _, f := range []struct {
		name *string
		to   **string
	}{{p.Settings, &q.TOML}, {p.System, &q.System}, {p.Soul, &q.Soul}} {
		if f.name == nil {
			continue
		}
		text, err := os.ReadFile(*f.name)
		if err != nil {
			return fault.Invalidf("Couldn't read %s: %s", *f.name, err)
		}
		s := string(text)
		*f.to = &s
	}
	return show(c, "agent.set_persona", q, func(r agent.PersonaResult) { c.fields("hash", r.Hash) })
}

type personaRemoveCmd struct {
	Name string `arg:"" help:"Name of the agent."`
}

func (p *personaRemoveCmd) Run(c *command) error {
	return show(c, "agent.set_persona", agent.SetPersonaParams{Name: p.Name, Remove: true}, func(agent.PersonaResult) {})
}

type agentSkillsCmd struct {
	List    skillDocsListCmd    `cmd:"" default:"withargs" help:"List documents with their problems."`
	Add     skillDocsAddCmd     `cmd:"" help:"Copy a document from a folder, zip file or SKILL.md; it waits to be enabled."`
	Show    skillDocsShowCmd    `cmd:"" help:"Print a document, with the hash needed to enable it."`
	Enable  skillDocsEnableCmd  `cmd:"" help:"Let agents use a document, exactly as you reviewed it."`
	Disable skillDocsDisableCmd `cmd:"" help:"Stop agents from using a document."`
	Remove  skillDocsRemoveCmd  `cmd:"" help:"Remove a document that was added."`
	Trust   skillDocsTrustCmd   `cmd:"" help:"Use the documents of a project's folder in its chats."`
}

type skillDocsListCmd struct {
	Project string `placeholder:"DIR" type:"path" help:"Include those of this project."`
}

func (l *skillDocsListCmd) Run(c *command) error {
	return show(c, "agent.skills", agent.SkillsParams{ProjectDir: l.Project}, func(r agent.SkillsResult) {
		list(c, r.Skills, "", []string{"ID", "NAME", "STATE", "SOURCE", "DESCRIPTION"}, func(s agent.SkillDocument) []string {
			return []string{s.ID.String(), s.Name, s.State, s.Source, s.Description}
		})
		for _, s := range r.Skills {
			for _, d := range s.Diagnostics {
				c.say("%s: %s: %s", s.Name, d.Level, d.Message)
			}
		}
	})
}

type skillDocsAddCmd struct {
	Path string `arg:"" type:"existingpath" help:"Folder, zip file or SKILL.md."`
}

func (a *skillDocsAddCmd) Run(c *command) error {
	return show(c, "agent.add_skill", agent.AddSkillParams{Path: a.Path}, func(s agent.SkillDocument) {
		c.fields("id", s.ID.String(), "name", s.Name, "state", s.State)
	})
}

type skillDocID struct {
	ID string `arg:"" help:"ID or name of the document."`
}

// find returns the named document.
func (i skillDocID) find(c *command) (agent.SkillDocument, error) {
	var r agent.SkillsResult
	if _, err := c.call("agent.skills", agent.SkillsParams{}, &r); err != nil {
		return agent.SkillDocument{}, err
	}
	for _, s := range r.Skills {
		if s.ID.String() == i.ID || s.Name == i.ID {
			return s, nil
		}
	}
	return agent.SkillDocument{}, fault.NotFoundf("No skill document is named %q.", i.ID)
}

type skillDocsShowCmd struct{ skillDocID }

func (s *skillDocsShowCmd) Run(c *command) error {
	d, err := s.find(c)
	if err != nil {
		return err
	}
	return show(c, "agent.skill", agent.SkillDocumentParams{ID: d.ID}, func(r agent.SkillDocumentResult) {
		c.printText(r.Text)
		if r.Skill.State == agent.SkillChanged {
			c.say("It has changed since it was allowed.")
		}
		c.fields("state", r.Skill.State, "path", r.Skill.Path, "hash", r.Skill.Hash)
	})
}

type skillDocsEnableCmd struct {
	skillDocID
	Hash string `required:"" placeholder:"HASH" help:"The hash printed by show, for the text you reviewed."`
}

func (s *skillDocsEnableCmd) Run(c *command) error { return s.set(c, true, s.Hash) }

type skillDocsDisableCmd struct{ skillDocID }

func (s *skillDocsDisableCmd) Run(c *command) error { return s.set(c, false, "") }

func (i skillDocID) set(c *command, enabled bool, hash string) error {
	d, err := i.find(c)
	if err != nil {
		return err
	}
	return show(c, "agent.set_skill", agent.SetSkillParams{ID: &d.ID, Enabled: &enabled, Hash: hash}, func(agent.SkillsResult) {})
}

type skillDocsRemoveCmd struct {
	skillDocID
	Undo bool `help:"Restore the document with this ID."`
}

func (s *skillDocsRemoveCmd) Run(c *command) error {
	p := agent.RemoveSkillParams{Restore: s.Undo}
	var err error
	if p.ID, err = uuid.Parse(s.ID); err != nil {
		d, err := s.find(c)
		if err != nil {
			return err
		}
		p.ID = d.ID
	}
	return show(c, "agent.remove_skill", p, func(agent.SkillsResult) {
		if !s.Undo {
			c.say("Restore it with: helix agent skills remove --undo %s", p.ID)
		}
	})
}

type skillDocsTrustCmd struct {
	Folder string `arg:"" type:"path" help:"Folder of the project."`
	Revoke bool   `help:"Stop trusting the folder."`
}

func (s *skillDocsTrustCmd) Run(c *command) error {
	trusted := !s.Revoke
	return show(c, "agent.set_skill", agent.SetSkillParams{Folder: s.Folder, Trusted: &trusted}, func(agent.SkillsResult) {})
}

type agentToSkillCmd struct {
	Turns []string `arg:"" help:"IDs of turns of one chat."`
	Name  string   `help:"Name of the skill. Default: taken from the request."`
}

func (t *agentToSkillCmd) Run(c *command) error {
	p := agent.ToSkillParams{Name: t.Name}
	for _, text := range t.Turns {
		id, err := uuid.Parse(text)
		if err != nil {
			return fault.Invalidf("%q isn't the ID of a turn.", text)
		}
		p.TurnIDs = append(p.TurnIDs, id)
	}
	return show(c, "agent.to_skill", p, func(r agent.ToSkillResult) {
		list(c, r.Trace, "", []string{"STEP", "TOOL", "TAKEN FROM", "AS WRITTEN", "LEFT OUT"}, func(x agent.TraceStep) []string {
			from := []string{}
			for _, m := range x.Mapped {
				from = append(from, m.Argument+" from "+m.From)
			}
			return []string{x.StepID, x.Tool, strings.Join(from, ", "), strings.Join(x.Literal, ", "), x.Dropped}
		})
		c.fields("skill", r.Skill.ID.String(), "name", r.Skill.Name, "dry run identical", strconv.FormatBool(r.Check.Identical))
		if r.Check.Problem != "" {
			c.say("%s", r.Check.Problem)
		}
		c.say("It is disabled until you review it: helix skill show %s", r.Skill.ID)
	})
}
