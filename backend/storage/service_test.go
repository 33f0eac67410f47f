package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/testkit"
)

// home is a database with its service, its files and the context of its user.
type home struct {
	t    *testing.T
	dir  string
	root *memRoot
	db   *DB
	s    *Service
	ctx  context.Context
}

func newHome(t *testing.T) *home {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	putBlank(t, filepath.Join(dir, "helix.db"))
	return openHome(t, dir, &memRoot{})
}

func openHome(t *testing.T, dir string, root *memRoot) *home {
	t.Helper()
	h := &home{t: t, dir: dir, root: root}
	h.db = openWith(t, filepath.Join(dir, "helix.db"), root)
	h.s = NewService(h.db, ServiceOptions{ConfigFile: filepath.Join(dir, "config.toml"), UserDir: filepath.Join(dir, "mine"), scryptN: 1 << 10,
		Retention: []Retention{{Table: "custom_tool_usage", Time: "timestamp", Payloads: []string{"input_params", "output_result"}}}})
	h.ctx = asUser(t.Context(), h.db.LocalUser().ID)
	return h
}

// seed adds n tools with a version and a run each, for the user of ctx.
func seed(t *testing.T, db *DB, user uuid.UUID, n int) {
	t.Helper()
	write(t, db, func(tx *Tx) error {
		for i := range n {
			id := NewID()
			hash := sha256.Sum256(id[:])
			if _, err := tx.Exec(`INSERT INTO custom_tools (id, user_id, name, code, tags, definition_hash, is_enabled, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				id, user, fmt.Sprintf("tool-%d-%s", i, id), "export default () => \"<é&\u2028>\"", `["a", "b"]`, hash, i%2, tx.Now, tx.Now); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO custom_tool_versions (id, custom_tool_id, user_id, version, definition_hash, language, code, parameters, capabilities, sandbox_profile, created_at, updated_at)
				VALUES (?, ?, ?, '1.0.0', ?, 'javascript', 'x', '{"type":"object"}', '[]', 'strict', ?, ?)`, NewID(), id, user, hash, tx.Now, tx.Now); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO custom_tool_usage (id, custom_tool_id, user_id, input_params, status, execution_time_ms, timestamp, created_at, updated_at)
				VALUES (?, ?, ?, ?, 'success', ?, ?, ?, ?)`, NewID(), id, user, `{"n":9007199254740993}`, 1.5*float64(i), tx.Now, tx.Now, tx.Now); err != nil {
				return err
			}
		}
		return nil
	})
}

// rows dumps tables without the columns that an export omits, ordered by their first column.
func rows(t *testing.T, db *DB, tables ...string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	if err := db.Read(t.Context(), func(tx *Tx) error {
		for _, name := range tables {
			cols, err := rowColumns(t.Context(), tx, name)
			if err != nil {
				return err
			}
			q := []string{}
			for _, c := range cols {
				q = append(q, `quote(`+quote(c.name)+`)`)
			}
			if err := eachRow(t.Context(), tx, `SELECT `+strings.Join(q, `||'|'||`)+` FROM `+quote(name)+` ORDER BY 1`, func(scan func(...any) error) error {
				var s string
				defer func() { out[name] = append(out[name], s) }()
				return scan(&s)
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

var toolTables = []string{"custom_tools", "custom_tool_versions", "custom_tool_usage"}

func sameRows(t *testing.T, got, want map[string][]string) {
	t.Helper()
	for k := range want {
		if !slices.Equal(got[k], want[k]) {
			t.Errorf("%s: %d rows, want %d; first difference: %s", k, len(got[k]), len(want[k]), firstDiff(got[k], want[k]))
		}
	}
}

func firstDiff(a, b []string) string {
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("\n%s\n%s", x, y)
		}
	}
	return "none"
}

func wantKind(t *testing.T, err error, k fault.Kind, text string) {
	t.Helper()
	if fault.KindOf(err) != k || (text != "" && !strings.Contains(fault.As(err).Message, text)) {
		t.Fatalf("err = %v (%s), want %s %q", err, fault.KindOf(err), k, text)
	}
}

// A run that was active when the data was saved ends with the restore, and other devices get to know.
func TestRestoreEndsActiveRuns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	id := NewID()
	exec(t, h.db, `INSERT INTO composite_skill_executions (id, user_id, definition_hash, body, mode, trigger, input_params, status, device_id, bytes, created_at, updated_at)
		VALUES (?, ?, zeroblob(32), '{}', 'live', 'user', '{}', 'running', ?, 0, 1, 1)`, id, h.db.LocalUser().ID, h.db.Device().ID)
	b, err := h.s.Backup(h.ctx, BackupParams{Passphrase: "correct horse"})
	must(t, err)
	_, err = h.s.Restore(h.ctx, RestoreParams{Path: b.Path, Passphrase: "correct horse"})
	must(t, err)
	var status, op string
	write(t, h.db, func(tx *Tx) error {
		return tx.QueryRow(`SELECT e.status, l.op FROM composite_skill_executions e JOIN change_log l ON l.row_id = e.id WHERE e.id = ?`, id).Scan(&status, &op)
	})
	if status != "failed" || op != "I" {
		t.Errorf("the run is %s and logged as %s", status, op)
	}
}

func TestBackupThenRestorePreservesData(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	h := newHome(t)
	var progress []BackupProgress
	bus.Subscribe(h.db.Bus(), func(_ uuid.UUID, p BackupProgress) { progress = append(progress, p) })
	seed(t, h.db, h.db.LocalUser().ID, 20)
	if err := setSecret(h.ctx, h.db, "the secret word"); err != nil {
		t.Fatal(err)
	}
	ref, err := h.db.Blobs().PutBytes(h.ctx, []byte("audio"))
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(h.s.o.ConfigFile, []byte("a = 1\n"), 0o600))
	must(t, os.MkdirAll(filepath.Join(h.s.o.UserDir, "soul"), 0o700))
	must(t, os.WriteFile(filepath.Join(h.s.o.UserDir, "soul", "é.md"), []byte("I am"), 0o600))
	before := rows(t, h.db, toolTables...)
	user, dev := h.db.LocalUser(), h.db.Device()

	b, err := h.s.Backup(h.ctx, BackupParams{Passphrase: "correct horse"})
	must(t, err)
	sum := sha256.Sum256(read(t, b.Path))
	if got := fmt.Sprintf("%x", sum); got != b.SHA256 || b.SizeBytes != fileSize(b.Path) {
		t.Fatalf("sha256 %s, said %s", got, b.SHA256)
	}
	if last := progress[len(progress)-1]; !last.Finished || last.Error != "" || last.Operation != "backup" {
		t.Fatalf("last progress %+v", last)
	}
	v, err := h.s.VerifyBackup(h.ctx, VerifyBackupParams{Path: filepath.Base(b.Path)})
	if err != nil || !v.OK || !v.HasKey || v.SchemaVersion == 0 {
		t.Fatalf("verify %+v, %v", v, err)
	}
	list, err := h.s.Backups(h.ctx, BackupsParams{})
	if err != nil || list.Total != 1 || list.Backups[0].Kind != "backup" || !list.Backups[0].Blobs || list.Backups[0].Problem != "" {
		t.Fatalf("list %+v, %v", list, err)
	}

	// The same machine, changed meanwhile.
	seed(t, h.db, user.ID, 3)
	exec(t, h.db, `UPDATE custom_tools SET name = name || 'x', updated_at = updated_at + 1 WHERE rowid = 1`)
	must(t, os.WriteFile(h.s.o.ConfigFile, []byte("a = 2\n"), 0o600))
	ended, replaced := 0, 0
	h.s.o.EndSessions = func() { ended++ }
	bus.Subscribe(h.db.Bus(), func(uuid.UUID, Replaced) { replaced++ })
	dry, err := h.s.Restore(h.ctx, RestoreParams{Path: b.Path, DryRun: true})
	if err != nil || dry.ReplacedPath != "" || dry.Rows["custom_tools"] != 20 || dry.Newer["custom_tools"] != 4 || ended != 0 {
		t.Fatalf("dry run %+v, %v", dry, err)
	}
	r, err := h.s.Restore(h.ctx, RestoreParams{Path: b.Path})
	must(t, err)
	if ended != 1 || replaced != 1 || r.Rows["custom_tools"] != 20 {
		t.Fatalf("restore %+v, ended %d, replaced %d", r, ended, replaced)
	}
	sameRows(t, rows(t, h.db, toolTables...), before)
	if h.db.LocalUser() != user || h.db.Device().ID != dev.ID {
		t.Fatal("user or device changed")
	}
	if got := string(read(t, h.s.o.ConfigFile)); got != "a = 1\n" {
		t.Fatalf("config %q", got)
	}
	if got := string(read(t, filepath.Join(r.ReplacedPath, "config.toml"))); got != "a = 2\n" {
		t.Fatalf("kept config %q", got)
	}
	st, err := readFileState(t.Context(), filepath.Join(r.ReplacedPath, "helix.db"))
	if err != nil || !st.clean {
		t.Fatalf("replaced database: %+v, %v", st, err)
	}
	var epoch any
	must(t, h.db.Read(h.ctx, func(tx *Tx) error { return tx.QueryRow(`SELECT epoch FROM sync_local`).Scan(&epoch) }))
	if epoch != nil {
		t.Fatal("the epoch was not cleared")
	}

	// Another machine: without the passphrase the secret stays encrypted, with it it can be opened.
	for _, pass := range []string{"", "wrong", "correct horse"} {
		o := openHome(t, filepath.Join(t.TempDir(), "other"), &memRoot{})
		_, err := o.s.Restore(o.ctx, RestoreParams{Path: b.Path, Passphrase: pass})
		if pass == "wrong" {
			wantKind(t, err, fault.Denied, "passphrase")
			if o.db.LocalUser().ID == user.ID {
				t.Fatal("restored in spite of the wrong passphrase")
			}
			continue
		}
		must(t, err)
		sameRows(t, rows(t, o.db, toolTables...), before)
		ctx := asUser(t.Context(), o.db.LocalUser().ID)
		plain, err := NewSecrets(o.db).Value(ctx, "api")
		if pass == "" {
			wantKind(t, err, fault.Unavailable, "")
		} else if err != nil || string(plain) != "the secret word" {
			t.Fatalf("secret %q, %v", plain, err)
		}
		rd, err := o.db.Blobs().Open(ref)
		must(t, err)
		must(t, rd.Close())
		if got := string(read(t, filepath.Join(o.s.o.UserDir, "soul", "é.md"))); got != "I am" {
			t.Fatalf("user file %q", got)
		}
		if epoch := o.db.LocalUser().ID; epoch != user.ID {
			t.Fatal("another user")
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

// The other tests wrap keys at a lower cost; the program uses the one in the manual.
func TestPassphraseCost(t *testing.T) {
	t.Parallel()
	if s := NewService(open(t), ServiceOptions{}); s.o.scryptN != 1<<17 {
		t.Errorf("scrypt N = %d", s.o.scryptN)
	}
}

func TestBackupRunsWhileTheAppWorks(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	h := newHome(t)
	write(t, h.db, func(tx *Tx) error { // some pages, so that copying takes a moment
		for range rounds(10) {
			if _, err := tx.Exec(`INSERT INTO meta (key, value) VALUES (?, ?)`, NewID().String(), strings.Repeat("x", 200_000)); err != nil {
				return err
			}
		}
		return nil
	})
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			// Both rows in one transaction: an inconsistent copy would contain only one of them.
			if err := h.db.Write(h.ctx, func(tx *Tx) error {
				for range 2 {
					if _, err := tx.Exec(`INSERT INTO users (id, display_name, created_at) VALUES (?, 'pair', ?)`, NewID(), tx.Now); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				done <- err
				return
			}
			if err := h.db.checkpoint(h.ctx); err != nil { // a backup must not be affected
				done <- err
				return
			}
		}
	}()
	var last int64
	for range min(5, rounds(3)) {
		b, err := h.s.Backup(h.ctx, BackupParams{})
		must(t, err)
		st, err := h.s.stage(h.ctx, b.Path, "verify")
		must(t, err)
		db := openWith(t, st.db(), h.root)
		var pairs int64
		must(t, db.Read(t.Context(), func(tx *Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM users WHERE display_name = 'pair'`).Scan(&pairs)
		}))
		shut(t, db)
		st.drop()
		if pairs%2 != 0 || pairs < last {
			t.Fatalf("the backup holds %d rows after %d", pairs, last)
		}
		last = pairs
	}
	close(stop)
	must(t, <-done)
}

