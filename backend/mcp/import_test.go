//go:build linux

package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/storage"
)

var configs = map[string]struct{ text, want string }{
	"claude desktop, with comments": {`{
	// my servers
	"mcpServers": {
		"GitHub": {"command": "npx", "args": ["-y", "server-github"], "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_0123456789abcdef", "DEBUG": "1"}}, /* the last */
		"remote": {"type": "streamable-http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer abcdefghijkl"}},
		"old": {"type": "sse", "url": "https://example.com/sse"},
	},
}`, `github stdio npx -y server-github GITHUB_PERSONAL_ACCESS_TOKEN=${mcp/github/GITHUB_PERSONAL_ACCESS_TOKEN} DEBUG=1
old sse https://example.com/sse
remote http https://example.com/mcp Authorization=${mcp/remote/Authorization}`},
	"vs code": {`{"inputs":[{"id":"key","type":"promptString"}],"servers":{"weather":{"type":"stdio","command":"uvx","args":["weather","--key","${input:key}"],"env":{"HOME_DIR":"${env:HOME}"}}}}`,
		`weather stdio uvx weather --key ${mcp/weather/key} HOME_DIR=${HOME} missing mcp/weather/key`},
	"goose": {`extensions:
  developer:
    type: builtin
    enabled: true
  fetch:
    type: stdio
    cmd: uvx
    args: [mcp-server-fetch]
    envs: {MODE: fast}
    env_keys: [FETCH_KEY]
    timeout: 300
    enabled: false
  notion:
    type: streamable_http
    uri: https://example.com/notion
`, `developer skipped The type builtin is a part of the other program.
fetch stdio uvx mcp-server-fetch FETCH_KEY=${mcp/fetch/FETCH_KEY} MODE=fast disabled 300000 missing mcp/fetch/FETCH_KEY
notion http https://example.com/notion`},
}

func TestConfigurationsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for name, c := range configs {
		found, err := parseConfig([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		lines := []string{}
		for _, i := range found {
			lines = append(lines, describeImport(&i))
		}
		got, want := strings.Join(lines, "\n"), c.want
		for _, k := range []*string{&got, &want} { // the order of variables does not matter
			*k = sortWords(*k)
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(lines, "\n"), c.want)
		}
	}
}

func sortWords(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		words := strings.Fields(l)
		slices.Sort(words)
		lines[i] = strings.Join(words, " ")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func describeImport(i *Imported) string {
	if i.Server == nil {
		return i.Name + " skipped " + i.Skipped
	}
	e := i.Server
	out := []string{e.Name, e.Transport, e.target()}
	for _, m := range []map[string]string{e.Env, e.Headers} {
		for k, v := range m {
			out = append(out, k+"="+v)
		}
	}
	if !*e.Enabled {
		out = append(out, "disabled")
	}
	if e.TimeoutMs != 60_000 {
		b, _ := json.Marshal(e.TimeoutMs)
		out = append(out, string(b))
	}
	if len(i.Missing) > 0 {
		out = append(out, "missing "+strings.Join(i.Missing, " "))
	}
	return strings.Join(out, " ")
}

func TestBrokenConfigurationNamesThePlace(t *testing.T) {
	t.Parallel()
	_, err := parseConfig([]byte("{\n  \"mcpServers\": {\n    \"a\": }\n}"))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "line 3, column 10") {
		t.Errorf("%v", err)
	}
	if _, err := parseConfig([]byte(`{"theme":"dark"}`)); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	if _, err := parseConfig([]byte("extensions:\n  - [\n")); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}

func TestImportMovesSecretsAndExportOmitsThem(t *testing.T) {
	t.Parallel()
	e := setup(t)
	text := configs["claude desktop, with comments"].text
	shown, err := e.s.Import(e.ctx, ImportParams{Content: text})
	if err != nil || len(shown.Found) != 3 || len(shown.Added) != 0 {
		t.Fatalf("%+v, %v", shown, err)
	}
	no := false
	done, err := e.s.Import(e.ctx, ImportParams{Content: text, DryRun: &no, Names: []string{"GitHub", "old"}})
	if err != nil || len(done.Added) != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	value, err := storage.NewSecrets(e.db).Value(e.ctx, "mcp/github/GITHUB_PERSONAL_ACCESS_TOKEN")
	if err != nil || string(value) != "ghp_0123456789abcdef" {
		t.Errorf("%s, %v", value, err)
	}
	out, err := e.s.Export(e.ctx, ExportParams{})
	if err != nil || strings.Contains(out.Content, "ghp_") || !strings.Contains(out.Content, "${mcp/github/GITHUB_PERSONAL_ACCESS_TOKEN}") {
		t.Errorf("%s, %v", out.Content, err)
	}
	again, err := e.s.Import(e.ctx, ImportParams{Content: out.Content, DryRun: &no})
	if err != nil || len(again.Added) != 0 || again.Found[0].Conflict == "" {
		t.Errorf("%+v, %v", again, err)
	}
	for _, i := range again.Found {
		r, err := e.s.GetServer(e.ctx, NameParams{i.Name})
		if err != nil || sortWords(describeImport(&Imported{Server: &r.Server})) != sortWords(describeImport(&i)) {
			t.Errorf("%s is not what was exported: %+v, %v", i.Name, i.Server, err)
		}
	}
}

