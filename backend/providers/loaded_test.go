package providers

import (
	"io"
	"net/http"
	"strings"
	"testing"
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
		"not loaded":       {"/api/ps", `{"models":[]}`, 128_000, false},
		"no JSON":          {"/props", `<html>`, 128_000, false},
		"negative":         {"/props", `{"default_generation_settings":{"n_ctx":-1}}`, 128_000, false},
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
			i, err := k.Describe(t.Context(), long)
			must(t, err)
			asked := gets
			if _, err := k.Describe(t.Context(), long); err != nil || gets != asked || asked == 0 {
				t.Errorf("asked %d times, then %d: %v", asked, gets-asked, err)
			}
			if i.Window != x.window || i.Output > i.Window/4 || (i.LoadedWindow > 0) != x.loaded {
				t.Errorf("%+v, want the window %d", i, x.window)
			}
			_, err = k.Complete(t.Context(), long)
			if fits := x.window == 1_000_000; fits && (err != nil || posts != 1) || !fits && (CodeOf(err) != codeContext || posts != 0) {
				t.Errorf("%d calls: %v", posts, err)
			}
		})
	}
}
