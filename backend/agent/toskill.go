package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	leastShared = 4 // minimum characters of a text whose recurrence is no coincidence
	maxDraft    = 100
)

// Skills is the agent's interface to skills, which are graphs of steps.
type Skills interface {
	// SaveDraft stores a definition, disabled, and returns its problems.
	SaveDraft(ctx context.Context, definition json.RawMessage, note string) (DraftSkill, error)
	// Rehearse makes a dry run of a draft in which outputs replace the results of its steps. It
	// returns the arguments of each step.
	Rehearse(ctx context.Context, id uuid.UUID, input json.RawMessage, outputs map[string]json.RawMessage) (inputs map[string]json.RawMessage, problem string, err error)
}

// DraftSkill is a skill made from a run.
type DraftSkill struct {
	ID       uuid.UUID `json:"id"`
	Name     string    `json:"name"`
	Valid    bool      `json:"valid"`
	Problems []string  `json:"problems"`
}

// ToSkillParams names turns of one chat.
type ToSkillParams struct {
	TurnIDs []uuid.UUID `json:"turnIds"`
	Name    string      `json:"name,omitempty"` // default: derived from the input
}

// ToSkillResult is a disabled draft, with the sources of its values and the result of its dry run.
type ToSkillResult struct {
	Skill DraftSkill  `json:"skill"`
	Trace []TraceStep `json:"trace"` // calls in order, including those that did not become steps
	Check DraftCheck  `json:"check"`
}

// TraceStep is a call of the run and how it was converted.
type TraceStep struct {
	StepID  string        `json:"stepId,omitempty"`
	CallID  string        `json:"callId"`
	Tool    string        `json:"tool"`
	Mapped  []MappedValue `json:"mapped"`
	Literal []string      `json:"literal"`           // arguments that the model composed, as paths
	Dropped string        `json:"dropped,omitempty"` // why it did not become a step
}

// MappedValue is an argument that the skill takes from an input or an earlier step.
type MappedValue struct {
	Argument string `json:"argument"`
	From     string `json:"from"`
}

// DraftCheck compares the dry run with the recorded run.
type DraftCheck struct {
	Identical bool        `json:"identical"` // every step got the arguments of the recorded call
	Problem   string      `json:"problem,omitempty"`
	Steps     []CheckStep `json:"steps"`
}

// CheckStep reports whether a step got the arguments of its recorded call.
type CheckStep struct {
	StepID   string          `json:"stepId"`
	Equal    bool            `json:"equal"`
	Expected json.RawMessage `json:"expected,omitempty"` // set if the arguments differ
	Actual   json.RawMessage `json:"actual,omitempty"`
}

// recordedCall is a call of the run with its result.
type recordedCall struct {
	trace   TraceStep
	ref     callable.Ref
	name    string // of the callable
	reads   bool
	args    map[string]any
	output  any
	sources map[int]bool // earlier calls whose outputs it uses
	used    bool
	params  map[string]any // literal
	mapping map[string]any
}

// draft builds a skill from the calls of turns.
type draft struct {
	calls  []*recordedCall
	asked  string // what the person wrote
	answer string
	inputs map[string]any // values of the inputs, by name
}

// ToSkill creates a disabled skill from the calls in turns of a chat, and checks it with a dry run
// against the recorded results.
func (s *Service) ToSkill(ctx context.Context, p ToSkillParams) (out ToSkillResult, err error) {
	if s.o.Skills == nil || len(p.TurnIDs) == 0 || len(p.TurnIDs) > maxDraft {
		return out, fault.Invalidf("Name 1 to %d turns.", maxDraft)
	}
	d := &draft{inputs: map[string]any{}}
	if err := s.readRun(ctx, d, p.TurnIDs); err != nil {
		return out, err
	}
	d.mapAll()
	steps, outputs, args := d.steps()
	for _, c := range d.calls {
		out.Trace = append(out.Trace, c.trace)
	}
	if len(steps) == 0 {
		return out, fault.Conflictf("Nothing in these turns can be repeated: no call had an effect, and no result was used.")
	}
	title := []rune(cmp.Or(strings.TrimSpace(p.Name), titleOf([]Part{{Kind: PartText, Text: d.asked}}), "Run of a chat"))
	definition := map[string]any{"name": string(title[:min(len(title), 100)]), "description": "Made of a run of a chat.", "isEnabled": false, "steps": steps}
	if schema := d.schema(); schema != nil {
		definition["inputSchema"] = schema
	}
	raw, err := json.Marshal(definition)
	if err != nil {
		return out, err
	}
	if out.Skill, err = s.o.Skills.SaveDraft(ctx, raw, "Made of turn "+p.TurnIDs[0].String()); err != nil {
		return out, err
	}
	out.Check = DraftCheck{Steps: []CheckStep{}}
	if !out.Skill.Valid {
		out.Check.Problem = strings.Join(out.Skill.Problems, " ")
		return out, nil
	}
	input, err := json.Marshal(d.inputs)
	if err != nil {
		return out, err
	}
	given, problem, err := s.o.Skills.Rehearse(ctx, out.Skill.ID, input, outputs)
	if err != nil {
		return out, err
	}
	out.Check.Problem, out.Check.Identical = problem, problem == ""
	for _, c := range d.calls {
		id := c.trace.StepID
		if id == "" {
			continue
		}
		x := CheckStep{StepID: id, Equal: sameJSON(args[id], given[id])}
		if !x.Equal {
			x.Expected, x.Actual, out.Check.Identical = args[id], given[id], false
		}
		out.Check.Steps = append(out.Check.Steps, x)
	}
	return out, nil
}

