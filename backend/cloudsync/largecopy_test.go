package cloudsync

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

const copyEnv = "HELIX_TEST_COPY" // path of the database and key for TestCopyingProgram

// TestCopyingProgram is the device process that TestLargeCopyResumesAfterKills kills, not a test. It
// copies the hub and prints its progress, and at the end how much memory that took.
func TestCopyingProgram(t *testing.T) {
	path, key, ok := strings.Cut(os.Getenv(copyEnv), "|")
	if !ok {
		t.Skip("a part of another test")
	}
	raw, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	d := openDevice(t, storagetest.OpenAt(t, path, &storagetest.Root{Key: raw}))
	idle := residentMiB("VmRSS:")
	defer bus.Subscribe(d.db.Bus(), func(_ uuid.UUID, p Progress) { fmt.Println("rows", p.Rows) })()
	d.now()
	fmt.Println("memory", residentMiB("VmHWM:")-idle)
}

// residentMiB returns the value of a line of /proc/self/status in MiB; 0 where there is no such file.
func residentMiB(line string) (mib float64) {
	text, _ := os.ReadFile("/proc/self/status")
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, line); ok {
			_, _ = fmt.Sscan(rest, &mib)
		}
	}
	return mib / 1024
}

// A first copy whose process is killed several times continues each time after the last stored rows. With
// HELIX_LONG it has a million rows and must not need more memory than 64 MiB.
func TestLargeCopyResumesAfterKills(t *testing.T) {
	testkit.SkipRaced(t, "the processes are not raced")
	t.Parallel()
	rows, long := 12_000, os.Getenv("HELIX_LONG") != ""
	if long {
		rows = 1_000_000
	}
	a := newDevice(t)
	a.setUp(newHub(t))
	for done := 0; done < rows; {
		a.write(func(tx *storage.Tx) error {
			for end := min(rows, done+5000); done < end; done++ {
				text := fmt.Sprintf("%08d %s", done, strings.Repeat("some words of a memory ", 15))
				if _, err := tx.Exec(`INSERT INTO memories (id, user_id, content, content_hash, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`,
					storage.NewID(), a.db.LocalUser().ID, text, hashOf(storage.SyncedColumn{Hub: "bytea"}, text), tx.Now, tx.Now); err != nil {
					return err
				}
			}
			return nil
		})
	}
	began := time.Now()
	if r := a.now(); r.Pushed < rows {
		t.Fatalf("%+v", r)
	}
	t.Logf("pushed %d rows in %s", rows, time.Since(began).Round(time.Millisecond))
	path, root := filepath.Join(t.TempDir(), "helix.db"), storagetest.NewRoot()
	storagetest.Blank(t, path)
	db, err := storage.Open(t.Context(), storage.Options{Path: path, Keys: storage.NewKeys(root)})
	if err != nil {
		t.Fatal(err)
	}
	b := &device{Service: New(db, storage.NewSecrets(db), Options{Version: "test"}), t: t}
	b.identify()
	b.join(a)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	const kills = 4
	stored, memory := 0, 0.0
	began = time.Now()
	for i := range kills + 1 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCopyingProgram$", "-test.timeout=2h") //nolint:gosec // this program itself
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s", copyEnv, path, hex.EncodeToString(root.Key)))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		first := true
		var all strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintln(&all, lines.Text())
			_, _ = fmt.Sscanf(lines.Text(), "memory %f", &memory)
			n := 0
			if _, err := fmt.Sscanf(lines.Text(), "rows %d", &n); err != nil {
				continue
			}
			if n <= stored && first || n < stored {
				t.Errorf("the copy is at %d rows; before the kill it was at %d", n, stored)
			}
			first, stored = false, n
			if i < kills && n >= rows*(2*i+1)/(2*kills) {
				_ = cmd.Process.Kill()
			}
		}
		if err := cmd.Wait(); i == kills && err != nil {
			t.Fatalf("%v\n%s", err, &all)
		}
	}
	t.Logf("copied with %d kills in %s; memory above idle %.1f MiB", kills, time.Since(began).Round(time.Millisecond), memory)
	if long && memory > 64 {
		t.Errorf("the copy took %.1f MiB", memory)
	}
	c := openDevice(t, storagetest.OpenAt(t, path, root))
	c.noDeadLetters()
	const sum = `SELECT count(*) || ' ' || sum(substr(content, 1, 8)) || ' ' || count(DISTINCT content) FROM memories`
	if got, want := one[string](c, sum), one[string](a, sum); got != want {
		t.Errorf("the copy has %s, the original %s", got, want)
	}
	if n := one[int](c, `SELECT count(*) FROM sync_progress`); n != 0 {
		t.Error("the place of a copy that has ended is kept")
	}
}
