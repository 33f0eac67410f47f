package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	loadedFor    = time.Minute // how long the answer of a local server is used
	loadedLimit  = 2 * time.Second
	silentWindow = 4096 // of a local server that does not say: the shortest that is in use
)

// loaded is what a local server said about the window with which it has loaded a model.
type loaded struct {
	window int  // 0: it has not loaded the model yet
	silent bool // it answers no question about windows
	at     time.Time
}

// askLoaded asks a model server on this computer for the window that it has loaded a model with, unless
// it was asked a moment ago. The server cuts longer prompts without an error, so its window and not the
// model's is the limit.
func (r *Router) askLoaded(ctx context.Context, t target) {
	if t.entry.Type != WireChat || !t.entry.local() {
		return
	}
	r.mu.Lock()
	known, ok := r.loaded[t.info.Ref]
	r.mu.Unlock()
	if ok && (known.window > 0 || known.silent) && time.Since(known.at) < loadedFor {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadedLimit)
	defer cancel()
	root := strings.TrimSuffix(t.entry.base(), "/v1")
	says := loaded{silent: true}
	for _, path := range []string{"/api/ps", "/api/v0/models", "/props", "/v1/models"} { // Ollama, LM Studio, llama.cpp, vLLM
		stream, err := r.open(ctx, t, root+path, nil)
		var refused *ServiceError
		if errors.As(err, &refused) {
			continue
		}
		if err != nil { // it is not reached, which says nothing about it
			return
		}
		text, err := io.ReadAll(io.LimitReader(stream.Body, maxModelsList))
		stream.Body.Close()
		if err != nil {
			return
		}
		if window, ok := loadedWindow(text, t.model); ok {
			says = loaded{window: window}
			break
		}
	}
	says.at = time.Now()
	r.mu.Lock()
	r.loaded[t.info.Ref] = says
	r.mu.Unlock()
}

// loadedWindow finds a model's loaded window in a server's description of itself. It is 0 if the server
// lists the models that it has loaded, without this one; ok is false if it describes no windows.
func loadedWindow(text []byte, model string) (window int, ok bool) {
	var d struct {
		Models []struct {
			Name, Model string
			Window      int `json:"context_length"`
		}
		Data []struct {
			ID, State string
			Window    int `json:"loaded_context_length"`
			Longest   int `json:"max_model_len"`
		}
		Settings struct {
			Window int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if json.Unmarshal(text, &d) != nil {
		return 0, false
	}
	for _, m := range d.Models {
		if m.Name == model || m.Model == model || m.Name == model+":latest" {
			return m.Window, m.Window > 0
		}
	}
	for _, m := range d.Data {
		if m.ID == model {
			window = max(m.Window, m.Longest)
			return max(window, 0), window > 0 || m.State != ""
		}
	}
	if n := d.Settings.Window; n > 0 {
		return n, true
	}
	return 0, d.Models != nil
}

// limitToLoaded limits the description of a model to the window that its server has loaded it with.
func (r *Router) limitToLoaded(i *ModelInfo) {
	r.mu.Lock()
	says := r.loaded[i.Ref]
	r.mu.Unlock()
	switch n := says.window; {
	case n > 0:
		if i.Source == "assumed" {
			i.Window = n
		}
		i.LoadedWindow, i.Source, i.Window = n, "server", min(i.Window, n)
		i.Output = min(i.Output, max(n/4, 1))
	case says.silent:
		i.silent, i.Window = true, min(i.Window, silentWindow)
		i.Output = min(i.Output, silentWindow/4)
	}
}

// silentHint is the advice on a local server that does not say its window.
func silentHint(ref ModelRef) string {
	return fmt.Sprintf("Its server doesn't say the context length it uses, so Helix assumes %d tokens. If it's longer, set caps.overrides.%q.window in config.toml.", silentWindow, string(ref))
}
