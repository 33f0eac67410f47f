package memory

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

const (
	crashDir  = "HELIX_TEST_MEMORY_DIR"
	crashRoot = "HELIX_TEST_MEMORY_ROOT"
	crashStep = "HELIX_TEST_MEMORY_STEP"
)

// crashVersion returns version n of a document; all versions have some parts in common.
func crashVersion(n int) UpsertParams {
	var texts []string
	for i := range 10 {
		texts = append(texts, fmt.Sprintf("version %d part %d", n, (i*3+n)%10), fmt.Sprintf("constant %d", (i*7+n)%10))
	}
	return chunks("doc", texts...)
}

func openCrash(t *testing.T, dir string, root storage.Root) *bundle {
	t.Helper()
	db := storagetest.OpenAt(t, filepath.Join(dir, "helix.db"), root)
	s := New(db, Options{Embedder: newWordsModel("words@1", 32), VectorDir: filepath.Join(dir, "vectors")})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &bundle{Service: s, db: db, ctx: storagetest.Ctx(t, db)}
}

// TestCrashProgram is not a test but the process that the tests below kill.
func TestCrashProgram(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("a part of another test")
	}
	key, err := hex.DecodeString(os.Getenv(crashRoot))
	if err != nil {
		t.Fatal(err)
	}
	b := openCrash(t, dir, &storagetest.Root{Key: key})
	if step := os.Getenv(crashStep); step != "" {
		b.upsert(t, crashVersion(1))
		// From here on, the given step blocks.
		b.write(t, func(tx *storage.Tx) error {
			_, err := tx.Exec(`CREATE TEMP TRIGGER stay_here ` + step + ` BEGIN
				UPDATE meta SET value = (WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c) WHERE key = 'none' OR 1; END`)
			return err
		})
		fmt.Println("begin")
		b.upsert(t, crashVersion(2))
		fmt.Println("passed")
		return
	}
	b.works(t)
	fmt.Println("begin")
	for n := 1; ; n++ {
		if n%2 == 1 {
			b.add(t, fmt.Sprintf("memory %d of process %d", n, os.Getpid()))
		}
		b.upsert(t, crashVersion(os.Getpid()*1000+n))
		fmt.Println("ack", n)
	}
}

// crashChild runs the process until kill returns true, and returns its output.
func crashChild(t *testing.T, dir string, root *storagetest.Root, step string, life time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrashProgram$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir, crashRoot+"="+hex.EncodeToString(root.Key), crashStep+"="+step)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	var killed atomic.Bool
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Fprintln(&printed, lines.Text())
		if lines.Text() == "begin" {
			timer := time.AfterFunc(life, func() {
				killed.Store(true)
				_ = cmd.Process.Kill()
			})
			defer timer.Stop()
		}
	}
	if err := cmd.Wait(); err == nil || !killed.Load() || strings.Contains(printed.String(), "FAIL") {
		t.Fatalf("the child ended by itself: %v\n%s", err, printed.String())
	}
	return printed.String()
}

// oneVersion checks that document, words, vectors and jobs belong to one version.
func oneVersion(t *testing.T, b *bundle) (version string) {
	t.Helper()
	list := must(b.ListDocuments(b.ctx, PageParams{}))(t)
	if list.Total == 0 {
		return ""
	}
	v := must(b.Document(b.ctx, DocumentViewParams{ID: list.Documents[0].ID, Limit: 200}))(t)
	if len(v.Chunks) != 20 {
		t.Fatalf("%d chunks", len(v.Chunks))
	}
	version = strings.Fields(v.Chunks[0].Text)[1]
	findable := b.findable(t)
	for i, c := range v.Chunks {
		if w := strings.Fields(c.Text); c.Seq != int64(i) || w[0] == "version" && w[1] != version {
			t.Fatalf("versions %s and %q at %d", version, c.Text, c.Seq)
		}
		if !findable[KindChunk+" "+c.ID.String()] {
			t.Fatalf("%q is not findable", c.Text)
		}
	}
	if n := b.number(t, `SELECT count(*) FROM search_items WHERE kind = 'chunk'`); n != 20 {
		t.Fatalf("%d items", n)
	}
	if n := b.number(t, `SELECT count(*) FROM item_vectors v WHERE item_kind = 'chunk' AND NOT EXISTS (SELECT 1 FROM search_items i WHERE i.item_id = v.item_id)`); n != 0 {
		t.Fatalf("%d vectors of parts that are gone", n)
	}
	b.exact(t)
	b.pending(t)
	b.exact(t)
	if st := b.status(t); st.Queued+st.Failed+st.Stale != 0 || st.Ready != int64(len(findable)) || b.index().Len() != len(findable) {
		t.Fatalf("status %+v of %d", st, len(findable))
	}
	return version
}

// If a process is killed at any step of an upsert, the document is unchanged.
func TestUpsertKilledAtAStep(t *testing.T) {
	t.Parallel()
	steps := []string{`BEFORE INSERT ON main.chunks`, `AFTER DELETE ON main.item_vectors`}
	if os.Getenv("HELIX_LONG") != "" {
		steps = append(steps, `AFTER UPDATE ON main.documents`, `AFTER UPDATE OF deleted_at ON main.chunks`, `AFTER UPDATE OF seq ON main.chunks`, `AFTER INSERT ON main.search_items`, `AFTER INSERT ON main.item_vectors`)
	}
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir, root := t.TempDir(), storagetest.NewRoot()
			storagetest.Blank(t, filepath.Join(dir, "helix.db"))
			if out := crashChild(t, dir, root, step, 300*time.Millisecond); strings.Contains(out, "passed") {
				t.Fatal("the step was passed")
			}
			if v := oneVersion(t, openCrash(t, dir, root)); v != "1" {
				t.Errorf("version %q is left", v)
			}
		})
	}
}

// If a process is killed at any moment, the document is one complete version, and after the next
// start the index matches it.
func TestKilledWhileWriting(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	kills := 3
	if os.Getenv("HELIX_LONG") != "" {
		kills = 60
	}
	var last uuid.UUID
	for range kills {
		crashChild(t, dir, root, "", time.Duration(20+rand.IntN(400))*time.Millisecond)
		t.Run("after a kill", func(t *testing.T) {
			b := openCrash(t, dir, root)
			if v := oneVersion(t, b); v == "" {
				return
			} else if _, err := strconv.Atoi(v); err != nil {
				t.Fatal(v)
			}
			id := must(b.ListDocuments(b.ctx, PageParams{}))(t).Documents[0].ID
			if last != uuid.Nil && last != id {
				t.Error("the document has another id")
			}
			last = id
		})
	}
}