func TestBackupTargets(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	h := newHome(t)
	dir := t.TempDir()
	b, err := h.s.Backup(h.ctx, BackupParams{Path: dir})
	if err != nil || filepath.Dir(b.Path) != dir {
		t.Fatalf("%+v, %v", b, err)
	}
	_, err = h.s.Backup(h.ctx, BackupParams{Path: b.Path})
	wantKind(t, err, fault.Conflict, "already")
	_, err = h.s.Backup(h.ctx, BackupParams{Path: "relative.zip"})
	wantKind(t, err, fault.Invalid, "absolute")
	_, err = h.s.Backup(h.ctx, BackupParams{Path: filepath.Join(dir, "no", "x.zip")})
	wantKind(t, err, fault.Invalid, "folder")
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	if _, err = h.s.Backup(ctx, BackupParams{}); fault.KindOf(err) != fault.Canceled {
		t.Fatalf("canceled: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(h.s.o.BackupDir, "*"))
	if len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
	off := false
	b, err = h.s.Backup(h.ctx, BackupParams{Blobs: &off})
	must(t, err)
	<-h.s.one
	_, err = h.s.Backup(h.ctx, BackupParams{})
	h.s.one <- struct{}{}
	wantKind(t, err, fault.Conflict, "Another")
	_, err = h.s.Restore(h.ctx, RestoreParams{Path: "helix-nothing.zip"})
	wantKind(t, err, fault.NotFound, "")
}

func TestExportThenImportPreservesRows(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	h := newHome(t)
	seed(t, h.db, h.db.LocalUser().ID, 10)
	must(t, setSecret(h.ctx, h.db, "the secret word"))
	other, err := h.db.AddUser(h.ctx, "B")
	must(t, err)
	seed(t, h.db, other.ID, 7)
	dir := filepath.Join(t.TempDir(), "out")
	e, err := h.s.Export(h.ctx, ExportParams{Dir: dir})
	if err != nil || e.Rows["custom_tools"] != 10 || e.Rows["custom_tool_usage"] != 10 {
		t.Fatalf("%+v, %v", e, err)
	}
	all := map[string][]byte{}
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[p] = read(t, p)
		}
		return err
	}))
	if len(all) != e.Files {
		t.Fatalf("%d files, said %d", len(all), e.Files)
	}
	for p, b := range all {
		for _, word := range []string{"the secret word", "user_id", "userId", other.ID.String()} {
			if bytes.Contains(b, []byte(word)) {
				t.Errorf("%s holds %q", p, word)
			}
		}
	}
	var line map[string]any
	must(t, json.Unmarshal(bytes.SplitN(all[filepath.Join(dir, "data", "custom_tools.jsonl")], []byte("\n"), 2)[0], &line))
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["createdAt"])); err != nil || line["isEnabled"] == nil || line["isEnabled"] == 1.0 || line["parameters"].(map[string]any)["type"] != "object" {
		t.Errorf("line %v, %v", line, err)
	}
	if md, _ := filepath.Glob(filepath.Join(dir, "markdown", "custom_tools", "*.md")); len(md) != 10 {
		t.Errorf("%d Markdown files", len(md))
	}
	_, err = h.s.Export(h.ctx, ExportParams{Dir: dir})
	wantKind(t, err, fault.Conflict, "empty")
	_, err = h.s.Export(h.ctx, ExportParams{Dir: filepath.Join(t.TempDir(), "x"), Tables: []string{"secrets"}})
	wantKind(t, err, fault.Invalid, "secrets")

	o := newHome(t)
	dry, err := o.s.Import(o.ctx, ImportParams{Dir: dir, DryRun: true})
	if err != nil || dry.Inserted["custom_tools"] != 10 || len(rows(t, o.db, "custom_tools")["custom_tools"]) != 0 {
		t.Fatalf("dry run %+v, %v", dry, err)
	}
	var changed []string
	bus.Subscribe(o.db.Bus(), func(_ uuid.UUID, c Changed) { changed = append(changed, c.Table) })
	got, err := o.s.Import(o.ctx, ImportParams{Dir: dir})
	must(t, err)
	want := map[string]int64{"custom_tools": 10, "custom_tool_versions": 10, "custom_tool_usage": 10}
	if !maps.Equal(got.Inserted, want) || len(got.Skipped) != 0 || len(changed) != 3 {
		t.Fatalf("%+v, changed %v", got, changed)
	}
	mine := rows(t, h.db, toolTables...)
	for k := range mine { // of user A only
		mine[k] = onlyOf(t, h.db, k, h.db.LocalUser().ID)
	}
	sameRows(t, rows(t, o.db, toolTables...), mine)
	again, err := o.s.Import(o.ctx, ImportParams{Dir: dir})
	if err != nil || !maps.Equal(again.Skipped, want) || len(again.Inserted) != 0 {
		t.Fatalf("again %+v, %v", again, err)
	}
}

