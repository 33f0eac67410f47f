package storage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/testkit"
)

// fileRoot stores the root key in a file, as config does, so that a process started after a crash
// finds it.
type fileRoot struct{ path string }

func (r fileRoot) Candidates() [][]byte {
	if b, err := os.ReadFile(r.path); err == nil {
		return [][]byte{b}
	}
	return nil
}

func (r fileRoot) Create(ctx context.Context) ([]byte, error) {
	key := bytes.Repeat([]byte{5}, RootKeySize)
	return key, r.Replace(ctx, key)
}
func (r fileRoot) Replace(_ context.Context, key []byte) error { return writeFileSafe(r.path, key) }
func (r fileRoot) Place([]byte) string                         { return "file" }

const (
	crashDirEnv   = "HELIX_TEST_KEYS_DIR"   // folder of the database
	crashPointEnv = "HELIX_TEST_KEYS_POINT" // where to die; "": it lives until it is killed
	crashFirstEnv = "HELIX_TEST_KEYS_FIRST" // first number to store
)

func crashOpen(ctx context.Context, dir string) (*DB, error) {
	return Open(ctx, Options{Path: filepath.Join(dir, "helix.db"), Keys: NewKeys(fileRoot{filepath.Join(dir, "root")})})
}

// TestKeysCrashProgram is not a test but the program that the tests below kill: it sets
// secrets, puts blobs and rotates keys, and prints what was acknowledged.
func TestKeysCrashProgram(t *testing.T) {
	dir, point := os.Getenv(crashDirEnv), os.Getenv(crashPointEnv)
	if dir == "" {
		t.Skip("a part of another test")
	}
	if point != "" {
		onCrashPoint = func(name string) {
			if name == point {
				dieNow()
			}
		}
	}
	db, err := crashOpen(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("user", db.LocalUser().ID)
	ctx := asUser(t.Context(), db.LocalUser().ID)
	s := NewSecrets(db)
	first, err := strconv.Atoi(os.Getenv(crashFirstEnv))
	if err != nil {
		t.Fatal(err)
	}
	for i := first; ; i++ {
		name, value := fmt.Sprint("n", i%250), fmt.Sprint(i)
		if _, err := s.Set(ctx, SecretsSetParams{Name: name, Value: value}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("secret", name, value)
		ref, err := db.Blobs().PutBytes(ctx, bytes.Repeat([]byte(value), 2000))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("blob", ref)
		if i%20 == 10 {
			if _, err := db.Keys().Rotate(ctx, struct{}{}); err != nil {
				t.Fatal(err)
			}
			if err := db.keys.work(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// dieNow ends the process at once, like SIGKILL or a power cut.
func dieNow() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	panic(fmt.Sprint("still alive: ", err))
}

func TestKilledDuringFirstStartRotationAndBlobs(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	points := []string{"first.user", "keys.root", "keys.added", "first.device", "keys.batch", "blob.synced", "blob.renamed"}
	if raced && !long() {
		points = points[2:]
	}
	for i := range rounds(4) {
		points = append(points, "")
		if i%4 == 3 {
			points = append(points, "keys.batch")
		}
	}
	rng := rand.New(rand.NewPCG(8, 9))
	dir := t.TempDir()
	promised := map[string]string{}
	var user string
	var refs []string
	for round, point := range points {
		if strings.HasPrefix(point, "first.") || point == "keys.root" || point == "keys.added" { // the first start is killed at each of its steps
			dir, user = t.TempDir(), ""
			clear(promised)
			refs = nil
		}
		cmd := osexec.Command(os.Args[0], "-test.run=^TestKeysCrashProgram$", "-test.v")
		cmd.Env = append(os.Environ(), crashDirEnv+"="+dir, crashPointEnv+"="+point, crashFirstEnv+"="+fmt.Sprint(round*1_000_000))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if point == "" { // any moment after it has begun to work
			time.AfterFunc(time.Duration(150+rng.IntN(250))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
		for sc := bufio.NewScanner(out); sc.Scan(); {
			switch f := strings.SplitN(sc.Text(), " ", 3); f[0] {
			case "user":
				if user != "" && user != f[1] {
					t.Fatalf("round %d: another user", round)
				}
				user = f[1]
			case "secret":
				promised[f[1]] = f[2]
			case "blob":
				refs = append(refs, f[1])
			case "---", "FAIL":
				t.Fatalf("round %d (%s): %s", round, point, sc.Text())
			}
		}
		_ = cmd.Wait()
		if cmd.ProcessState.Success() {
			t.Fatalf("round %d (%s): the program ended by itself", round, point)
		}
		checkAfterCrash(t, dir, fmt.Sprintf("round %d (%s)", round, point), user, promised, refs)
	}
	if len(promised) == 0 || len(refs) == 0 {
		t.Fatal("nothing was ever promised: the test proves nothing")
	}
}

// TestKilledDuringFirstStart kills the first start of an empty folder at any moment: the next one
// has a user, a device and keys, and keeps what was printed about them.
func TestKilledDuringFirstStart(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 7))
	told := 0
	for round := range rounds(3) {
		dir, user := t.TempDir(), ""
		cmd := osexec.Command(os.Args[0], "-test.run=^TestKeysCrashProgram$", "-test.v")
		cmd.Env = append(os.Environ(), crashDirEnv+"="+dir, crashFirstEnv+"=0")
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		after := time.Duration(1+rng.IntN(300)) * time.Millisecond
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if strings.HasPrefix(sc.Text(), "=== RUN") { // it starts now
				defer time.AfterFunc(after, func() { _ = cmd.Process.Kill() }).Stop()
			}
			if id, ok := strings.CutPrefix(sc.Text(), "user "); ok {
				user = id
				told++
			}
		}
		_ = cmd.Wait()
		checkAfterCrash(t, dir, fmt.Sprint("round ", round), user, nil, nil)
	}
	if long() && (told == 0 || told == rounds(3)) {
		t.Errorf("%d of %d came as far as their user: the moments are badly chosen", told, rounds(3))
	}
}

func checkAfterCrash(t *testing.T, dir, what, user string, promised map[string]string, refs []string) {
	t.Helper()
	db, err := crashOpen(t.Context(), dir)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer db.Close()
	if db.Recovery() != nil || db.Keys().Locked() || user != "" && db.LocalUser().ID.String() != user || db.Device().ID == uuid.Nil {
		t.Fatalf("%s: recovery %v, keys %s, user %s, device %s", what, db.Recovery(), db.Keys().State(), db.LocalUser().ID, db.Device().ID)
	}
	if _, err := db.Sign(nil); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	ctx := asUser(t.Context(), db.LocalUser().ID)
	for name, value := range promised {
		got, err := NewSecrets(db).Value(ctx, name)
		// The value after the last acknowledged one may have been stored without being
		// acknowledged.
		if err != nil || string(got) != value && !laterValue(string(got), value) {
			t.Fatalf("%s: %s = %q, %v; promised %q", what, name, got, err, value)
		}
	}
	for i, hash := range refs {
		if i < len(refs)-40 && rand.IntN(len(refs)) >= 40 { // the newest, and some of the others
			continue
		}
		var ref Ref
		if _, err := hex.Decode(ref.SHA256[:], []byte(hash)); err != nil {
			t.Fatal(err)
		}
		if _, err := get(db.Blobs(), ref); err != nil {
			t.Fatalf("%s: blob %s: %v", what, hash, err)
		}
	}
	if problems, err := pragmaProblems(t.Context(), roDSN(db.path), "PRAGMA integrity_check"); err != nil || len(problems) != 0 {
		t.Fatalf("%s: %v, %v", what, problems, err)
	}
	if left, _ := filepath.Glob(filepath.Join(db.Blobs().dir, tempPrefix+"*")); len(left) != 0 {
		t.Fatalf("%s: left %v", what, left)
	}
}

// laterValue reports whether got was written after promised: numbers only increase.
func laterValue(got, promised string) bool {
	g, err1 := strconv.Atoi(got)
	p, err2 := strconv.Atoi(promised)
	return err1 == nil && err2 == nil && g > p
}
