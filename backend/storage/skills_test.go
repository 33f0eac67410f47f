package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/testkit"
)

// seedSkill inserts a row that refers to a module, a deleted one, and a finished run.
func seedSkill(t *testing.T, h *home, name string, module []byte, deleted any) (id uuid.UUID, ref Ref) {
	t.Helper()
	ref, err := h.db.Blobs().PutBytes(h.ctx, module)
	must(t, err)
	id = NewID()
	write(t, h.db, func(tx *Tx) error {
		u := h.db.LocalUser().ID
		if _, err := tx.Exec(`INSERT INTO skills (id, user_id, name, wasm_bytecode, wasm_size, definition_hash, created_at, updated_at, deleted_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id, u, name, "sha256:"+ref.String(), ref.Size, sha256.Sum256([]byte(name)), tx.Now, tx.Now, deleted); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO skill_executions (id, skill_id, user_id, input_params, status, timestamp, created_at, updated_at) VALUES (?, ?, ?, ?, 'success', ?, ?, ?)`,
			NewID(), id, u, `{"text":"`+strings.Repeat("ü", 50_000)+`"}`, tx.Now.Add(-8*24*time.Hour), tx.Now, tx.Now)
		return err
	})
	return id, ref
}

// A module is kept as long as a row refers to it, even one in the trash, and is included in an
// export.
func TestModulesOfSkillsAreKept(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	h := newHome(t)
	_, living := seedSkill(t, h, "living", []byte("\x00asm living"), nil)
	_, trashed := seedSkill(t, h, "trashed", []byte("\x00asm trashed"), time.Now())
	orphan, err := h.db.Blobs().PutBytes(h.ctx, []byte("nobody names me"))
	must(t, err)
	pol := DefaultPolicy()
	pol.BlobAge = 0
	h.s.o.Policy = func() Policy { return pol }
	for range 2 { // the first run records since when, the second removes
		_, err = h.s.Prune(h.ctx, PruneParams{})
		must(t, err)
	}
	if b := h.db.Blobs(); !b.Has(living) || !b.Has(trashed) || b.Has(orphan) {
		t.Errorf("living %v, trashed %v, orphan %v", b.Has(living), b.Has(trashed), b.Has(orphan))
	}
	dir := filepath.Join(t.TempDir(), "out")
	e, err := h.s.Export(h.ctx, ExportParams{Dir: dir})
	must(t, err)
	if got, err := os.ReadFile(filepath.Join(dir, "blobs", hex.EncodeToString(living.SHA256[:]))); err != nil || string(got) != "\x00asm living" || e.Rows["skill_executions"] != 2 {
		t.Errorf("%q %v %v", got, err, e.Rows)
	}
	for range 2 { // what exists is identical: a finished run may be imported again
		if _, err := h.s.Import(h.ctx, ImportParams{Dir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	o := newHome(t)
	if _, err := o.s.Import(o.ctx, ImportParams{Dir: dir}); err != nil || !o.db.Blobs().Has(living) {
		t.Errorf("%v", err)
	}
}

func TestPruneKeepsTheSourceOfAnUnfinishedImport(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	h := newHome(t)
	pol := DefaultPolicy()
	pol.BlobAge = 0
	h.s.o.Policy = func() Policy { return pol }
	refs := map[string]Ref{}
	for _, status := range []string{"pending", "running", "completed"} {
		ref, err := h.db.Blobs().PutBytes(h.ctx, []byte("conversations, "+status))
		must(t, err)
		refs[status] = ref
		exec(t, h.db, `INSERT INTO memory_imports (id, user_id, format, path, options, status, created_at) VALUES (?, ?, 'chatgpt', 'c.json', ?, ?, 1)`,
			NewID(), h.db.LocalUser().ID, `{"blob":"`+ref.String()+`"}`, status)
	}
	for range 10 {
		_, err := h.s.Prune(h.ctx, PruneParams{})
		must(t, err)
	}
	for status, ref := range refs {
		if got, want := h.db.Blobs().Has(ref), status != "completed"; got != want {
			t.Errorf("the source of a %s import is there: %v", status, got)
		}
	}
}

func TestFullCheckCountsMissingAndOrphanedFiles(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, gone := seedSkill(t, h, "gone", []byte("\x00asm gone"), nil)
	seedSkill(t, h, "there", []byte("\x00asm there"), nil)
	must(t, h.db.Blobs().Remove(gone))
	orphan, err := h.db.Blobs().PutBytes(h.ctx, []byte("nobody names me"))
	must(t, err)
	c, err := h.s.Check(h.ctx, CheckParams{Full: true})
	if err != nil || c.OK || c.MissingBlobs != 1 || c.OrphanedBlobs != 1 || c.OrphanedBytes != orphan.Size || len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "skills.wasm_bytecode") {
		t.Fatalf("%+v, %v", c, err)
	}
	// An orphan that pruning has known for longer than its grace period is a problem too.
	long := time.Now().Add(-10 * 24 * time.Hour)
	must(t, os.Chtimes(h.db.blobs.path(orphan.SHA256), long, long))
	must(t, h.db.setMeta(h.ctx, metaOrphans, fmt.Sprintf(`{"%s":%d}`, orphan, long.Unix())))
	if c, err = h.s.Check(h.ctx, CheckParams{Full: true}); err != nil || len(c.Problems) != 2 || !strings.Contains(c.Problems[1], "belong to no row") {
		t.Fatalf("%+v, %v", c, err)
	}
}

func TestFinishedExecutionsAreFinal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	id, _ := seedSkill(t, h, "one", []byte("x"), nil)
	try := func(q string) error {
		return h.db.Write(h.ctx, func(tx *Tx) error { _, err := tx.Exec(q, id); return err })
	}
	if err := try(`UPDATE skill_executions SET status = 'failure' WHERE skill_id = ?`); err == nil || !strings.Contains(err.Error(), "cannot change") {
		t.Errorf("another end: %v", err)
	}
	if err := try(`UPDATE skill_executions SET memory_used_mb = 3 WHERE skill_id = ?`); err == nil {
		t.Error("another figure")
	}
	if err := try(`UPDATE skill_executions SET input_params = '1', updated_at = 5 WHERE skill_id = ?`); err != nil {
		t.Errorf("a cut payload: %v", err)
	}
}
