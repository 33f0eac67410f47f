package tools

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"helix/backend/permission"
	"helix/backend/testkit"
)

// allow gives a tool an always grant for a capability.
func (b *bundle) allow(t testing.TB, tool Tool, pending string) {
	t.Helper()
	l, err := b.perm.ListApprovals(b.ctx, permission.ListApprovalsParams{SubjectID: tool.ID.String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range l.Approvals {
		if _, err := b.perm.AnswerApproval(b.ctx, permission.AnswerParams{ID: a.ID, Decision: "approve", DefinitionHash: a.DefinitionHash, Scope: pending}); err != nil {
			t.Fatalf("answer: %v", err)
		}
	}
}

func sameJSON(t testing.TB, got, want json.RawMessage) bool {
	t.Helper()
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal(want, &b) != nil {
		t.Fatalf("not JSON: %s / %s", got, want)
	}
	return reflect.DeepEqual(a, b)
}

func TestTemplatesGiveTheirExpectedOutput(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	b := setup(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/todos/1" || r.Header.Get("accept") != "application/json" {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		_, _ = w.Write([]byte(`{"userId":1,"id":1,"title":"delectus aut autem","completed":false}`))
	}))
	t.Cleanup(srv.Close)
	port := mustPort(t, srv.URL)
	r, err := b.Templates(b.ctx, struct{}{})
	if err != nil || len(r.Templates) != 6 {
		t.Fatalf("%d templates, %v", len(r.Templates), err)
	}
	for _, tp := range r.Templates {
		p := CreateParams{
			Name: tp.Name, Description: tp.Description, Code: tp.Code, Language: tp.Language, Parameters: tp.Parameters, Capabilities: tp.Capabilities,
			SandboxProfile: tp.SandboxProfile, Icon: tp.Icon, Samples: []Sample{{Name: "sample", Params: tp.SampleParams, Expected: tp.ExpectedOutput}},
		}
		v, err := b.Validate(b.ctx, ValidateParams{Code: p.Code, Language: p.Language, Parameters: p.Parameters, Capabilities: p.Capabilities, SandboxProfile: p.SandboxProfile})
		if err != nil || !v.Valid || len(v.Warnings) > 0 {
			t.Errorf("%s: validation %+v, %v", tp.ID, v, err)
		}
		params := string(tp.SampleParams)
		if len(p.Capabilities) > 0 { // in tests the network is this computer
			p.Capabilities = []string{"network:localhost(" + port + ")"}
			params = strings.Replace(params, "https://jsonplaceholder.typicode.com", "http://localhost:"+port, 1)
		}
		tool := b.create(t, p)
		if len(p.Capabilities) > 0 {
			if _, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID, Params: json.RawMessage(params)}); err == nil {
				t.Errorf("%s ran without its right", tp.ID)
			}
			b.allow(t, tool, "always")
		}
		res := b.run(t, tool, params)
		if !res.Success || !sameJSON(t, res.Output, tp.ExpectedOutput) {
			t.Errorf("%s gave %s (%s %s), want %s", tp.ID, res.Output, res.ErrorClass, res.Error, tp.ExpectedOutput)
		}
	}
}

func mustPort(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}
