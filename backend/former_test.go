package backend

import (
	"archive/zip"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/memory/search"
	"helix/backend/permission"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// formerOptions returns options with a copy of the data of the former version; see
// testdata/former/README.md.
func formerOptions(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	z, err := zip.OpenReader(filepath.Join("testdata", "former", "data.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if err := os.CopyFS(dir, z); err != nil {
		t.Fatal(err)
	}
	o := testOptions(dir)
	o.Environ = func(name string) string {
		switch name {
		case "HOME":
			return dir
		case "HELIX_KEY_PASSPHRASE":
			return "correct horse battery staple"
		}
		return ""
	}
	return o
}

// contents returns each row of each table as text, with the columns that columns lists for the
// table, or all of them.
func contents(t *testing.T, db interface {
	Query(string, ...any) (*sql.Rows, error)
}, columns map[string]string) (rows map[string]map[string]int, named map[string]string) {
	t.Helper()
	texts := func(query string) (out []string) {
		found, err := db.Query(query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer found.Close()
		for found.Next() {
			var s string
			if err := found.Scan(&s); err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		if err := found.Err(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if named = columns; named == nil {
		named = map[string]string{}
		for _, table := range texts(`SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'search_fts_%'`) {
			named[table] = "quote(" + strings.Join(texts(`SELECT '"' || name || '"' FROM pragma_table_info('`+table+`')`), `) || ',' || quote(`) + ")"
		}
	}
	rows = map[string]map[string]int{}
	for table, cols := range named {
		rows[table] = map[string]int{}
		for _, row := range texts(`SELECT ` + cols + ` FROM "` + table + `"`) {
			rows[table][row]++
		}
	}
	return rows, named
}

// formerContents reads a database file of the former version without opening it in Helix.
func formerContents(t *testing.T, path string) (map[string]map[string]int, map[string]string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return contents(t, db, nil)
}

// keepsAll compares the data of b, which is open but not running yet, with former.
func (b *Backend) keepsAll(t *testing.T, former map[string]map[string]int, columns map[string]string, endedRuns int) {
	t.Helper()
	var now map[string]map[string]int
	if err := b.DB.Read(b.as(b.LocalUser()), func(tx *storage.Tx) error {
		now, _ = contents(t, tx, columns)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	compareKept(t, b.withSystemIDs(former), now, endedRuns)
}

// withSystemIDs returns former with the current ids of the system schedules, which are the same on
// all devices.
func (b *Backend) withSystemIDs(former map[string]map[string]int) map[string]map[string]int {
	id := func(space uuid.UUID, key string) string {
		id := uuid.NewSHA1(space, []byte("schedule "+key))
		return fmt.Sprintf("X'%X'", id[:])
	}
	var pairs []string
	for _, key := range []string{"decay", "cleanup"} {
		pairs = append(pairs, id(b.LocalUser(), key), id(b.DB.IDSpace(b.LocalUser()), key))
	}
	rename, out := strings.NewReplacer(pairs...), map[string]map[string]int{}
	for table, rows := range former {
		out[table] = map[string]int{}
		for row, n := range rows {
			out[table][rename.Replace(row)] = n
		}
	}
	return out
}

// compareKept looks for each row of former in now. data_keys counts the use of keys, meta says how
// the last process ended, and sync_local is about the device. A restore ends endedRuns active runs.
func compareKept(t *testing.T, former, now map[string]map[string]int, endedRuns int) {
	t.Helper()
	const runs = "composite_skill_executions"
	total := 0
	for _, table := range slices.Sorted(maps.Keys(former)) {
		for row, n := range former[table] {
			if total += n; now[table][row] < n && table == runs && endedRuns > 0 {
				endedRuns--
			} else if now[table][row] < n && table != "data_keys" && table != "meta" && table != "sync_local" {
				t.Errorf("%s: lost or changed: %s", table, row[:min(len(row), 300)])
			}
		}
	}
	if endedRuns != 0 {
		t.Errorf("%d runs were not ended", endedRuns)
	}
	if total < 300 {
		t.Errorf("the former version left only %d rows", total)
	}
}

// worksOn checks the data of the former version in b, which is not running yet, and then runs b
// and, unless a restore ended it, answers the question of the waiting run.
func (b *Backend) worksOn(t *testing.T, restored bool) {
	t.Helper()
	ctx := b.as(b.LocalUser())
	if rep, err := b.Audit.Verify(ctx, audit.VerifyParams{}); err != nil || !rep.OK || rep.Entries < 70 || rep.Segments < 2 {
		t.Errorf("the audit log: %+v, %v", rep, err)
	}
	if v, err := b.Secrets.Value(ctx, "openai_api_key"); err != nil || string(v) != "sk-invented" {
		t.Errorf("the secret: %q, %v", v, err)
	}
	if err := b.DB.Read(ctx, func(tx *storage.Tx) error {
		var id uuid.UUID
		var sealed []byte
		if err := tx.QueryRow(`SELECT id, value FROM tool_secrets WHERE name = 'weather'`).Scan(&id, &sealed); err != nil {
			return err
		}
		v, err := b.Keys.Unseal("tool_secrets", "value", id, sealed)
		if err == nil && string(v) != "an invented key" {
			err = fmt.Errorf("it is %q", v)
		}
		return err
	}); err != nil {
		t.Errorf("the secret of a tool: %v", err)
	}
	for query, want := range map[string]string{"bees": "Mirabel keeps bees", "butter": "rye bread with butter", "quinces": "Quinces are planted", "honey": "Honey is taken"} {
		res, err := b.Memory.Search(ctx, search.Params{Query: query, Mode: "keyword"})
		if err != nil || !slices.ContainsFunc(res.Results, func(h search.Hit) bool { return strings.Contains(h.Snippet, want) }) {
			t.Errorf("search for %s: %+v, %v", query, res, err)
		}
	}
	next := map[string]string{}
	list, err := b.Scheduler.List(ctx, scheduler.ListParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Schedules {
		if !s.System {
			next[s.Name] = "never"
			if s.NextRunAt != nil {
				next[s.Name] = s.NextRunAt.UTC().Format(time.RFC3339)
			}
		}
	}
	if want := map[string]string{"Far away": "2099-03-01T09:00:00Z", "Each Monday": "2099-01-05T08:00:00Z", "Resting": "never"}; !maps.Equal(next, want) {
		t.Errorf("next times: %v", next)
	}
	history, err := b.Skills.History(ctx, skills.HistoryParams{})
	if err != nil || len(history.Executions) != 4 {
		t.Fatalf("runs: %+v, %v", history, err)
	}
	var waits uuid.UUID
	large, failed := 0, 0
	for _, e := range history.Executions {
		x, err := b.Skills.GetExecution(ctx, skills.RunParams{ExecutionID: e.ExecutionID})
		if err != nil {
			t.Fatal(err)
		}
		if x.Status == machine.Waiting {
			waits = x.ExecutionID
		}
		if x.Status == machine.Failed {
			failed++
		}
		for _, s := range x.StepResults {
			if large = max(large, len(s.Output)); s.OutputMissing != "" {
				t.Errorf("the output of %s: %s", s.StepPath, s.OutputMissing)
			}
		}
	}
	if large <= 64<<10 {
		t.Errorf("the largest output of a step has %d bytes", large)
	}
	if restored != (waits == uuid.Nil) || restored != (failed == 1) {
		t.Fatalf("restored %t, the run that waits %s, failed runs %d", restored, waits, failed)
	}

	// Questions expire, which may have happened since the data was created.
	if err := b.DB.Write(ctx, func(tx *storage.Tx) error {
		later := tx.Now.Add(time.Hour)
		if _, err := tx.Exec(`UPDATE composite_skill_executions SET wake_at = ? WHERE status = 'waiting'`, later); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE pending_approvals SET expires_at = ? WHERE status = 'pending'`, later)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	news := make(chan struct{}, 1)
	defer bus.Subscribe(b.Bus, func(uuid.UUID, permission.ApprovalChanged) {
		select {
		case news <- struct{}{}:
		default:
		}
	})()
	b.runs(t)
	c := &chain{Backend: b, ctx: ctx, t: t}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	open := c.waiting(waits)
	for len(open) == 0 && !restored {
		select {
		case <-news:
		case <-timer.C:
			t.Fatal("the question of the run that waits is not in Approvals")
		}
		open = c.waiting(waits)
	}
	all, err := b.Permission.ListApprovals(ctx, permission.ListApprovalsParams{})
	if err != nil || len(all.Approvals) != 1+len(open) {
		t.Errorf("approvals: %+v, %v", all, err)
	}
	if !restored {
		c.decide(open[0], permission.AnswerParams{Decision: "approve", Data: raw(t, map[string]int{"copies": 3})})
		if x := c.ended(waits); !x.Success || string(x.FinalOutput) != "3" {
			t.Errorf("%+v", x.ExecuteResult)
		}
	}
	token, err := os.ReadFile(filepath.Join(b.o.DataDir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.remote(t, strings.TrimSpace(string(token))); err != nil {
		t.Errorf("the token: %v", err)
	}
}

// runs runs b until the end of the test.
func (b *Backend) runs(t *testing.T) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- b.Run(b.as(uuid.Nil)) }()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := b.Gateway.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFormerVersionMigratesAllData(t *testing.T) {
	t.Parallel()
	o := formerOptions(t)
	former, columns := formerContents(t, filepath.Join(o.DataDir, "data", "helix.db"))
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	b.keepsAll(t, former, columns, 0)
	b.worksOn(t, false)
}

// A device that enrolls transfers all its data to the user of the hub.
func TestFormerVersionRekeysAllData(t *testing.T) {
	t.Parallel()
	b, err := Open(t.Context(), formerOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	from, to := b.LocalUser(), uuid.New()
	all := func() (rows map[string]map[string]int) {
		t.Helper()
		if err := b.DB.Read(t.Context(), func(tx *storage.Tx) error {
			rows, _ = contents(t, tx, nil)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	entries := func() int {
		t.Helper()
		res, err := b.Audit.List(b.as(b.LocalUser()), audit.ListParams{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return len(res.Entries)
	}
	before, listed := all(), entries()
	for table, rows := range before {
		if table == "audit_log" || table == "users" {
			continue
		}
		renamed := map[string]int{}
		for row, n := range rows {
			renamed[strings.ReplaceAll(row, fmt.Sprintf("X'%X'", from[:]), fmt.Sprintf("X'%X'", to[:]))] = n
		}
		before[table] = renamed
	}
	delete(before, "users")
	if err := b.DB.Write(b.as(from), func(tx *storage.Tx) error { return audit.Rekey(tx, from, to) }); err != nil {
		t.Fatal(err)
	}
	if b.LocalUser() != to {
		t.Fatalf("the local user is %s, want %s", b.LocalUser(), to)
	}
	after := all()
	compareKept(t, before, after, 0)
	for table, rows := range after {
		for row := range rows {
			if strings.Contains(row, fmt.Sprintf("X'%X'", from[:])) && table != "audit_log" && table != "users" {
				t.Errorf("%s: still of the former user: %s", table, row[:min(len(row), 300)])
			}
		}
	}
	if n := entries(); n != min(listed+1, 100) {
		t.Errorf("%d entries are listed, %d were before", n, listed)
	}
	b.worksOn(t, false)

	// Erasing and exporting cover the user's actions under either id.
	ctx := b.as(to)
	old := time.Now()
	if res, err := b.Audit.EraseDetails(ctx, audit.EraseParams{Before: &old}); err != nil || res.Erased < 20 {
		t.Errorf("erase: %+v, %v", res, err)
	}
	rep, err := b.Audit.Verify(ctx, audit.VerifyParams{})
	if err != nil || !rep.OK {
		t.Errorf("the audit log: %+v, %v", rep, err)
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	res, err := b.Audit.Export(ctx, audit.ExportParams{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keys, err := b.DB.DeviceKeys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := audit.Verify(f, keys); err != nil || !out.OK || res.Entries < rep.Entries {
		t.Errorf("the export of %d entries: %+v, %v", res.Entries, out, err)
	}
}

func TestFormerVersionBackupRestoresAllData(t *testing.T) {
	t.Parallel()
	o := formerOptions(t)
	z, err := zip.OpenReader(filepath.Join(o.DataDir, "backup.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	dir := t.TempDir()
	if err := os.CopyFS(dir, z); err != nil {
		t.Fatal(err)
	}
	former, columns := formerContents(t, filepath.Join(dir, "helix.db"))
	for _, name := range []string{"data", "state"} { // a new installation with the same key
		if err := os.RemoveAll(filepath.Join(o.DataDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Storage.Restore(b.as(b.LocalUser()), storage.RestoreParams{Path: filepath.Join(o.DataDir, "backup.zip")}); err != nil {
		t.Fatal(err)
	}
	b.keepsAll(t, former, columns, 1)
	b.worksOn(t, true)
}

func TestMigrationOfTheFormerVersionIsRolledBack(t *testing.T) {
	t.Parallel()
	o := formerOptions(t)
	path := filepath.Join(o.DataDir, "data", "helix.db")
	former, columns := formerContents(t, path)
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx := b.as(b.LocalUser())
	if _, err := b.Storage.Rollback(ctx, storage.RollbackParams{}); err != nil {
		t.Fatal(err)
	}
	if rec := b.DB.Recovery(); rec == nil || rec.Reason != "held" {
		t.Errorf("recovery: %+v", rec)
	}
	back, _ := formerContents(t, path)
	compareKept(t, former, back, 1)
	if _, err := b.Storage.Migrate(ctx, struct{}{}); err != nil {
		t.Fatal(err)
	}
	b.keepsAll(t, former, columns, 1)
	b.worksOn(t, true)
}
