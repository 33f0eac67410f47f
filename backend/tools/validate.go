package tools

import (
	"context"
	"encoding/json"
	"errors"

	"helix/backend/sandbox"
)

// ValidateParams is a definition to check before it is saved.
type ValidateParams struct {
	Code           string          `json:"code"`
	Language       Language        `json:"language,omitempty"` // default javascript
	Description    string          `json:"description,omitempty"`
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	Capabilities   []string        `json:"capabilities,omitempty"`
	SandboxProfile Profile         `json:"sandboxProfile,omitempty"`
	Limits         *Limits         `json:"limits,omitempty"`
}

// Validation is the result of the static checks. Errors prevent a save, warnings do not. It is
// advice: the sandbox enforces the limits of a tool.
type Validation struct {
	Valid                      bool            `json:"valid"` // no errors
	Errors                     []Problem       `json:"errors"`
	Warnings                   []Problem       `json:"warnings"`
	DetectedDangerousFunctions []string        `json:"detectedDangerousFunctions"` // eval, Function, constructor, import()
	Entry                      Entry           `json:"entry,omitempty"`
	SuggestedSchema            json.RawMessage `json:"suggestedSchema,omitempty"` // if no schema was given and the code shows which parameters it reads
	DefinitionHash             string          `json:"definitionHash"`
}

// Entry is the kind of entry point of a tool.
type Entry string

// The kinds of entry points, in order of preference.
const (
	EntryDefault Entry = "default" // export default function (params, helix)
	EntryExecute Entry = "execute" // function execute(params)
	EntryMain    Entry = "main"    // function main()
	EntryBody    Entry = "body"    // the text is the body of an async function
)

// Enum lists the values for the generated client.
func (Entry) Enum() []string { return []string{"default", "execute", "main", "body"} }

// Problem is one finding. Line and Column count from 1 in the original text; both are 0 if the
// finding has no location in the code. Field names the part of the definition.
type Problem struct {
	Code    string `json:"code"`  // stable, such as syntax, import, unused_capability
	Field   string `json:"field"` // code, parameters, capabilities, name, …
	Message string `json:"message"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path,omitempty"` // JSON pointer within Field
}

// Validate runs the static checks without saving anything.
func (s *Service) Validate(ctx context.Context, p ValidateParams) (Validation, error) {
	ex := s.examineAll(ctx, definition{
		Description: p.Description, Language: p.Language, Code: p.Code, Parameters: p.Parameters,
		Capabilities: p.Capabilities, SandboxProfile: p.SandboxProfile, Limits: p.Limits,
	})
	return ex.result, nil
}

func (s *Service) checker() checker { return checker{box: s.box, large: s.large} }

// examineAll is examine followed by a check by the engine itself. The compiled program remains in
// the engine's cache, so that the first run of a saved tool is fast.
func (s *Service) examineAll(ctx context.Context, d definition) examined {
	ex := s.checker().examine(ctx, d)
	if !ex.result.Valid || s.box == nil {
		return ex
	}
	_, err := s.box.CompileJS(ctx, ex.def.source("tool"))
	var e *sandbox.Error
	if errors.As(err, &e) && e.Class == sandbox.ClassCompile {
		p := problemf("compile", "code", "%s", e.Message)
		if at, ok := e.Details.(sandbox.CompileDetail); ok {
			p.Line, p.Column = at.Line, at.Column
		} else if at, ok := e.Details.(*sandbox.CompileDetail); ok {
			p.Line, p.Column = at.Line, at.Column
		}
		ex.result.Errors = append(ex.result.Errors, p)
		ex.result.Valid = false
	}
	return ex
}

// source returns the definition as input of the engine.
func (d definition) source(name string) sandbox.Source {
	ext := ".js"
	if d.Language == TypeScript {
		ext = ".ts"
	}
	return sandbox.Source{Name: name + ext, Text: d.Code, Language: sandbox.Language(d.Language)}
}
