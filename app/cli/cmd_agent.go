package cli

import (
	"os"
	"strconv"
	"strings"

	"helix/backend/agent"
	"helix/backend/fault"
)

type agentTreeCmd struct{ chatID }

func (t *agentTreeCmd) Run(c *command) error {
	return show(c, "agent.tree", t.params(), func(r agent.TreeResult) {
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
	Show   personaShowCmd   `cmd:"" help:"Print what an agent is told."`
	Set    personaSetCmd    `cmd:"" help:"Make an agent, or change its files. Edits count from the next chat."`
	Remove personaRemoveCmd `cmd:"" help:"Remove an agent with its files."`
}

type personaListCmd struct{}

func (*personaListCmd) Run(c *command) error {
	return show(c, "agent.personas", nil, func(r agent.PersonasResult) {
		rows := [][]string{}
		for _, p := range r.Personas {
			rows = append(rows, []string{p.Name, p.Title, strconv.Itoa(p.Sessions), strconv.Itoa(p.Running), strings.Join(p.Problems, " ")})
		}
		c.table([]string{"NAME", "TITLE", "CHATS", "RUNNING", "PROBLEMS"}, rows)
	})
}

type personaShowCmd struct {
	Name string `arg:"" optional:"" help:"Name of the agent. Default: what you tell all of them."`
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
	Name     string  `arg:"" optional:"" help:"Name of the agent. Default: what you tell all of them."`
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
