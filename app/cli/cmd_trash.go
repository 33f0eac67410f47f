package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/trash"
)

type trashCmd struct {
	List    trashListCmd    `cmd:"" default:"withargs" help:"List deleted items, newest first."`
	Restore trashRestoreCmd `cmd:"" help:"Restore items from the trash."`
	Purge   trashPurgeCmd   `cmd:"" help:"Permanently delete items in the trash."`
	Empty   trashEmptyCmd   `cmd:"" help:"Permanently delete everything in the trash."`
}

type trashFilter struct {
	Kind []string `enum:"tool,wasm,skill,schedule,memory,conversation,document,chat,memo" placeholder:"KIND" help:"Only this kind (${enum}); may be repeated."`
}

type trashListCmd struct {
	Query string `arg:"" optional:"" help:"Part of the name or text."`
	trashFilter
	Limit  int `default:"50"`
	Offset int `default:"0"`
}

func (l *trashListCmd) Run(c *command) error {
	p := trash.ListParams{Query: l.Query, Kinds: l.Kind, Limit: l.Limit, Offset: l.Offset}
	return show(c, "trash.list", p, func(r trash.ListResult) {
		if len(r.Items) == 0 {
			c.say("Nothing in the trash matches.")
			return
		}
		list(c, r.Items, "", []string{"ID", "KIND", "NAME", "DELETED BY", "DELETED", "KEPT UNTIL"}, func(it trash.Item) []string {
			return []string{it.ID.String(), it.Kind, first(it.Name, "(no title)"), first(it.By, "unknown"), it.DeletedAt.Local().Format(time.DateTime), it.PurgeAt.Local().Format(time.DateOnly)}
		})
		if n := len(r.Items) + r.Offset; n < r.Total {
			c.say("%d of %d. Next: --offset %d", n, r.Total, n)
		}
	})
}

// trashRefs are items in the trash, by id or by unique name.
type trashRefs struct {
	Refs []string `arg:"" name:"item" help:"IDs, or names."`
	trashFilter
}

// find finds the items in the trash.
func (t *trashRefs) find(c *command) ([]trash.Item, error) {
	p := map[string]any{}
	if len(t.Kind) > 0 {
		p["kinds"] = t.Kind
	}
	all, err := rowsOf[trash.Item](c, "trash.list", "items", p)
	if err != nil {
		return nil, err
	}
	var out []trash.Item
	for _, ref := range t.Refs {
		id, _ := uuid.Parse(ref)
		var found []trash.Item
		for _, it := range all {
			if it.ID == id || strings.EqualFold(it.Name, ref) {
				found = append(found, it)
			}
		}
		switch len(found) {
		case 0:
			return nil, fault.NotFoundf("Nothing in the trash is named %q. List it with: helix trash", ref)
		case 1:
			out = append(out, found[0])
		default:
			ids := make([]string, len(found))
			for i, it := range found {
				ids[i] = it.Kind + " " + it.ID.String()
			}
			return nil, fault.Conflictf("%d items in the trash are named %q. Use an ID: %s.", len(found), ref, strings.Join(ids, ", "))
		}
	}
	return out, nil
}

func refsOf(items []trash.Item) trash.ItemsParams {
	var p trash.ItemsParams
	for _, it := range items {
		p.Items = append(p.Items, it.Ref)
	}
	return p
}

func (c *command) printFailures(failed []trash.Failure) {
	for _, f := range failed {
		c.say("%s %s: %s", f.Kind, f.ID, f.Message)
	}
}

type trashRestoreCmd struct{ trashRefs }

func (r *trashRestoreCmd) Run(c *command) error {
	items, err := r.find(c)
	if err != nil {
		return err
	}
	return show(c, "trash.restore", refsOf(items), func(out trash.RestoreResult) {
		c.printFailures(out.Failed)
		c.say("%d restored.", len(out.Restored))
	})
}

type trashPurgeCmd struct {
	trashRefs
	Yes bool `short:"y" help:"Don't ask for confirmation."`
}

func (p *trashPurgeCmd) Run(c *command) error {
	items, err := p.find(c)
	if err != nil {
		return err
	}
	names := make([]string, len(items))
	for i, it := range items {
		names[i] = it.Kind + " " + plain(first(it.Name, it.ID.String()))
	}
	if err := c.confirm(p.Yes, fmt.Sprintf("Permanently delete %s?", strings.Join(names, ", "))); err != nil {
		return err
	}
	return show(c, "trash.purge", refsOf(items), c.printPurged)
}

func (c *command) printPurged(out trash.PurgeResult) {
	c.printFailures(out.Failed)
	c.say("%d permanently deleted.", out.Count)
}

type trashEmptyCmd struct {
	trashFilter
	Yes bool `short:"y" help:"Don't ask for confirmation."`
}

func (e *trashEmptyCmd) Run(c *command) error {
	var list trash.ListResult
	if _, err := c.call("trash.list", trash.ListParams{Kinds: e.Kind, Limit: 1}, &list); err != nil {
		return err
	}
	if list.Total == 0 {
		return show(c, "trash.empty", trash.EmptyParams{Kinds: e.Kind}, func(json.RawMessage) { c.say("The trash is empty.") })
	}
	if err := c.confirm(e.Yes, fmt.Sprintf("Permanently delete %s?", countsOf(list, e.Kind))); err != nil {
		return err
	}
	return show(c, "trash.empty", trash.EmptyParams{Kinds: e.Kind}, c.printPurged)
}

// kindNames are the singular and the plural of a kind.
var kindNames = map[string][2]string{
	"tool": {"tool", "tools"}, "wasm": {"WASM tool", "WASM tools"}, "skill": {"skill", "skills"}, "schedule": {"schedule", "schedules"},
	"memory": {"memory", "memories"}, "conversation": {"conversation", "conversations"}, "document": {"document", "documents"}, "chat": {"chat", "chats"},
}

// countsOf returns how many items of each kind there are, such as "2 tools, 1 chat".
func countsOf(r trash.ListResult, kinds []string) string {
	var parts []string
	for _, n := range r.Counts {
		if n.Count == 0 || len(kinds) > 0 && !slices.Contains(kinds, n.Kind) {
			continue
		}
		parts = append(parts, fmt.Sprintf("%d %s", n.Count, kindNames[n.Kind][min(n.Count, 2)-1]))
	}
	return strings.Join(parts, ", ")
}
