package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"helix/backend/fault"
)

// Run executes commands that make a single call and print its result as JSON. They are declared by
// their tags: `call` is the method, `with` contains constant parameters, and each argument and flag
// that was given is a parameter, named by `param` or like itself. With `ref:"tool"`, or another of
// kinds, its value may also be a name. Run is also called after the Run of other commands, and does
// nothing then.
func (*grammar) Run(c *command, k *kong.Context) error {
	node := k.Selected()
	if node == nil { // only flags
		return fault.Invalidf("Name a command. See `helix help`.")
	}
	method := node.Tag.Get("call")
	if method == "" {
		return nil
	}
	params := map[string]any{}
	if with := node.Tag.Get("with"); with != "" {
		if err := json.Unmarshal([]byte(with), &params); err != nil {
			return err
		}
	}
	values := slices.Clone(node.Positional)
	for _, f := range node.Flags {
		values = append(values, f.Value)
	}
	for _, v := range values {
		given := v.Target.Interface()
		if v.Target.IsZero() {
			continue
		}
		if k, ok := kinds[v.Tag.Get("ref")]; ok {
			id, err := c.idOf(k, v.Target.String(), false)
			if err != nil {
				return err
			}
			given = id
		}
		params[cmp.Or(v.Tag.Get("param"), v.Name)] = given
	}
	return c.raw(method, params)
}

// raw calls a method and prints its result as JSON.
func (c *command) raw(method string, params any) error {
	raw, err := c.call(method, params, nil)
	if err != nil {
		return err
	}
	return c.printJSON(raw)
}

// kind is one kind of item that can be named, listed, deleted and restored, with the methods for it
// and the name of the id parameter.
type kind struct {
	noun, list, rows, delete, restore, id string
	// step is the type of the skill steps that call it.
	step string
	// asks makes delete ask for confirmation even if nothing depends on the item.
	asks bool
}

var (
	toolKind     = kind{"tool", "tools.list", "tools", "tools.delete", "tools.restore", "toolId", "custom", false}
	skillKind    = kind{"skill", "skills.list_composite", "skills", "skills.delete_composite", "skills.restore_composite", "skillId", "skill", false}
	wasmKind     = kind{noun: "WASM tool", list: "skills.list_wasm", rows: "skills"}
	scheduleKind = kind{"schedule", "schedules.list", "schedules", "schedules.delete", "schedules.restore", "scheduleId", "", true}
)

// kinds are by the name of the command that contains their verbs.
var kinds = map[string]kind{"tool": toolKind, "skill": skillKind, "schedule": scheduleKind}

func (c *command) toolID(ref string) (string, error)  { return c.idOf(toolKind, ref, false) }
func (c *command) skillID(ref string) (string, error) { return c.idOf(skillKind, ref, false) }

// named is a row of a list as read by idOf.
type named struct{ ID, SkillID, ScheduleID, Name string }

// idOf returns the id for an id or a unique name; with deleted, it searches the deleted items.
func (c *command) idOf(k kind, ref string, deleted bool) (string, error) {
	if _, err := uuid.Parse(ref); err == nil {
		return ref, nil
	}
	p := map[string]any{"query": ref}
	if deleted {
		p["deleted"] = true
	}
	rows, err := rowsOf[named](c, k.list, k.rows, p)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, r := range rows {
		if strings.EqualFold(r.Name, ref) {
			ids = append(ids, first(r.ID, r.SkillID, r.ScheduleID))
		}
	}
	noun := k.noun
	if deleted {
		noun = "deleted " + noun
	}
	switch len(ids) {
	case 0:
		return "", fault.NotFoundf("No %s is named %q.", noun, ref)
	case 1:
		return ids[0], nil
	}
	return "", fault.Conflictf("%d %ss are named %q. Use an id: %s.", len(ids), noun, ref, strings.Join(ids, ", "))
}

// rowsOf calls a method with a paged result until it has all rows.
func rowsOf[T any](c *command, method, field string, p map[string]any) (all []T, err error) {
	p["limit"] = 100
	for {
		p["offset"] = len(all)
		var page map[string]json.RawMessage
		if _, err := c.call(method, p, &page); err != nil {
			return nil, err
		}
		var total int
		var rows []T
		if err := errors.Join(json.Unmarshal(page["total"], &total), json.Unmarshal(page[field], &rows)); err != nil {
			return nil, fault.Internalf(err, "Couldn't read the answer to %s.", method)
		}
		all = append(all, rows...)
		if len(rows) == 0 || len(all) >= total {
			return all, nil
		}
	}
}

