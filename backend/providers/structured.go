package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/schema"
)

// maxRepairs is how often a model is shown what is wrong with its answer.
const maxRepairs = 2

// Problem is one error in an answer.
type Problem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// StructuredReport says how an answer came about.
type StructuredReport struct {
	// Mode is native where the service itself holds to the schema, prompt where it was asked to.
	Mode     string    `json:"mode"`
	Attempts int       `json:"attempts"`
	Problems []Problem `json:"problems,omitempty"`
	Usage    Usage     `json:"usage"`
}

// Structured asks for a value of type T. The answer is checked against T's schema and by check; a
// model is shown the problems at most twice. Nothing half-valid is returned: the error is Invalid
// with all problems.
func Structured[T any](ctx context.Context, r *Router, q Request, check func(*T) []Problem) (value T, report StructuredReport, err error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return value, report, fault.Internalf(err, "The schema of the answer can't be made.")
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return value, report, fault.Internalf(err, "The schema of the answer can't be made.")
	}
	report.Mode = "prompt"
	if r.native(ctx, q) {
		report.Mode = "native"
		q.Schema = &Schema{Name: "answer", Schema: raw}
	} else {
		q.System = append(q.System[:len(q.System):len(q.System)], TextPart("Answer with one JSON value that matches this JSON Schema, and nothing else:\n"+string(raw)))
	}
	for {
		report.Attempts++
		reply, err := r.Complete(ctx, q)
		report.Usage.add(reply.Usage)
		if err != nil {
			return value, report, err
		}
		switch reply.Reason {
		case FinishRefusal, FinishContentFilter:
			return value, report, fault.Deniedf("The model refused to answer.").WithDetails(map[string]string{"reason": reply.Raw})
		}
		answer := reply.Text()
		for _, c := range reply.Calls() {
			if q.Schema != nil && c.Name == q.Schema.Name {
				answer = c.Args
			}
		}
		var out T
		report.Problems = parse(ctx, raw, answer, &out)
		if len(report.Problems) == 0 && check != nil {
			report.Problems = check(&out)
		}
		if len(report.Problems) == 0 {
			return out, report, nil
		}
		if report.Attempts > maxRepairs {
			return value, report, fault.Invalidf("The model gave no valid answer.").WithDetails(map[string]any{"problems": report.Problems})
		}
		q.Messages = append(q.Messages[:len(q.Messages):len(q.Messages)],
			Message{Role: Assistant, Parts: []Part{TextPart(orDash(answer))}},
			Message{Role: User, Parts: []Part{TextPart(complaint(report.Problems))}})
	}
}

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
		fmt.Fprintf(&b, "- %s: %s\n", p.Path, p.Message)
	}
	return b.String()
}

// native reports whether the first model that would answer q holds to a schema by itself.
func (r *Router) native(ctx context.Context, q Request) bool {
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

// parse reads the one JSON value of an answer into out. Numbers are exact: what a Go value can't
// hold is a problem.
func parse(ctx context.Context, raw []byte, answer string, out any) []Problem {
	text, err := oneValue(answer)
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	v, err := jcs.Decode(text, 64, 100_000)
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	compiled, err := schema.Compile(raw)
	if err == nil {
		err = compiled.Check(ctx, v)
	}
	findings, err := schema.Mismatches(err)
	if err != nil {
		return []Problem{{Message: fault.As(err).Message}}
	}
	var problems []Problem
	for _, f := range findings {
		problems = append(problems, Problem{f.Path, f.Message})
	}
	if problems != nil {
		return problems
	}
	if err := json.Unmarshal(text, out); err != nil {
		p := Problem{Message: err.Error()}
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) {
			p = Problem{Path: "/" + strings.ReplaceAll(t.Field, ".", "/"), Message: t.Value + " doesn't fit"}
		}
		return []Problem{p}
	}
	return nil
}

var (
	errNoValue   = errors.New("the answer holds no JSON value")
	errTwoValues = errors.New("the answer holds more than one JSON value")
)

// oneValue finds the JSON value of an answer, with prose or fences around it.
func oneValue(s string) ([]byte, error) {
	whole := bytes.TrimSpace([]byte(s))
	if json.Valid(whole) {
		return whole, nil
	}
	var found []byte
	for i := 0; i < len(whole); i++ {
		if whole[i] != '{' && whole[i] != '[' {
			continue
		}
		c := cursor{b: whole, i: i}
		c.skip()
		if c.bad {
			continue
		}
		if found != nil {
			return nil, errTwoValues
		}
		found = whole[i:c.i]
		i = c.i - 1
	}
	if found == nil {
		return nil, errNoValue
	}
	return found, nil
}
