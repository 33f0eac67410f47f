package definition

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"helix/backend/skills/expr"
)

// check validates what depends on the whole skill: ids, references, the callables of steps, and
// that skills do not call each other recursively.
func check(n *notes, s *Skill, catalog Catalog) error {
	c := &checker{n: n, catalog: catalog, where: map[string]string{}, fine: map[string]int{}, self: s}
	s.Walk(func(path string, st *Step) {
		if first, ok := c.where[st.StepID]; ok && st.StepID != "" {
			n.bad(path+".stepId", st.StepID, CodeDuplicate, "stepId %q is also that of %s.", st.StepID, first)
			return
		}
		c.where[st.StepID] = path
	})
	end := c.steps("steps", s.Steps, scope{})
	if s.OutputMapping.Set {
		c.template("outputMapping", "", s.OutputMapping.V, end, false)
	}
	if s.Notification != nil {
		c.condition("notification.when", "", s.Notification.When, end)
		c.template("notification.title", "", s.Notification.Title, end, true)
		c.template("notification.body", "", s.Notification.Body, end, true)
	}
	return c.err
}

type checker struct {
	n       *notes
	catalog Catalog
	where   map[string]string // path by step id
	fine    map[string]int    // skills whose calls have been checked, with their depth
	self    *Skill
	err     error
}

// scope holds the step ids that a step can refer to; the value is true for steps that may
// have been skipped.
type scope map[string]bool

// inMap marks the scope of the body of a map.
const inMap = "item"

func (c *checker) steps(path string, steps []Step, in scope) scope {
	seen := maps.Clone(in)
	if seen == nil {
		seen = scope{}
	}
	for i := range steps {
		if c.err != nil {
			return seen
		}
		c.step(index(path, i), &steps[i], seen)
	}
	return seen
}

// step checks one step and adds the step ids it makes visible to seen.
func (c *checker) step(path string, s *Step, seen scope) {
	c.condition(path+".condition", s.StepID, s.Condition, seen)
	for _, k := range slices.Sorted(maps.Keys(s.InputMapping)) {
		c.template(path+".inputMapping"+expr.Member(k), s.StepID, s.InputMapping[k], seen, false)
	}
	switch {
	case s.ToolType.Calls() && serves(c.catalog, s.ToolType):
		c.call(path, s)
	case s.ToolType == Branch:
		c.branch(path, s, seen)
	case s.ToolType == Map:
		if p := c.path(path+".items", s.StepID, s.Items); p != nil {
			c.reference(path+".items", s.StepID, p.Head(), seen, true)
		}
		inner := maps.Clone(seen)
		inner[inMap] = false
		c.steps(path+".steps", s.Steps, inner)
	case s.ToolType == Approval:
		c.template(path+".title", s.StepID, s.Title, seen, false)
		c.template(path+".message", s.StepID, s.Message, seen, false)
		for i, text := range s.Show {
			if p := c.path(index(path+".show", i), s.StepID, text); p != nil {
				c.reference(index(path+".show", i), s.StepID, p.Head(), seen, false)
			}
		}
	case s.ToolType == Transform:
		if s.Value.Set {
			c.template(path+".value", s.StepID, s.Value.V, seen, false)
		}
	}
	seen[s.StepID] = s.Condition != "" || s.OnError() == Skip || s.OnError() == Continue ||
		s.OnError() == Retry && s.Exhausted() != Stop || s.ToolType == Approval && s.WaitOver() == Skip
}

func (c *checker) branch(path string, s *Step, seen scope) {
	arms := scope{}
	for i, a := range s.Cases {
		at := index(path+".cases", i)
		c.condition(at+".when", s.StepID, a.When, seen)
		maps.Copy(arms, c.steps(at+".steps", a.Steps, seen))
	}
	maps.Copy(arms, c.steps(path+".else", s.Else, seen))
	for id := range arms {
		if _, before := seen[id]; !before {
			seen[id] = true // only one arm is executed
		}
	}
}

func (c *checker) path(at, step, text string) *expr.Path {
	if text == "" {
		return nil // the decoder reported it
	}
	p, err := expr.ParsePath(text)
	if err != nil {
		c.n.bad(at, step, CodePath, "%s", message(err))
		return nil
	}
	return p
}

func (c *checker) condition(at, step, text string, seen scope) {
	if text == "" {
		return
	}
	cond, err := expr.ParseCondition(text)
	if err != nil {
		return // the decoder reported it
	}
	for _, head := range cond.Heads() {
		c.reference(at, step, head, seen, false)
	}
}

func (c *checker) template(at, step string, v any, seen scope, covered bool) {
	t, err := expr.ParseTemplate(v)
	if err != nil {
		return // the decoder reported it
	}
	for _, u := range t.Uses() {
		c.reference(at, step, u.Path.Head(), seen, !covered && !u.Covered && u.Path.Singular())
	}
}

// reference checks the beginning of a path. needs means that the step fails if the path matches nothing.
func (c *checker) reference(at, step string, head []string, seen scope, needs bool) {
	if len(head) == 0 {
		return
	}
	id, member := head[0], ""
	switch id {
	case "input", "run":
		return
	case "item", "index":
		if _, ok := seen[inMap]; !ok {
			c.n.bad(at, step, CodeReference, "$.%s exists inside a map only.", id)
		}
		return
	case "steps":
		if len(head) == 1 {
			return
		}
		id = head[1]
		if len(head) > 2 {
			member = head[2]
		}
	}
	maybe, ok := seen[id]
	switch {
	case ok && maybe && needs && (head[0] != "steps" || member == "output"):
		c.n.odd(at, step, CodeMaybeAbsent, "Step %q may be skipped, and then has no output; give a default.", id)
	case ok:
	case id == step:
		c.n.bad(at, step, CodeReference, "A step cannot use its own output.")
	case c.where[id] == "":
		c.n.bad(at, step, CodeReference, "Step %q not found.", id)
	default:
		c.n.bad(at, step, CodeReference, "Step %q (%s) has not run when this is needed, or runs in another arm or item.", id, c.where[id])
	}
}