// deleteCmd deletes an item of the kind of its parent command.
type deleteCmd struct {
	Name string `arg:"" help:"Id or name."`
	Yes  bool   `short:"y" help:"Don't ask for confirmation."`
}

func (d *deleteCmd) Run(c *command, ctx *kong.Context) error {
	k := kinds[ctx.Selected().Parent.Name]
	id, err := c.idOf(k, d.Name, false)
	if err != nil {
		return err
	}
	users, err := c.dependents(k, id)
	if err != nil {
		return err
	}
	if (len(users) > 0 || k.asks) && !d.Yes {
		for _, u := range users {
			fmt.Fprintf(c.env.Stderr, "%s needs it.\n", plain(u))
		}
		question := fmt.Sprintf("Delete the %s %s?", k.noun, plain(d.Name))
		if !isTerminal(c.env.Stdin) {
			return fault.Deniedf("%s Confirm with: helix %s delete %s --yes", question, k.noun, shellWord(d.Name))
		}
		if err := c.confirm(false, question); err != nil {
			return err
		}
	}
	return show(c, k.delete, map[string]any{k.id: id}, func(json.RawMessage) {
		c.say("Deleted. Within 30 days, restore it with: helix %s restore %s", k.noun, id)
	})
}

// restoreNamedCmd restores a deleted item of the kind of its parent command.
type restoreNamedCmd struct {
	Name string `arg:"" help:"Id or name."`
}

func (r *restoreNamedCmd) Run(c *command, ctx *kong.Context) error {
	k := kinds[ctx.Selected().Parent.Name]
	id, err := c.idOf(k, r.Name, true)
	if err != nil {
		return err
	}
	return show(c, k.restore, map[string]any{k.id: id}, func(json.RawMessage) { c.say("Restored.") })
}

// dependents returns the names of the schedules that run an item and of the skills that call it.
func (c *command) dependents(k kind, id string) (out []string, err error) {
	if k.step == "" {
		return nil, nil
	}
	own, err := rowsOf[named](c, k.list, k.rows, map[string]any{})
	if err != nil {
		return nil, err
	}
	uses := func(ref, name string) bool {
		return ref == id || ref == "" && slices.ContainsFunc(own, func(r named) bool {
			return first(r.ID, r.SkillID) == id && strings.EqualFold(r.Name, name)
		})
	}
	schedules, err := rowsOf[struct {
		Name   string
		Target struct{ ID, Name string }
	}](c, scheduleKind.list, scheduleKind.rows, map[string]any{"kind": k.noun})
	if err != nil {
		return nil, err
	}
	for _, s := range schedules {
		if uses(s.Target.ID, s.Target.Name) {
			out = append(out, "The schedule "+s.Name)
		}
	}
	skills, err := rowsOf[named](c, skillKind.list, skillKind.rows, map[string]any{})
	if err != nil {
		return nil, err
	}
	for _, s := range skills {
		var body struct{ Steps []any }
		if _, err := c.call("skills.get_metadata", map[string]any{"skillId": s.SkillID}, &body); err != nil {
			return nil, err
		}
		if s.SkillID != id && anyStep(body.Steps, func(step map[string]any) bool {
			ref, _ := step["toolId"].(string)
			name, _ := step["toolName"].(string)
			return step["toolType"] == k.step && uses(ref, name)
		}) {
			out = append(out, "The skill "+s.Name)
		}
	}
	return out, nil
}

// anyStep reports whether match accepts one of the steps, at any depth.
func anyStep(steps any, match func(map[string]any) bool) bool {
	list, _ := steps.([]any)
	return slices.ContainsFunc(list, func(e any) bool {
		step, _ := e.(map[string]any)
		return match(step) || anyStep(step["steps"], match) || anyStep(step["else"], match) || anyStep(step["cases"], match)
	})
}

// shellWord quotes a word for a POSIX shell.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
