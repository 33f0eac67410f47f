package storage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/testkit"
)

func TestLockNamesTheHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "d", "helix.lock")
	if dir := os.Getenv("HELIX_TEST_LOCK"); dir != "" {
		path = dir
	}
	release, err := Lock(path)
	if os.Getenv("HELIX_TEST_LOCK") != "" {
		fmt.Println("child:", fault.KindOf(err), fault.As(err).Message)
		return
	}
	must(t, err)
	cmd := osexec.Command(os.Args[0], "-test.run=^TestLockNamesTheHolder$", "-test.v")
	cmd.Env = append(os.Environ(), "HELIX_TEST_LOCK="+path)
	out, err := cmd.CombinedOutput()
	want := fmt.Sprintf("child: conflict Helix is already using this folder (pid %d).", os.Getpid())
	if err != nil || !strings.Contains(string(out), want) {
		t.Fatalf("%v: %s", err, out)
	}
	release()
	release()
	again, err := Lock(path)
	must(t, err)
	again()
	if fi, err := os.Stat(path); err != nil || (!isWindows && fi.Mode().Perm() != 0o600) {
		t.Fatalf("%v, %v", fi, err)
	}
}

// Pruning applies the limits of age and number to one user only, and a dry run reports what it
// would do.
func TestPruneKeepsBoundsAndOthers(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	h := newHome(t)
	other, err := h.db.AddUser(h.ctx, "B")
	must(t, err)
	me := h.db.LocalUser().ID
	for _, u := range []uuid.UUID{me, other.ID} {
		seed(t, h.db, u, 30)
	}
	old := time.Now().Add(-100 * 24 * time.Hour)
	week := time.Now().Add(-8 * 24 * time.Hour)
	big := `{"text":"` + strings.Repeat("ü", 50_000) + `"}`
	write(t, h.db, func(tx *Tx) error {
		return tx.WithoutCapture(func() error {
			for _, u := range []uuid.UUID{me, other.ID} {
				for _, q := range []string{
					`UPDATE custom_tool_usage SET timestamp = ?2 WHERE rowid IN (SELECT rowid FROM custom_tool_usage WHERE user_id = ?1 ORDER BY rowid LIMIT 10)`,
					`UPDATE custom_tool_usage SET timestamp = ?3, input_params = ?4 WHERE rowid IN (SELECT rowid FROM custom_tool_usage WHERE user_id = ?1 ORDER BY rowid LIMIT 1 OFFSET 12)`,
					`UPDATE custom_tools SET deleted_at = ?2 WHERE rowid IN (SELECT rowid FROM custom_tools WHERE user_id = ?1 ORDER BY rowid DESC LIMIT 2)`,
				} {
					if _, err := tx.Exec(q, u, old, week, big); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
	pol := DefaultPolicy()
	pol.HistoryRows = 25
	h.s.o.Policy = func() Policy { return pol }
	theirs := map[string][]string{}
	for _, table := range toolTables {
		theirs[table] = onlyOf(t, h.db, table, other.ID)
	}
	logBefore := changes(t, h.db)
	dry, err := h.s.Prune(h.ctx, PruneParams{DryRun: true})
	must(t, err)
	if n := len(onlyOf(t, h.db, "custom_tool_usage", me)); n != 30 {
		t.Fatalf("the dry run removed rows: %d", n)
	}
	done, err := h.s.Prune(h.ctx, PruneParams{})
	must(t, err)
	t.Logf("would %+v, did %+v", dry.Tables, done.Tables)
	got := map[string]int64{}
	for _, r := range done.Tables {
		got[r.Table] = r.Rows
	}
	if got["custom_tool_usage"] != 10 || got["custom_tools"] != 2 || got["custom_tool_usage.input_params"] != 1 {
		t.Errorf("%v", got)
	}
	for _, r := range dry.Tables {
		if r.Table != "change_log" && r.Table != "custom_tool_usage" && got[r.Table] != r.Rows {
			t.Errorf("%s: would remove %d, removed %d", r.Table, r.Rows, got[r.Table])
		}
	}
	for _, table := range toolTables {
		if !slices.Equal(onlyOf(t, h.db, table, other.ID), theirs[table]) {
			t.Errorf("%s: rows of B changed", table)
		}
	}
	var text string
	must(t, h.db.Read(h.ctx, func(tx *Tx) error {
		return tx.QueryRow(`SELECT input_params FROM custom_tool_usage WHERE user_id = ? AND json_extract(input_params, '$.truncated')`, me).Scan(&text)
	}))
	if len(text) > 3*payloadKeep || !strings.Contains(text, fmt.Sprint(len(big))) {
		t.Errorf("payload of %d bytes: %.80s", len(text), text)
	}
	if n := len(changes(t, h.db)); n > len(logBefore) {
		t.Errorf("the change log grew from %d to %d", len(logBefore), n)
	}
	again, err := h.s.Prune(h.ctx, PruneParams{})
	if err != nil || len(again.Tables) != 0 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

func TestBackupRetention(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 30, 12, 0, 0, 0, time.UTC)
	var all []BackupInfo
	for d := range 120 {
		all = append(all, BackupInfo{Name: fmt.Sprint("auto-", d), Kind: "automatic", CreatedAt: now.AddDate(0, 0, -d), SizeBytes: 10})
	}
	for d := range 5 {
		all = append(all, BackupInfo{Name: fmt.Sprint("pre-", d), Kind: "pre-migration", CreatedAt: now.AddDate(0, 0, -100-d), SizeBytes: 10})
	}
	all = append(all, BackupInfo{Name: "helix-old", Kind: "backup", CreatedAt: now.AddDate(-3, 0, 0), SizeBytes: 1 << 40})
	pol := DefaultPolicy()
	kept := func(bytes int64) (out []string) {
		pol.BackupMax = bytes
		drop := keepBackups(all, now, pol)
		for _, b := range all {
			if !slices.ContainsFunc(drop, func(d BackupInfo) bool { return d.Name == b.Name }) {
				out = append(out, b.Name)
			}
		}
		return out
	}
	want := []string{"auto-0", "auto-1", "auto-2", "auto-3", "auto-4", "auto-5", "auto-6", "auto-9", "auto-16", "pre-0", "helix-old"}
	if got := kept(1 << 40); !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if got := kept(35); !slices.Equal(got, []string{"auto-0", "auto-1", "auto-2", "pre-0", "helix-old"}) {
		t.Errorf("within 35 bytes: %v", got)
	}
	pol.KeepDaily, pol.KeepWeekly, pol.KeepSnapshots = 2, 1, 2
	if got := kept(1 << 40); !slices.Equal(got, []string{"auto-0", "auto-1", "pre-0", "helix-old"}) {
		t.Errorf("with fewer of each: %v", got)
	}
}

// handler keeps log lines.
type handler struct {
	mu    sync.Mutex
	lines []string
}

func (h *handler) Enabled(context.Context, slog.Level) bool { return true }
func (h *handler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *handler) WithGroup(string) slog.Handler            { return h }
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	h.lines = append(h.lines, line)
	return nil
}

func (h *handler) count(text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// A day of use on a simulated clock: one automatic backup, history, database and WAL within their
// limits, and a read that never ends is reported with its caller.
func TestADayOfUse(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	dir := t.TempDir()
	logs := &handler{}
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), Options{Path: filepath.Join(dir, "helix.db"), Keys: NewKeys(&memRoot{}), Logger: slog.New(logs)})
		must(t, err)
		defer db.Close()
		pol := DefaultPolicy()
		pol.HistoryRows, pol.LowSpace = 100, -1 // whatever the disk of this machine
		s := NewService(db, ServiceOptions{Policy: func() Policy { return pol }, Retention: []Retention{{Table: "custom_tool_usage", Time: "timestamp"}}})
		ctx, cancel := context.WithCancel(asUser(t.Context(), db.LocalUser().ID))
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		out := make(chan struct{})
		reading := make(chan error, 1)
		var walMax int64
		for minute := range 24 * 60 {
			if minute == 12*60 {
				go func() {
					reading <- db.Read(context.WithoutCancel(ctx), func(tx *Tx) error {
						var n int
						err := tx.QueryRow(`SELECT count(*) FROM users`).Scan(&n)
						<-out
						return err
					})
				}()
			}
			if minute == 13*60 {
				close(out)
				must(t, <-reading)
			}
			if minute%5 == 0 { // a busy moment every five minutes
				seed(t, db, db.LocalUser().ID, 2)
			}
			walMax = max(walMax, fileSize(db.path+"-wal"))
			time.Sleep(time.Minute)
		}
		cancel()
		must(t, <-ended)
		if n := len(rows(t, db, "custom_tool_usage")["custom_tool_usage"]); n > 100+6*60/5*2 {
			t.Errorf("%d runs are kept", n)
		}
		all, err := s.listBackups()
		must(t, err)
		if len(all) < 1 || len(all) > 2 || all[0].Kind != "automatic" {
			t.Errorf("backups: %+v", all)
		}
		if walMax > walLimit {
			t.Errorf("the WAL grew to %d", walMax)
		}
		if size := fileSize(db.path); size > 16<<20 {
			t.Errorf("the database grew to %d", size)
		}
		if n := logs.count("has been running for more than 30 s"); n != 1 || logs.count("TestADayOfUse") != 1 {
			t.Errorf("%d lines about the long read: %v", n, logs.lines)
		}
		if n := logs.count("background work"); n != 0 {
			t.Errorf("background work failed: %v", logs.lines)
		}
	})
}

func TestLowSpaceIsReportedOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var events []LowSpace
	bus.Subscribe(h.db.Bus(), func(_ uuid.UUID, e LowSpace) { events = append(events, e) })
	pol := DefaultPolicy()
	pol.LowSpace = 1 << 60
	h.s.o.Policy = func() Policy { return pol }
	var next schedule
	next.prune = time.Now().Add(time.Hour)
	for range 3 {
		h.s.watchSpace(h.ctx, &next)
	}
	if len(events) != 1 || !events[0].Low || !h.s.LowSpace() || !next.prune.IsZero() {
		t.Fatalf("%+v", events)
	}
	if lowRoom(space{Free: 600 << 20, Total: 10 << 30}, 500<<20) || !lowRoom(space{Free: 400 << 20, Total: 1 << 30}, 500<<20) || !lowRoom(space{Free: 600 << 20, Total: 100 << 30}, 500<<20) {
		t.Fatal("bounds")
	}
}

func TestReserveIsRefilledOnlyWhenThereIsSpace(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	pol := DefaultPolicy()
	h.s.o.Policy = func() Policy { return pol }
	reserved := func(limit int64) int64 {
		pol.LowSpace = limit
		h.s.watchSpace(h.ctx, &schedule{})
		return fileSize(h.s.reserve.path)
	}
	if n := reserved(-1); n != reserveSize { // a negative limit is never reached
		t.Fatalf("%d bytes are reserved", n)
	}
	must(t, h.s.ReleaseReserve())
	if n := reserved(1 << 60); n > 0 {
		t.Errorf("%d bytes are reserved while the disk is nearly full", n)
	}
	if n := reserved(-1); n != reserveSize {
		t.Errorf("%d bytes are reserved once there is space", n)
	}
}

// Times are ordered as they happened, in whatever time zone they were written, to the microsecond.
func TestTimesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	db := open(t)
	base := time.Date(2026, 3, 29, 0, 59, 59, 999_999_000, time.UTC)
	var list []time.Time
	for i, z := range []*time.Location{time.UTC, time.FixedZone("a", 5*3600+1800), time.FixedZone("b", -11*3600), time.FixedZone("c", 14*3600)} {
		list = append(list, base.Add(time.Duration(i)*time.Microsecond).In(z))
	}
	for _, text := range []string{"2026-03-29T01:00:01Z", "2026-03-29T03:00:01.5+02:00", "2026-03-28T20:00:02.000001-05:00"} {
		v, err := time.Parse(time.RFC3339Nano, text)
		must(t, err)
		list = append(list, v)
	}
	perm := rand.New(rand.NewPCG(1, 1)).Perm(len(list))
	write(t, db, func(tx *Tx) error {
		for _, i := range perm {
			if _, err := tx.Exec(`INSERT INTO users (id, display_name, created_at) VALUES (?, 'time', ?)`, NewID(), list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	var got []time.Time
	must(t, db.Read(t.Context(), func(tx *Tx) error {
		return eachRow(t.Context(), tx, `SELECT created_at FROM users WHERE display_name = 'time' ORDER BY created_at`, func(scan func(...any) error) error {
			var v time.Time
			defer func() { got = append(got, v) }()
			return scan(Time(&v))
		})
	}))
	for i := range list {
		if !got[i].Equal(list[i]) || got[i].Location() != time.UTC {
			t.Errorf("%d: %v, want %v", i, got[i], list[i])
		}
	}
}

// Fifty concurrent increments add up to fifty.
func TestIncrementsAreNotLost(t *testing.T) {
	t.Parallel()
	db := open(t)
	exec(t, db, `INSERT INTO meta (key, value) VALUES ('n', '0')`)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := db.Write(t.Context(), func(tx *Tx) error {
				_, err := tx.Exec(`UPDATE meta SET value = value + 1 WHERE key = 'n'`)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n string
	must(t, db.Read(t.Context(), func(tx *Tx) error { return tx.QueryRow(`SELECT value FROM meta WHERE key = 'n'`).Scan(&n) }))
	if n != "50" {
		t.Fatalf("n = %s", n)
	}
}

func TestConstraintErrorsNameTheField(t *testing.T) {
	t.Parallel()
	db := open(t)
	u := db.LocalUser().ID
	for name, c := range map[string]struct {
		q     string
		args  []any
		kind  fault.Kind
		field string
	}{
		"unique":  {`INSERT INTO secrets (id, user_id, name, value, created_at, updated_at) VALUES (?, ?, 'a', x'00', 1, 1), (?, ?, 'a', x'00', 1, 1)`, []any{NewID(), u, NewID(), u}, fault.Conflict, "name"},
		"missing": {`INSERT INTO users (id, created_at) VALUES (?, 1)`, []any{NewID()}, fault.Invalid, "displayName"},
		"check":   {`INSERT INTO users (id, display_name, created_at) VALUES (x'00', 'x', 1)`, nil, fault.Invalid, "id"},
		"type":    {`INSERT INTO users (id, display_name, created_at) VALUES (?, 'x', 'yesterday')`, []any{NewID()}, fault.Invalid, "createdAt"},
		"parent":  {`INSERT INTO secrets (id, user_id, name, value, created_at, updated_at) VALUES (?, ?, 'b', x'00', 1, 1)`, []any{NewID(), NewID()}, fault.Conflict, ""},
	} {
		err := db.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec(c.q, c.args...); return err })
		f := fault.As(err)
		d, _ := f.Details.(fault.FieldError)
		if f.Kind != c.kind || d.Field != c.field || strings.Contains(f.Message, "constraint") || strings.Contains(f.Message, "INSERT") {
			t.Errorf("%s: %s %q field %q, want %s %q (%v)", name, f.Kind, f.Message, d.Field, c.kind, c.field, err)
		}
	}
}

// Any sequence of writes survives a backup and a restore, and an export and an import.
func TestAnyWritesSurviveBackupAndExport(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	n := rounds(3)
	for i := range min(n, 50) {
		rng := rand.New(rand.NewPCG(uint64(i), 77))
		h := newHome(t)
		user := h.db.LocalUser().ID
		for range 20 {
			seed(t, h.db, user, rng.IntN(3))
			junk := make([]byte, rng.IntN(40))
			for k := range junk {
				junk[k] = byte(rng.Uint32())
			}
			text := strings.ToValidUTF8(string(junk), "?") + "\x00\u2028<&>\n\"\\ é 漢"
			for _, q := range []string{
				`UPDATE custom_tools SET description = ?1 WHERE rowid % 3 = ?2`, `UPDATE custom_tools SET icon = ?1, usage_count = usage_count + ?2 WHERE rowid % 4 = ?2`,
				`UPDATE custom_tools SET limits = json_object('x', ?1) WHERE rowid % 5 = ?2`, `UPDATE custom_tools SET last_used = ?2 * 1000003, deleted_at = CASE ?2 WHEN 1 THEN 5 END WHERE rowid % 3 = ?2`,
				`UPDATE custom_tools SET samples = json_array(?1, ?2, 1e300, null), signer_fingerprint = NULL WHERE rowid % 2 = ?2`,
			} {
				if rng.IntN(2) == 0 {
					exec(t, h.db, q, strings.ReplaceAll(text, "\x00", ""), rng.IntN(3))
				}
			}
		}
		want := rows(t, h.db, toolTables...)
		b, err := h.s.Backup(h.ctx, BackupParams{})
		must(t, err)
		dir := filepath.Join(t.TempDir(), "out")
		_, err = h.s.Export(h.ctx, ExportParams{Dir: dir})
		must(t, err)
		o := newHome(t)
		_, err = o.s.Import(o.ctx, ImportParams{Dir: dir})
		must(t, err)
		sameRows(t, rows(t, o.db, toolTables...), want)
		exec(t, h.db, `UPDATE custom_tools SET name = name || '!'`)
		_, err = h.s.Restore(h.ctx, RestoreParams{Path: b.Path})
		must(t, err)
		sameRows(t, rows(t, h.db, toolTables...), want)
	}
}

// No method of storage lets user A see, count or change rows of user B.
func TestTwoUsers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	b, err := h.db.AddUser(h.ctx, "B")
	must(t, err)
	seed(t, h.db, b.ID, 4)
	theirs := rows(t, h.db, toolTables...)
	st, err := h.s.Status(h.ctx, struct{}{})
	must(t, err)
	for _, r := range st.Tables {
		if strings.HasPrefix(r.Name, "custom_tool") && r.Rows != 0 {
			t.Errorf("status counts %d rows of B in %s", r.Rows, r.Name)
		}
	}
	dir := filepath.Join(t.TempDir(), "out")
	e, err := h.s.Export(h.ctx, ExportParams{Dir: dir})
	must(t, err)
	for table, n := range e.Rows {
		if n != 0 {
			t.Errorf("export has %d rows of B from %s", n, table)
		}
	}
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && bytes.Contains(read(t, p), []byte("tool-")) {
			t.Errorf("%s names a tool of B", p)
		}
		return err
	}))
	pol := DefaultPolicy()
	pol.HistoryRows, pol.HistoryAge, pol.TrashAge = 0, 0, 0
	h.s.o.Policy = func() Policy { return pol }
	if _, err := h.s.Prune(h.ctx, PruneParams{}); err != nil {
		t.Fatal(err)
	}
	sameRows(t, rows(t, h.db, toolTables...), theirs)
}
