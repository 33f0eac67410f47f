package skills

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// largeRun creates a run whose second output is too large for its row.
func (b *fixture) largeRun() (Execution, storage.Ref) {
	b.t.Helper()
	skill := skillText(step("one", "echo", `"inputMapping":{"text":"$.input.text"}`), step("two", "echo", `"inputMapping":{"n":1}`))
	in, err := json.Marshal(map[string]string{"text": strings.Repeat("x", 100_000)})
	if err != nil {
		b.t.Fatal(err)
	}
	id := b.async(skill, string(in))
	x := b.until(id, func(x Execution) bool { return x.Status == "completed" && b.s.inMemory(id) == nil })
	var name string
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT output_blob FROM composite_skill_steps WHERE execution_id = ? AND step_path = 'one'`, x.ExecutionID).Scan(&name)
	}); err != nil {
		b.t.Fatal(err)
	}
	sum, err := hex.DecodeString(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return x, storage.Ref{SHA256: [32]byte(sum)}
}

func TestLargeStepOutputsOutliveTenPrunes(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	x, ref := b.largeRun()
	storagetest.NoUndeclaredBlobReferences(t, b.db)
	pol := storage.DefaultPolicy()
	pol.BlobAge = 0 // the second prune deletes unreferenced blobs
	store := storage.NewService(b.db, storage.ServiceOptions{Policy: func() storage.Policy { return pol }, Retention: []storage.Retention{Retention(1000, 1<<30, nil)}})
	for range 10 {
		if _, err := store.Prune(b.ctx, storage.PruneParams{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: x.ExecutionID})
	if err != nil {
		t.Fatal(err)
	}
	if one := got.StepResults[0]; len(one.Output) < 100_000 || one.OutputMissing != "" {
		t.Fatalf("%d bytes of output, %q", len(one.Output), one.OutputMissing)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := store.Export(b.ctx, storage.ExportParams{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "blobs", ref.String())); err != nil {
		t.Errorf("the export lacks the output: %v", err)
	}
}

func TestMissingOutputHidesOneFieldOfARun(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	x, ref := b.largeRun()
	if err := b.db.Blobs().Remove(ref); err != nil {
		t.Fatal(err)
	}
	got, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: x.ExecutionID})
	if err != nil {
		t.Fatal(err)
	}
	one, two := got.StepResults[0], got.StepResults[1]
	if got.Status != "completed" || one.Output != nil || one.OutputMissing == "" || string(two.Output) != `{"n":1}` {
		t.Errorf("%s, %q, %q, %s", got.Status, one.Output, one.OutputMissing, two.Output)
	}
	c, err := storage.NewService(b.db, storage.ServiceOptions{}).Check(b.ctx, storage.CheckParams{Full: true})
	if err != nil || c.OK || c.MissingBlobs != 1 || !strings.Contains(strings.Join(c.Problems, "\n"), "composite_skill_steps.output_blob") {
		t.Errorf("%+v, %v", c, err)
	}
}
