package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/memory/importer/importertest"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

const importCrashEnv = "HELIX_TEST_IMPORT_CRASH"

// importChild is the input of the process of TestImportChild.
type importChild struct {
	DB   string
	Path string // to import; "" only resumes
	Hold bool   // block at the first checkpoint
}

func zeroRoot() storage.Root { return &storagetest.Root{Key: make([]byte, storage.RootKeySize)} }

// TestImportChild is the process that TestKilledImportResumes kills.
func TestImportChild(t *testing.T) {
	text := os.Getenv(importCrashEnv)
	if text == "" {
		t.Skip("a part of another test")
	}
	var c importChild
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	db := storagetest.OpenAt(t, c.DB, zeroRoot())
	s := New(db, Options{})
	ctx := storagetest.Ctx(t, db)
	b := &bundle{Service: s, db: db, ctx: ctx}
	bus.Subscribe(b.bus(t), func(uuid.UUID, ImportProgress) {
		fmt.Println("begun")
		if c.Hold {
			select {}
		}
	})
	bus.Subscribe(b.bus(t), func(uuid.UUID, ImportDone) { fmt.Println("ended") })
	if c.Path != "" {
		must(s.Import(ctx, ImportParams{Path: c.Path}))(t)
	}
	go func() { // concurrent work on the same data, so that the kill comes in the middle
		for {
			_ = db.Write(ctx, func(*storage.Tx) error { time.Sleep(10 * time.Millisecond); return nil })
		}
	}()
	_ = s.Run(ctx) // until the process is killed
}

