package locomo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/embed"
	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/testkit"
)

// locomoDir returns the folder of the LoCoMo conversations, and skips the test if there is none.
func locomoDir(t testing.TB) string {
	t.Helper()
	dir := testkit.Data(t, "locomo")
	if found, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(found) == 0 {
		t.Fatalf("%s has no conversations", dir)
	}
	return dir
}

// realModel returns the sentence encoder, and skips the test in a build without one.
func realModel(t testing.TB) memory.Embedder {
	t.Helper()
	m, err := embed.Open()
	if fault.Is(err, fault.Unavailable) {
		t.Skip("the sentence encoder is not in this build: make models")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return m
}

// Hybrid search finds more of the evidence for real questions than keyword search: in one
// conversation and, with HELIX_LONG=1, in all of them, with the settings chosen by
// cross-validation.
func TestLocomo(t *testing.T) {
	t.Parallel()
	dir, model := locomoDir(t), realModel(t)
	long := os.Getenv("HELIX_LONG") != ""
	if !long {
		one := t.TempDir()
		paths, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		raw, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(one, filepath.Base(paths[0])), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		dir = one
	}
	var out strings.Builder
	report, err := Run(t.Context(), dir, Options{Embedder: model, TempDir: t.TempDir(), Tune: os.Getenv("HELIX_TUNE") != ""}, &out)
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
	score := map[string]float64{}
	for _, s := range report.Scores {
		score[s.Store+" "+s.Mode] = s.Overall
	}
	for _, store := range []string{"each", "pooled"} {
		if score[store+" hybrid"] < score[store+" keyword"] || score[store+" hybrid"] < score[store+" bm25"]+6 {
			t.Errorf("%s: hybrid %.1f, keyword %.1f, bm25 %.1f", store, score[store+" hybrid"], score[store+" keyword"], score[store+" bm25"])
		}
	}
	if long && score["each hybrid"] < 68 {
		t.Errorf("hybrid finds %.1f %% of the evidence", score["each hybrid"])
	}
}
