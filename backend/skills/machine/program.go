package machine

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"helix/backend/skills/definition"
	"helix/backend/skills/expr"
)

// Program holds the parsed expressions of a body. Runs of the same body can share it. It is safe
// for concurrent use.
type Program struct {
	mu    sync.Mutex
	steps map[*definition.Step]*parts
}

// parts holds the expressions of one step, each with its parse error.
type parts struct {
	condition parsed[*expr.Condition]
	params    []param // sorted by name
	value     parsed[*expr.Template]
	output    parsed[*expr.Template]
	title     parsed[*expr.Template]
	message   parsed[*expr.Template]
	items     parsed[*expr.Path]
	cases     []parsed[*expr.Condition]
}

type parsed[T any] struct {
	v   T
	err error
}

type param struct {
	name string
	t    parsed[*expr.Template]
}

func parse[T any](v T, err error) parsed[T] { return parsed[T]{v, err} }

// of returns the parsed expressions of a step.
func (p *Program) of(def *definition.Step) *parts {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.steps[def]; found != nil {
		return found
	}
	out := &parts{}
	if def.Condition != "" {
		out.condition = parse(expr.ParseCondition(def.Condition))
	}
	for _, k := range slices.Sorted(maps.Keys(def.InputMapping)) {
		out.params = append(out.params, param{k, parse(expr.ParseTemplate(map[string]any{k: def.InputMapping[k]}))})
	}
	if def.OutputMapping.Set {
		out.output = parse(expr.ParseTemplate(def.OutputMapping.V))
	}
	switch def.ToolType {
	case definition.Transform:
		out.value = parse(expr.ParseTemplate(def.Value.V))
	case definition.Map:
		out.items = parse(expr.ParsePath(def.Items))
	case definition.Branch:
		for _, c := range def.Cases {
			out.cases = append(out.cases, parse(expr.ParseCondition(c.When)))
		}
	case definition.Approval:
		out.title, out.message = parse(expr.ParseTemplate(def.Title)), parse(expr.ParseTemplate(def.Message))
	}
	if p.steps == nil {
		p.steps = map[*definition.Step]*parts{}
	}
	p.steps[def] = out
	return out
}

func holds(c parsed[*expr.Condition], doc map[string]any) (bool, error) {
	if c.err != nil {
		return false, c.err
	}
	return c.v.Holds(doc)
}

func fill(t parsed[*expr.Template], doc any) (json.RawMessage, error) {
	if t.err != nil {
		return nil, t.err
	}
	v, err := t.v.Eval(doc)
	if err != nil {
		return nil, err
	}
	return expr.Encode(v, MaxOutput)
}
