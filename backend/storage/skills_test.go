package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// seedSkill makes a row that names a module, one that is deleted, and a finished run.
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

// A module stays as long as a row names it, also one in the trash, and travels in an export.
func TestModulesOfSkillsAreKept(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, living := seedSkill(t, h, "living", []byte("\x00asm living"), nil)
	_, trashed := seedSkill(t, h, "trashed", []byte("\x00asm trashed"), time.Now())
	orphan, err := h.db.Blobs().PutBytes(h.ctx, []byte("nobody names me"))
	must(t, err)
	pol := DefaultPolicy()
	pol.BlobAge = 0
	h.s.o.Policy = func() Policy { return pol }
	for range 2 { // the first time notes since when, the second removes
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
	for range 2 { // what is there already is the same: a finished run may be read again
		if _, err := h.s.Import(h.ctx, ImportParams{Dir: dir}); err != nil {
			t.Fatal(err)
		}
	}
	o := newHome(t)
	if _, err := o.s.Import(o.ctx, ImportParams{Dir: dir}); err != nil || !o.db.Blobs().Has(living) {
		t.Errorf("%v", err)
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
