package tools

import (
	"bytes"
	"context"
	"encoding/json"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/schema"
)

// maxParamDepth is the maximum nesting of parameters.
const maxParamDepth = 64

// ParamError is one location where parameters violate the schema.
type ParamError = schema.Finding

// ParamErrors is the detail of the error for parameters that violate the schema.
type ParamErrors = schema.Findings

// apply validates params, sets defaults and returns the parameters for the tool. nil or null params
// are {}. The error is Invalid with ParamErrors as details, or that of the context, or Limit if
// validation takes too much work.
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
	return fault.Invalidf("The parameters do not match the tool's schema: %s: %s.", where, list[0].Message).WithDetails(ParamErrors{Errors: list})
}
