package audit

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// crashChild runs until it is killed: start, action outside the database, complete.
func crashChild(dir string) {
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		panic(err)
	}
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(&storagetest.Root{Key: key})})
	if err != nil {
		panic(err)
	}
	s := New(db, Options{SegmentEntries: 8, HeadFile: filepath.Join(dir, "audit-head")})
	ctx := identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin, Client: identity.ClientWindow})
	go func() { _ = s.Run(ctx) }()
	fmt.Println("ready")
	for {
		run := uuid.New()
		e := Entry{Action: Start, SubjectKind: "tool", SubjectID: "t", RunID: run}
		if err := s.Record(ctx, e); err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "acts", run.String()), nil, 0o600); err != nil {
			panic(err)
		}
		e.Action = Complete
		if err := s.Record(ctx, e); err != nil {
			panic(err)
		}
		fmt.Println(run)
	}
}

// TestKill kills the process between any two steps: each action has a start, interrupted ones are
// closed at the next start, no acknowledged entry is lost and the chain is valid.
func TestKill(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be killed in the same way")
	}
	loops := 4
	if os.Getenv("HELIX_LONG") == "1" {
		loops = 200
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "acts"), 0o700); err != nil {
		t.Fatal(err)
	}
	root := storagetest.NewRoot()
	if err := os.WriteFile(filepath.Join(dir, "key"), root.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	acked, closed := map[string]bool{}, 0
	for range loops {
		killOnce(t, dir, acked)
		closed += checkAfterKill(t, dir, root, acked)
	}
	t.Logf("%d acts acknowledged, %d interrupted runs closed", len(acked), closed)
}

