package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/skills/expr"
)

// Report is the result of reading and checking a definition. Skill is the canonical form; it is nil
// if the input is not an object, and only a draft if there are Errors.
type Report struct {
	Skill    *Skill
	Errors   []Problem
	Warnings []Problem
	// Whole means that the canonical form contains everything in the input. Otherwise some of it
	// could not be read and would be lost if the canonical form was stored.
	Whole bool
}

// Valid reports whether the skill can run.
func (r *Report) Valid() bool { return r.Skill != nil && len(r.Errors) == 0 }

// Callable is something that a step can call.
type Callable struct {
	callable.Info
	Body *Body // only of a skill
}

// Catalog finds what steps can call.
type Catalog interface {
	// Find returns the callables of a kind by id or, if id is empty, by exact name. It returns none
	// if there is no match, and several if the name is ambiguous.
	Find(kind Kind, id, name string) ([]Callable, error)
}

// Kinds is an optional interface of a Catalog that adds kinds of steps to those of this package.
type Kinds interface {
	// Serves reports whether this installation can call callables of a kind.
	Serves(kind Kind) bool
}

func serves(c Catalog, k Kind) bool {
	if slices.Contains(kinds, k) {
		return true
	}
	more, ok := c.(Kinds)
	return ok && more.Serves(k)
}

// Read decodes a definition in any of the accepted forms, converts it to canonical form and
// validates it. All problems are reported at once. The error is one of the catalog.
func Read(raw json.RawMessage, catalog Catalog) (*Report, error) {
	n := &notes{}
	d := &decoder{n: n, catalog: catalog, ids: map[string]bool{}}
	out := &Report{}
	if len(raw) > MaxBytes {
		n.bad("", "", CodeLimit, "The definition has %d bytes; %d are allowed.", len(raw), MaxBytes)
	} else if v, err := expr.Decode(raw); err != nil {
		if p, ok := fault.As(err).Details.(jcs.NumberProblem); ok {
			n.bad(memberPath(p.Path), "", CodeRange, "The definition cannot be used: %s.", p.Message)
		} else {
			n.bad("", "", CodeType, "The definition is not JSON.")
		}
	} else if m, ok := v.(map[string]any); !ok {
		n.bad("", "", CodeType, "The definition is %s; it must be an object.", describe(v))
	} else {
		keepable(n, "", m, 0)
		d.collect(m["steps"])
		out.Skill = d.skill(m)
		out.Whole = out.Skill.Name != "" && !slices.ContainsFunc(n.errors, unread)
	}
	if d.err == nil && out.Skill != nil {
		d.err = check(n, out.Skill, catalog)
	}
	out.Errors, out.Warnings = n.errors, n.warnings
	if out.Errors == nil {
		out.Errors = []Problem{}
	}
	if out.Warnings == nil {
		out.Warnings = []Problem{}
	}
	return out, d.err
}

// unread reports whether a problem means that some input is missing from the canonical form.
func unread(p Problem) bool {
	return p.Code == CodeType || p.Code == CodeRange || p.Code == CodeLimit
}

type decoder struct {
	n       *notes
	catalog Catalog
	count   int             // number of steps read
	ids     map[string]bool // of all steps
	err     error
}

// collect records the ids of all steps, before any step is read.
func (d *decoder) collect(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			d.collect(e)
		}
	case map[string]any:
		if id, ok := v["stepId"].(string); ok {
			d.ids[id] = true
		}
		for _, k := range [...]string{"steps", "cases", "else"} {
			d.collect(v[k])
		}
	}
}

var versionText = regexp.MustCompile(`^(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})$`)

