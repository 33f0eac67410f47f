package backend

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/mcp"
	"helix/backend/skills"
)

// mcpServer is a server in a few lines of shell, which answers requests in their order.
const mcpServer = `while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"greet","description":"Greets.","inputSchema":{"type":"object","required":["name"]}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"Hello!"}]}}\n' "$id" ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}\n' "$id" ;;
  esac
done`

func TestSkillsAndCallsReachMCPTools(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	environ := o.Environ
	o.Environ = func(name string) string {
		if name == "PATH" {
			return os.Getenv("PATH")
		}
		return environ(name)
	}
	b := startWith(t, o)
	ctx := b.as(b.LocalUser())
	if _, err := b.MCP.Add(ctx, mcp.AddParams{Server: mcp.Server{Name: "shell", Command: "sh", Args: []string{"-c", mcpServer}}}); err != nil {
		t.Fatal(err)
	}
	run := func() (skills.ExecuteResult, error) {
		return b.Skills.ExecuteComposite(ctx, skills.ExecuteParams{Skill: json.RawMessage(`{"name":"Greet","steps":[{"stepId":"m","toolType":"mcp","toolName":"shell.greet","parameters":{"name":"Ada"}}]}`)})
	}
	if _, err := b.MCP.Start(ctx, mcp.NameParams{Name: "shell"}); err != nil {
		t.Fatal(err)
	}
	if r, err := run(); err == nil && r.Success {
		t.Errorf("a tool that was not approved was called: %+v", r)
	}
	shown, err := b.MCP.GetServer(ctx, mcp.NameParams{Name: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.MCP.ApproveServer(ctx, mcp.ApproveParams{Name: "shell", DefinitionHash: shown.DefinitionHash, Tools: []string{"greet"}}); err != nil {
		t.Fatal(err)
	}
	r, err := run()
	if err != nil || !r.Success || !strings.Contains(string(r.FinalOutput), "Hello!") {
		t.Errorf("%+v, %v", r, err)
	}
	out, err := b.Callables.CallByName(ctx, callParams("shell.greet", `{"name":"Ada"}`))
	if err != nil || string(out.Output) != `"Hello!"` {
		t.Errorf("%s, %v", out.Output, err)
	}
	if _, err := b.Callables.CallByName(ctx, callParams("shell.greet", `{}`)); !fault.Is(err, fault.Invalid) {
		t.Errorf("arguments against the schema: %v", err)
	}
}

func TestMCPOverHTTPIsOffByDefaultAndNeedsAToken(t *testing.T) {
	t.Parallel()
	post := func(b *Backend, token string, change func(*http.Request)) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.Gateway.URL()+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if change != nil {
			change(r)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	token := func(b *Backend, scopes ...string) string {
		made, err := b.Gateway.TokensCreate(b.as(b.LocalUser()), gateway.TokenParams{Name: strings.Join(scopes, " "), Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		return made.Token
	}
	off := start(t)
	if status := post(off, token(off, "write"), nil); status == http.StatusOK {
		t.Error("it is on by default")
	}
	o := testOptions(t.TempDir())
	o.Flags["mcp.serve.http"] = "true"
	b := startWith(t, o)
	write := token(b, "write")
	for name, c := range map[string]struct {
		token  string
		change func(*http.Request)
		want   int
	}{
		"a token":         {write, nil, 200},
		"no token":        {"", nil, 401},
		"only read":       {token(b, "read"), nil, 403},
		"a wrong token":   {"wrong", nil, 401},
		"another origin":  {write, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"a rebound host":  {write, func(r *http.Request) { r.Host = "evil.example" }, 403},
		"another's token": {token(off, "write"), nil, 401},
	} {
		if status := post(b, c.token, c.change); status != c.want {
			t.Errorf("%s: status %d, want %d", name, status, c.want)
		}
	}
}

func callParams(name, input string) callable.CallParams {
	return callable.CallParams{Kind: mcp.Kind, Name: name, Input: json.RawMessage(input)}
}
