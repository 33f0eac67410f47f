package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// again starts another service on the same database and head file.
func (e *env) again() *env {
	return &env{e.t, e.db, New(e.db, e.s.o), e.ctx}
}

func (e *env) putHead(b []byte) {
	e.t.Helper()
	if err := os.WriteFile(e.s.o.HeadFile, b, 0o600); err != nil {
		e.t.Fatal(err)
	}
}

func withHead(t *testing.T) *env {
	e := setup(t, Options{HeadFile: filepath.Join(t.TempDir(), "audit-head")})
	e.many(3)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestCrashAroundTheHead ends the process before or after the commit that the head file announces.
// Neither raises an alarm, immediately or after the next start; in either case earlier commits must
// not be missing.
func TestCrashAroundTheHead(t *testing.T) {
	t.Parallel()
	e := withHead(t)
	e.many(2)
	before := e.head()
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	after := e.head()
	var h, next Head
	if json.Unmarshal(before, &h) != nil || json.Unmarshal(after, &next) != nil {
		t.Fatal("head")
	}
	h.Pending = &next.SignedSegment
	if err := e.s.putHead(h, false); err != nil {
		t.Fatal(err)
	}
	pending := e.head()
	if r := e.verify(); !r.OK { // committed, then the process ended
		t.Fatalf("after the commit: %+v", r)
	}
	e = e.again()
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	if r := e.verify(); !r.OK || !bytes.Equal(after[:20], e.head()[:20]) || strings.Contains(string(e.head()), "pending") {
		t.Fatalf("after the next start: %+v %s", r, e.head())
	}
	// The commit did not happen: its rows do not exist.
	e.tamper(`DELETE FROM audit_segments WHERE no = 2`)
	e.putHead(pending)
	e = e.again()
	if r := e.verify(); !r.OK {
		t.Fatalf("before the commit: %+v", r)
	}
	e.tamper(`DELETE FROM audit_segments WHERE no = 1`)
	if r := e.verify(); r.OK {
		t.Fatal("the segment before is missing too")
	}
}

// TestAlarm checks that a mismatching head file is recorded before it is replaced, verification
// keeps reporting it, and accepting it is recorded.
func TestAlarm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		problem string
		spoil   func(e *env)
	}{
		{ProblemHeadMissing, func(e *env) { _ = os.Remove(e.s.o.HeadFile) }},
		{ProblemHeadEmpty, func(e *env) { e.putHead(nil) }},
		{ProblemHeadUnreadable, func(e *env) { e.putHead([]byte("x")) }},
		{ProblemTruncated, func(e *env) {
			e.tamper(`DELETE FROM audit_log WHERE seq > 4`, `DELETE FROM audit_details WHERE seq > 4`, `DELETE FROM audit_segments WHERE no > 1`)
		}},
	} {
		t.Run(c.problem, func(t *testing.T) {
			t.Parallel()
			e := withHead(t)
			e.many(3)
			if err := e.s.Sign(e.ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := e.s.Accept(e.ctx, AcceptParams{Problem: c.problem}); fault.KindOf(err) != fault.NotFound {
				t.Fatal(err)
			}
			c.spoil(e)
			e = e.again()
			if r := e.verify(); r.Problem != c.problem || r.Message == "" {
				t.Fatalf("%+v", r)
			}
			for range 2 { // the new head changes nothing
				e.many(2)
				if err := e.s.Sign(e.ctx); err != nil {
					t.Fatal(err)
				}
				if r := e.verify(); r.Problem != c.problem || !r.Alarm || r.FirstBadSeq == nil {
					t.Fatalf("with a new head: %+v", r)
				}
			}
			if r, err := Verify(bytes.NewReader(e.export()), e.keys()); err != nil || r.Problem != c.problem {
				t.Fatalf("exported: %+v %v", r, err)
			}
			if _, err := e.s.Accept(e.ctx, AcceptParams{Problem: c.problem}); err != nil {
				t.Fatal(err)
			}
			if r := e.verify(); !r.OK || r.Unsigned != 0 {
				t.Fatalf("accepted: %+v", r)
			}
			if r, err := Verify(bytes.NewReader(e.export()), e.keys()); err != nil || !r.OK {
				t.Fatalf("accepted and exported: %+v %v", r, err)
			}
			c.spoil(e.again())
			if r := e.again().verify(); c.problem != ProblemTruncated && r.OK {
				t.Fatal("the next time is not reported")
			}
		})
	}
}