func (d *decoder) skill(m map[string]any) *Skill {
	r := newReader(d.n, "", m)
	s := &Skill{
		SkillID: r.text("skillId", 64), Name: strings.TrimSpace(r.text("name", MaxName)), Description: r.text("description", MaxDescription),
		Version: r.text("version", 32), Tags: r.texts("tags", MaxTags, MaxTag), Icon: r.text("icon", 64),
		IsEnabled: r.boolean("isEnabled"), Visibility: r.oneOf("visibility", "private", "public"),
	}
	if old := r.boolean("enabled"); s.IsEnabled == nil {
		s.IsEnabled = old
	}
	if s.Name == "" {
		r.bad("name", CodeMissing, "A skill needs a name.")
	}
	if s.Version != "" && !versionText.MatchString(s.Version) {
		r.bad("version", CodeRange, "version is %q; it must be like 1.2.3.", s.Version)
	}
	s.InputSchema = r.schema("inputSchema")
	s.OutputMapping = r.template("outputMapping")
	s.Notification = d.notification(r)
	if v, ok := r.integer("overallTimeoutMs", 1, 24*3600*1000); ok {
		s.OverallTimeoutMs = unless(v, defaultOverall)
	}
	steps, ok := r.array("steps", true)
	if ok && len(steps) == 0 {
		r.bad("steps", CodeMissing, "A skill needs at least one step.")
	}
	s.Steps = d.steps("steps", steps, 1)
	if d.count > MaxSteps {
		r.bad("steps", CodeLimit, "The skill has %d steps; %d are allowed.", d.count, MaxSteps)
	}
	for _, k := range metadataFields {
		r.seen[k] = true
	}
	r.rest("A skill")
	return s
}

// metadataFields are fields in the result of skills.get_metadata that are not part of the definition.
var metadataFields = []string{
	"userId", "createdAt", "updatedAt", "deletedAt", "executionCount", "lastExecuted", "lastStatus", "lastExecutionId", "definitionHash",
	"headVersionId", "versionId", "valid", "mine", "stepCount", "cloneSourceId",
}

func (d *decoder) notification(r *reader) *Notification {
	m := r.object("notification")
	if m == nil {
		return nil
	}
	nr := newReader(d.n, r.at("notification"), m)
	out := &Notification{
		When: d.condition(nr, "when"), Level: nr.oneOf("level", "info", "success", "warning", "error"),
		Title: nr.template("title").V, Body: nr.template("body").V,
	}
	if out.Title == nil {
		nr.bad("title", CodeMissing, "A notification needs a title.")
	}
	nr.rest("A notification")
	return out
}

func (d *decoder) steps(path string, list []any, depth int) []Step {
	if list == nil {
		return nil
	}
	if depth > MaxBodies {
		d.n.bad(path, "", CodeLimit, "Steps are nested %d deep; %d are allowed.", depth, MaxBodies)
		return nil
	}
	out := make([]Step, 0, len(list))
	for i, v := range list {
		if d.count++; d.count > 2*MaxSteps || d.err != nil {
			break
		}
		at := index(path, i)
		m, ok := v.(map[string]any)
		if !ok {
			d.n.bad(at, "", CodeType, "A step is %s; it must be an object.", describe(v))
			continue
		}
		out = append(out, d.step(at, m, depth))
	}
	return out
}

var (
	idText   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
	reserved = []string{"input", "steps", "run", "item", "index"}
	kinds    = []Kind{Custom, Builtin, MCP, SkillCall, WASM, Branch, Map, Approval, Transform}
)

func (d *decoder) step(path string, m map[string]any, depth int) Step {
	r := newReader(d.n, path, m)
	s := Step{StepID: r.text("stepId", 64)}
	r.step = s.StepID
	switch {
	case s.StepID == "":
		r.bad("stepId", CodeMissing, "A step needs a stepId.")
	case !idText.MatchString(s.StepID):
		r.bad("stepId", CodeID, "stepId is %q; it must be letters, digits, _ and -, not begin with a digit or -, and have at most 64 characters.", s.StepID)
	case slices.Contains(reserved, s.StepID):
		r.bad("stepId", CodeID, "stepId %q is reserved.", s.StepID)
	}
	s.ToolID, s.ToolName = r.text("toolId", 200), r.text("toolName", 200)
	s.ToolType = d.kind(r, &s)
	s.Description, s.UI = r.text("description", MaxDescription), r.value("ui").V
	s.Condition = d.condition(r, "condition")
	s.Parameters, s.InputMapping = r.object("parameters"), d.mapping(r)
	s.OutputMapping = r.template("outputMapping")
	d.policies(r, &s)
	d.special(r, &s, path, depth)
	s.leaveOut()
	r.rest("A step of kind " + string(s.ToolType))
	return s
}