// readRun reads the calls of turns from the log of their chat.
func (s *Service) readRun(ctx context.Context, d *draft, turns []uuid.UUID) error {
	l, err := s.sessionOfTurn(ctx, turns[0])
	if err != nil {
		return err
	}
	known, err := s.o.Callables.List(ctx)
	if err != nil {
		return err
	}
	type open struct {
		args   string
		intent *toolIntent
	}
	calls := map[string]*open{}
	found := map[uuid.UUID]bool{}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return s.readEvents(tx, l.id, 0, -1, func(e Event) error {
			if !slices.Contains(turns, e.Turn) {
				return nil
			}
			found[e.Turn] = true
			switch b := e.Body.(type) {
			case *input:
				if b.Origin.label() == "" {
					d.asked += b.Text + "\n"
				}
			case *replied:
				for _, p := range b.Parts {
					switch p.Kind {
					case providers.PartToolCall:
						calls[p.ID] = &open{args: p.Args}
					case providers.PartText:
						d.answer = p.Text
					}
				}
			case *toolIntent:
				if c := calls[b.CallID]; c != nil {
					c.intent = b
				}
			case *toolOutcome:
				if c := calls[b.CallID]; c != nil {
					x, err := s.recorded(b, c.intent, c.args, known)
					if err != nil {
						return err
					}
					d.calls = append(d.calls, x)
				}
			}
			return nil
		})
	})
	if err == nil && len(found) < len(turns) {
		err = fault.NotFoundf("Turn not found, or the turns are of several chats.")
	}
	return err
}

// recorded converts a call to a repeatable one, or records why that is impossible.
func (s *Service) recorded(o *toolOutcome, intent *toolIntent, args string, known []callable.Info) (*recordedCall, error) {
	c := &recordedCall{trace: TraceStep{CallID: o.CallID, Mapped: []MappedValue{}, Literal: []string{}}, sources: map[int]bool{}}
	switch {
	case intent == nil:
		c.trace.Dropped = "It was not made: " + o.Status + "."
		return c, nil
	case o.Status != statusDone:
		c.trace.Dropped = "It did not succeed: " + o.Status + "."
	case intent.Ref.Kind == "":
		c.trace.Dropped = "It is a part of the chat itself."
	}
	c.trace.Tool, c.ref = intent.Tool, intent.Ref
	if c.trace.Dropped != "" {
		return c, nil
	}
	i := slices.IndexFunc(known, func(i callable.Info) bool { return i.Ref == c.ref })
	if i < 0 {
		c.trace.Dropped = "It is not there any more."
		return c, nil
	}
	c.name, c.reads = known[i].Name, known[i].Effects.ReadOnly
	if err := json.Unmarshal([]byte(args), &c.args); err != nil {
		c.trace.Dropped = "Its arguments can't be read."
		return c, nil //nolint:nilerr // the trace contains the reason
	}
	text := unquoted(o.Text)
	if o.Blob != "" {
		raw, err := s.readBlob(o.Blob)
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	if json.Unmarshal([]byte(text), &c.output) != nil {
		c.output = text
	}
	return c, nil
}

// unquoted removes the quotation that fence adds to a text.
func unquoted(text string) string {
	if head, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(head, "«data ") {
		if i := strings.LastIndex(rest, "\n«end "); i >= 0 {
			return rest[:i]
		}
	}
	return text
}

// mapAll finds the sources of the arguments of calls, and which calls the result depends on.
func (d *draft) mapAll() {
	places := map[any][]place{} // of values in outputs so far
	n := 0
	for i, c := range d.calls {
		if c.trace.Dropped != "" {
			continue
		}
		n++
		c.trace.StepID = fmt.Sprintf("step%d", n)
		c.params, c.mapping = map[string]any{}, map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(c.args)) {
			if value, mapped := d.template(c, c.args[key], pathKey("", key), key, places); mapped {
				c.mapping[key] = value
			} else {
				c.params[key] = c.args[key]
			}
		}
		leaves(c.output, "$.steps."+c.trace.StepID+".output", func(at string, v any) {
			if telling(v) {
				places[v] = append(places[v], place{i, at})
				text, ok := v.(string)
				c.used = c.used || ok && strings.Contains(d.answer, text)
			}
		})
		c.used = c.used || !c.reads
	}
	for i := len(d.calls) - 1; i >= 0; i-- {
		if d.calls[i].used {
			for from := range d.calls[i].sources {
				d.calls[from].used = true
			}
		}
	}
	for _, c := range d.calls {
		if c.trace.Dropped == "" && !c.used {
			c.trace.Dropped, c.trace.StepID = "It only read, and its result was not used.", ""
		}
	}
}

