package providers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/schema"
)

// maxRepairs is how often a model is asked to correct its answer.
const maxRepairs = 2

// Problem is one error in an answer.
type Problem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// StructuredReport describes how an answer was obtained.
type StructuredReport struct {
	// Mode is native if the service itself enforces the schema, or prompt if it was only instructed
	// to follow it.
	Mode     string    `json:"mode"`
	Model    string    `json:"model"` // of the last answer, with its provider
	Attempts int       `json:"attempts"`
	Problems []Problem `json:"problems,omitempty"`
	Usage    Usage     `json:"usage"`
}

// Completer is what Structured calls.
type Completer interface {
	Complete(ctx context.Context, q Request) (Reply, error)
	// HoldsToSchema reports whether the first model that would answer q enforces q.Schema.
	HoldsToSchema(ctx context.Context, q Request) bool
}

// Structured requests JSON that matches a JSON Schema and passes check, which may be nil. Problems
// with an answer are sent back to the model, at most twice. If strict is set, services that can
// enforce the schema do so; each object of the schema must then list all of its members as required.
// Structured never returns an invalid answer: the error is Invalid with all problems.
func Structured(ctx context.Context, r Completer, q Request, doc json.RawMessage, strict bool, check func(json.RawMessage) []Problem) (json.RawMessage, StructuredReport, error) {
	report := StructuredReport{Mode: "prompt"}
	if strict && r.HoldsToSchema(ctx, q) {
		report.Mode = "native"
		q.Schema = &Schema{Name: "answer", Schema: doc}
	} else {
		q.System = append(q.System[:len(q.System):len(q.System)], TextPart("Answer with one JSON value that matches this JSON Schema, and nothing else:\n"+string(doc)))
	}
	for {
		report.Attempts++
		reply, err := r.Complete(ctx, q)
		report.Usage.add(reply.Usage)
		if err != nil {
			return nil, report, err
		}
		report.Model = reply.Provider + "/" + reply.Model
		switch reply.Reason {
		case FinishRefusal, FinishContentFilter:
			return nil, report, fault.Deniedf("The model refused to answer.").WithDetails(map[string]string{"reason": reply.Raw})
		}
		answer := reply.Text()
		for _, c := range reply.Calls() {
			if q.Schema != nil && c.Name == q.Schema.Name {
				answer = c.Args
			}
		}
		value, problems, err := parse(ctx, doc, answer)
		if err != nil {
			return nil, report, err
		}
		if len(problems) == 0 && check != nil {
			problems = check(value)
		}
		if report.Problems = problems; len(problems) == 0 {
			return value, report, nil
		}
		if report.Attempts > maxRepairs {
			return nil, report, fault.Invalidf("The model's answer isn't valid: %s", problems[0]).WithDetails(map[string]any{"problems": problems})
		}
		q.Messages = append(q.Messages[:len(q.Messages):len(q.Messages)],
			Message{Role: Assistant, Parts: []Part{TextPart(orDash(answer))}},
			Message{Role: User, Parts: []Part{TextPart(complaint(problems))}})
	}
}

// String returns the problem as one line.
func (p Problem) String() string { return cmp.Or(p.Path, "the whole") + ": " + p.Message }

func (u *Usage) add(v Usage) {
	u.Input += v.Input
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.CacheWrite1h += v.CacheWrite1h
	u.Output += v.Output
	u.Reasoning += v.Reasoning
	u.ToolPrompt += v.ToolPrompt
	u.Requests += v.Requests
	u.ReportedMicros += v.ReportedMicros
	u.Estimated = u.Estimated || v.Estimated
}

func complaint(problems []Problem) string {
	var b strings.Builder
	b.WriteString("The answer is not valid. Give the whole answer again, corrected:\n")
	for _, p := range problems[:min(len(problems), 20)] {
		fmt.Fprintf(&b, "- %s\n", p)
	}
	return b.String()
}

// HoldsToSchema implements Completer.
func (r *Router) HoldsToSchema(ctx context.Context, q Request) bool {
	_, entries, chain, _, err := r.chain(ctx, q)
	if err != nil {
		return false
	}
	for _, ref := range chain {
		if t, err := r.resolve(ctx, entries, ref); err == nil {
			switch t.entry.Type {
			case WireGemini:
				return true
			case WireAnthropic:
				return t.info.Caps.Tools
			case WireScripted:
				return false
			}
			return t.info.Caps.Structured || t.entry.official()
		}
	}
	return false
}

// answerSchemas caches compiled schemas, because a few are used repeatedly and compiling takes longer
// than checking.
var answerSchemas schema.Cache

// parse parses the one JSON value of an answer and returns how it breaks the schema. Numbers that
// don't fit a float64 are problems too.
func parse(ctx context.Context, doc []byte, answer string) (json.RawMessage, []Problem, error) {
	compiled, err := answerSchemas.Compile(doc)
	if err != nil {
		return nil, nil, fault.In("schema", err)
	}
	text := bytes.TrimSpace([]byte(answer))
	value, size, err := jcs.DecodeSized(text, maxAnswerDepth, maxAnswerValues)
	if err != nil && !json.Valid(text) { // with prose or fences around it
		if text, err = oneValue(text); err == nil {
			value, size, err = jcs.DecodeSized(text, maxAnswerDepth, maxAnswerValues)
		}
	}
	if err != nil {
		return nil, []Problem{{Message: err.Error()}}, nil
	}
	var problems []Problem
	if !finite(text) {
		return nil, overflows("", value, nil), nil
	}
	findings, err := compiled.CheckSized(ctx, value, size)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range findings {
		problems = append(problems, Problem{f.Path, f.Message})
	}
	return text, problems, nil
}

// Limits on an answer.
const (
	maxAnswerDepth  = 64
	maxAnswerValues = 100_000
)

// finite reports whether every number of a JSON text fits a float64.
func finite(text []byte) bool {
	for number := range jcs.Numbers(text) {
		if len(number) < 300 && !bytes.ContainsAny(number, "eE") {
			continue
		}
		if _, err := strconv.ParseFloat(string(number), 64); err != nil {
			return false
		}
	}
	return true
}

// overflows appends the numbers of a value that don't fit a float64.
func overflows(path string, v any, found []Problem) []Problem {
	switch v := v.(type) {
	case json.Number:
		if _, err := v.Float64(); err != nil {
			found = append(found, Problem{path, fmt.Sprintf("the number %s is larger than a double holds", v)})
		}
	case []any:
		for i, e := range v {
			found = overflows(path+"/"+strconv.Itoa(i), e, found)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			found = overflows(path+"/"+name, v[name], found)
		}
	}
	return found
}

var (
	errNoValue   = errors.New("the answer holds no JSON value")
	errTwoValues = errors.New("the answer holds more than one JSON value")
)

// oneValue finds the JSON value of an answer with prose or fences around it.
func oneValue(answer []byte) ([]byte, error) {
	var found []byte
	for i := 0; i < len(answer); i++ {
		if answer[i] != '{' && answer[i] != '[' {
			continue
		}
		c := cursor{b: answer, i: i}
		c.skip()
		if c.bad {
			continue
		}
		if found != nil {
			return nil, errTwoValues
		}
		found = answer[i:c.i]
		i = c.i - 1
	}
	if found == nil {
		return nil, errNoValue
	}
	return found, nil
}