// If a process is killed at any moment, the import resumes where it was: each turn is stored once
// and counted once, even in the middle of a long conversation.
func TestKilledImportResumes(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	if raced {
		t.Skip("the race detector sees nothing in a child that is killed")
	}
	kills := 3
	if os.Getenv("HELIX_LONG") != "" {
		kills = 40
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "helix.db")
	storagetest.Blank(t, file)
	db := storagetest.OpenAt(t, file, zeroRoot())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "conversations.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	turns := 3000 + 1500*kills/2
	wrote, err := importertest.ChatGPT(f, importertest.Options{Conversations: 1, Turns: turns, Words: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	child := importChild{DB: file, Path: path}
	within := 0
	for i := range kills {
		child.Hold = i%2 == 0
		text, err := json.Marshal(child)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestImportChild$", "-test.timeout=10m")
		cmd.Env = append(os.Environ(), importCrashEnv+"="+string(text), "GOCOVERDIR="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 5)); err != nil {
			t.Fatalf("the child does not begin: %v", err)
		}
		if !child.Hold {
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		child.Path = "" // from now on only resume

		db := storagetest.OpenAt(t, file, zeroRoot())
		b := &bundle{Service: New(db, Options{}), db: db, ctx: storagetest.Ctx(t, db)}
		jobs := must(b.Imports(b.ctx, PageParams{}))(t)
		if len(jobs.Jobs) != 1 {
			t.Fatalf("%d jobs", len(jobs.Jobs))
		}
		st := jobs.Jobs[0]
		if st.Added != st.Read || st.Skipped+st.Updated+st.Failed != 0 {
			t.Errorf("after a kill: %+v", st)
		}
		b.wantTurns(t, st.Added)
		if st.Added > 0 && st.Added < int64(turns) {
			within++
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if within == 0 {
		t.Errorf("none of %d kills came in the middle of the conversation", kills)
	}

	db = storagetest.OpenAt(t, file, zeroRoot())
	b := &bundle{Service: New(db, Options{}), db: db, ctx: storagetest.Ctx(t, db)}
	e := b.ends(t)
	job := must(b.Imports(b.ctx, PageParams{}))(t).Jobs[0]
	if job.FinishedAt == nil {
		stop := b.running(t)
		job = e.await(t, job.JobID)
		stop()
	}
	n := int64(wrote.Turns)
	wantCounts(t, job, "completed", n, n, 0, 0, 0)
	b.wantTurns(t, n)
	wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", n, 0, 0, n, 0)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// running runs the background work of a service until stop is called.
func (b *bundle) running(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

// held blocks the next import at the first progress for which fits returns true, until release is called.
func (b *bundle) held(t testing.TB, fits func(ImportStatus) bool) (at <-chan ImportStatus, release func()) {
	t.Helper()
	out, hold := make(chan ImportStatus, 1), make(chan struct{})
	release = sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	done := false
	cancel := bus.Subscribe(b.bus(t), func(_ uuid.UUID, p ImportProgress) {
		if !done && fits(p.ImportStatus) {
			done = true
			out <- p.ImportStatus
			<-hold
		}
	})
	t.Cleanup(cancel)
	return out, release
}

func begun(st ImportStatus) bool { return st.Added > 0 }

func await[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(5 * time.Minute):
		t.Fatal("nothing came")
	}
	return v
}

func TestCancelKeepsCommittedRows(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	path, wrote := export(t, importertest.Options{Conversations: 30, Turns: 100, Words: 10})
	small := writeFile(t, t.TempDir(), "m.jsonl", `{"content":"Never read."}`)
	at, release := b.held(t, begun)
	e := b.ends(t)
	first := must(b.Import(b.ctx, ImportParams{Path: path}))(t)
	second := must(b.Import(b.ctx, ImportParams{Path: small}))(t)
	await(t, at)
	st := must(b.ImportCancel(b.ctx, JobParams(second)))(t)
	if st.Status != "cancelled" || st.Read != 0 {
		t.Errorf("cancelled while it waited: %+v", st)
	}
	b.imports.mu.Lock()
	run := b.imports.jobs[first.JobID].run
	b.imports.mu.Unlock()
	go func() {
		<-run.Done()
		release()
	}()
	st = must(b.ImportCancel(b.ctx, JobParams(first)))(t)
	if st.Status != "cancelled" || st.FinishedAt == nil || st.Added == 0 || st.Added >= int64(wrote.Turns) || st.Progress < 0 || st.Progress >= 1 {
		t.Errorf("cancelled while it ran: %+v of %d", st, wrote.Turns)
	}
	if told := e.await(t, first.JobID); told.Status != "cancelled" || told.Added != st.Added {
		t.Errorf("told: %+v", told)
	}
	b.wantTurns(t, st.Added)
	if again := must(b.ImportCancel(b.ctx, JobParams(first)))(t); again.Status != "cancelled" || again.Added != st.Added {
		t.Errorf("cancelled twice: %+v", again)
	}
	n := int64(wrote.Turns)
	wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", n, n-st.Added, 0, st.Added, 0)
	b.wantTurns(t, n)
	if b.count(t, `SELECT count(*) FROM memories`) != 0 {
		t.Error("a job that was cancelled before its turn has run")
	}
}

// closeHeld closes the service while an import is held.
func (b *bundle) closeHeld(t testing.TB, release func()) {
	t.Helper()
	go func() {
		<-b.life.Done()
		release()
	}()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// A shutdown interrupts an import; the next start resumes it.
func TestClosedImportResumes(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	path, wrote := export(t, importertest.Options{Conversations: 30, Turns: 100, Words: 10})
	at, release := b.held(t, begun)
	job := must(b.Import(b.ctx, ImportParams{Path: path}))(t)
	await(t, at)
	b.closeHeld(t, release)
	st := must(b.ImportStatus(b.ctx, JobParams(job)))(t)
	if st.Status != "running" || st.Added == 0 || st.FinishedAt != nil {
		t.Errorf("after Close: %+v", st)
	}
	b.wantTurns(t, st.Added)
	b.Service = New(b.db, Options{})
	e := b.ends(t)
	stop := b.running(t)
	n := int64(wrote.Turns)
	wantCounts(t, e.await(t, job.JobID), "completed", n, n, 0, 0, 0)
	stop()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.wantTurns(t, n)
}

// A file that changed between two runs is read from its beginning.
func TestFileThatChangedMeanwhile(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	path, wrote := export(t, importertest.Options{Conversations: 30, Turns: 100, Words: 10})
	at, release := b.held(t, begun)
	job := must(b.Import(b.ctx, ImportParams{Path: path}))(t)
	await(t, at)
	b.closeHeld(t, release)
	had := must(b.ImportStatus(b.ctx, JobParams(job)))(t).Added
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Dir(path), filepath.Base(path), "["+chat("new", "Front", "a=Alpha")+","+strings.TrimPrefix(string(data), "["))
	b.Service = New(b.db, Options{})
	e := b.ends(t)
	stop := b.running(t)
	n := int64(wrote.Turns) + 1
	wantCounts(t, e.await(t, job.JobID), "completed", n, n-had, 0, had, 0)
	stop()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.wantTurns(t, n)
}

func TestFullDiskPausesAnImport(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	path, wrote := export(t, importertest.Options{Conversations: 30, Turns: 100, Words: 10})
	pages := func(more int64) {
		t.Helper()
		if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
			var n int64
			if err := tx.QueryRow(`PRAGMA page_count`).Scan(&n); err != nil {
				return err
			}
			return tx.QueryRow(fmt.Sprintf(`PRAGMA max_page_count = %d`, n+more)).Scan(&n)
		}); err != nil {
			t.Fatal(err)
		}
	}
	pages(100)
	full, release := b.held(t, func(st ImportStatus) bool { return st.Message == "The disk is full. Nothing was changed." })
	e := b.ends(t)
	job := must(b.Import(b.ctx, ImportParams{Path: path}))(t)
	st := await(t, full)
	if st.Status != "running" || st.Added == 0 || st.Added >= int64(wrote.Turns) {
		t.Errorf("while the disk is full: %+v", st)
	}
	if live := must(b.ImportStatus(b.ctx, JobParams(job)))(t); live.Message != st.Message {
		t.Errorf("asked for: %+v", live)
	}
	b.wantTurns(t, st.Added)
	release()
	pages(1 << 30)
	n := int64(wrote.Turns)
	done := e.await(t, job.JobID)
	wantCounts(t, done, "completed", n, n, 0, 0, 0)
	if done.Message != "" {
		t.Errorf("message %q", done.Message)
	}
	b.wantTurns(t, n)
}

// Progress is published at most four times a second and never decreases.
func TestImportProgressIsRateLimited(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	path, _ := export(t, importertest.Options{Conversations: 30, Turns: 100, Words: 10})
	var all []ImportStatus
	cancel := bus.Subscribe(b.bus(t), func(_ uuid.UUID, p ImportProgress) { all = append(all, p.ImportStatus) })
	began := time.Now()
	b.imported(t, ImportParams{Path: path})
	took := time.Since(began)
	cancel()
	if len(all) == 0 {
		t.Fatal("no progress was told")
	}
	// The time between two events is not that between their publications: the first may be late.
	if most := 1 + int(took/importProgressEvery); len(all) > most {
		t.Errorf("%d events in %s, want at most %d", len(all), took, most)
	}
	for i := 1; i < len(all); i++ {
		if all[i].Progress < all[i-1].Progress || all[i].Added < all[i-1].Added {
			t.Errorf("progress went back: %+v, %+v", all[i-1], all[i])
		}
	}
}
