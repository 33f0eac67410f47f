package providers

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"
)

const (
	loadedFor   = time.Minute // how long the answer of a local server is used
	loadedLimit = 2 * time.Second
)

// loaded is the window with which a local server has loaded a model; 0: it does not say.
type loaded struct {
	window int
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
	if ok && time.Since(known.at) < loadedFor {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, loadedLimit)
	defer cancel()
	root := strings.TrimSuffix(t.entry.base(), "/v1")
	window := 0
	for _, path := range []string{"/api/ps", "/api/v0/models", "/props"} { // Ollama, LM Studio, llama.cpp
		stream, err := r.open(ctx, t, root+path, nil)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(stream.Body, maxModelsList))
		stream.Body.Close()
		if err != nil {
			continue
		}
		if window = loadedWindow(text, t.model); window > 0 {
			break
		}
	}
	r.mu.Lock()
	r.loaded[t.info.Ref] = loaded{window, time.Now()}
	r.mu.Unlock()
}

// loadedWindow finds a model's loaded window in a server's description of itself; 0: it is not there.
func loadedWindow(text []byte, model string) int {
	var d struct {
		Models []struct {
			Name, Model string
			Window      int `json:"context_length"`
		}
		Data []struct {
			ID     string
			Window int `json:"loaded_context_length"`
		}
		Settings struct {
			Window int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if json.Unmarshal(text, &d) != nil {
		return 0
	}
	for _, m := range d.Models {
		if m.Name == model || m.Model == model || m.Name == model+":latest" {
			return max(m.Window, 0)
		}
	}
	for _, m := range d.Data {
		if m.ID == model {
			return max(m.Window, 0)
		}
	}
	return max(d.Settings.Window, 0)
}

// limitToLoaded limits the description of a model to the window that its server has loaded it with.
func (r *Router) limitToLoaded(i *ModelInfo) {
	r.mu.Lock()
	n := r.loaded[i.Ref].window
	r.mu.Unlock()
	if n > 0 {
		if i.Source == "assumed" {
			i.Window = n
		}
		i.LoadedWindow, i.Source, i.Window = n, "server", min(i.Window, n)
		i.Output = min(i.Output, max(n/4, 1))
	}
}
