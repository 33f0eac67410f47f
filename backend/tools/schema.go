package tools

import (
	"bytes"
	"context"
	"encoding/json"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/schema"
)

// maxParamDepth is how deep parameters may nest.
const maxParamDepth = 64

// ParamError is one place where parameters break the schema.
type ParamError = schema.Finding

// ParamErrors are the details of the error for parameters that break the schema.
type ParamErrors = schema.Findings

// apply checks params, fills in defaults and returns them as they go to the tool. Params nil
// or null are {}. The error is Invalid with ParamErrors as details, or that of the context or
// of a check that needs too much work.
func apply(ctx context.Context, s *schema.Schema, params json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(params)) == 0 || bytes.Equal(bytes.TrimSpace(params), []byte("null")) {
		params = json.RawMessage("{}")
	}
	v, err := jcs.Decode(params, maxParamDepth, 0)
	if err != nil {
		if p, ok := fault.As(err).Details.(jcs.NumberProblem); ok {
			return nil, paramFault([]ParamError{{Path: p.Path, Keyword: "number", Message: p.Message}})
		}
		return nil, paramFault([]ParamError{{Keyword: "json", Message: err.Error()}})
	}
	changed, err := s.FillDefaults(ctx, v)
	if err != nil {
		return nil, err
	}
	list, err := schema.Mismatches(s.Check(ctx, v))
	switch {
	case err != nil:
		return nil, err
	case len(list) > 0:
		return nil, paramFault(list)
	case !changed:
		return params, nil
	}
	return jcs.Marshal(v)
}

func paramFault(list []ParamError) error {
	where := list[0].Path
	if where == "" {
		where = "the parameters"
	}
	return fault.Invalidf("The parameters don't match the tool's schema: %s: %s.", where, list[0].Message).WithDetails(ParamErrors{Errors: list})
}