// call checks the callable of a step.
func (c *checker) call(path string, s *Step) {
	if s.ToolID == "" && s.ToolName == "" {
		c.n.bad(path+".toolName", s.StepID, CodeMissing, "A step of kind %s needs a toolId or a toolName.", s.ToolType)
		return
	}
	found, err := c.catalog.Find(s.ToolType, s.ToolID, s.ToolName)
	if err != nil {
		c.err = err
		return
	}
	name := s.ToolName
	if s.ToolID != "" {
		name = s.ToolID
	}
	switch len(found) {
	case 0:
		c.n.bad(path+".toolName", s.StepID, CodeTool, "No %s is named %q.", noun(s.ToolType), name)
		return
	case 1:
	default:
		c.n.bad(path+".toolName", s.StepID, CodeAmbiguous, "%d of your %ss are called %q; choose one by its id.", len(found), noun(s.ToolType), name)
		return
	}
	f := found[0]
	if s.SkillVersion != "" && !c.pin(path, s, &f) {
		return
	}
	c.parameters(path, s, f.Input)
	if s.OnError() == Retry && s.Attempts() > 1 && !f.Effects.ReadOnly && !f.Effects.Idempotent && !s.RetryUnsafe {
		c.n.odd(path+".errorHandling", s.StepID, CodeUnsafeRetry, "%s may change something on each attempt; a retry after an unknown outcome needs retryUnsafe.", f.Name)
	}
	if s.ToolType == SkillCall {
		c.circle(path, s, f, []string{})
	}
}

// pin replaces a skill by the version that the step specifies.
func (c *checker) pin(path string, s *Step, f *Callable) bool {
	v, ok := c.catalog.(Versions)
	if !ok {
		return true
	}
	found, err := v.FindVersion(f.ID, s.SkillVersion)
	if err != nil {
		c.err = err
		return false
	}
	if len(found) == 0 {
		c.n.bad(path+".skillVersion", s.StepID, CodeTool, "The skill %q has no version %s.", f.Name, s.SkillVersion)
		return false
	}
	*f = found[0]
	return true
}

func noun(k Kind) string {
	switch k {
	case Custom:
		return "tool"
	case Builtin:
		return "built-in"
	case MCP:
		return "MCP tool"
	case WASM:
		return "WASM tool"
	}
	return string(k)
}

// parameters compares the given parameters with those of the schema.
func (c *checker) parameters(path string, s *Step, schema json.RawMessage) {
	var names struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	var all map[string]json.RawMessage
	if len(schema) == 0 || json.Unmarshal(schema, &names) != nil || json.Unmarshal(schema, &all) != nil {
		return
	}
	more := all["additionalProperties"]
	open := len(names.Properties) == 0 && string(more) != "false" || len(more) > 0 && string(more) != "false"
	for _, k := range []string{"patternProperties", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"} {
		open = open || len(all[k]) > 0 // it may contain more names
	}
	given := map[string]string{}
	for k := range s.Parameters {
		given[k] = path + ".parameters" + expr.Member(k)
	}
	for k := range s.InputMapping {
		given[k] = path + ".inputMapping" + expr.Member(k)
	}
	for _, k := range slices.Sorted(maps.Keys(given)) {
		if _, ok := names.Properties[k]; !ok && !open {
			c.n.bad(given[k], s.StepID, CodeParameter, "%s has no parameter %q.", or(s.ToolName, s.ToolID), k)
		}
	}
	for _, k := range names.Required {
		if _, ok := given[k]; !ok {
			c.n.bad(path+".inputMapping"+expr.Member(k), s.StepID, CodeParameter, "The parameter %q of %s is required.", k, or(s.ToolName, s.ToolID))
		}
	}
}

// circle checks the skills that a skill calls for recursion.
func (c *checker) circle(path string, s *Step, f Callable, above []string) {
	if c.err != nil {
		return
	}
	if f.ID != "" && f.ID == c.self.SkillID || slices.Contains(above, f.ID) {
		c.n.bad(path+".toolName", s.StepID, CodeCycle, "The skill calls itself: %s.", strings.Join(append(above, f.Name), " → "))
		return
	}
	if len(above)+2 > MaxCalls {
		c.n.bad(path+".toolName", s.StepID, CodeLimit, "Skills call skills more than %d deep.", MaxCalls)
		return
	}
	if depth, ok := c.fine[f.ID]; f.Body == nil || ok && depth >= len(above) {
		return
	}
	above = append(slices.Clone(above), f.ID)
	bad := len(c.n.errors)
	f.Body.Walk(func(_ string, inner *Step) {
		if inner.ToolType != SkillCall || c.err != nil || len(c.n.errors) > bad {
			return
		}
		found, err := c.catalog.Find(SkillCall, inner.ToolID, inner.ToolName)
		if v, ok := c.catalog.(Versions); ok && err == nil && len(found) == 1 && inner.SkillVersion != "" {
			found, err = v.FindVersion(found[0].ID, inner.SkillVersion)
		}
		if err != nil {
			c.err = err
		} else if len(found) == 1 {
			c.circle(path, s, found[0], above)
		}
	})
	if len(c.n.errors) == bad {
		c.fine[f.ID] = len(above) - 1
	}
}
