package backend

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"helix/backend/channels"
	"helix/backend/mcp"
	"helix/backend/providers"
	"helix/backend/storage"
)

func TestSecretsListNamesWhatUsesThem(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	o.Flags["agent.search"] = "brave"
	file := filepath.Join(o.DataDir, "config", "config.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("[providers.mine]\ntype = \"openai\"\napi_key = \"secret:SHARED\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startWith(t, o)
	ctx := b.as(b.LocalUser())
	other, err := b.DB.AddUser(ctx, "B")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SHARED", "UNUSED", "search.brave", "search.tavily", "voice/deepgram", "sync/key"} {
		if _, err := b.Secrets.Set(ctx, storage.SecretsSetParams{Name: name, Value: "a value of " + name}); err != nil {
			t.Fatal(err)
		}
	}
	hook, err := b.Channels.Add(ctx, channels.AddParams{Kind: "webhook", Name: "Door", Config: channels.Config{URL: "https://door.example/hook"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Providers.Set(ctx, providers.SetParams{Name: "own", Entry: providers.Entry{Type: "anthropic"}, APIKey: "a key of the entry"}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []mcp.Server{
		{Name: "github", Command: "sh", Env: map[string]string{"TOKEN": "${SHARED}"}},
		{Name: "files", URL: "https://files.example/mcp", Headers: map[string]string{"Authorization": "Bearer ${SHARED}"}},
	} {
		if _, err := b.MCP.Add(ctx, mcp.AddParams{Server: s}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.MCP.Add(b.as(other.ID), mcp.AddParams{Server: mcp.Server{Name: "theirs", Command: "sh", Args: []string{"${UNUSED}"}}}); err != nil {
		t.Fatal(err)
	}
	list, err := b.Secrets.List(ctx, storage.SecretsListParams{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"SHARED": {"MCP server files", "MCP server github", "model provider mine"}, "UNUSED": {},
		"provider/own": {"model provider own"}, "channel:" + hook.Channel.ID.String(): {"channel Door"},
		"voice/deepgram": {"transcription with Deepgram"}, "sync/key": {"sync"}, "search.brave": {"web search"}, "search.tavily": {},
	}
	if len(list.Secrets) != len(want) {
		t.Errorf("%+v", list.Secrets)
	}
	for _, s := range list.Secrets {
		if !slices.Equal(s.UsedBy, want[s.Name]) {
			t.Errorf("%s is used by %q, want %q", s.Name, s.UsedBy, want[s.Name])
		}
	}
}