// TestForgedStatement checks that entries after the last segment, which anyone with access to the file
// can write, excuse nothing without the device's signature.
func TestForgedStatement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry Entry
		sql   []string
	}{
		"pruned, as earlier versions said it": {Entry{Action: Pruned, SubjectKind: "segment", SubjectID: "1", Details: map[string]any{"throughSeq": 4}}, []string{`DELETE FROM audit_log WHERE seq <= 4`, `DELETE FROM audit_details WHERE seq <= 4`}},
		"pruned":                              {Entry{Action: Pruned, SubjectKind: "entries", SubjectID: "1", Details: map[string]any{"covers": "entries", "throughSeq": 4, "seq": 8}}, []string{`DELETE FROM audit_log WHERE seq <= 4`, `DELETE FROM audit_details WHERE seq <= 4`}},
		"erased":                              {Entry{Action: DataErase, SubjectKind: "details", Details: map[string]any{"covers": "details", "throughSeq": 4}}, []string{`DELETE FROM audit_details WHERE seq = 2`}},
		"erased, as earlier versions said it": {Entry{Action: DataErase, SubjectKind: "audit", Details: map[string]any{"erased": 1}}, []string{`DELETE FROM audit_details WHERE seq = 2`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := withHead(t)
			e.many(3)
			e.append(c.entry)
			if r := e.verify(); !r.OK {
				t.Fatalf("the entry alone: %+v", r)
			}
			e.tamper(c.sql...)
			if r := e.verify(); r.OK {
				t.Fatalf("%+v", r)
			}
			if err := e.s.Sign(e.ctx); err != nil {
				t.Fatal(err)
			}
			if r := e.verify(); r.OK {
				t.Fatalf("signed: %+v", r)
			}
		})
	}
}

// TestLiveEnd checks that the process knows its own entries before they are signed.
func TestLiveEnd(t *testing.T) {
	t.Parallel()
	e := withHead(t)
	e.many(4)
	e.tamper(`DELETE FROM audit_details WHERE seq = 8`, `DELETE FROM audit_log WHERE seq = 8`)
	if r := e.verify(); r.Problem != ProblemTruncated || *r.FirstBadSeq != 8 {
		t.Fatalf("%+v", r)
	}
}

// TestNewDatabase checks that an empty log is valid, and so is one whose process ended before its
// first segment.
func TestNewDatabase(t *testing.T) {
	t.Parallel()
	e := setup(t, Options{HeadFile: filepath.Join(t.TempDir(), "audit-head")})
	if r := e.verify(); !r.OK || r.Entries != 0 {
		t.Fatalf("empty: %+v", r)
	}
	e.many(2)
	for range 2 {
		if e = e.again(); !e.verify().OK {
			t.Fatalf("not signed: %+v", e.verify())
		}
	}
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	if r := e.again().verify(); !r.OK || r.Unsigned != 0 {
		t.Fatalf("signed: %+v", r)
	}
}

