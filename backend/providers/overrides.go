package providers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"helix/backend/fault"
)

// override holds the settings of config.toml for a model, or for all models of a provider. It takes
// precedence over the embedded catalog, a fetched catalog and what the server reports.
type override struct {
	window, output int
	caps           map[string]bool
	input, answer  *Micros // prices per million tokens
}

func (o *override) set(field string, v any) error {
	switch field {
	case "window":
		return setNumber(&o.window, v)
	case "output":
		return setNumber(&o.output, v)
	case "tools", "images", "files", "reasoning", "structured":
		var on bool
		err := setSwitch(&on, v)
		if o.caps == nil {
			o.caps = map[string]bool{}
		}
		o.caps[field] = on
		return err
	case "input_price", "output_price": // dollars per million tokens, as in price lists
		micros, ok := decimalMicros(fmt.Sprint(v), 6)
		if !ok {
			return fault.Invalidf("must be a price in dollars.")
		}
		if field == "input_price" {
			o.input = &micros
		} else {
			o.answer = &micros
		}
		return nil
	}
	return fault.Invalidf("there is no such field.")
}

// apply changes the description of a model.
func (o *override) apply(i *ModelInfo) {
	if o == nil {
		return
	}
	if o.window > 0 {
		i.Window, i.silent = o.window, false
	}
	if o.output > 0 {
		i.Output = o.output
	}
	for name, to := range map[string]*bool{"tools": &i.Caps.Tools, "images": &i.Caps.Images, "files": &i.Caps.Files, "reasoning": &i.Caps.Reasoning, "structured": &i.Caps.Structured} {
		if on, ok := o.caps[name]; ok {
			*to = on
		}
	}
	if o.input != nil {
		i.Prices.Input = o.input
	}
	if o.answer != nil {
		i.Prices.Output = o.answer
	}
	i.Source = "config"
}

// overrides are the overrides of config.toml, keyed by provider name or model reference.
type overrides map[string]*override

// readOverrides reads the section caps: provider_defaults.NAME.field and
// overrides."NAME/MODEL".field. Invalid fields are left out; problems describes them in sentences, by
// provider.
func readOverrides(values map[string]any) (all overrides, problems map[string]string) {
	all, problems = overrides{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		kind, rest, _ := strings.Cut(key, ".")
		at := strings.LastIndexByte(rest, '.') // model names contain dots
		if at < 0 || kind != "provider_defaults" && kind != "overrides" {
			continue
		}
		name, field := rest[:at], rest[at+1:]
		if all[name] == nil {
			all[name] = &override{}
		}
		if err := all[name].set(field, values[key]); err != nil {
			provider, _ := ModelRef(name).Split()
			problems[provider] = fmt.Sprintf("config.toml, caps.%s: %s", key, fault.As(err).Message)
		}
	}
	return all, problems
}

// change applies the overrides of a provider, and then those of the model, to the description of a
// model.
func (o overrides) change(provider string, i *ModelInfo) {
	o[provider].apply(i)
	o[string(i.Ref)].apply(i)
}

// overridden returns the active overrides.
func (s *Service) overridden() (overrides, map[string]string) {
	if s.o.Caps == nil {
		return nil, nil
	}
	return readOverrides(s.o.Caps())
}

// fileRoles reads the roles of config.toml, roles.NAME and roles.NAME.field. A role set there applies
// to all users of this computer. Problems are sentences, by role.
func (s *Service) fileRoles() (roles map[Role]RoleConfig, problems map[Role]string) {
	roles, problems = map[Role]RoleConfig{}, map[Role]string{}
	if s.o.Roles == nil {
		return roles, problems
	}
	values := s.o.Roles()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		rest, ok := strings.CutPrefix(key, "roles.")
		name, field, _ := strings.Cut(rest, ".")
		role := Role(name)
		if !ok || !slices.Contains(Roles(), role) {
			continue
		}
		c := roles[role]
		if err := c.set(field, values[key]); err != nil {
			problems[role] = fmt.Sprintf("config.toml, models.%s: %s", key, fault.As(err).Message)
		}
		roles[role] = c
	}
	return roles, problems
}

func (c *RoleConfig) set(field string, v any) error {
	switch field {
	case "", "chain":
		list, many := v.([]any)
		if !many {
			list = []any{v}
		}
		for _, x := range list {
			ref, ok := x.(string)
			if name, model := ModelRef(ref).Split(); !ok || name == "" || model == "" {
				return fault.Invalidf("a model is written as provider/model.")
			}
			c.Chain = append(c.Chain, ModelRef(ref))
		}
		return nil
	case "effort":
		return setText((*string)(&c.Effort), v)
	case "max_output":
		return setNumber(&c.MaxOutput, v)
	case "max_cost_micros_call":
		var n int
		err := setNumber(&n, v)
		c.MaxCostMicrosCall = Micros(n)
		return err
	case "temperature":
		var t float64
		switch n := v.(type) {
		case float64:
			t = n
		case int64:
			t = float64(n)
		default:
			return fault.Invalidf("must be a number.")
		}
		if !(t >= 0 && t <= 2) {
			return fault.Invalidf("a temperature is 0 to 2.")
		}
		c.Temperature = &t
		return nil
	}
	return fault.Invalidf("there is no such field.")
}