func onlyOf(t *testing.T, db *DB, table string, user uuid.UUID) (out []string) {
	t.Helper()
	must(t, db.Read(t.Context(), func(tx *Tx) error {
		cols, err := rowColumns(t.Context(), tx, table)
		if err != nil {
			return err
		}
		q := []string{}
		for _, c := range cols {
			q = append(q, `quote(`+quote(c.name)+`)`)
		}
		return eachRow(t.Context(), tx, `SELECT `+strings.Join(q, `||'|'||`)+` FROM `+quote(table)+` WHERE user_id = ? ORDER BY 1`, func(scan func(...any) error) error {
			var s string
			defer func() { out = append(out, s) }()
			return scan(&s)
		}, user[:])
	}))
	return out
}

func TestImportRefusesForeignAndInvalidRows(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	other, err := h.db.AddUser(h.ctx, "B")
	must(t, err)
	seed(t, h.db, other.ID, 1)
	var theirs uuid.UUID
	must(t, h.db.Read(h.ctx, func(tx *Tx) error { return tx.QueryRow(`SELECT id FROM custom_tools`).Scan(&theirs) }))
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "export.json"), []byte(`{"format":1}`), 0o600))
	file := filepath.Join(dir, "data", "custom_tool_state.jsonl")
	must(t, os.WriteFile(file, []byte(fmt.Sprintf(`{"customToolId":%q,"stateKey":"k","stateValue":"1","sizeBytes":1,"updatedAt":"2026-01-01T00:00:00Z"}`+"\n", theirs)), 0o600))
	r, err := h.s.Import(h.ctx, ImportParams{Dir: dir})
	if err != nil || r.Inserted["custom_tool_state"] != 0 || r.Skipped["custom_tool_state"] != 1 {
		t.Fatalf("a row of B's tool came in: %+v, %v", r, err)
	}
	for _, bad := range []string{`{"nonsense":1}`, `[1]`, `{"customToolId":"zzz"}`, `{"updatedAt":"yesterday"}`, `{} {}`} {
		must(t, os.WriteFile(file, []byte(bad), 0o600))
		_, err := h.s.Import(h.ctx, ImportParams{Dir: dir})
		wantKind(t, err, fault.Invalid, "custom_tool_state.jsonl, line 1")
	}
	_, err = h.s.Import(h.ctx, ImportParams{Dir: t.TempDir()})
	wantKind(t, err, fault.Invalid, "export")
}

