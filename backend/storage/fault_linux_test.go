package storage

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/google/uuid"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"helix/backend/bus"
	"helix/backend/fault"
)

// On a full disk, a write fails with the message in the manual, reads continue, nothing
// acknowledged is lost, and once there is space again writes work.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 10<<20) // room for the schema twice: in the file and in the WAL
	root := &memRoot{}
	h := openHome(t, filepath.Join(dir, "d"), root)
	setRoom := func(tx *Tx, n int) error {
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES (?, ?)`, NewID().String(), strings.Repeat("x", n))
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 3<<20), 0o600))
	acked := 0
	var err error
	for err == nil {
		if err = h.db.Write(h.ctx, func(tx *Tx) error { return setRoom(tx, 50_000) }); err == nil {
			acked++
		}
		if acked > 1000 {
			t.Fatal("the disk does not run full")
		}
	}
	wantKind(t, err, fault.Limit, "The disk is full. Nothing was changed.")
	n := 0
	must(t, h.db.Read(h.ctx, func(tx *Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM meta WHERE length(value) = 50000`).Scan(&n)
	}))
	if n != acked {
		t.Fatalf("%d rows, %d acknowledged", n, acked)
	}
	if _, err := h.db.Blobs().PutBytes(h.ctx, make([]byte, 2<<20)); fault.KindOf(err) != fault.Limit {
		t.Errorf("blob: %v", err)
	}
	if _, err := h.s.Backup(h.ctx, BackupParams{}); fault.KindOf(err) != fault.Limit {
		t.Errorf("backup: %v", err)
	}
	if _, err := h.s.Export(h.ctx, ExportParams{Dir: filepath.Join(dir, "out")}); err != nil && fault.KindOf(err) != fault.Limit {
		t.Errorf("export: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.s.o.BackupDir, "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	// An explicit transaction that fills the disk halfway is rolled back completely.
	before := n
	err = h.db.Write(h.ctx, func(tx *Tx) error {
		for range 200 {
			if err := setRoom(tx, 50_001); err != nil {
				return err
			}
		}
		return nil
	})
	wantKind(t, err, fault.Limit, "full")
	must(t, h.db.Read(h.ctx, func(tx *Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM meta WHERE length(value) >= 50000`).Scan(&n)
	}))
	if n != before {
		t.Fatalf("%d rows, want %d", n, before)
	}
	must(t, os.Remove(ballast)) // the user frees space
	must(t, h.db.Write(h.ctx, func(tx *Tx) error { return setRoom(tx, 50_000) }))
	shut(t, h.db)
	db := openWith(t, filepath.Join(dir, "d", "helix.db"), root)
	if db.Recovery() != nil {
		t.Fatalf("%+v", db.Recovery())
	}
	if p, err := pragmaProblems(t.Context(), roDSN(db.path), "PRAGMA integrity_check"); err != nil || len(p) > 0 {
		t.Fatalf("%v, %v", p, err)
	}
}

// The file layer below SQLite fails at the n-th call. The test runs in a separate process, whose
// default file system it patches.
const (
	faultEnv = "HELIX_TEST_FAULT" // kind:n:repeat
	faultDir = "HELIX_TEST_FAULT_DIR"
)

// TestFaultProgram is not a test but the program whose disk fails.
func TestFaultProgram(t *testing.T) {
	spec, dir := os.Getenv(faultEnv), os.Getenv(faultDir)
	if spec == "" {
		t.Skip("a part of another test")
	}
	p := strings.Split(spec, ":")
	n, err := strconv.ParseInt(p[1], 10, 64)
	must(t, err)
	var calls atomic.Int64
	breakDisk(p[0], func() bool { c := calls.Add(1); return c == n || (p[2] == "forever" && c > n) })
	defer func() { fmt.Println("calls", calls.Load()) }()
	db, err := Open(t.Context(), Options{Path: filepath.Join(dir, "helix.db"), Keys: NewKeys(fileRoot{filepath.Join(dir, "root")})})
	if err != nil {
		fmt.Println("open", fault.KindOf(err))
		return
	}
	for i := range 12 {
		err := db.Write(t.Context(), func(tx *Tx) error {
			for range 2 {
				if err := addUser(tx, fmt.Sprint("row-", os.Getpid(), "-", i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			fmt.Printf("ack row-%d-%d\n", os.Getpid(), i)
		} else {
			fmt.Println("refused", fault.KindOf(err))
		}
		_ = db.Read(t.Context(), func(tx *Tx) error { var n int; return tx.QueryRow(`SELECT count(*) FROM users`).Scan(&n) })
	}
	fmt.Println("close", db.Close())
}

func TestDiskThatFailsAtEveryCall(t *testing.T) {
	t.Parallel()
	step := int64(27)
	if raced {
		step = 40
	}
	if long() {
		step = 1
	}
	for _, kind := range []string{"full", "eio", "short", "sync"} {
		for _, repeat := range []string{"once", "forever"} {
			t.Run(kind+"-"+repeat, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				promised := map[string]bool{}
				for n := int64(1); ; n += step {
					cmd := osexec.Command(os.Args[0], "-test.run=^TestFaultProgram$", "-test.v")
					cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d:%s", faultEnv, kind, n, repeat), faultDir+"="+dir)
					out, err := cmd.CombinedOutput()
					if err != nil {
						t.Fatalf("call %d: %v\n%s", n, err, out)
					}
					var calls int64
					for l := range strings.Lines(string(out)) {
						w, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
						switch w {
						case "ack":
							promised[rest] = true
						case "refused", "open":
							if k := fault.Kind(rest); k != fault.Limit && k != fault.Unavailable && w == "refused" {
								t.Errorf("call %d: refused as %s", n, k)
							}
						case "calls":
							calls, _ = strconv.ParseInt(rest, 10, 64)
						}
					}
					checkPromised(t, dir, fmt.Sprintf("%s at call %d", kind, n), promised)
					if calls < n { // the failure is no longer reached
						break
					}
				}
				if len(promised) == 0 {
					t.Fatal("nothing was ever acknowledged")
				}
			})
		}
	}
}

// A first start on a disk that runs full leaves nothing that the next start takes for lost data.
func TestFirstStartOnFullDisk(t *testing.T) {
	t.Parallel()
	for n := range 12 {
		dir := t.TempDir()
		cmd := osexec.Command(os.Args[0], "-test.run=^TestFaultProgram$", "-test.v")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=full:%d:forever", faultEnv, n+1), faultDir+"="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("call %d: %v\n%s", n+1, err, out)
		}
		checkPromised(t, dir, fmt.Sprintf("full from call %d", n+1), nil)
	}
}

func checkPromised(t *testing.T, dir, what string, promised map[string]bool) {
	t.Helper()
	db, err := crashOpen(t.Context(), dir)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer db.Close()
	if db.Recovery() != nil {
		t.Fatalf("%s: %+v", what, db.Recovery())
	}
	have := map[string]int{}
	must(t, db.Read(t.Context(), func(tx *Tx) error {
		return eachRow(context.Background(), tx, `SELECT display_name, count(*) FROM users WHERE display_name LIKE 'row-%' GROUP BY 1`, func(scan func(...any) error) error {
			var n string
			var c int
			if err := scan(&n, &c); err != nil {
				return err
			}
			if have[n] = c; c != 2 {
				t.Errorf("%s: %d rows of a write of two", what, c)
			}
			return nil
		})
	}))
	for p := range promised {
		if have[p] != 2 {
			t.Fatalf("%s: the acknowledged %s is gone", what, p)
		}
	}
	if p, err := pragmaProblems(t.Context(), roDSN(db.path), "PRAGMA integrity_check"); err != nil || len(p) > 0 {
		t.Fatalf("%s: %v, %v", what, p, err)
	}
}

// breakDisk patches the default file system of this process: for files opened from then on, fails
// is called before each write (or sync), and if it returns true the call fails as specified by
// kind.
func breakDisk(kind string, fails func() bool) {
	tls := libc.NewTLS()
	vfs := sqlite3.Xsqlite3_vfs_find(tls, 0)
	const xOpenAt, methodsSize, xWriteAt, xSyncAt = 40, 152, 24, 40
	origOpen := *(*func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32)(unsafe.Pointer(&struct{ p uintptr }{word(vfs, xOpenAt)}))
	patched := map[uintptr]uintptr{}
	open := func(tls *libc.TLS, v, name, file uintptr, flags int32, out uintptr) int32 {
		rc := origOpen(tls, v, name, file, flags, out)
		old := word(file, 0)
		if rc != sqlite3.SQLITE_OK || old == 0 {
			return rc
		}
		if patched[old] == 0 {
			mine := libc.Xmalloc(tls, methodsSize)
			libc.Xmemcpy(tls, mine, old, methodsSize)
			write := *(*func(*libc.TLS, uintptr, uintptr, int32, int64) int32)(unsafe.Pointer(&struct{ p uintptr }{word(old, xWriteAt)}))
			sync := *(*func(*libc.TLS, uintptr, int32) int32)(unsafe.Pointer(&struct{ p uintptr }{word(old, xSyncAt)}))
			if kind == "sync" {
				setFunc(mine, xSyncAt, func(tls *libc.TLS, f uintptr, flags int32) int32 {
					if fails() {
						return sqlite3.SQLITE_IOERR_FSYNC
					}
					return sync(tls, f, flags)
				})
			} else {
				setFunc(mine, xWriteAt, func(tls *libc.TLS, f, buf uintptr, n int32, off int64) int32 {
					if !fails() {
						return write(tls, f, buf, n, off)
					}
					switch kind {
					case "full":
						return sqlite3.SQLITE_FULL
					case "short":
						write(tls, f, buf, n/2, off)
					}
					return sqlite3.SQLITE_IOERR_WRITE
				})
			}
			patched[old] = mine
		}
		setWord(file, 0, patched[old])
		return rc
	}
	setFunc(vfs, xOpenAt, open)
}

// word and setWord read and write a pointer in a C structure.
func word(p uintptr, at int) uintptr {
	return uintptr(binary.NativeEndian.Uint64(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), at+8)[at:]))
}

func setWord(p uintptr, at int, v uintptr) {
	binary.NativeEndian.PutUint64(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), at+8)[at:], uint64(v))
}

var keepFuncs []any // what C structures point to must stay

func setFunc[F any](p uintptr, at int, fn F) {
	box := &struct{ f F }{fn}
	keepFuncs = append(keepFuncs, box)
	setWord(p, at, *(*uintptr)(unsafe.Pointer(box)))
}

// TestFullDiskAtStart fills the disk before the start, after a clean and an unclean stop:
// everything can be read, writes are refused with the message in the manual, and once there is
// space again the background work opens the file for writing.
func TestFullDiskAtStart(t *testing.T) {
	t.Parallel()
	for _, stop := range []string{"clean", "unclean", "unclean-grown"} {
		t.Run(stop, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, 8<<20)
			dir := filepath.Join(disk, "d")
			root := &memRoot{}
			h := openHome(t, dir, root)
			_, err := NewSecrets(h.db).Set(h.ctx, SecretsSetParams{Name: "n", Value: "v"})
			must(t, err)
			seed(t, h.db, h.db.LocalUser().ID, 3)
			if stop == "unclean-grown" { // the WAL has pages for which the file has no room
				must(t, h.db.Write(h.ctx, func(tx *Tx) error {
					for range 2000 {
						must(t, addUser(tx, "x"))
					}
					return nil
				}))
			}
			want := rows(t, h.db, toolTables...)
			user, device := h.db.LocalUser(), h.db.Device()
			if stop == "unclean" { // the pages of the WAL are in the file, too
				must(t, h.db.checkpoint(h.ctx))
				must(t, h.db.setMeta(h.ctx, "clean", "0"))
			}
			if h.db.unclean = stop != "clean"; h.db.unclean {
				leaveWAL(t, h.db)
			}
			shut(t, h.db)
			ballast := fillDisk(t, disk)

			h = openHome(t, dir, root)
			if !h.db.ReadOnly() || h.db.Recovery() != nil || h.db.LocalUser() != user || h.db.Device().ID != device.ID {
				t.Fatalf("read only %v, recovery %v, %v, %v", h.db.ReadOnly(), h.db.Recovery(), h.db.LocalUser(), h.db.Device())
			}
			sameRows(t, rows(t, h.db, toolTables...), want)
			if v, err := NewSecrets(h.db).Value(h.ctx, "n"); err != nil || string(v) != "v" {
				t.Errorf("secret: %q, %v", v, err)
			}
			if _, err := h.db.Sign([]byte("m")); err != nil {
				t.Error(err)
			}
			wantKind(t, h.db.Write(h.ctx, func(tx *Tx) error { return addUser(tx, "x") }), fault.Limit, msgFull)
			st, err := h.s.Status(h.ctx, struct{}{})
			if err != nil || !st.LowSpace || st.Recovery != nil || len(st.Tables) == 0 {
				t.Errorf("status: %+v, %v", st, err)
			}
			shut(t, h.db) // and again: a start on a full disk changes nothing

			h = openHome(t, dir, root)
			sameRows(t, rows(t, h.db, toolTables...), want)
			must(t, os.Remove(ballast))
			h.s.o.Policy = func() Policy { return Policy{LowSpace: 1 << 50} } // prevents the reserve file
			roomAgain(t, h)
			must(t, h.db.Write(h.ctx, func(tx *Tx) error { return addUser(tx, "x") }))
			sameRows(t, rows(t, h.db, toolTables...), want)
			shut(t, h.db)
		})
	}
}

// leaveWAL closes the readers and moves the side files away before the clean stop.
func leaveWAL(t *testing.T, db *DB) {
	t.Helper()
	kept := map[string][]byte{}
	for _, ext := range []string{"", "-wal"} {
		b, err := os.ReadFile(db.path + ext)
		must(t, err)
		kept[ext] = b
	}
	must(t, db.Close())
	for ext, b := range kept {
		must(t, os.WriteFile(db.path+ext, b, 0o600))
	}
}

// fillDisk leaves no free page.
func fillDisk(t *testing.T, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	must(t, err)
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	must(t, f.Close())
	return ballast
}

func roomAgain(t *testing.T, h *home) {
	t.Helper()
	var told []Replaced
	bus.Subscribe(h.db.Bus(), func(_ uuid.UUID, e Replaced) { told = append(told, e) })
	must(t, h.s.writeAgain(h.ctx, roomToWrite))
	if h.db.ReadOnly() || len(told) != 1 || !told[0].Same {
		t.Fatalf("still read only: %v, told %v", h.db.ReadOnly(), told)
	}
}
