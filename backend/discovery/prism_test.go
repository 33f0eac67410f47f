//go:build prism

package discovery

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/openapi"
)

// Prism validates requests by the description that it serves, independently of package openapi.
const prismModules = "../../build/prism/node_modules/"

// prism serves a description and returns its address.
func prism(t *testing.T, file string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	file, err = filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("node", prismModules+"@stoplight/prism-cli/dist/index.js", "mock", "--errors", "--seed", "helix", "-p", port, file)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatalf("couldn't start Prism: %v; run make test-prism, which installs it", err)
	}
	ready, ended := make(chan bool, 1), make(chan struct{})
	var last string
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last = lines.Text()
			if strings.Contains(last, "Prism is listening") {
				ready <- true
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
		_ = c.Wait()
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatalf("Prism ended: %s", last)
	}
	return "http://localhost:" + port
}

// prismTool imports operations of a description to be sent to Prism, and approves them.
func (e *env) prismTool(file, name string, operations ...string) (uuid.UUID, Inspection) {
	e.Helper()
	server := prism(e.T, file)
	raw, err := os.ReadFile(file)
	if err != nil {
		e.Fatal(err)
	}
	x, err := e.s.InspectOpenAPI(e.ctx, InspectParams{Content: string(raw)})
	if err != nil {
		e.Fatal(err)
	}
	made, err := e.s.ImportOpenAPI(e.ctx, ImportOpenAPIParams{SpecID: x.SpecID, Operations: operations, Name: name, Server: server})
	if err != nil {
		e.Fatal(err)
	}
	if _, err := e.s.Approve(e.ctx, ApproveParams{ManifestID: *made.ManifestID, DefinitionHash: made.DefinitionHash}); err != nil {
		e.Fatal(err)
	}
	return *made.ManifestID, x
}

func TestPrismAnswersAnOperationOfGitHub(t *testing.T) {
	e := setup(t)
	id, x := e.prismTool(prismModules+"@octokit/openapi/generated/api.github.com.json", "github", "get /users/{username}", "post /markdown", "get /search/repositories")
	if x.Counts.Operations+x.Counts.Skipped != 1223 {
		t.Errorf("%d operations and %d skipped, want 1,223", x.Counts.Operations, x.Counts.Skipped)
	}
	for operation, params := range map[string]string{
		"get /users/{username}":    `{"username":"octo/cat"}`,
		"get /search/repositories": `{"q":"a b&c","sort":"stars","per_page":3}`,
	} {
		r, err := e.run(id, operation, params)
		if err != nil || !r.Success {
			t.Errorf("%s: %+v, %v", operation, r, err)
		}
	}
	// text/html, which is no JSON
	if r, err := e.run(id, "post /markdown", `{"body":{"text":"# Hello","mode":"gfm"}}`); err != nil || !r.Success {
		t.Errorf("post /markdown: %s, %v", r.Output, err)
	}
}

func TestPrismAnswersAnOperationOfBlockfrost(t *testing.T) {
	e := setup(t)
	id, x := e.prismTool(prismModules+"@blockfrost/openapi/openapi.yaml", "blockfrost", "get /health", "get /blocks/latest", "get /assets")
	if x.Counts.Operations+x.Counts.Skipped != 129 {
		t.Errorf("%d operations and %d skipped, want 129", x.Counts.Operations, x.Counts.Skipped)
	}
	if _, err := e.run(id, "get /blocks/latest", `{}`); err == nil {
		t.Error("an operation ran without its key")
	}
	if _, err := e.s.SetAuth(e.ctx, AuthParams{ManifestID: id, Scheme: "project_id", Value: "s3cret-key"}); err != nil {
		t.Fatal(err)
	}
	for operation, params := range map[string]string{"get /health": `{}`, "get /blocks/latest": `{}`, "get /assets": `{"count":5,"order":"desc"}`} {
		r, err := e.run(id, operation, params)
		if err != nil || !r.Success {
			t.Errorf("%s: %s, %v", operation, r.Output, err)
		}
	}
}

// Every operation of a real description has a name of its own, whatever the order of the document.
func TestNamesOfTheDescriptionsForPrism(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]struct{ operations, long, nameless int }{
		"@octokit/openapi/generated/api.github.com.json": {1223, 25, 0},
		"@blockfrost/openapi/openapi.yaml":               {129, 0, 128},
	} {
		raw, err := os.ReadFile(prismModules + file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := openapi.Parse(raw, "")
		if err != nil {
			t.Fatal(err)
		}
		names := openapi.Names("tool", d.Operations)
		turned := slices.Clone(d.Operations)
		slices.Reverse(turned)
		other := openapi.Names("tool", turned)
		slices.Reverse(other)
		seen := map[string]bool{}
		var long, nameless int
		for i, n := range names {
			if seen[n] || len(n) > openapi.MaxName || other[i] != n {
				t.Errorf("%s: %q is %q in another order", d.Operations[i].Key, n, other[i])
			}
			seen[n] = true
			if len(d.Operations[i].ID) > openapi.MaxName {
				long++
			}
			if d.Operations[i].ID == "" {
				nameless++
			}
		}
		if len(names) != want.operations || long != want.long || nameless != want.nameless {
			t.Errorf("%s: %d operations, %d with a long id, %d without; want %+v", file, len(names), long, nameless, want)
		}
	}
}

