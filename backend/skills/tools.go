package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/skills/definition"
)

// maxListedProblems is the maximum number of problems in an error message.
const maxListedProblems = 12

// Callables returns the tools with which an agent writes skills. A skill that it writes is disabled
// until a person enables it.
func (s *Service) Callables() []callable.Func {
	return []callable.Func{{
		Info: callable.Info{
			Name: "skill.save", Title: "Saves a new skill: a chain of steps that runs without a model. It is disabled until the person enables it in Skills.",
			Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["name","steps"],"properties":{
				"name":{"type":"string","minLength":1,"maxLength":100},
				"description":{"type":"string","maxLength":2000},
				"inputSchema":{"type":"object","description":"JSON Schema of the input. Steps read it as $.input.NAME."},
				"outputMapping":{"description":"What the skill returns, with paths; the default is the output of the last step."},
				"steps":{"type":"array","minItems":1,"maxItems":100,"description":"In order.","items":{"type":"object","required":["stepId","toolType"],"properties":{
					"stepId":{"type":"string","pattern":"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"},
					"toolType":{"enum":["builtin","custom","skill","wasm","branch","map","approval","transform"]},
					"toolName":{"type":"string","description":"What it calls. Built-ins have dots: file.list is the tool file_list."},
					"parameters":{"type":"object","description":"Arguments of the call that are always the same."},
					"inputMapping":{"type":"object","description":"Arguments that are taken from elsewhere: paths (RFC 9535) such as $.input.NAME or $.steps.STEPID.output.NAME."},
					"condition":{"type":"string","description":"The step is skipped where it is false, such as $.steps.list.output.total > 3."},
					"outputMapping":{"description":"What the step gives, with paths into the result: $ is all of it."}}}}}}`),
		},
		Run: func(ctx context.Context, r callable.Request) (any, error) {
			var skill map[string]any
			if err := json.Unmarshal(r.Input, &skill); err != nil {
				return nil, fault.Invalidf("The skill can't be read.").WithCause(err)
			}
			skill["isEnabled"] = false
			text, err := json.Marshal(skill)
			if err != nil {
				return nil, err
			}
			checked, err := s.ValidateComposite(ctx, ValidateParams{Skill: text})
			if err != nil {
				return nil, err
			}
			if !checked.Valid {
				return nil, fault.Invalidf("The skill has errors, so it was not saved:%s", listed(checked.Errors))
			}
			m, err := s.CreateComposite(ctx, SaveParams{Skill: text, Note: "Written by the agent"})
			if err != nil {
				return nil, err
			}
			return map[string]any{"skillId": m.SkillID, "name": m.Name, "version": m.Version, "isEnabled": false, "warnings": checked.Warnings}, nil
		},
	}}
}

// listed formats problems, one per line.
func listed(list []definition.Problem) string {
	var b strings.Builder
	for i, p := range list {
		if i == maxListedProblems {
			fmt.Fprintf(&b, "\n- and %d more", len(list)-i)
			break
		}
		fmt.Fprintf(&b, "\n- %s: %s", p.Path, p.Message)
	}
	return b.String()
}