func killOnce(t *testing.T, dir string, acked map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "HELIX_AUDIT_CRASH="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	if !sc.Scan() {
		t.Fatal("the child did not start")
	}
	kill := time.AfterFunc(time.Duration(5+rand.IntN(60))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for sc.Scan() {
		if id, err := uuid.Parse(sc.Text()); err == nil {
			acked[id.String()] = true
		}
	}
	_ = cmd.Wait()
}

func checkAfterKill(t *testing.T, dir string, root *storagetest.Root, acked map[string]bool) int {
	t.Helper()
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(root)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := storagetest.Ctx(t, db)
	s := New(db, Options{HeadFile: filepath.Join(dir, "audit-head")})
	n, err := s.CloseInterrupted(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.CloseInterrupted(ctx); err != nil || again != 0 {
		t.Fatalf("closed twice: %d %v", again, err)
	}
	if r, err := s.Verify(ctx, VerifyParams{}); err != nil || !r.OK {
		t.Fatalf("%+v %v", r, err)
	}
	acts, err := os.ReadDir(filepath.Join(dir, "acts"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range acts {
		log, err := s.Entries(ctx, uuid.MustParse(a.Name()))
		if err != nil || len(log) != 2 || log[0].Action != Start || log[1].Action != Complete && log[1].Action != Error {
			t.Fatalf("act %s has %+v (%v)", a.Name(), log, err)
		}
		if acked[a.Name()] && log[1].Action != Complete {
			t.Fatalf("acknowledged act %s lost its end", a.Name())
		}
	}
	return n
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	e.append(
		Entry{Action: Start, SubjectID: "x", RunID: a}, Entry{Action: Complete, SubjectID: "x", RunID: a},
		Entry{Action: Start, SubjectID: "x", RunID: b}, Entry{Action: Start, SubjectID: "inner", RunID: b}, Entry{Action: Error, SubjectID: "inner", RunID: b, Outcome: Failed},
		Entry{Action: Start, SubjectID: "no run"},
	)
	s2 := New(e.db, Options{}) // the next start
	if err := s2.Record(e.ctx, Entry{Action: Start, SubjectID: "x", RunID: c}); err != nil {
		t.Fatal(err)
	}
	if n, err := s2.CloseInterrupted(e.ctx); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	log, err := s2.Entries(e.ctx, b)
	if err != nil || len(log) != 4 || string(log[3].Details) != `{"error":"interrupted","start":3}` || log[3].Action != Error {
		t.Fatalf("%+v %v", log, err)
	}
	if log, _ = s2.Entries(e.ctx, c); len(log) != 1 {
		t.Fatal("a run of this start was closed")
	}
}

// TestDiskFull checks that without space the action is refused and reads continue; once there is
// space again the chain is complete.
func TestDiskFull(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	e := setup(t, Options{})
	e.many(3)
	limit := func(pages int) {
		if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	limit(1) // SQLite raises it to the current size
	var err error
	for _, pad := range []int{1000, 0} { // a small entry may fit where a large one did not
		err = nil
		for i := 0; err == nil && i < 500; i++ {
			err = e.s.Record(e.ctx, Entry{Action: ResourceAccess, Details: strings.Repeat("x", pad)})
		}
	}
	if fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("err = %v", err)
	}
	if e.s.Degraded() == "" || fault.KindOf(e.s.Writable(e.ctx)) != fault.Unavailable {
		t.Fatal("not reported")
	}
	if l, err := e.s.List(e.ctx, ListParams{}); err != nil || len(l.Entries) == 0 {
		t.Fatal(err)
	}
	if r := e.verify(); !r.OK {
		t.Fatalf("%+v", r)
	}
	limit(1 << 30)
	e.s.probedAt.Store(0)
	if err := e.s.Writable(e.ctx); err != nil {
		t.Fatal(err)
	}
	e.many(2)
	if r := e.verify(); !r.OK || e.s.Degraded() != "" {
		t.Fatalf("%+v", r)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	now := time.Now()
	days := 400
	e := setup(t, Options{SegmentEntries: 8, Now: func() time.Time { return now }, EntryDays: func() int { return days }, DetailsDays: func() int { return 90 }})
	e.many(50)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	e.many(3) // unsigned: kept whatever its age
	before := e.verify()
	now = now.AddDate(0, 0, 91)
	if err := e.s.Prune(e.ctx); err != nil {
		t.Fatal(err)
	}
	r := e.verify()
	if !r.OK || r.Erased != 53 || r.Entries != before.Entries+1 { // plus the entry that records it
		t.Fatalf("%+v", r)
	}
	now = now.AddDate(0, 0, 400)
	if err := e.s.Prune(e.ctx); err != nil {
		t.Fatal(err)
	}
	r = e.verify()
	if !r.OK || r.PrunedThrough != before.SignedThrough || r.FirstSeq != before.SignedThrough+1 || r.Segments != before.Segments {
		t.Fatalf("%+v, before %+v", r, before)
	}
	b := e.export()
	if r, err := verifyAgainst(bytesReader(b), e.keys(), nil); err != nil || !r.OK || r.PrunedThrough != before.SignedThrough {
		t.Fatalf("%+v %v", r, err)
	}
	// The deletion of one more segment is not covered by the entry about the pruned ones.
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	e.many(5)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	e.tamper(fmt.Sprintf(`DELETE FROM audit_log WHERE seq <= (SELECT last_seq FROM audit_segments WHERE first_seq = %d)`, r.FirstSeq))
	if r := e.verify(); r.OK || r.Problem != ProblemGap {
		t.Fatalf("%+v", r)
	}
	days = 0
	if err := e.s.Prune(e.ctx); err != nil {
		t.Fatal(err)
	}
}

func TestErase(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	e.many(14)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	for _, p := range []EraseParams{{}, {SubjectID: "x", Before: &time.Time{}}} {
		if _, err := e.s.EraseDetails(e.ctx, p); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", p, err)
		}
	}
	res, err := e.s.EraseDetails(e.ctx, EraseParams{SubjectID: "t3"})
	if err != nil || res.Erased != 2 {
		t.Fatalf("%+v %v", res, err)
	}
	r := e.verify()
	if !r.OK || r.Erased != 2 || r.Entries != 16 {
		t.Fatalf("%+v", r)
	}
	g, err := e.s.Get(e.ctx, GetParams{Seq: 4})
	if err != nil || !g.Erased || string(g.Details) != "null" || g.Segment == nil || g.Segment.No != 1 || *g.Previous != 3 || *g.Following != 5 || !g.Signed {
		t.Fatalf("%+v %v", g, err)
	}
	at := time.Now().Add(time.Hour)
	if res, err = e.s.EraseDetails(e.ctx, EraseParams{Before: &at}); err != nil || res.Erased != 12 {
		t.Fatalf("%+v %v", res, err)
	}
	if r := e.verify(); !r.OK {
		t.Fatalf("%+v", r)
	}
}
