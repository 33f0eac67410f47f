package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"helix/backend/fault"
)

// Run carries out the commands that are one call and its result as JSON. The tags of such a
// command say it all: `call` names the method, `with` holds parameters that are always the same,
// and each argument and flag that was given is a parameter, called as `param` says or else as
// itself. With `ref:"tool"` it may also be a tool's name. It is called after the Run of commands
// that have one, and does nothing then.
func (*grammar) Run(c *command, k *kong.Context) error {
	node := k.Selected()
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
		if v.Tag.Get("ref") == "tool" {
			id, err := c.toolID(v.Target.String())
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

// names says how things of one kind are found by name.
type names struct{ noun, method, list string }

var (
	toolNames  = names{"tool", "tools.list", "tools"}
	skillNames = names{"skill", "skills.list_composite", "skills"}
	wasmNames  = names{"WASM tool", "skills.list_wasm", "skills"}
)

func (c *command) toolID(ref string) (string, error)  { return c.idOf(toolNames, ref) }
func (c *command) skillID(ref string) (string, error) { return c.idOf(skillNames, ref) }

// idOf accepts an id, or the name of something.
func (c *command) idOf(n names, ref string) (string, error) {
	if _, err := uuid.Parse(ref); err == nil {
		return ref, nil
	}
	for offset := 0; ; {
		var page map[string]json.RawMessage
		if _, err := c.call(n.method, map[string]any{"query": ref, "limit": 100, "offset": offset}, &page); err != nil {
			return "", err
		}
		var total int
		var rows []struct{ ID, SkillID, Name string }
		if err := errors.Join(json.Unmarshal(page["total"], &total), json.Unmarshal(page[n.list], &rows)); err != nil {
			return "", fault.Internalf(err, "Couldn't read the answer to %s.", n.method)
		}
		for _, r := range rows {
			if strings.EqualFold(r.Name, ref) {
				return first(r.ID, r.SkillID), nil
			}
		}
		if offset += len(rows); len(rows) == 0 || offset >= total {
			return "", fault.NotFoundf("No %s is named %q.", n.noun, ref)
		}
	}
}
