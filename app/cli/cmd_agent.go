package cli

import (
	"strconv"
	"strings"

	"helix/backend/agent"
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
