package skills

import (
	"context"
	"encoding/json"

	"helix/backend/fault"
	"helix/backend/skills/expr"
	"helix/backend/skills/machine"
)

// Limits of the result of Evaluate; the value itself may have maxValue bytes.
const (
	maxMatches = 200
	maxValue   = 1 << 20
)

// Evaluate evaluates a path, a template or a condition on a document. Problems with the expression
// are part of the result rather than an error, so that they can be shown during typing. For a path,
// the result lists the first 200 matches with their locations.
func (s *Service) Evaluate(ctx context.Context, p EvaluateParams) (EvaluateResult, error) {
	out := EvaluateResult{Value: json.RawMessage("null"), Matches: []Match{}}
	if (p.ExecutionID == nil) == (len(p.Document) == 0) {
		return out, fault.Invalidf("Give document or executionId.")
	}
	text := p.Document
	if p.ExecutionID != nil {
		var err error
		if text, err = s.documentOf(ctx, *p.ExecutionID); err != nil {
			return out, err
		}
	}
	if len(text) > s.limits.Document {
		return out, fault.Limitf("The document has %d bytes; %d are allowed.", len(text), s.limits.Document)
	}
	doc, err := expr.Decode(text)
	if err != nil {
		return out, fault.Invalidf("The document is not JSON.")
	}
	if len(p.Expression) > maxValue {
		return out, fault.Limitf("The expression has %d bytes; %d are allowed.", len(p.Expression), maxValue)
	}
	given, err := expr.Decode(p.Expression)
	if err != nil {
		return out, fault.Invalidf("The expression is not JSON; a path is written as a text.")
	}
	var v any
	switch p.As {
	case "path":
		v, out.Matches, err = locate(given, doc)
	case "condition":
		v, err = holds(given, doc)
	case "template":
		v, err = fill(given, doc)
	default:
		return out, fault.Invalidf("as is %q; it must be path, template or condition.", p.As)
	}
	if err == nil {
		out.Value, err = expr.Encode(v, maxValue)
	}
	if err != nil {
		f := fault.As(err)
		out.Value, out.Matches, out.Error = json.RawMessage("null"), []Match{}, &machine.Failure{Kind: string(f.Kind), Message: f.Message}
	}
	return out, nil
}

func asText(v any, what string) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fault.Invalidf("A %s is a text.", what)
	}
	return s, nil
}

func locate(given, doc any) (any, []Match, error) {
	text, err := asText(given, "path")
	if err != nil {
		return nil, nil, err
	}
	p, err := expr.ParsePath(text)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := p.Locate(doc, maxMatches)
	if err != nil {
		return nil, nil, err
	}
	all, matches, size, full := []any{}, []Match{}, 0, false
	for _, n := range nodes {
		all = append(all, n.Value)
		if len(matches) == maxMatches || full {
			continue
		}
		size += len(n.Path)
		b, err := expr.Encode(n.Value, max(maxValue-size, 0))
		if full = err != nil; !full {
			size += len(b)
			matches = append(matches, Match{Path: n.Path, Value: b})
		}
	}
	switch {
	case !p.Singular():
		return all, matches, nil
	case len(all) == 0:
		return nil, matches, nil
	}
	return all[0], matches, nil
}

func holds(given, doc any) (any, error) {
	text, err := asText(given, "condition")
	if err != nil {
		return nil, err
	}
	c, err := expr.ParseCondition(text)
	if err != nil {
		return nil, err
	}
	return c.Holds(doc)
}

func fill(given, doc any) (any, error) {
	t, err := expr.ParseTemplate(given)
	if err != nil {
		return nil, err
	}
	return t.Eval(doc)
}

// Document returns the run document of a run, as a help for mapping.
func (s *Service) Document(ctx context.Context, p RunParams) (DocumentResult, error) {
	doc, err := s.documentOf(ctx, p.ExecutionID)
	return DocumentResult{Document: doc}, err
}
