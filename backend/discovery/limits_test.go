package discovery

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/openapi"
)

// sized is a tool whose server sends back what it got, a body of a number of bytes, or one without an end.
func (e *env) sized() uuid.UUID {
	e.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/echo":
			var body json.RawMessage
			_ = json.NewDecoder(r.Body).Decode(&body) // the test looks at the answer
			w.Write(body)
		case "/large":
			w.Write([]byte(`{"text":"` + strings.Repeat("x", 2<<20) + `"}`))
		default:
			for chunk := []byte(strings.Repeat("x", 1<<20)); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}
	}))
	e.Cleanup(server.Close)
	x, err := e.s.InspectOpenAPI(e.ctx, InspectParams{Content: `{"openapi":"3.1.0","info":{"title":"Sizes","version":"1.0.0"},"servers":[{"url":"` + strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + `"}],"paths":{
		"/echo":{"post":{"operationId":"echo","requestBody":{"content":{"application/json":{"schema":{"type":"object"}}}}}},"/large":{"get":{"operationId":"large"}},"/endless":{"get":{"operationId":"endless"}}}}`})
	if err != nil {
		e.Fatal(err)
	}
	made, err := e.s.ImportOpenAPI(e.ctx, ImportOpenAPIParams{SpecID: x.SpecID, Operations: []string{"post /echo", "get /large", "get /endless"}})
	if err != nil {
		e.Fatal(err)
	}
	if _, err := e.s.Approve(e.ctx, ApproveParams{ManifestID: *made.ManifestID, DefinitionHash: made.DefinitionHash}); err != nil {
		e.Fatal(err)
	}
	return *made.ManifestID
}

func TestLargeParametersAndResponses(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id := e.sized()
	text := strings.Repeat("y", 1<<20-100)
	r, err := e.run(id, "echo", `{"body":{"text":"`+text+`"}}`)
	if err != nil || !r.Success || !strings.Contains(string(r.Output), text) {
		t.Errorf("1 MB of parameters: %t, %d bytes, %v", r.Success, len(r.Output), err)
	}
	full, err := e.s.Execution(e.ctx, ExecutionParams{ExecutionID: *r.ExecutionID})
	if err != nil || len(full.Params) > keptOutput || len(full.Output) > keptOutput {
		t.Errorf("the log has %d bytes of parameters and %d of output, %v", len(full.Params), len(full.Output), err)
	}
	if r, err = e.run(id, "echo", `{"body":{"text":"`+strings.Repeat("y", openapi.MaxBody)+`"}}`); !fault.Is(err, fault.Limit) && !fault.Is(err, fault.Invalid) {
		t.Errorf("a body over the limit: %t, %v", r.Success, err)
	}
	r, err = e.run(id, "large", `{}`)
	var out struct {
		Truncated bool
		Body      string
		Blob      string
	}
	if err != nil || json.Unmarshal(r.Output, &out) != nil || !out.Truncated || len(out.Body) > 8<<10 || !strings.HasPrefix(out.Body, `{"text":"xxx`) {
		t.Fatalf("%.200s, %v", r.Output, err)
	}
	if raw, err := e.s.blobOf(e.ctx)(out.Blob); err != nil || len(raw) != 2<<20+11 {
		t.Errorf("%d bytes are kept, %v", len(raw), err)
	}
	if r, err = e.run(id, "endless", `{}`); !fault.Is(err, fault.Limit) {
		t.Errorf("a response without an end: %.200s, %v", r.Output, err)
	}
	if x := e.executions()[0]; x.Status != "failure" || x.ErrorClass == "" {
		t.Errorf("%+v", x)
	}
}

// Of 50 runs at once as many are in progress as a tool may have. The others are refused at once, and
// leave nothing that counts.
func TestRunsAtOnceAreLimited(t *testing.T) {
	t.Parallel()
	e := setup(t)
	id := e.tool(true)
	ctx, cancel := context.WithCancel(e.ctx)
	ended := make(chan error, 50)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			_, err := e.s.Run(ctx, RunParams{ManifestID: &id, Operation: "slow"})
			ended <- err
		})
	}
	for range perTool {
		<-e.begun
	}
	for range 50 - perTool {
		if err := <-ended; !fault.Is(err, fault.Limit) {
			t.Errorf("%v", err)
		}
	}
	cancel()
	all.Wait()
	for range perTool {
		if err := <-ended; !fault.Is(err, fault.Canceled) {
			t.Errorf("%v", err)
		}
	}
	for _, x := range e.executions() {
		if x.Status != "cancelled" {
			t.Errorf("%+v", x)
		}
	}
	if r, err := e.run(id, "listNotes", `{}`); err != nil || !r.Success {
		t.Errorf("the next run: %+v, %v", r, err)
	}
}