func TestStatusAndCheck(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	other, err := h.db.AddUser(h.ctx, "B")
	must(t, err)
	seed(t, h.db, h.db.LocalUser().ID, 2)
	seed(t, h.db, other.ID, 5)
	st, err := h.s.Status(h.ctx, struct{}{})
	must(t, err)
	n := map[string]int64{}
	for _, r := range st.Tables {
		n[r.Name] = r.Rows
	}
	if n["custom_tools"] != 2 || st.Sealed != "open" || st.Keyring != "keyring" || st.SchemaVersion == 0 || st.FreeBytes == 0 || st.SizeBytes == 0 || st.QuickCheckAt != nil {
		t.Fatalf("%+v", st)
	}
	ref, err := h.db.Blobs().PutBytes(h.ctx, []byte("sound"))
	must(t, err)
	c, err := h.s.Check(h.ctx, CheckParams{Full: true})
	if err != nil || !c.OK || len(c.Problems) != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	must(t, os.Chmod(h.db.blobs.path(ref.SHA256), 0o600))
	must(t, os.WriteFile(h.db.blobs.path(ref.SHA256), []byte("noise"), 0o600))
	c, err = h.s.Check(h.ctx, CheckParams{Full: true})
	if err != nil || c.OK || len(c.Problems) != 1 || !strings.Contains(c.Problems[0], ref.String()) {
		t.Fatalf("%+v, %v", c, err)
	}
	st, err = h.s.Status(h.ctx, struct{}{})
	if err != nil || st.QuickCheckAt == nil {
		t.Fatalf("%+v, %v", st, err)
	}
}

func setSecret(ctx context.Context, db *DB, value string) error {
	_, err := NewSecrets(db).Set(ctx, SecretsSetParams{Name: "api", Value: value})
	return err
}

func itoa(n int) string { return fmt.Sprint(n) }

// long reports whether the slow variants of the tests were requested.
func long() bool { return os.Getenv("HELIX_LONG") == "1" }