// What people's files are like: saved by an editor that adds a mark, with entries that only another program understands.
func TestOddConfigurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\xef\xbb\xbf{\"mcpServers\":{\"a\":{\"command\":\"x\"}}}": "a stdio x",
		`// mine
{"mcpServers":{"a":{"command":"x","args":["-p",8080,true,1e3]},"b":{"command":["x"]},"c":7,"d":null,"e":{"command":"y","env":{"N":null,"M":1}},},}`: `a stdio x -p 8080 true 1e3
b skipped Its entry can't be read: cannot unmarshal array into Go struct field foreign.Command of type string.
c skipped Its entry can't be read: cannot unmarshal number into Go value of type mcp.foreign.
d skipped A stdio server needs a command.
e stdio y M=1 N=`,
		"extensions:\n  a: &a {type: stdio, cmd: uvx, args: [--port, 8080]}\n  b: {<<: *a, cmd: npx}\n": "a stdio uvx --port 8080\nb stdio npx --port 8080",
		`{"mcp":{"servers":{"a":{"url":"https://example.com/mcp?v=1"}}}}`:                               "a http https://example.com/mcp?v=1",
	} {
		found, err := parseConfig([]byte(text))
		lines := []string{}
		for _, i := range found {
			lines = append(lines, describeImport(&i))
		}
		if got := sortWords(strings.Join(lines, "\n")); err != nil || got != sortWords(want) {
			t.Errorf("%s:\n%s\nwant\n%s, %v", text, got, sortWords(want), err)
		}
	}
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	if _, err := parseConfig([]byte(bomb + "extensions: {a: {cmd: x, envs: {A: *a8}}}\n")); !fault.Is(err, fault.Limit) {
		t.Errorf("a bomb: %v", err)
	}
}

func TestSecretsInArgumentsAndAddressesAreMoved(t *testing.T) {
	t.Parallel()
	e := setup(t)
	secrets := []string{"ghp_aaaaaaaaaaaa1", "ghp_aaaaaaaaaaaa2", "ghp_aaaaaaaaaaaa3", "ghp_aaaaaaaaaaaa4", "hunter2hunter2-a", "hunter2hunter2-b", "hunter2hunter2-c", "hunter2hunter2-d"}
	text := `{"mcpServers":{
		"a":{"command":"docker","args":["ghp_aaaaaaaaaaaa1","ghp_aaaaaaaaaaaa2","-e","GITHUB_TOKEN=ghp_aaaaaaaaaaaa3","--api-key","hunter2hunter2-a","--password=hunter2hunter2-b","--header","Authorization: Bearer ghp_aaaaaaaaaaaa4","--port","8080","image:latest"]},
		"b":{"url":"https://example.com/mcp?api_key=hunter2hunter2-c&v=1"},
		"c":{"command":"npx","args":["mcp-remote","https://example.com/mcp?token=hunter2hunter2-d"]}}}`
	no := false
	done, err := e.s.Import(e.ctx, ImportParams{Content: text, DryRun: &no})
	if err != nil || len(done.Added) != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, name := range done.Added {
		r, err := e.s.GetServer(e.ctx, NameParams{name})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(stored), secret) {
				t.Errorf("%s has %s", stored, secret)
			}
		}
		whole, err := r.Server.expand(e.s.lookup(e.ctx)) // what runs is what was imported
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range append(whole.Args, whole.URL) {
			if a != "" && !strings.Contains(text, a) {
				t.Errorf("%s: %q", name, a)
			}
		}
		if name == "a" && !slices.Contains(r.Server.Args, "8080") || name == "b" && !strings.HasSuffix(r.Server.URL, "&v=1") {
			t.Errorf("%+v", r.Server)
		}
	}
	again, err := e.s.Add(e.ctx, AddParams{Server{Name: "d", Command: "x", Args: []string{"--token", "hunter2hunter2"}}})
	if err != nil || len(again.Warnings) == 0 || !strings.Contains(strings.Join(again.Warnings, "\n"), "token looks like a secret") {
		t.Errorf("%v, %v", again.Warnings, err)
	}
}

func TestServersOfOneNameInAConfigurationAreAConflict(t *testing.T) {
	t.Parallel()
	e := setup(t)
	r, err := e.s.Import(e.ctx, ImportParams{Content: `{"mcpServers":{"My Server":{"command":"x"},"my-server":{"command":"y"}}}`})
	if err != nil || len(r.Found) != 2 || r.Found[0].Conflict != "" || !strings.Contains(r.Found[1].Conflict, `"my-server"`) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestKnownPlaces(t *testing.T) {
	t.Parallel()
	e := setup(t)
	path := filepath.Join(e.dir, ".cursor", "mcp.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"mcpServers":{"a":{"command":"x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := e.s.Sources(e.ctx, struct{}{})
	if err != nil || len(r.Sources) != 1 || r.Sources[0].ID != "cursor" || r.Sources[0].Servers != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if i, err := e.s.Import(e.ctx, ImportParams{Source: "cursor"}); err != nil || len(i.Found) != 1 {
		t.Errorf("%+v, %v", i, err)
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, c := range configs {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		found, err := parseConfig(text)
		if err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Limit) {
			t.Errorf("%v", err)
		}
		for _, i := range found {
			if i.Server != nil {
				if err := i.Server.normalize(); err != nil {
					t.Errorf("%+v: %v", i.Server, err)
				}
			}
		}
	})
}
