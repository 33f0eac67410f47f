//go:build unix

package psychology

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/memory"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// souls returns two texts of the maximum size of the file, of which no prefix equals either.
func souls() (a, b []byte) {
	return bytes.Repeat([]byte("old words\n"), 4<<20/10), bytes.Repeat([]byte("new words\n"), 4<<20/10)
}

// writeUntilKilled is the child of the test below: it replaces the file repeatedly.
func writeUntilKilled(dir string) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		panic(err)
	}
	a, b := souls()
	fmt.Println("ready")
	for {
		for _, text := range [][]byte{b, a} {
			if err := writeFile(r, soulFile, text); err != nil {
				panic(err)
			}
		}
	}
}

// If a process is killed while it writes the file, the file has either the old or the new text.
func TestKillDuringAFileWriteLeavesOldOrNew(t *testing.T) {
	if dir := os.Getenv("PSYCHOLOGY_CHILD"); dir != "" {
		writeUntilKilled(dir)
	}
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, filepath.FromSlash(soulFile))
	a, b := souls()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, a, 0o600); err != nil {
		t.Fatal(err)
	}
	partly := func(name string) bool { // it is being written
		st, err := os.Stat(name)
		return err == nil && st.Size() > 0 && st.Size() < int64(len(a))
	}
	torn := 0
	for range 8 {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestKillDuringAFileWriteLeavesOldOrNew$")
		cmd.Env = append(os.Environ(), "PSYCHOLOGY_CHILD="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		for limit := time.Now().Add(time.Minute); !partly(path) && !partly(path+".tmp") && time.Now().Before(limit); {
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if partly(path + ".tmp") {
			torn++
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, a) && !bytes.Equal(got, b) {
			t.Fatalf("the file has %d bytes of %d: %v", len(got), len(a), err)
		}
	}
	t.Logf("%d of 8 processes ended within a write", torn)
	// Temporary files that are left do no harm.
	db := storagetest.Open(t)
	mem := memory.New(db, memory.Options{})
	t.Cleanup(func() { _ = mem.Close() })
	s := New(db, mem, Options{Dir: dir, Owner: func() uuid.UUID { return db.LocalUser().ID }})
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := storagetest.Ctx(t, db)
	if soul, err := s.GetSoul(ctx, struct{}{}); err != nil || soul.Text != "short" {
		t.Error(soul.Text, err)
	}
	if err := db.Write(ctx, func(tx *storage.Tx) error { return s.writeSoulFile(tx.Context(), "next") }); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 || !slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == filepath.Base(path) }) {
		t.Error(left, err)
	}
}
