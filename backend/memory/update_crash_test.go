package memory

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

const crashEnv = "HELIX_MEMORY_UPDATE_CRASH"

// TestUpdateCrashProgram is the process to be killed: it edits one memory repeatedly. Its
// environment names the database, the memory, and the edit during which it kills itself; 0: it
// waits to be killed.
func TestUpdateCrashProgram(t *testing.T) {
	told := strings.Split(os.Getenv(crashEnv), "|")
	if len(told) != 3 {
		t.Skip("a part of another test")
	}
	key, err := os.ReadFile(filepath.Join(filepath.Dir(told[0]), "root"))
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.Atoi(told[2])
	if err != nil {
		t.Fatal(err)
	}
	db := storagetest.OpenAt(t, told[0], &storagetest.Root{Key: key})
	s := New(db, Options{})
	ctx := storagetest.Ctx(t, db)
	id := uuid.MustParse(told[1])
	for n := 1; ; n++ {
		err := db.Write(ctx, func(tx *storage.Tx) error {
			m, err := s.memory(tx, identity.UserID(ctx), id)
			if err != nil {
				return err
			}
			if err := s.changeTx(tx, m, change{content: ptr(versionText(m.Version + 1)), tags: ptr([]string{fmt.Sprint("v", m.Version+1)})}, "person"); err != nil {
				return err
			}
			if n == at {
				if p, err := os.FindProcess(os.Getpid()); err == nil {
					_ = p.Kill() // then wait for it
				}
				select {} // until it is dead
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("edit", n) // the parent counts the acknowledged edits
	}
}

func versionText(v int64) string { return fmt.Sprintf("the text of version %d", v) }

// TestKilledDuringUpdates kills a process that edits, in the middle of an edit and at any moment:
// the stored state is one complete version with all its revisions.
func TestKilledDuringUpdates(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	rounds := 4
	if os.Getenv("HELIX_LONG") != "" {
		rounds = 60
	}
	path := filepath.Join(t.TempDir(), "helix.db")
	root := storagetest.NewRoot()
	storagetest.Blank(t, path)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "root"), root.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	var id uuid.UUID
	promised := int64(1)
	look := func(first bool) {
		db := storagetest.OpenAt(t, path, root)
		defer db.Close()
		b := &bundle{Service: New(db, Options{}), db: db, ctx: storagetest.Ctx(t, db)}
		defer b.Close()
		if first {
			id = must(b.Add(b.ctx, AddParams{Content: versionText(1), Tags: []string{"v1"}}))(t).Item.ID
			return
		}
		l := must(b.List(b.ctx, ListParams{}))(t)
		if l.Total != 1 || len(l.Items) != 1 || len(b.findable(t)) != 1 {
			t.Fatalf("%d memories, %d are found", l.Total, len(b.findable(t)))
		}
		m := l.Items[0]
		if m.Version < promised || m.Version > promised+1 || m.Content != versionText(m.Version) || len(m.Tags) != 1 || m.Tags[0] != fmt.Sprint("v", m.Version) {
			t.Fatalf("version %d of %d promised: %q %v", m.Version, promised, m.Content, m.Tags)
		}
		found := must(b.Search(b.ctx, search.Params{Query: fmt.Sprint("version ", m.Version), Mode: "keyword"}))(t)
		if len(found.Results) != 1 {
			t.Fatalf("search finds %d things", len(found.Results))
		}
		h := must(b.History(b.ctx, HistoryParams{ID: id.String()}))(t)
		if want := min(m.Version-1, keptRevisions); int64(len(h.Revisions)) != want {
			t.Fatalf("%d revisions at version %d", len(h.Revisions), m.Version)
		}
		for i, r := range h.Revisions {
			if r.Version != m.Version-1-int64(i) || r.Content != versionText(r.Version) {
				t.Fatalf("revision %d: version %d %q", i, r.Version, r.Content)
			}
		}
		promised = m.Version
	}
	look(true)
	for round := range rounds {
		at := 0
		if round%2 == 0 {
			at = 3 + round
		}
		promised += killedEditor(t, path, id, at, time.Duration(40+37*round%200)*time.Millisecond)
		look(false)
	}
	if promised < 5 {
		t.Errorf("only %d versions were made", promised)
	}
}

// killedEditor runs the process until it is dead and counts the edits that it reported.
func killedEditor(t *testing.T, path string, id uuid.UUID, at int, after time.Duration) (edits int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestUpdateCrashProgram$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d", crashEnv, path, id, at))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "edit ") {
			continue
		}
		if edits++; edits == 1 && at == 0 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // killed
	if ctx.Err() != nil {
		t.Fatal("the editor lived on")
	}
	return edits
}
