package fault

import (
	"encoding/json"
	"strings"
)

// Codes of errors about a field. A package may add its own.
const (
	CodeInvalid      = "invalid" // details are only in the message
	CodeMissing      = "missing"
	CodeType         = "wrong_type"
	CodeSyntax       = "syntax"
	CodeRange        = "out_of_range"
	CodeTooLong      = "too_long"
	CodeUnknownField = "unknown_field"
	CodeUnknownValue = "unknown_value"
	CodePast         = "past"
	CodeConstraint   = "constraint"
)

// FieldError is the Details of an error about one field of a request.
type FieldError struct {
	Field string `json:"field"` // its path, such as cadence.timezone or items[2].content
	Code  string `json:"code"`
}

// FieldErrors is the Details of an error about several fields.
type FieldErrors struct {
	Errors []FieldProblem `json:"errors"`
}

// FieldProblem is an error in one field. If the details also name a field, Path is relative to it.
type FieldProblem struct {
	Path    string `json:"path"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Field returns the details of an error about one field.
func Field(path, code string) FieldError { return FieldError{path, code} }

// InvalidField is Invalidf with the invalid field in the details.
func InvalidField(path, code, format string, args ...any) *Error {
	return Invalidf(format, args...).WithDetails(Field(path, code))
}

// In returns err as an error about the field at path of the caller's own request: path becomes the
// prefix of the field in its details; other details are kept. Errors that the request did not cause
// are returned unchanged.
func In(path string, err error) error {
	if err == nil {
		return nil
	}
	e := *As(err)
	switch e.Kind {
	case Internal, Canceled, Timeout:
		return err
	}
	details := map[string]any{}
	if e.Details != nil {
		raw, jsonErr := json.Marshal(e.Details)
		if jsonErr != nil || json.Unmarshal(raw, &details) != nil {
			details = map[string]any{} // not an object, so there is nothing to add the field to
		}
	}
	below, _ := details["field"].(string)
	switch {
	case below == "":
		below = path
	case strings.HasPrefix(below, "["):
		below = path + below
	default:
		below = path + "." + below
	}
	details["field"] = below
	if details["code"] == nil {
		details["code"] = string(e.Kind)
	}
	e.Details = details
	return &e
}