// TestEarlierVersion checks that a log and a head file of the previous version are valid. What was
// missing at the upgrade is counted; anything else is reported.
func TestEarlierVersion(t *testing.T) {
	t.Parallel()
	e := withHead(t)
	e.many(6)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	// In that version the first mark had no details, the head had no signature of its own, and
	// nothing recorded that a database is new.
	e.tamper(`DELETE FROM audit_segments`, `DELETE FROM audit_log WHERE seq >= 4`, `DELETE FROM audit_details WHERE seq >= 4`)
	e = e.again()
	e.s.statementSeq.Store(1) // write marks without statements
	e.s.o.HeadFile = ""
	e.many(6)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	var h Head
	if err := e.db.Read(e.ctx, func(tx *storage.Tx) error {
		g, err := lastSegment(tx, tx.Device().ID)
		h = Head{Device: g.Device}.with(g)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	e.tamper(`DELETE FROM audit_details WHERE seq IN (1, 2)`)
	path := filepath.Join(t.TempDir(), "audit-head")
	b, _ := json.Marshal(h)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	e.s.o.HeadFile = path
	e = e.again()
	if r := e.verify(); !r.OK || r.Erased != 2 {
		t.Fatalf("before the first start: %+v", r)
	}
	e.many(1)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	if r := e.verify(); !r.OK || r.Erased != 2 || !strings.Contains(string(e.head()), "headSignature") {
		t.Fatalf("after it: %+v", r)
	}
	if r, err := Verify(bytes.NewReader(e.export()), e.keys()); err != nil || !r.OK {
		t.Fatalf("exported: %+v %v", r, err)
	}
	e.tamper(`DELETE FROM audit_details WHERE seq = 3`)
	if r := e.verify(); r.Problem != ProblemDetails {
		t.Fatalf("%+v", r)
	}
}

// TestReplaced checks that a replacing database has its own log, whatever the head file contains,
// even if the process ended in between; an entry records it.
func TestReplaced(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			t.Parallel()
			e := withHead(t)
			e.many(4)
			if err := e.s.Sign(e.ctx); err != nil {
				t.Fatal(err)
			}
			bus.Publish(e.db.Bus(), identity.UserID(e.ctx), storage.Replacing{})
			e.tamper(`DELETE FROM audit_log WHERE seq > 4`, `DELETE FROM audit_details WHERE seq > 4`, `DELETE FROM audit_segments WHERE no > 1`)
			if e = e.again(); crash {
				if err := e.s.Sign(e.ctx); err != nil {
					t.Fatal(err)
				}
			} else {
				e.s.replaced(false)
			}
			if r := e.verify(); !r.OK {
				t.Fatalf("%+v", r)
			}
			l, err := e.s.List(e.ctx, ListParams{Actions: []string{LogReplaced}})
			if err != nil || len(l.Entries) == 0 {
				t.Fatalf("%+v %v", l, err)
			}
			// It excuses only this replacement.
			e.tamper(`DELETE FROM audit_log WHERE seq > 4`, `DELETE FROM audit_details WHERE seq > 4`, `DELETE FROM audit_segments WHERE no > 1`)
			if r := e.again().verify(); r.Problem != ProblemTruncated {
				t.Fatalf("cut again: %+v", r)
			}
		})
	}
}

// TestKeysRotated checks that changing the key for sealed values does not affect the log.
func TestKeysRotated(t *testing.T) {
	t.Parallel()
	sp := makeSpecimen(t)
	keys := storage.NewKeys(sp.root)
	db, err := storage.Open(context.Background(), storage.Options{Path: sp.path("helix.db"), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e := &env{t, db, New(db, Options{HeadFile: sp.path("audit-head"), SegmentEntries: 8}), sp.ctx(db)}
	if _, err := keys.Rotate(e.ctx, struct{}{}); err != nil {
		t.Fatal(err)
	}
	e.many(2)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	if r := e.verify(); !r.OK {
		t.Fatalf("%+v", r)
	}
}

func (sp *specimen) ctx(db *storage.DB) context.Context {
	return identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin, Client: identity.ClientWindow})
}

