package providers

import (
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/storage/storagetest"
)

// The description of a model is built from layers: the embedded catalog, a fetched catalog, the
// settings of config.toml for a provider, and those for the model. Each takes precedence over the
// earlier ones, field by field.
func TestLayersOfTheCatalogue(t *testing.T) {
	t.Parallel()
	k := newService(t, "")
	ctx := storagetest.Ctx(t, k.db)
	cat, err := embeddedCatalog()
	must(t, err)
	ids := cat.nearest("anthropic", "claude")
	if len(ids) < 2 {
		t.Fatal("the snapshot has too few models")
	}
	one, other := ModelRef("anthropic/"+ids[0]), ModelRef("anthropic/"+ids[1])
	before, err := k.info("anthropic", Entry{Type: WireAnthropic}, ids[0])
	must(t, err)
	fetched := *cat
	fetched.Providers = map[string]CatalogProvider{"anthropic": {ID: "anthropic", Models: map[string]CatalogModel{}}}
	for _, id := range ids[:2] {
		m := cat.Providers["anthropic"].Models[id]
		m.Limit.Context, m.Limit.Output = 77_000, 7_000
		fetched.Providers["anthropic"].Models[id] = m
	}
	k.mu.Lock()
	k.fetched, k.read = &fetched, true
	k.mu.Unlock()
	k.o.Caps = func() map[string]any {
		return map[string]any{
			"provider_defaults.anthropic.output": int64(5000), "provider_defaults.anthropic.images": false,
			"overrides." + string(one) + ".output": int64(900), "overrides." + string(one) + ".input_price": 2.5,
			"overrides.box/llava:7b-v1.6.images": true, "overrides.box/llava:7b-v1.6.window": int64(8192),
			"overrides.openai/next.1.tools": true,
			"overrides.gemini/x.window":     "large", "overrides.gemini/x.weight": int64(1),
		}
	}
	entry := Entry{Type: WireAnthropic}
	a, err := k.info("anthropic", entry, ids[0])
	must(t, err)
	b, err := k.info("anthropic", entry, ids[1])
	must(t, err)
	if before.Window == 77_000 || a.Window != 77_000 || a.Output != 900 || a.Caps.Images || *a.Prices.Input != 2_500_000 || a.Source != "config" {
		t.Errorf("%s: %+v", one, a)
	}
	if b.Window != 77_000 || b.Output != 5000 || b.Caps.Images || b.Prices.Input != nil && *b.Prices.Input == 2_500_000 {
		t.Errorf("%s: %+v", other, b)
	}
	// A local model that is in no catalog accepts images if the person says so.
	local := Entry{Type: WireChat, BaseURL: "http://127.0.0.1:1234/v1"}
	seeing, err := k.info("box", local, "llava:7b-v1.6")
	must(t, err)
	if blind, err := k.info("box", local, "llama"); err != nil || blind.Caps.Images || !seeing.Caps.Images || seeing.Window != 8192 || !seeing.Caps.Tools {
		t.Errorf("%+v, %+v, %v", blind, seeing, err)
	}
	// A model that the file names is known; others are not.
	_, err = k.info("openai", Entry{Type: WireChat}, "next.1")
	must(t, err)
	if _, err := k.info("openai", Entry{Type: WireChat}, "next.2"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a model that nobody knows: %v", err)
	}
	list, err := k.List(ctx, struct{}{})
	must(t, err)
	if i := slices.IndexFunc(list.Providers, func(v View) bool { return v.Name == "gemini" }); !strings.Contains(list.Providers[i].Problem, "caps.overrides.gemini/x.") {
		t.Errorf("a wrong override is not shown: %+v", list.Providers[i])
	}
}

func TestRolesOfConfigToml(t *testing.T) {
	t.Parallel()
	k := newService(t, "")
	ctx := storagetest.Ctx(t, k.db)
	_, err := k.Set(ctx, SetParams{Name: "box", Entry: Entry{Type: WireChat, BaseURL: "http://127.0.0.1:1234/v1"}})
	must(t, err)
	for _, role := range []Role{RoleChat, RoleFast} {
		_, err := k.SetRole(ctx, SetRoleParams{Role: role, Chain: []ModelRef{"box/old"}})
		must(t, err)
	}
	k.o.Roles = func() map[string]any {
		return map[string]any{
			"roles.chat.chain": []any{"box/one", "box/two"}, "roles.chat.effort": "high", "roles.chat.temperature": 0.5, "roles.chat.max_output": int64(900), "roles.chat.max_cost_micros_call": int64(7000),
			"roles.synthesis": "box/three", "roles.embed.chain": int64(3), "roles.nobody": "box/one",
		}
	}
	got, err := k.Roles(ctx, struct{}{})
	must(t, err)
	roles := map[Role]RoleView{}
	for _, v := range got.Roles {
		roles[v.Role] = v
	}
	chat := roles[RoleChat]
	if !slices.Equal(chat.Chain, []ModelRef{"box/one", "box/two"}) || !chat.FromFile || chat.Options.Effort != EffortHigh || *chat.Options.Temperature != 0.5 || chat.Options.MaxOutput != 900 || chat.Options.MaxCostMicrosCall != 7000 {
		t.Errorf("%+v", chat)
	}
	if v := roles[RoleFast]; !slices.Equal(v.Chain, []ModelRef{"box/old"}) || v.FromFile {
		t.Errorf("a role that the file does not name: %+v", v)
	}
	if v := roles[RoleSynthesis]; !slices.Equal(v.Chain, []ModelRef{"box/three"}) {
		t.Errorf("%+v", v)
	}
	if v := roles[RoleEmbed]; len(v.Chain) != 0 || len(v.Problems) != 1 || !strings.Contains(v.Problems[0], "models.roles.embed.chain") {
		t.Errorf("%+v", v)
	}
	if _, err := k.SetRole(ctx, SetRoleParams{Role: RoleChat, Chain: []ModelRef{"box/old"}}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a role of the file was changed: %v", err)
	}
	q, _, chain, _, err := k.chain(ctx, Request{Role: RoleChat})
	if err != nil || len(chain) != 2 || q.MaxOutput != 900 {
		t.Errorf("%+v %v %v", q, chain, err)
	}
}