// kind reads toolType or, in the short form, derives it from the name.
func (d *decoder) kind(r *reader, s *Step) Kind {
	if t := r.text("toolType", 32); t != "" {
		if !serves(d.catalog, Kind(t)) {
			r.bad("toolType", CodeKind, "Unknown step kind %q.", t)
		}
		return Kind(t)
	}
	if s.ToolName == "" {
		r.bad("toolType", CodeMissing, "A step needs a toolType, or a toolName that says it.")
		return Custom
	}
	for _, k := range []Kind{Custom, Builtin} {
		found, err := d.catalog.Find(k, "", s.ToolName)
		if err != nil {
			d.err = err
			return k
		}
		if len(found) > 0 {
			return k
		}
	}
	if strings.Contains(s.ToolName, ".") {
		return MCP
	}
	return Custom
}

func (d *decoder) policies(r *reader, s *Step) {
	s.ErrorHandling = r.oneOf("errorHandling", Stop, Retry, Skip, Continue)
	for _, key := range []string{"retryAttempts", "maxRetries"} {
		if v, ok := r.integer(key, 0, 10); ok {
			n := int(v)
			s.MaxRetries = &n
		}
	}
	s.OnExhausted = r.oneOf("onExhausted", Stop, Skip, Continue)
	s.OnUnknown = r.oneOf("onUnknown", Ask, Fail)
	if b := r.boolean("retryUnsafe"); b != nil {
		s.RetryUnsafe = *b
	}
	if list, ok := r.array("retryOn", false); ok {
		s.RetryOn = []string{}
		for i, v := range list {
			k, _ := v.(string)
			switch k {
			case "timeout", "unavailable", "conflict", "limit", "internal":
				s.RetryOn = append(s.RetryOn, k)
			default:
				r.bad(index("retryOn", i), CodeRange, "%v cannot be retried; timeout, unavailable, conflict, limit and internal can.", v)
			}
		}
	}
	if v, ok := r.integer("timeoutMs", 1, 3_600_000); ok {
		s.TimeoutMs = v
	}
}

// special reads the fields specific to one kind.
func (d *decoder) special(r *reader, s *Step, path string, depth int) {
	switch s.ToolType {
	case SkillCall:
		s.SkillVersion = r.text("skillVersion", 32)
	case Branch:
		d.branch(r, s, path, depth)
	case Map:
		s.Items = r.text("items", expr.MaxText)
		if s.Items == "" {
			r.bad("items", CodeMissing, "A map needs items, the path to an array.")
		}
		list, ok := r.array("steps", true)
		if ok && len(list) == 0 {
			r.bad("steps", CodeMissing, "A map needs at least one step.")
		}
		s.Steps = d.steps(r.at("steps"), list, depth+1)
		if v, ok := r.integer("concurrency", 1, 8); ok {
			s.Concurrency = int(v)
		}
		s.OnItemError = r.oneOf("onItemError", Stop, Skip, Continue)
	case Approval:
		s.Title, s.Message = r.template("title").V, r.template("message").V
		if s.Title == nil {
			r.bad("title", CodeMissing, "An approval needs a title.")
		}
		s.Show, s.Form = r.texts("show", 32, expr.MaxText), r.schema("form")
		if v, ok := r.integer("waitMs", 1000, 30*24*3600*1000); ok {
			s.WaitMs = v
		}
		s.OnTimeout = r.oneOf("onTimeout", Fail, Skip)
	case Transform:
		if s.Value = r.template("value"); !s.Value.Set {
			r.bad("value", CodeMissing, "A transform needs a value.")
		}
	}
}

func (d *decoder) branch(r *reader, s *Step, path string, depth int) {
	list, ok := r.array("cases", true)
	if ok && len(list) == 0 {
		r.bad("cases", CodeMissing, "A branch needs at least one case.")
	}
	for i, v := range list {
		at := index(r.at("cases"), i)
		m, isObject := v.(map[string]any)
		if !isObject {
			d.n.bad(at, s.StepID, CodeType, "A case is %s; it must be an object.", describe(v))
			continue
		}
		cr := newReader(d.n, at, m)
		cr.step = s.StepID
		c := Case{When: d.condition(cr, "when")}
		if _, ok := m["when"]; !ok {
			cr.bad("when", CodeMissing, "A case needs when.")
		}
		steps, _ := cr.array("steps", true)
		c.Steps = d.steps(cr.at("steps"), steps, depth+1)
		cr.rest("A case")
		s.Cases = append(s.Cases, c)
	}
	if list, ok := r.array("else", false); ok {
		s.Else = d.steps(path+".else", list, depth+1)
	}
}

