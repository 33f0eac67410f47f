package cli

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/alecthomas/kong"
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
