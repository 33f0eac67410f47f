package cloudsync

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

const killEnv = "HELIX_TEST_SYNC" // path of the database, key and row for TestCountingProgram

// TestCountingProgram is the device process that TestKilledProcessCountsOnce kills, not a test. It
// counts and exchanges until it is killed.
func TestCountingProgram(t *testing.T) {
	spec := strings.Split(os.Getenv(killEnv), "|")
	if len(spec) != 3 {
		t.Skip("a part of another test")
	}
	key, err := hex.DecodeString(spec[1])
	if err != nil {
		t.Fatal(err)
	}
	d := openDevice(t, storagetest.OpenAt(t, spec[0], &storagetest.Root{Key: key}))
	for {
		d.exec(`UPDATE memories SET access_count = access_count + 1 WHERE id = ?`, uuid.MustParse(spec[2]))
		fmt.Println("counted")
		if _, err := d.Coordinate(d.ctx, CoordinateParams{}); err != nil {
			fmt.Println("refused", err)
		}
	}
}

// A device that is killed while communicating with the hub, at any byte, has its counts stored
// exactly once.
func TestKilledProcessCountsOnce(t *testing.T) {
	testkit.SkipRaced(t, "the processes are not raced")
	t.Parallel()
	dsn := newHub(t)
	c := must[*pgx.ConnConfig](t)(pgx.ParseConfig(dsn))
	proxy := hubtest.NewProxy(t, int(c.Port))
	through := strings.Replace(dsn, fmt.Sprint(":", c.Port), fmt.Sprint(":", proxy.Port()), 1)
	path, root := filepath.Join(t.TempDir(), "helix.db"), storagetest.NewRoot()
	storagetest.Blank(t, path)
	db, err := storage.Open(t.Context(), storage.Options{Path: path, Keys: storage.NewKeys(root)})
	if err != nil {
		t.Fatal(err)
	}
	first := &device{Service: New(db, storage.NewSecrets(db), Options{Version: "test"}), t: t}
	first.identify()
	first.setUp(through)
	id := first.remember("counted")
	first.now()
	b := newDevice(t)
	b.join(first)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	const kills = 12
	counted := 0
	for i := range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCountingProgram$") //nolint:gosec // this program itself
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s", killEnv, path, hex.EncodeToString(root.Key), id))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var killed atomic.Bool
		proxy.BreakAfter(int64(2500+i*977), func() {
			killed.Store(true)
			_ = cmd.Process.Kill()
		})
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			switch text := lines.Text(); {
			case text == "counted":
				counted++
			case strings.HasPrefix(text, "refused") && !killed.Load():
				t.Error(text)
			}
		}
		_ = cmd.Wait() // fails because it was killed
		proxy.Heal()
	}
	a := openDevice(t, storagetest.OpenAt(t, path, root))
	a.now()
	a.now()
	b.now()
	same(t, a, b)
	// The last count before a kill may not have been printed.
	if n := one[int](b, `SELECT access_count FROM memories WHERE id = ?`, id); n < counted || n > counted+kills || counted < kills {
		t.Errorf("%d on the other device; counted %d", n, counted)
	}
	var meta []byte
	if err := admin(t, dsn).QueryRow(t.Context(), `select sync_meta from public.memories where id = $1`, id).Scan(&meta); err != nil {
		t.Fatal(err)
	}
	if m := must[Meta](t)(decodeMeta(meta)); len(m.Vector) > 1 {
		t.Errorf("the device registered again: %v", m.Vector)
	}
}