// place is the position of a value in an output.
type place struct {
	call int
	path string
}

// template returns an argument in which values are replaced by references to their sources. mapped
// reports whether any value was replaced.
func (d *draft) template(c *recordedCall, v any, at, name string, places map[any][]place) (out any, mapped bool) {
	switch x := v.(type) {
	case map[string]any:
		made := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(x)) {
			value, ok := d.template(c, x[key], pathKey(at, key), key, places)
			made[key], mapped = value, mapped || ok
			if strings.HasPrefix(key, "$") { // would be read as a template instruction
				return map[string]any{"$literal": v}, false
			}
		}
		return made, mapped
	case []any:
		made := make([]any, len(x))
		for i, item := range x {
			value, ok := d.template(c, item, fmt.Sprintf("%s[%d]", at, i), name, places)
			made[i], mapped = value, mapped || ok
		}
		return made, mapped
	}
	if telling(v) {
		if from := places[v]; len(from) == 1 {
			c.sources[from[0].call] = true
			c.trace.Mapped = append(c.trace.Mapped, MappedValue{at, from[0].path})
			return from[0].path, true
		}
		if said(d.asked, v) {
			path := "$.input." + d.inputName(name, v)
			c.trace.Mapped = append(c.trace.Mapped, MappedValue{at, path})
			return path, true
		}
	}
	c.trace.Literal = append(c.trace.Literal, at)
	if text, ok := v.(string); ok && strings.HasPrefix(text, "$") {
		return map[string]any{"$literal": text}, false
	}
	return v, false
}

// telling reports whether a value is distinctive: unlikely to occur in two places by chance.
func telling(v any) bool {
	switch x := v.(type) {
	case string:
		return utf8.RuneCountInString(x) >= leastShared
	case float64:
		return x != 0 && x != 1 && x != -1
	}
	return false
}

// said reports whether a value occurs as a word in the person's text.
func said(text string, v any) bool {
	word := fmt.Sprint(v)
	found, err := regexp.MatchString(`(^|[^\pL\pN])`+regexp.QuoteMeta(word)+`($|[^\pL\pN])`, text)
	return err == nil && found
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// inputName returns the name of the input for a value. Equal values share one input.
func (d *draft) inputName(name string, v any) string {
	for have, x := range d.inputs {
		if x == v {
			return have
		}
	}
	base := cmp.Or(strings.Trim(notInName.ReplaceAllString(name, "_"), "_"), "value")
	name = base
	for n := 2; d.inputs[name] != nil; n++ {
		name = fmt.Sprintf("%s%d", base, n)
	}
	d.inputs[name] = v
	return name
}

// schema returns the schema of the inputs. The values of the recorded run are the defaults.
func (d *draft) schema() map[string]any {
	if len(d.inputs) == 0 {
		return nil
	}
	properties := map[string]any{}
	for name, v := range d.inputs {
		kind := "string"
		if _, ok := v.(float64); ok {
			kind = "number"
		}
		properties[name] = map[string]any{"type": kind, "default": v}
	}
	return map[string]any{"type": "object", "required": slices.Sorted(maps.Keys(d.inputs)), "properties": properties}
}

// steps returns the steps of the definition, with the output and the arguments of each in the
// recorded run.
func (d *draft) steps() (out []map[string]any, outputs, args map[string]json.RawMessage) {
	outputs, args = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, c := range d.calls {
		if c.trace.StepID == "" {
			continue
		}
		kind := string(c.ref.Kind)
		if c.ref.Kind == callable.Tool {
			kind = "custom"
		}
		step := map[string]any{"stepId": c.trace.StepID, "toolType": kind, "toolName": c.name}
		if !isCore(c.ref.Kind) {
			step["toolId"] = c.ref.ID
		}
		if len(c.params) > 0 {
			step["parameters"] = c.params
		}
		if len(c.mapping) > 0 {
			step["inputMapping"] = c.mapping
		}
		out = append(out, step)
		outputs[c.trace.StepID], args[c.trace.StepID] = json.RawMessage(jsonText(c.output)), json.RawMessage(jsonText(c.args))
	}
	return out, outputs, args
}

// leaves calls fn with each scalar value of a JSON document and its path.
func leaves(v any, at string, fn func(at string, v any)) {
	switch x := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			leaves(x[key], pathKey(at, key), fn)
		}
	case []any:
		for i, item := range x {
			leaves(item, fmt.Sprintf("%s[%d]", at, i), fn)
		}
	default:
		fn(at, v)
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// pathKey returns the path of an object's member.
func pathKey(at, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return at + "[" + jsonText(key) + "]"
	case at == "":
		return key
	}
	return at + "." + key
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
