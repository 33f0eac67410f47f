package voice

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/safehttp"
	"helix/backend/transcribe"
)

// TestModelIsInstalledChosenAndRemoved downloads a model from a test server.
func TestModelIsInstalledChosenAndRemoved(t *testing.T) {
	t.Parallel()
	file := bytes.Repeat([]byte("lmgg"), 100_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(server.Close)
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }})
	t.Cleanup(client.Close)
	sum := sha256.Sum256(file)
	whisper := transcribe.NewWhisper(transcribe.NewModels(transcribe.ModelsOptions{
		Dir: filepath.Join(t.TempDir(), "models"), HTTP: client,
		Catalog: []transcribe.Model{{ID: "base", Size: int64(len(file)), SHA256: hex.EncodeToString(sum[:]), URL: server.URL}},
	}))
	var events []ModelProgress
	f := newFixture(t, func(o *Options) { o.Engines = append(o.Engines, whisper) })
	t.Cleanup(bus.Subscribe(f.o.Bus, func(u uuid.UUID, e ModelProgress) {
		if u == identity.UserID(f.ctx) {
			events = append(events, e)
		}
	}))
	state := func(r EnginesResult) transcribe.ModelState {
		for _, e := range r.Engines {
			if e.ID == "whispercpp" {
				return e.Downloads[0]
			}
		}
		return transcribe.ModelState{}
	}
	engine, model, none := "whispercpp", "base", "huge"
	for name, call := range map[string]func() error{
		"unknown model":  func() error { _, err := f.InstallModel(f.ctx, ModelParams{Model: none}); return err },
		"remove unknown": func() error { _, err := f.RemoveModel(f.ctx, ModelParams{Model: none}); return err },
		"engine without any": func() error {
			_, err := f.InstallModel(f.ctx, ModelParams{Engine: "pocketsphinx", Model: model})
			return err
		},
		"setting": func() error {
			_, err := f.UpdateSettings(f.ctx, SettingsParams{LocalEngine: &engine, LocalModel: &none})
			return err
		},
		"setting of another engine": func() error { _, err := f.UpdateSettings(f.ctx, SettingsParams{LocalModel: &model}); return err },
	} {
		if err := call(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := f.InstallModel(f.ctx, ModelParams{Model: model})
	f.must(err)
	if s := state(r); !s.Installed || s.Done != s.Size {
		t.Errorf("%+v", s)
	}
	if n := len(events); n < 2 || events[0].Ended || !events[n-1].Ended || events[n-1].Done != int64(len(file)) || events[n-1].Model != model {
		t.Errorf("events %+v", events)
	}
	c, err := f.UpdateSettings(f.ctx, SettingsParams{LocalEngine: &engine, LocalModel: &model})
	f.must(err)
	if c.LocalModel != model || c.model(engine) != model || c.model("pocketsphinx") != "" {
		t.Errorf("%+v", c)
	}
	r, err = f.RemoveModel(f.ctx, ModelParams{Model: model})
	f.must(err)
	if s := state(r); s.Installed || s.Done != 0 {
		t.Errorf("%+v", s)
	}
}
