package providers

import (
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/storage/storagetest"
)

func TestEntriesOfConfigToml(t *testing.T) {
	t.Parallel()
	k := newService(t, "")
	ctx := storagetest.Ctx(t, k.db)
	_, err := k.Set(ctx, SetParams{Name: "openai", Entry: Entry{Type: WireChat}, APIKey: secretKey})
	must(t, err)
	k.o.File = func() map[string]any {
		return map[string]any{
			"openai.base_url": "https://other.example/v1",
			"box.type":        "openai_compatible", "box.base_url": "http://127.0.0.1:1234/v1", "box.rpm": int64(3), "box.tpm": int64(900), "box.timeout_idle": int64(5),
			"box.extra_headers.X-Team": "sea", "box.quirks.max_tokens": "max_tokens", "box.skip_catalog_validation": true,
			"registry.plain.type": "anthropic", "registry.plain.api_key": secretKey, "registry.plain.enabled": true,
			"named.type": "gemini", "named.api_key": "secret:provider/openai",
			"off.type": "gemini", "off.enabled": false,
			"lost.type": "gemini", "lost.api_key": "secret:nowhere",
			"odd.type": "openai", "odd.rmp": int64(3),
			"wrong.type": "openai", "wrong.rpm": "many",
			"far.type": "openai", "far.base_url": "http://far.example",
		}
	}
	list, err := k.List(ctx, struct{}{})
	must(t, err)
	got := map[string]View{}
	for _, v := range list.Providers {
		got[v.Name] = v
	}
	for name, want := range map[string]struct{ state, source, problem string }{
		"openai": {"no_key", "", ""}, // its key was given for another host
		"box":    {"ready", "", ""},
		"plain":  {"ready", "config.toml", "as it is"},
		"named":  {"ready", "secret", ""},
		"off":    {"disabled", "", ""},
		"lost":   {"no_key", "", ""},
		"odd":    {"disabled", "", "providers.odd.rmp"},
		"wrong":  {"disabled", "", "providers.wrong.rpm"},
		"far":    {"disabled", "", "https"},
	} {
		v := got[name]
		if v.State != want.state || v.KeySource != want.source || !v.FromFile || (want.problem == "") != (v.Problem == "") || !strings.Contains(v.Problem, want.problem) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := got["anthropic"]; v.FromFile || v.State != "no_key" {
		t.Errorf("an entry that the file does not name: %+v", v)
	}
	e := got["box"].Entry
	if e.Type != WireChat || e.RPM != 3 || e.TPM != 900 || e.TimeoutIdleMs != 5000 || e.ExtraHeaders["X-Team"] != "sea" || e.Quirks["max_tokens"] != "max_tokens" || !e.SkipCatalogValidation {
		t.Errorf("%+v", e)
	}
	if _, err := k.Set(ctx, SetParams{Name: "box", Entry: Entry{Type: WireChat}}); !fault.Is(err, fault.Conflict) {
		t.Errorf("an entry of the file was changed: %v", err)
	}
	if _, err := k.Remove(ctx, NameParams{"plain"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("an entry of the file was removed: %v", err)
	}
}
