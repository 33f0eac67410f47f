package providers

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"helix/backend/storage/storagetest"
)

// A server on this computer cuts what exceeds the window that it has loaded a model with, so that window
// limits the requests, unless the configuration says otherwise.
func TestTheWindowThatALocalServerHasLoadedIsTheLimit(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		path, body string
		window     int // of the requests
		loaded     bool
	}{
		"Ollama":           {"/api/ps", `{"models":[{"name":"other:latest","context_length":1},{"name":"m:latest","model":"m:latest","context_length":4096}]}`, 4096, true},
		"LM Studio":        {"/api/v0/models", `{"data":[{"id":"m","state":"loaded","max_context_length":131072,"loaded_context_length":8192}]}`, 8192, true},
		"llama.cpp":        {"/props", `{"default_generation_settings":{"n_ctx":2048},"total_slots":1}`, 2048, true},
		"longer than most": {"/props", `{"default_generation_settings":{"n_ctx":1000000}}`, 1_000_000, true},
		"vLLM":             {"/v1/models", `{"data":[{"id":"m","max_model_len":16384}]}`, 16_384, true},
		"only a list":      {"/v1/models", `{"data":[{"id":"m"}]}`, silentWindow, false},
		"no JSON":          {"/props", `<html>`, silentWindow, false},
		"negative":         {"/props", `{"default_generation_settings":{"n_ctx":-1}}`, silentWindow, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gets, posts := 0, 0
			e := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost:
					posts++
					chatAnswer(w, "Hi")
				case r.URL.Path == x.path:
					gets++
					_, _ = io.WriteString(w, x.body)
				default:
					gets++
					w.WriteHeader(http.StatusNotFound)
				}
			})
			k := setup(t, map[string]Entry{"a": e}, nil)
			long := ask("a/m")
			long.Messages[0].Parts[0].Text = strings.Repeat("word ", 200_000)
			if _, err := k.Describe(t.Context(), long); err != nil || gets != 0 {
				t.Errorf("a description asked the server %d times: %v", gets, err)
			}
			i, err := k.Prepare(t.Context(), long)
			must(t, err)
			asked := gets
			if _, err := k.Prepare(t.Context(), long); err != nil || gets != asked || asked == 0 {
				t.Errorf("asked %d times, then %d: %v", asked, gets-asked, err)
			}
			if i.Window != x.window || i.Output > i.Window/4 || (i.LoadedWindow > 0) != x.loaded {
				t.Errorf("%+v, want the window %d", i, x.window)
			}
			_, err = k.Complete(t.Context(), long)
			if fits := x.window == 1_000_000; fits && (err != nil || posts != 1) || !fits && (codeOf(err) != codeContext || posts != 0) {
				t.Errorf("%d calls: %v", posts, err)
			}
			if hint := err != nil && strings.Contains(err.Error(), `caps.overrides."a/m".window`); hint != (x.window == silentWindow && !x.loaded) {
				t.Errorf("the setting is named: %v, in %v", hint, err)
			}
		})
	}
}

// A server loads a model when it is first called, so before that its window is not known, and each turn
// asks again.
func TestModelThatIsNotLoadedYetIsAskedForEachTime(t *testing.T) {
	t.Parallel()
	body := `{"models":[]}`
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/ps" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, body)
	})
	k := setup(t, map[string]Entry{"a": e}, nil)
	if i, err := k.Prepare(t.Context(), ask("a/m")); err != nil || i.Window != 128_000 || i.Source != "assumed" {
		t.Fatalf("%+v, %v", i, err)
	}
	body = `{"models":[{"name":"m","context_length":8192}]}`
	if i, err := k.Prepare(t.Context(), ask("a/m")); err != nil || i.Window != 8192 || i.LoadedWindow != 8192 {
		t.Errorf("%+v, %v", i, err)
	}
}

// A server that is not reached has said nothing about its window.
func TestServerThatIsNotReachedKeepsTheAssumedWindow(t *testing.T) {
	t.Parallel()
	e := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		must(t, err)
		c.Close()
	})
	k := setup(t, map[string]Entry{"a": e}, nil)
	if i, err := k.Prepare(t.Context(), ask("a/m")); err != nil || i.Window != 128_000 {
		t.Errorf("%+v, %v", i, err)
	}
}

// A role names the setting for a server that says nothing, until the configuration has it.
func TestRoleNamesTheSettingForASilentServer(t *testing.T) {
	t.Parallel()
	k := newService(t, "")
	ctx := storagetest.Ctx(t, k.db)
	e := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	_, err := k.Set(ctx, SetParams{Name: "a", Entry: e})
	must(t, err)
	_, err = k.SetRole(ctx, SetRoleParams{Role: RoleChat, Chain: []ModelRef{"a/m"}})
	must(t, err)
	_, err = k.Prepare(ctx, Request{Role: RoleChat})
	must(t, err)
	problems := func() string {
		roles, err := k.Roles(ctx, struct{}{})
		must(t, err)
		return strings.Join(roles.Roles[0].Problems, "\n")
	}
	if got := problems(); !strings.Contains(got, `caps.overrides."a/m".window`) {
		t.Errorf("problems: %q", got)
	}
}
