package storage

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"helix/backend/testkit"
)

// The child reads its task from the environment: what to do, in which folder, and at which point to
// die ("": it lives until it is killed).
const (
	childTask  = "HELIX_TEST_CRASH_TASK"
	childDir   = "HELIX_TEST_CRASH_DIR"
	childPoint = "HELIX_TEST_CRASH_POINT"
)

// crashContext adds a migration if the task requires it.
func crashContext(ctx context.Context, task string) context.Context {
	switch task {
	case "migrate", "rollback":
		return with(ctx, map[string]string{"9001_nick.sql": addColumn, "9002_more.sql": `CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT; UPDATE users SET nick = display_name;`})
	}
	return ctx
}

func openCrash(ctx context.Context, task, dir string) (*DB, *Service, error) {
	db, err := Open(crashContext(ctx, task), Options{Path: filepath.Join(dir, "helix.db"), Keys: NewKeys(fileRoot{filepath.Join(dir, "root")})})
	if err != nil {
		return nil, nil, err
	}
	return db, NewService(db, ServiceOptions{}), nil
}

// TestCrashProgram is not a test but the program that the tests below kill.
func TestCrashProgram(t *testing.T) {
	task, dir, point := os.Getenv(childTask), os.Getenv(childDir), os.Getenv(childPoint)
	if task == "" {
		t.Skip("a part of another test")
	}
	if point != "" {
		onCrashPoint = func(name string) {
			if name == point {
				dieNow()
			}
		}
	}
	fmt.Println("begin")
	db, s, err := openCrash(t.Context(), task, dir)
	must(t, err)
	ctx := asUser(crashContext(t.Context(), task), db.LocalUser().ID)
	switch task {
	case "write":
		for i := 0; ; i++ {
			name := fmt.Sprint(time.Now().UnixNano(), "-", i)
			must(t, db.Write(ctx, func(tx *Tx) error {
				for range 2 { // both or none
					if err := addUser(tx, name); err != nil {
						return err
					}
				}
				return nil
			}))
			fmt.Println("ack", name)
		}
	case "backup":
		for {
			r, err := s.Backup(ctx, BackupParams{})
			must(t, err)
			fmt.Println("ack", r.Path)
		}
	case "restore":
		_, err := s.Restore(ctx, RestoreParams{Path: filepath.Join(dir, "backups", "helix-the-one.zip")})
		must(t, err)
		fmt.Println("ack restored")
	case "rollback":
		_, err := s.Rollback(ctx, RollbackParams{})
		must(t, err)
		fmt.Println("ack rolled back")
	case "salvage":
		_, _ = s.Check(ctx, CheckParams{Full: true})
		_, err := s.Salvage(ctx, SalvageParams{AcceptLoss: true})
		must(t, err)
		fmt.Println("ack salvaged")
	case "migrate":
		fmt.Println("ack migrated")
	}
}

// crash runs the child until it dies at point, or, without a point, until it is killed after a
// moment. It returns what the child acknowledged and whether it died.
func crash(t *testing.T, task, dir, point string, after time.Duration) (acks []string, died bool) {
	t.Helper()
	cmd := osexec.Command(os.Args[0], "-test.run=^TestCrashProgram$", "-test.v")
	cmd.Env = append(os.Environ(), childTask+"="+task, childDir+"="+dir, childPoint+"="+point)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	from := "begin"
	if task == "write" {
		from = "ack" // so that each round acknowledges something, even on a slow machine
	}
	for sc := bufio.NewScanner(out); sc.Scan(); {
		word, rest, _ := strings.Cut(sc.Text(), " ")
		if word == from && point == "" {
			from = ""
			defer time.AfterFunc(after, func() { _ = cmd.Process.Kill() }).Stop()
		}
		switch word {
		case "ack":
			acks = append(acks, rest)
		case "---":
			if strings.HasPrefix(rest, "FAIL") {
				t.Fatalf("%s (%s): the child failed: %s", task, point, sc.Text())
			}
		}
	}
	_ = cmd.Wait()
	return acks, !cmd.ProcessState.Success()
}

func rounds(short int) int {
	if long() {
		return 200
	}
	if raced {
		return max(1, short/3)
	}
	return short
}

// checkConsistent opens what a killed process left behind and checks every page.
func checkConsistent(t *testing.T, what, task, dir string) (*DB, *Service) {
	t.Helper()
	db, s, err := openCrash(t.Context(), task, dir)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if rec := db.Recovery(); rec != nil && rec.Reason == "corrupt" {
		t.Fatalf("%s: %+v", what, rec)
	}
	if problems, err := pragmaProblems(t.Context(), roDSN(db.path), "PRAGMA integrity_check"); err != nil || len(problems) != 0 {
		t.Fatalf("%s: %v, %v", what, problems, err)
	}
	for _, pattern := range []string{"helix.db.migrating*", "staging-*", "swap.journal", "backups/*.partial"} {
		if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) != 0 {
			t.Fatalf("%s: left %v", what, left)
		}
	}
	return db, s
}

