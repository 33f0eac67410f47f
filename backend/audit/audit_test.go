package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("HELIX_AUDIT_CRASH"); dir != "" {
		crashChild(dir)
		return
	}
	os.Exit(testkit.Run(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")))
}

type env struct {
	t   *testing.T
	db  *storage.DB
	s   *Service
	ctx context.Context
}

func setup(t *testing.T, o Options) *env {
	t.Helper()
	db := storagetest.Open(t)
	return &env{t, db, New(db, o), storagetest.Ctx(t, db)}
}

func (e *env) append(entries ...Entry) {
	e.t.Helper()
	if err := e.s.Record(e.ctx, entries...); err != nil {
		e.t.Fatal(err)
	}
}

// many appends n entries in one transaction.
func (e *env) many(n int) {
	e.t.Helper()
	es := make([]Entry, n)
	for i := range es {
		es[i] = Entry{Action: ResourceAccess, SubjectKind: "tool", SubjectID: fmt.Sprint("t", i%7), Details: map[string]any{"i": i}}
	}
	e.append(es...)
}

func (e *env) verify() Report {
	e.t.Helper()
	r, err := e.s.Verify(e.ctx, VerifyParams{})
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

func (e *env) export() []byte {
	e.t.Helper()
	path := filepath.Join(e.t.TempDir(), "audit.jsonl")
	if _, err := e.s.Export(e.ctx, ExportParams{Path: path}); err != nil {
		e.t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		e.t.Fatal(err)
	}
	return b
}

func (e *env) keys() []ed25519.PublicKey { return []ed25519.PublicKey{e.db.Device().PublicKey} }

// tamper changes the log like someone with access to the file: without the triggers.
func (e *env) tamper(statements ...string) {
	e.t.Helper()
	err := e.db.Write(context.Background(), func(tx *storage.Tx) error {
		names := []string{"audit_log_no_update", "audit_log_no_delete", "audit_details_no_update", "audit_segments_no_update", "audit_segments_no_delete"}
		var made []string
		for _, n := range names {
			var sql string
			if err := tx.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = ?`, n).Scan(&sql); err != nil {
				return err
			}
			made = append(made, sql)
			if _, err := tx.Exec(`DROP TRIGGER ` + n); err != nil {
				return err
			}
		}
		for _, q := range append(statements, made...) {
			if _, err := tx.Exec(q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
		return nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

func TestAppendChainsAndPublishes(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	var got []Appended
	bus.Subscribe(e.db.Bus(), func(u uuid.UUID, a Appended) {
		if u != e.db.LocalUser().ID {
			t.Errorf("event for %v", u)
		}
		got = append(got, a)
	})
	run := uuid.New()
	e.append(Entry{Action: Start, SubjectKind: "tool", SubjectID: "x", RunID: run}, Entry{Action: Complete, SubjectKind: "tool", SubjectID: "x", RunID: run, Outcome: OK, Details: map[string]int{"ms": 3}})
	boom := errors.New("boom")
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error { return errors.Join(Append(tx, Entry{Action: Error}), boom) }); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	e.append(Entry{Action: Start})
	if len(got) != 3 || got[0].Seq != 1 || got[2].Seq != 3 || got[1].Subject != (WireSubject{Kind: "tool", ID: "x"}) {
		t.Fatalf("events %+v", got)
	}
	if r := e.verify(); !r.OK || r.Entries != 3 || r.Unsigned != 3 {
		t.Fatalf("%+v", r)
	}
	log, err := e.s.Entries(e.ctx, run)
	if err != nil || len(log) != 2 || log[0].Action != Start || string(log[0].Details) != "null" || string(log[1].Details) != `{"ms":3}` || log[1].TS == 0 {
		t.Fatalf("%+v %v", log, err)
	}
	l, err := e.s.List(e.ctx, ListParams{})
	if err != nil || len(l.Entries) != 3 || l.Entries[0].Seq != 3 || l.Entries[1].Actor.Kind != "user" || l.Entries[1].Signed {
		t.Fatalf("%+v %v", l, err)
	}
}

// TestEntriesNameTheClient checks that entries of a person contain the client, and the user's id.
func TestEntriesNameTheClient(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	id, _ := identity.From(e.ctx)
	for _, client := range []identity.Client{identity.ClientWindow, identity.ClientTerminal, identity.ClientProgram} {
		id.Client = client
		if err := e.s.Record(identity.With(e.ctx, id), Entry{Action: Start}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := e.s.List(e.ctx, ListParams{})
	if err != nil || len(l.Entries) != 3 {
		t.Fatalf("%+v %v", l, err)
	}
	for i, want := range []string{"", "terminal", "window"} {
		if a := l.Entries[i].Actor; a != (WireActor{Kind: "user", ID: id.User.String(), Client: want}) {
			t.Errorf("actor %+v, want the client %q", a, want)
		}
	}
}

// TestHeadCacheFollowsTheDatabase rolls back a savepoint, so that the cached end of the chain is wrong.
func TestHeadCacheFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	e.many(2)
	err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		for _, q := range []string{"SAVEPOINT a", "", "", "ROLLBACK TO a", ""} {
			if q == "" {
				if err := Append(tx, Entry{Action: Start}); err != nil {
					return err
				}
			} else if _, err := tx.Exec(q); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e.many(1)
	if r := e.verify(); !r.OK || r.Entries != 4 {
		t.Fatalf("%+v", r)
	}
}

func TestAppendWithoutService(t *testing.T) {
	t.Parallel()
	db := storagetest.Open(t)
	for range 3 {
		if err := db.Write(context.Background(), func(tx *storage.Tx) error { return Append(tx, Entry{Action: Start, Details: "token: abcdefgh"}) }); err != nil {
			t.Fatal(err)
		}
	}
	e := &env{t, db, New(db, Options{}), storagetest.Ctx(t, db)}
	if r := e.verify(); !r.OK || r.Entries != 3 {
		t.Fatalf("%+v", r)
	}
}

func TestEntryIsChecked(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	for _, bad := range []Entry{{}, {Action: strings.Repeat("a", 65)}, {Action: "a", SubjectID: strings.Repeat("x", 257)}} {
		if err := e.s.Record(e.ctx, bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := e.s.Writable(e.ctx); err != nil {
		t.Fatal(err) // an invalid entry does not make the log unwritable
	}
	e.append(Entry{Action: "a", SubjectID: "tab\tand\u0085\x00", Details: strings.Repeat("é\n\"", 9000)}, Entry{Action: "b", Details: json.RawMessage(strings.Repeat("[", 2000) + strings.Repeat("]", 2000))})
	l, err := e.s.List(e.ctx, ListParams{})
	if err != nil || len(l.Entries[1].Details) > maxDetails || !strings.Contains(string(l.Entries[1].Details), `"truncated":true`) {
		t.Fatalf("%v", err)
	}
	if l.Entries[1].Subject.ID != "tab\ufffdand\ufffd\ufffd" {
		t.Fatalf("%q", l.Entries[1].Subject.ID)
	}
	if r := e.verify(); !r.OK {
		t.Fatalf("%+v", r)
	}
	if r, err := Verify(strings.NewReader(string(e.export())), e.keys()); err != nil || !r.OK {
		t.Fatalf("%+v %v", r, err)
	}
}

// TestTriggers checks that neither entries nor segments can be changed in place, and only whole
// signed segments can be deleted.
func TestTriggers(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	e.many(5)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	e.many(2)
	for _, q := range []string{
		`UPDATE audit_log SET outcome = 'denied' WHERE seq = 2`, `DELETE FROM audit_log WHERE seq = 2`, `DELETE FROM audit_log`, `UPDATE audit_details SET details = '{}' WHERE seq = 2`,
		`UPDATE audit_segments SET no = 9`, `DELETE FROM audit_segments`, `INSERT INTO audit_pruning (one, through) VALUES (1, 3)`, `INSERT INTO audit_pruning (one, through) VALUES (1, 8)`,
		`UPDATE OR REPLACE audit_log SET seq = 3 WHERE seq = 4`,
	} {
		if err := e.db.Write(e.ctx, func(tx *storage.Tx) error { _, err := tx.Exec(q); return err }); err == nil {
			t.Errorf("%s was accepted", q)
		}
	}
	if r := e.verify(); !r.OK || r.Entries != 8 || r.SignedThrough != 6 || r.Unsigned != 2 {
		t.Fatalf("%+v", r)
	}
}

func TestVerifyFindsTampering(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, problem string
		seq           int64
		sql           []string
	}{
		{"changed outcome", ProblemHash, 4, []string{`UPDATE audit_log SET outcome = 'denied' WHERE seq = 4`}},
		{"changed time", ProblemHash, 2, []string{`UPDATE audit_log SET at = at + 1 WHERE seq = 2`}},
		{"changed details", ProblemHash, 3, []string{`UPDATE audit_details SET details = '{"i":9}' WHERE seq = 3`}},
		{"missing row", ProblemGap, 5, []string{`DELETE FROM audit_log WHERE seq = 5`}},
		{"missing first row", ProblemGap, 1, []string{`DELETE FROM audit_log WHERE seq = 1`}},
		{"renumbered", ProblemHash, 5, []string{`DELETE FROM audit_log WHERE seq = 5`, `UPDATE audit_log SET seq = -seq WHERE seq > 5`, `UPDATE audit_log SET seq = -seq - 1 WHERE seq < 0`}},
		{"swapped", ProblemHash, 3, []string{`UPDATE audit_log SET seq = -3 WHERE seq = 3`, `UPDATE audit_log SET seq = 3 WHERE seq = 4`, `UPDATE audit_log SET seq = 4 WHERE seq = -3`}},
		{"bad signature", ProblemSignature, 1, []string{`UPDATE audit_segments SET signature = zeroblob(64) WHERE no = 1`}},
		{"other root", ProblemSignature, 1, []string{`UPDATE audit_segments SET root = zeroblob(32) WHERE no = 1`}},
		{"segment gone", ProblemGap, 12, []string{`DELETE FROM audit_segments WHERE no = 1`}},
		{"cut tail", ProblemTruncated, 12, []string{`DELETE FROM audit_log WHERE seq > 11`, `DELETE FROM audit_segments WHERE no > 1`}},
		{"first segment's entries gone", ProblemGap, 1, []string{`DELETE FROM audit_log WHERE seq <= 11`}},
		{"all gone", ProblemTruncated, 1, []string{`DELETE FROM audit_log`, `DELETE FROM audit_segments`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := setup(t, Options{HeadFile: filepath.Join(t.TempDir(), "state", "audit-head")})
			e.many(10)
			if err := e.s.Sign(e.ctx); err != nil {
				t.Fatal(err)
			}
			e.many(10)
			if err := e.s.Sign(e.ctx); err != nil {
				t.Fatal(err)
			}
			if r := e.verify(); !r.OK {
				t.Fatalf("%+v", r)
			}
			e.tamper(c.sql...)
			r := e.verify()
			if r.OK || r.Problem != c.problem || r.FirstBadSeq == nil || *r.FirstBadSeq != c.seq || r.Expected == "" || r.Found == "" {
				b, _ := json.Marshal(r)
				t.Fatalf("%s", b)
			}
		})
	}
}

// TestForgedChain rebuilds the chain after a change, which is possible without the device key: only
// the signatures reveal it.
func TestForgedChain(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	e.many(5)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	b := e.export()
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var prev [32]byte
	for i, l := range lines {
		var r row
		details, err := parseEntry([]byte(l), &r, new(names))
		if err != nil {
			continue
		}
		if r.Seq == 2 {
			r.Outcome = "denied"
		}
		if r.Seq > 2 {
			r.Prev = prev
		}
		r.Hash = r.sum()
		prev = r.Hash
		lines[i] = string(appendEntryLine(nil, &r, details))
	}
	var h header
	if err := json.Unmarshal([]byte(lines[0]), &h); err != nil {
		t.Fatal(err)
	}
	h.Statements = nil // they contain the previous hash
	head, _ := json.Marshal(h)
	lines[0] = string(head)
	r, err := Verify(strings.NewReader(reseal(lines)), e.keys())
	if err != nil || r.Problem != ProblemSignature || *r.FirstBadSeq != 1 {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestHeadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit-head")
	e := setup(t, Options{HeadFile: path})
	if _, err := ReadHead(path); fault.KindOf(err) != fault.NotFound {
		t.Fatal(err)
	}
	e.many(3)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	h, err := ReadHead(path)
	fi, err2 := os.Stat(path)
	if err != nil || err2 != nil || h.No != 1 || h.LastSeq != 4 || fi.Mode().Perm() != 0o600 || hex.EncodeToString(e.db.Device().PublicKey) != h.PublicKey {
		t.Fatalf("%+v %v %v %v", h, err, err2, fi.Mode())
	}
	b, _ := os.ReadFile(path)
	if err := os.WriteFile(path, []byte(strings.Replace(string(b), `"lastSeq": 4`, `"lastSeq": 5`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadHead(path); fault.KindOf(err) != fault.Invalid {
		t.Fatal(err)
	}
}

func TestTwoUsers(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{})
	other := storagetest.OtherUser(t, e.db)
	e.append(Entry{Action: Start, SubjectKind: "tool", SubjectID: "mine", Details: "mine"})
	run := uuid.New()
	if err := e.s.Record(other, Entry{Action: Start, SubjectKind: "tool", SubjectID: "theirs", RunID: run, Details: "their words"}); err != nil {
		t.Fatal(err)
	}
	e.append(Entry{Action: Complete, SubjectKind: "tool", SubjectID: "mine"})
	l, err := e.s.List(e.ctx, ListParams{})
	if err != nil || len(l.Entries) != 2 {
		t.Fatalf("%+v %v", l, err)
	}
	if _, err := e.s.Get(e.ctx, GetParams{Seq: 2}); fault.KindOf(err) != fault.NotFound {
		t.Fatal(err)
	}
	if es, err := e.s.Entries(e.ctx, run); err != nil || len(es) != 0 {
		t.Fatalf("%+v %v", es, err)
	}
	r, err := e.s.Verify(other, VerifyParams{})
	if err != nil || !r.OK || r.Entries != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	b := e.export()
	if strings.Contains(string(b), "theirs") || strings.Contains(string(b), "their words") || strings.Contains(string(b), identity.UserID(other).String()) {
		t.Fatal("another user's entry is in the export")
	}
	if r, err := Verify(strings.NewReader(string(b)), e.keys()); err != nil || !r.OK {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := e.s.EraseDetails(e.ctx, EraseParams{SubjectID: "theirs"}); err != nil || r.Erased != 0 {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestConcurrentAppends(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{SegmentEntries: 16})
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() { done <- e.s.Run(ctx) }()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 25 {
				fail := errors.New("rolled back")
				err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
					if err := Append(tx, Entry{Action: ResourceAccess, SubjectID: fmt.Sprint(g)}); err != nil {
						return err
					}
					if i%5 == 0 {
						return fail
					}
					return nil
				})
				if err != nil && !errors.Is(err, fail) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r := e.verify()
	if !r.OK || r.Unsigned != 0 || r.Segments < 10 || r.Entries < 160 {
		t.Fatalf("%+v", r)
	}
}

func TestSegmentClosesByAge(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{SegmentAge: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	signed := make(chan struct{}, 8)
	stop := bus.Subscribe(e.db.Bus(), func(_ uuid.UUID, a Appended) {
		if a.Action == SegmentClosed {
			signed <- struct{}{}
		}
	})
	defer stop()
	go func() { done <- e.s.Run(ctx) }()
	e.many(3)
	<-signed
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if r := e.verify(); !r.OK || r.Unsigned != 0 || r.Entries != 4 || r.Segments != 1 {
		t.Fatalf("%+v", r) // the mark itself starts no new segment
	}
}