// mocked describes every style of a parameter, and required authentication.
const mocked = `
openapi: 3.0.3
info: {title: Styles, version: 1.0.0}
components: {securitySchemes: {key: {type: apiKey, in: header, name: X-API-Key}}}
paths:
  /path/{word}/{number}:
    get:
      parameters: # Prism 5.14 itself ends at an array in a path
        - {name: word, in: path, required: true, schema: {type: string, enum: ["a b"]}}
        - {name: number, in: path, required: true, schema: {type: integer, minimum: 5}}
      responses: {200: {description: ok, content: {application/json: {example: {ok: true}}}}}
  /query:
    get:
      parameters:
        - {name: form, in: query, required: true, schema: {type: array, minItems: 2, items: {type: integer}}}
        - {name: joined, in: query, required: true, explode: false, schema: {type: array, minItems: 3, items: {type: string, enum: [a, b, c]}}}
        - {name: piped, in: query, required: true, style: pipeDelimited, explode: false, schema: {type: array, minItems: 2, items: {type: string, enum: [x, "y"]}}}
        - {name: deep, in: query, required: true, style: deepObject, explode: true, schema: {type: object, required: [a, b], properties: {a: {type: string, enum: [one]}, b: {type: string, enum: [two]}}}}
      responses: {200: {description: ok, content: {application/json: {example: {ok: true}}}}}
  /form:
    post:
      requestBody: {required: true, content: {application/x-www-form-urlencoded: {schema: {type: object, required: [name, age], properties: {name: {type: string, enum: ["a&b=c"]}, age: {type: integer}}}}}}
      responses: {200: {description: ok, content: {application/json: {example: {ok: true}}}}}
  /json:
    post:
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [size], properties: {size: {type: integer, minimum: 5}}}}}}
      responses: {200: {description: ok, content: {application/json: {example: {ok: true}}}}}
  /locked:
    get:
      security: [{key: []}]
      responses: {200: {description: ok, content: {application/json: {example: {ok: true}}}}}
`

func TestPrismAcceptsEveryStyle(t *testing.T) {
	e := setup(t)
	file := filepath.Join(t.TempDir(), "styles.yaml")
	if err := os.WriteFile(file, []byte(mocked), 0o600); err != nil {
		t.Fatal(err)
	}
	id, _ := e.prismTool(file, "styles", "get /path/{word}/{number}", "get /query", "post /form", "post /json", "get /locked")
	for operation, params := range map[string]string{
		"get /path/{word}/{number}": `{"word":"a b","number":7}`,
		"get /query":                `{"form":[1,2],"joined":["a","b","c"],"piped":["x","y"],"deep":{"a":"one","b":"two"}}`,
		"post /form":                `{"body":{"name":"a&b=c","age":3}}`,
		"post /json":                `{"body":{"size":7}}`,
	} {
		r, err := e.run(id, operation, params)
		if err != nil || !r.Success {
			t.Errorf("%s: %s, %v", operation, r.Output, err)
		}
	}
}

// The example of the weather works with and without a key; what Prism refuses is a failure.
func TestPrismServesTheWeatherExample(t *testing.T) {
	e := setup(t)
	m := e.example("weather.yaml")
	raw, err := json.Marshal(object(m["execution"])["openapi"])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "weather.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	id, _ := e.prismTool(file, "weather", "get /v1/forecast")
	if r, err := e.run(id, "getForecast", `{"latitude":52.5,"longitude":13.4,"hourly":["temperature_2m","precipitation"]}`); err != nil || !r.Success {
		t.Errorf("without a key: %s, %v", r.Output, err)
	}
	if _, err := e.s.SetAuth(e.ctx, AuthParams{ManifestID: id, Scheme: "weather-api-key", Value: "s3cret-key"}); err != nil {
		t.Fatal(err)
	}
	if r, err := e.run(id, "getForecast", `{"latitude":52.5,"longitude":13.4}`); err != nil || !r.Success {
		t.Errorf("with a key: %s, %v", r.Output, err)
	}
}

// What Prism refuses by a stricter description than ours is a failure with its status.
func TestPrismRefusalsAreFailures(t *testing.T) {
	e := setup(t)
	strict := filepath.Join(t.TempDir(), "strict.yaml")
	if err := os.WriteFile(strict, []byte(mocked), 0o600); err != nil {
		t.Fatal(err)
	}
	server := prism(t, strict)
	lax := strings.NewReplacer("security: [{key: []}]", "security: []", "minimum: 5", "minimum: 0").Replace(mocked)
	x, err := e.s.InspectOpenAPI(e.ctx, InspectParams{Content: lax})
	if err != nil {
		t.Fatal(err)
	}
	made, err := e.s.ImportOpenAPI(e.ctx, ImportOpenAPIParams{SpecID: x.SpecID, Operations: []string{"get /locked", "post /json"}, Name: "lax", Server: server})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.s.Approve(e.ctx, ApproveParams{ManifestID: *made.ManifestID, DefinitionHash: made.DefinitionHash}); err != nil {
		t.Fatal(err)
	}
	for operation, want := range map[string]struct{ params, status string }{"get /locked": {`{}`, `"status":401`}, "post /json": {`{"body":{"size":1}}`, `"status":422`}} {
		r, err := e.run(*made.ManifestID, operation, want.params)
		if err != nil || r.Success || r.ErrorClass != "http_status" || !strings.Contains(string(r.Output), want.status) {
			t.Errorf("%s: %+v, %v; want %s", operation, r, err, want.status)
		}
	}
}