func TestKilledDuringWrites(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 1))
	promised := map[string]bool{}
	for i := range rounds(5) {
		acks, _ := crash(t, "write", dir, "", time.Duration(30+rng.IntN(200))*time.Millisecond)
		for _, a := range acks {
			promised[a] = true
		}
		db, _ := checkConsistent(t, fmt.Sprint("round ", i), "write", dir)
		have := map[string]int{}
		must(t, db.Read(t.Context(), func(tx *Tx) error {
			return eachRow(t.Context(), tx, `SELECT display_name, count(*) FROM users GROUP BY 1`, func(scan func(...any) error) error {
				var n string
				var c int
				if err := scan(&n, &c); err != nil {
					return err
				}
				have[n] = c
				return nil
			})
		}))
		for a := range promised {
			if have[a] != 2 {
				t.Fatalf("round %d: %d rows of an acknowledged write", i, have[a])
			}
		}
		for n, c := range have {
			if strings.Contains(n, "-") && c != 2 {
				t.Fatalf("round %d: %d rows of a write of two", i, c)
			}
		}
		shut(t, db)
	}
	if len(promised) == 0 {
		t.Fatal("nothing was ever acknowledged: the test proves nothing")
	}
}

// cloned returns a copy of a data folder created by prepared.
func cloned(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// prepared creates a data folder with rows and returns both.
func prepared(t *testing.T, task string) (dir string, want map[string][]string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	db, s, err := openCrash(t.Context(), "", dir)
	must(t, err)
	seed(t, db, db.LocalUser().ID, 20)
	ctx := asUser(t.Context(), db.LocalUser().ID)
	_, err = db.Blobs().PutBytes(ctx, []byte("a blob"))
	must(t, err)
	want = rows(t, db, toolTables...)
	if task == "restore" {
		b, err := s.Backup(ctx, BackupParams{})
		must(t, err)
		must(t, os.Rename(b.Path, filepath.Join(dir, "backups", "helix-the-one.zip")))
		seed(t, db, db.LocalUser().ID, 5)
	}
	shut(t, db)
	if task == "rollback" {
		db, _, err := openCrash(t.Context(), "migrate", dir)
		must(t, err)
		seed(t, db, db.LocalUser().ID, 5)
		shut(t, db)
	}
	return dir, want
}

func TestKilledDuringMigration(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	points := []string{"migrate.checked", "migrate.snapshot", "migrate.step0", "migrate.step1", "migrate.applied", "migrate.verified", "migrate.wal", "migrate.renamed"}
	old := newest(t, t.Context())
	base, want := prepared(t, "migrate")
	each(t, points, func(t *testing.T, point string, after time.Duration) {
		dir := cloned(t, base)
		if _, died := crash(t, "migrate", dir, point, after); !died && point != "" {
			t.Fatal("the child passed the point alive")
		}
		if st, err := readFileState(t.Context(), filepath.Join(dir, "helix.db")); err != nil || (st.version != old && st.version != 9002) {
			t.Fatalf("schema %d, %v: neither old nor new", st.version, err)
		} else if st.version == old { // then the old program can still open it
			db, _ := checkConsistent(t, point, "write", dir)
			sameRows(t, rows(t, db, toolTables...), want)
			shut(t, db)
		}
		db, _ := checkConsistent(t, point, "migrate", dir)
		sameRows(t, rows(t, db, toolTables...), want)
		shut(t, db)
		st, err := readFileState(t.Context(), filepath.Join(dir, "helix.db"))
		if err != nil || st.version != 9002 {
			t.Fatalf("the next start left schema %d, %v", st.version, err)
		}
	})
}

// each runs fn for every point, and for kills at random moments.
func each(t *testing.T, points []string, fn func(t *testing.T, point string, after time.Duration)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, uint64(len(points))))
	if raced && !long() {
		points = []string{points[0], points[len(points)/2], points[len(points)-1]}
	}
	n := len(points)
	for i := range max(n, rounds(n+2)) {
		point := ""
		if i < n || (i < n*4 && long()) {
			point = points[i%n]
		}
		after := time.Duration(5+rng.IntN(150)) * time.Millisecond
		t.Run(point+"-"+strconv.Itoa(i), func(t *testing.T) { fn(t, point, after) })
	}
}

