package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// doublingEnum returns a short TypeScript source whose last constant is 2^60 characters long.
func doublingEnum() string {
	text := `enum E{a="aaaaaaaa"`
	last := "a"
	for i := range 57 {
		name := fmt.Sprintf("b%d", i)
		text += fmt.Sprintf(",%s=%s+%s", name, last, last)
		last = name
	}
	return text + "}"
}

// Every method that compiles code rejects a source whose compilation would take all memory.
func TestSourceThatExplodesIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	s := setup(t)
	bomb := doublingEnum()
	refused := func(what string, err error) {
		t.Helper()
		if f := fault.As(err); err == nil || f.Kind != fault.Invalid || !strings.Contains(f.Message, "to compile") {
			t.Errorf("%s: %v", what, err)
		}
	}
	v, err := s.Validate(s.ctx, ValidateParams{Code: bomb, Language: TypeScript})
	if err != nil || v.Valid || len(v.Errors) != 1 || v.Errors[0].Code != codeTooCostly {
		t.Errorf("validate: %+v, %v", v, err)
	}
	_, err = s.Create(s.ctx, CreateParams{Name: "bomb", Code: bomb, Language: TypeScript})
	refused("create", err)
	tool := s.create(t, CreateParams{Name: "good", Code: "return 1"})
	_, err = s.Update(s.ctx, UpdateParams{ToolID: tool.ID, BaseVersion: tool.Version, Patch: Patch{Code: &bomb, Language: new(TypeScript)}})
	refused("update", err)
	_, err = s.Execute(s.ctx, ExecuteParams{Code: bomb, Language: TypeScript})
	refused("execute", err)
	bundle, err := json.Marshal(Bundle{Format: bundleFormat, FormatVersion: bundleVersion, Tools: []BundleTool{{Definition: BundleDefinition{Name: "bomb", Code: bomb, Language: TypeScript}}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Import(s.ctx, ImportParams{Bundle: bundle})
	refused("import", err)
}
