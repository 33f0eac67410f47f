package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"helix/backend/fault"
)

// declared executes a command that makes a single call. Such commands are declared by their tags:
// `call` is the method, `with` contains constant parameters, and each required argument and each
// other argument and flag that isn't zero is a parameter, named by `param` or like itself; none with
// `param:"-"`. With `ref:"tool"`, or another of kinds, its value may also be a name. `confirm` is a
// question to answer before the call, unless the flag --yes is given. `say` is the message after it,
// without which the result is printed as JSON. In both, $name stands for a parameter, and in `say`
// also for a field of the result.
func (c *command) declared() error {
	tag := c.node.Tag
	method := tag.Get("call")
	params, err := c.given()
	if err != nil {
		return err
	}
	if question := tag.Get("confirm"); question != "" {
		yes := slices.ContainsFunc(c.node.Flags, func(f *kong.Flag) bool { return f.Name == "yes" && f.Target.Bool() })
		if err := c.confirm(yes, fill(question, params)); err != nil {
			return err
		}
	}
	if !tag.Has("say") {
		return c.raw(method, params)
	}
	return show(c, method, params, func(r json.RawMessage) {
		fields := maps.Clone(params)
		d := json.NewDecoder(bytes.NewReader(r))
		d.UseNumber()
		_ = d.Decode(&fields) // a result without fields adds none
		c.say("%s", fill(tag.Get("say"), fields))
	})
}

// fill replaces each $name in text by a field, and each ${name.field} by a field of a field.
func fill(text string, fields map[string]any) string {
	return os.Expand(text, func(path string) string {
		var v any = fields
		for name := range strings.SplitSeq(path, ".") {
			m, _ := v.(map[string]any)
			v = m[name]
		}
		return plain(fmt.Sprint(v))
	})
}

// given returns the arguments and flags of the command as the parameters of a call.
func (c *command) given() (map[string]any, error) {
	params := map[string]any{}
	if with := c.node.Tag.Get("with"); with != "" {
		if err := json.Unmarshal([]byte(with), &params); err != nil {
			return nil, err
		}
	}
	values := slices.Clone(c.node.Positional)
	for _, f := range c.node.Flags {
		if f.Name != "yes" {
			values = append(values, f.Value)
		}
	}
	for _, v := range values {
		if v.Target.IsZero() && !v.Required || v.Tag.Get("param") == "-" {
			continue
		}
		given := v.Target.Interface()
		if k, ok := kinds[v.Tag.Get("ref")]; ok {
			id, err := c.idOf(k, v.Target.String(), false)
			if err != nil {
				return nil, err
			}
			given = id
		}
		params[cmp.Or(v.Tag.Get("param"), v.Name)] = given
	}
	return params, nil
}

// answer is show for a call whose parameters are the arguments and flags of the command, as in Run.
func answer[T any](c *command, method string, render func(T)) error {
	params, err := c.given()
	if err != nil {
		return err
	}
	return show(c, method, params, render)
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
	// whole says that the list takes no parameters and is not paged.
	whole bool
}

var (
	toolKind     = kind{noun: "tool", list: "tools.list", rows: "tools", delete: "tools.delete", restore: "tools.restore", id: "toolId", step: "custom"}
	skillKind    = kind{noun: "skill", list: "skills.list_composite", rows: "skills", delete: "skills.delete_composite", restore: "skills.restore_composite", id: "skillId", step: "skill"}
	wasmKind     = kind{noun: "WASM tool", list: "skills.list_wasm", rows: "skills"}
	scheduleKind = kind{noun: "schedule", list: "schedules.list", rows: "schedules", delete: "schedules.delete", restore: "schedules.restore", id: "scheduleId", asks: true}
	channelKind  = kind{noun: "channel", list: "channels.list", rows: "channels", whole: true}
	manifestKind = kind{noun: "API tool", list: "discovery.list", rows: "tools"}
)

// kinds are by the name of the command that contains their verbs.
var kinds = map[string]kind{"tool": toolKind, "skill": skillKind, "schedule": scheduleKind, "channels": channelKind, "manifest": manifestKind}

func (c *command) toolID(ref string) (string, error)  { return c.idOf(toolKind, ref, false) }
func (c *command) skillID(ref string) (string, error) { return c.idOf(skillKind, ref, false) }

// named is a row of a list as read by idOf.
type named struct{ ID, SkillID, ScheduleID, ManifestID, Name string }

// idOf returns the id for an id or a unique name; with deleted, it searches the deleted items.
func (c *command) idOf(k kind, ref string, deleted bool) (string, error) {
	if _, err := uuid.Parse(ref); err == nil {
		return ref, nil
	}
	p := map[string]any{"query": ref}
	if k.whole {
		p = nil
	} else if deleted {
		p["deleted"] = true
	}
	rows, err := rowsOf[named](c, k.list, k.rows, p)
	if err != nil {
		return "", err
	}
	var ids, exact []string
	for _, r := range rows {
		id := first(r.ID, r.SkillID, r.ScheduleID, r.ManifestID)
		if strings.EqualFold(r.Name, ref) {
			ids = append(ids, id)
		}
		if r.Name == ref {
			exact = append(exact, id)
		}
	}
	if len(exact) > 0 { // the names of channels and schedules may differ only in case
		ids = exact
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
	return "", fault.Conflictf("%d %ss are named %q. Use an ID: %s.", len(ids), noun, ref, strings.Join(ids, ", "))
}

// rowsOf calls a method with a paged result until it has all rows. With p nil, the result is not paged.
func rowsOf[T any](c *command, method, field string, p map[string]any) (all []T, err error) {
	for {
		params := any(struct{}{})
		if p != nil {
			p["limit"], p["offset"] = 100, len(all)
			params = p
		}
		var page map[string]json.RawMessage
		if _, err := c.call(method, params, &page); err != nil {
			return nil, err
		}
		var total int
		var rows []T
		err := json.Unmarshal(page[field], &rows)
		if p != nil {
			err = errors.Join(err, json.Unmarshal(page["total"], &total))
		}
		if err != nil {
			return nil, fault.Internalf(err, "Couldn't read the answer to %s.", method)
		}
		all = append(all, rows...)
		if p == nil || len(rows) == 0 || len(all) >= total {
			return all, nil
		}
	}
}

// deleteCmd deletes an item of the kind of its parent command.
type deleteCmd struct {
	Name string `arg:"" help:"ID or name."`
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
	Name string `arg:"" help:"ID or name."`
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