// TestExportTamperings changes, removes, moves, duplicates and truncates each member and each line
// of an export: every change is reported even if the last line matches; so is a log that was
// changed before the export.
func TestExportTamperings(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	sp := makeSpecimen(t)
	e := sp.open(t)
	text := e.export()
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	check := func(name, text string) {
		t.Helper()
		if r, err := Verify(strings.NewReader(text), e.keys()); err == nil && r.OK {
			t.Errorf("%s is not seen", name)
		}
	}
	if r, err := Verify(bytes.NewReader(text), e.keys()); err != nil || !r.OK || r.PrunedThrough == 0 || r.Erased == 0 {
		t.Fatalf("untouched: %+v %v", r, err)
	}
	n := 0
	for i, l := range lines {
		edit := func(name string, to ...string) {
			n++
			now := slices.Concat(lines[:i:i], to, lines[i+1:])
			if len(now) == 0 {
				return
			}
			name = fmt.Sprint("line ", i, " ", name)
			if i < len(lines)-1 {
				check(name+", made to fit", reseal(now))
			} else {
				check(name, strings.Join(now, "\n")+"\n")
			}
		}
		edit("removed")
		edit("twice", l, l)
		if i+2 < len(lines) {
			n++
			now := slices.Clone(lines)
			now[i], now[i+1] = now[i+1], now[i]
			check(fmt.Sprint("line ", i, " swapped"), reseal(now))
		}
		check(fmt.Sprint("cut before line ", i), strings.Join(lines[:i], "\n")+"\n")
		check(fmt.Sprint("cut behind line ", i, " and ended"), reseal(append(slices.Clone(lines[:i+1]), "")))
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(l), &members); err != nil {
			t.Fatal(err)
		}
		for k, v := range members {
			was := fmt.Sprintf("%q:%s", k, v)
			for what, to := range map[string]string{"null": "null", "empty": `""`, "zero": "0", "other": `"0190f1c2-7b7c-7000-8000-000000000001"`} {
				if to != string(v) {
					edit(k+" "+what, strings.Replace(l, was, fmt.Sprintf("%q:%s", k, to), 1))
				}
			}
			edit(k+" gone", strings.Replace(strings.Replace(l, was+",", "", 1), ","+was, "", 1))
		}
	}
	check("nothing", "")
	for name, sql := range map[string]string{
		"a stranger's user":          `UPDATE audit_log SET user_id = x'0190f1c27b7c70008000000000000001' WHERE subject_id = 'a'`,
		"another user's entry":       `UPDATE audit_log SET outcome = 'denied' WHERE subject_id = 'later'`,
		"another user's details":     `UPDATE audit_details SET details = '"five"' WHERE details = '"four"'`,
		"another user's details out": `DELETE FROM audit_details WHERE details = '"four"'`,
		"details":                    fmt.Sprintf(`DELETE FROM audit_details WHERE seq = %d`, sp.last-1),
	} {
		x := sp.copyTo(t).open(t)
		x.tamper(sql)
		if r, err := Verify(bytes.NewReader(x.export()), x.keys()); err != nil || r.OK {
			t.Errorf("%s before the export: %+v %v", name, r, err)
		}
	}
	t.Logf("%d alterations of %d lines", n, len(lines))
}

// TestRetentionReportsRemovedRows checks that the sweep records once what it erased, and a second
// sweep records nothing.
func TestRetentionReportsRemovedRows(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := setup(t, Options{Now: func() time.Time { return now }, DetailsDays: func() int { return 90 }})
	e.many(5)
	now = now.AddDate(0, 0, 92)
	for range 2 {
		if err := e.s.Prune(e.ctx); err != nil {
			t.Fatal(err)
		}
	}
	l, err := e.s.List(e.ctx, ListParams{Actions: []string{DataErase}})
	var st statement
	if err != nil || len(l.Entries) != 1 || json.Unmarshal(l.Entries[0].Details, &st) != nil || st.Through != 5 || st.Count != 5 || !st.valid() {
		t.Fatalf("%+v %v", l, err)
	}
	if r := e.verify(); !r.OK || r.Erased != 5 {
		t.Fatalf("%+v", r)
	}
}