// template reads a template and checks that it can be parsed.
func (r *reader) template(key string) Value {
	v := r.value(key)
	if v.Set {
		if _, err := expr.ParseTemplate(v.V); err != nil {
			r.bad(key, CodePath, "%s", message(err))
		}
	}
	return v
}

// mapping reads inputMapping. In an older form, strings such as input.x or step1.y are paths.
func (d *decoder) mapping(r *reader) map[string]any {
	m := r.object("inputMapping")
	for _, k := range sortedKeys(m) {
		if s, ok := m[k].(string); ok {
			if path, old := d.oldPath(s); old {
				r.n.odd(r.at("inputMapping")+expr.Member(k), r.step, CodeConverted, "%q was read as the path %s.", s, path)
				m[k] = path
				continue
			}
		}
		if _, err := expr.ParseTemplate(m[k]); err != nil {
			r.bad("inputMapping"+expr.Member(k), CodePath, "%s", message(err))
		}
	}
	return m
}

var oldPathText = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]*)((?:\.[A-Za-z_][A-Za-z0-9_]*|\[\d{1,6}\])+)$`)

// oldPath converts a path of the older form, without $. ok is false if s is not one.
func (d *decoder) oldPath(s string) (string, bool) {
	m := oldPathText.FindStringSubmatch(s)
	if m == nil || m[1] != "input" && !d.ids[m[1]] {
		return "", false
	}
	return "$" + expr.Member(m[1]) + m[2], true
}

// condition reads a logical expression: a string, or the object {field, operator, value}.
func (d *decoder) condition(r *reader, key string) string {
	v, ok := r.get(key)
	if !ok {
		return ""
	}
	switch v := v.(type) {
	case string:
		return d.conditionText(r, key, v)
	case map[string]any:
		text, err := fromFields(v)
		if err != nil {
			r.bad(key, CodeType, "%s", message(err))
		}
		return text
	}
	r.wrong(key, "a text", v)
	return ""
}

func (d *decoder) conditionText(r *reader, key, text string) string {
	c, err := expr.ParseCondition(text)
	if err == nil {
		if c.OnlyExistence() {
			r.n.odd(r.at(key), r.step, CodeCondition, "%s holds whenever the path matches, also for false and 0; write %s == true to test the value.", text, text)
		}
		return text
	}
	if other, ierr := expr.ImportCondition(text); ierr == nil {
		r.n.odd(r.at(key), r.step, CodeConverted, "%q was read as %s.", text, other)
		return other
	}
	r.bad(key, CodeCondition, "%s", message(err))
	return text
}

// fromFields converts {field, operator, value} to an expression.
func fromFields(m map[string]any) (string, error) {
	field, _ := m["field"].(string)
	op, _ := m["operator"].(string)
	path := field
	if !strings.HasPrefix(field, "$") {
		path = "$." + field
	}
	if field == "" {
		return "", fault.Invalidf("A condition of fields needs field, operator and value.")
	}
	if _, err := expr.ParsePath(path); err != nil {
		return "", err
	}
	var out string
	switch op {
	case "exists":
		out = path
	case "equals", "eq", "gt", "lt":
		lit, err := literalText(m["value"])
		if err != nil {
			return "", err
		}
		out = path + map[string]string{"equals": " == ", "eq": " == ", "gt": " > ", "lt": " < "}[op] + lit
	case "contains":
		lit, err := literalText(m["value"])
		if err != nil {
			return "", err
		}
		out = path + "[?@ == " + lit + "]"
		if s, ok := m["value"].(string); ok {
			out = "(search(" + path + ", " + expr.Quote(regexp.QuoteMeta(s)) + ") || " + out + ")"
		}
	default:
		return "", fault.Invalidf("The operator of a condition is equals, gt, lt, exists or contains, not %q.", op)
	}
	_, err := expr.ParseCondition(out)
	return out, err
}

func literalText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "null", nil
	case string:
		return expr.Quote(v), nil
	case bool:
		return fmt.Sprint(v), nil
	case json.Number:
		return v.String(), nil
	}
	return "", fault.Invalidf("The value of a condition is a text, a number, true, false or null.")
}

func message(err error) string { return fault.As(err).Message }

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