func TestKilledDuringBackup(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	dir, want := prepared(t, "backup")
	promised := map[string]bool{}
	each(t, []string{"backup.db", "backup.written", "backup.renamed"}, func(t *testing.T, point string, after time.Duration) {
		acks, _ := crash(t, "backup", dir, point, after+100*time.Millisecond)
		for _, a := range acks {
			promised[a] = true
		}
		db, s := checkConsistent(t, point, "backup", dir)
		sameRows(t, rows(t, db, toolTables...), want)
		all, err := s.listBackups()
		must(t, err)
		for _, b := range all {
			if v, err := s.VerifyBackup(asUser(t.Context(), db.LocalUser().ID), VerifyBackupParams{Path: b.Path}); err != nil || !v.OK {
				t.Fatalf("%s: %+v, %v", b.Name, v, err)
			}
			delete(promised, b.Path)
			must(t, os.Remove(b.Path))
		}
		for p := range promised {
			t.Fatalf("the acknowledged backup %s is gone", p)
		}
		shut(t, db)
	})
}

func TestKilledDuringRestore(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	base, want := prepared(t, "restore")
	each(t, []string{"restore.unpacked", "restore.staged", "swap.journal", "swap.move2", "swap.move3", "swap.move4", "swap.move5"}, func(t *testing.T, point string, after time.Duration) {
		dir := cloned(t, base)
		crash(t, "restore", dir, point, after)
		db, _ := checkConsistent(t, point, "restore", dir)
		got := rows(t, db, toolTables...)
		switch n := len(got["custom_tools"]); n {
		case 20:
			sameRows(t, got, want)
			kept, _ := filepath.Glob(filepath.Join(dir, "replaced-*", "helix.db"))
			if len(kept) != 1 {
				t.Fatalf("the replaced data: %v", kept)
			}
		case 25:
			if strings.HasPrefix(point, "swap.") {
				t.Fatal("the decision was on disk and was not carried out")
			}
		default:
			t.Fatalf("%d tools: neither old nor new", n)
		}
		if blobs, _ := filepath.Glob(filepath.Join(dir, "blobs", "??", "*")); len(blobs) != 1 {
			t.Fatalf("blobs: %v", blobs)
		}
		shut(t, db)
	})
}

func TestKilledDuringRollback(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	base, want := prepared(t, "rollback")
	each(t, []string{"rollback.staged", "swap.journal", "swap.move2", "swap.move3"}, func(t *testing.T, point string, after time.Duration) {
		dir := cloned(t, base)
		crash(t, "rollback", dir, point, after)
		st, err := readFileState(t.Context(), filepath.Join(dir, "helix.db"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		db, _ := checkConsistent(t, point, "rollback", dir)
		if db.Recovery() == nil { // not yet rolled back
			if strings.HasPrefix(point, "swap.") {
				t.Fatalf("schema %d: the decision was on disk and was not carried out", st.version)
			}
			if n := len(rows(t, db, toolTables...)["custom_tools"]); n != 25 {
				t.Fatalf("%d tools", n)
			}
			shut(t, db)
			return
		}
		shut(t, db)
		db, _ = checkConsistent(t, point, "", dir) // the older program
		sameRows(t, rows(t, db, toolTables...), want)
		shut(t, db)
	})
}

func TestKilledDuringSalvage(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	base, _ := prepared(t, "salvage")
	each(t, []string{"salvage.staged", "swap.journal", "swap.move2", "swap.move3"}, func(t *testing.T, point string, after time.Duration) {
		dir := cloned(t, base)
		path := filepath.Join(dir, "helix.db")
		st, err := os.Stat(path)
		must(t, err)
		damage(t, path, 6, 11, st.Size()/4096/3)
		before := read(t, path)
		crash(t, "salvage", dir, point, after+100*time.Millisecond)
		db, s, err := openCrash(t.Context(), "salvage", dir)
		must(t, err)
		defer db.Close()
		if db.Recovery() == nil {
			_, _ = s.Check(asUser(t.Context(), db.LocalUser().ID), CheckParams{Full: true})
		}
		if db.Recovery() != nil {
			if _, err := s.Salvage(t.Context(), SalvageParams{AcceptLoss: true}); err != nil {
				t.Fatal(err)
			}
		}
		kept, _ := filepath.Glob(filepath.Join(dir, "corrupt-*", "helix.db"))
		if len(kept) == 0 {
			t.Fatal("no copy of the damaged file")
		}
		if n := differingPages(read(t, kept[0]), before); n > 2 {
			t.Fatalf("%d pages of the kept file differ", n)
		}
		if problems, err := pragmaProblems(t.Context(), roDSN(path), "PRAGMA integrity_check"); err != nil || len(problems) != 0 {
			t.Fatalf("%v, %v", problems, err)
		}
	})
}
