//go:build linux

package mcp

import (
	"encoding/json"
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
		found, err := parseConfig([]byte(c.text), name == "goose")
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
	_, err := parseConfig([]byte("{\n  \"mcpServers\": {\n    \"a\": }\n}"), false)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "line 3, column 10") {
		t.Errorf("%v", err)
	}
	if _, err := parseConfig([]byte(`{"theme":"dark"}`), false); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	if _, err := parseConfig([]byte("extensions:\n  - [\n"), true); !fault.Is(err, fault.Invalid) {
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
	for name, c := range configs {
		f.Add([]byte(c.text), name == "goose")
	}
	f.Fuzz(func(t *testing.T, text []byte, asYAML bool) {
		if len(text) > 1<<16 {
			return
		}
		found, err := parseConfig(text, asYAML)
		if err != nil && !fault.Is(err, fault.Invalid) {
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
