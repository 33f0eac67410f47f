package storage

import (
	"context"
	"database/sql"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// formerFile creates a database with the migrations before one and a local user, and returns a
// function that executes SQL in it.
func formerFile(t *testing.T, path, first string, user []byte) func(query string, args ...any) {
	t.Helper()
	m, src := fstest.MapFS{}, migrationSource(t.Context())
	names, err := fs.Glob(src, "*.sql")
	must(t, err)
	for _, n := range names {
		if n < first {
			b, err := fs.ReadFile(src, n)
			must(t, err)
			m[n] = &fstest.MapFile{Data: b}
		}
	}
	db, err := sql.Open("sqlite", dsn(path, writerPragmas, true))
	must(t, err)
	db.SetMaxIdleConns(0) // nobody has the file open when Open migrates it
	t.Cleanup(func() { must(t, db.Close()) })
	p, err := newGoose(context.WithValue(t.Context(), migrationsKey{}, fs.FS(m)), db)
	must(t, err)
	_, err = p.Up(t.Context())
	must(t, err)
	exec := func(query string, args ...any) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), query, args...)
		must(t, err)
	}
	exec(`INSERT INTO users (id, display_name, created_at) VALUES (?, 'You', 1)`, user)
	exec(`UPDATE sync_local SET user_id = ?, epoch = zeroblob(16)`, user)
	return exec
}

// Tools of a former version keep their approvals, which stay here, and are sent to the hub with their log.
func TestToolsOfAFormerVersionStartToSync(t *testing.T) {
	t.Parallel()
	path, id := filepath.Join(t.TempDir(), "helix.db"), NewID()
	user := id[:]
	exec := formerFile(t, path, "0077", user)
	tool := func(n byte, status string, approved, install any) {
		t.Helper()
		id := append(make([]byte, 15), n)
		exec(`INSERT INTO tool_manifest (id, user_id, name, version, description, source_type, source_location, status, execution_type, execution_timeout, manifest, definition_hash, approved_hash, approved_at, created_at, updated_at)
			VALUES (?1, ?2, 'tool' || ?3, '1.0.0', '', 'local', '', ?4, 'http', 30, '{}', zeroblob(32), ?5, CASE WHEN ?5 IS NOT NULL THEN 7 END, 1, 1000)`, id, user, n, status, approved)
		if install != nil {
			exec(`INSERT INTO tool_install (tool_id, user_id, definition_hash, state, verify_result, updated_at) VALUES (?, ?, ?, ?, '[1]', 1)`, id, user, approved, install)
		}
	}
	now, was := make([]byte, 32), append(make([]byte, 31), 1)
	tool(1, "pending_approval", nil, nil)
	tool(2, "approved", now, "failed")
	tool(3, "active", now, "ready")
	tool(4, "disabled", now, nil)
	tool(5, "revoked", now, "ready")
	tool(6, "pending_approval", was, "ready") // upgraded
	for _, status := range []string{"running", "success"} {
		exec(`INSERT INTO tool_execution_log (id, user_id, tool_id, operation, input_params, started_at, status, definition_hash, caller, created_at) VALUES (randomblob(16), ?, zeroblob(16), 'x', '{}', 1, ?, zeroblob(32), '', 1)`, user, status)
	}
	db := openWith(t, path, &memRoot{})
	texts := func(query string) (out string) {
		must(t, db.Read(t.Context(), func(tx *Tx) error {
			return tx.QueryRow(`SELECT coalesce(group_concat(v, ' '), '') FROM (` + query + `)`).Scan(&out)
		}))
		return out
	}
	for query, want := range map[string]string{
		`SELECT substr(m.name, 5) || i.state || i.active || (i.definition_hash = m.definition_hash) || i.approved_at || i.verify_result AS v FROM tool_install i JOIN tool_manifest m ON m.id = i.tool_id ORDER BY m.name`: "2failed017[1] 3ready117[1] 4none117[] 6ready107[1]",
		`SELECT status AS v FROM tool_manifest WHERE seen_status = status AND seen_hash = definition_hash ORDER BY name`:                                                                                                   "pending_approval approved active disabled revoked pending_approval",
		`SELECT tbl || op || fields AS v FROM change_log ORDER BY seq`:                                                                                                                                                     "tool_manifestI8191 tool_manifestI8191 tool_manifestI8191 tool_manifestI8191 tool_manifestI8191 tool_manifestI8191 tool_execution_logI262143",
	} {
		if got := texts(query); got != want {
			t.Errorf("%s\n got %s\nwant %s", query, got, want)
		}
	}
	// The migration writes the entries as a first connection does.
	write(t, db, func(tx *Tx) error { return tx.LogAll(db.LocalUser().ID) })
	if got := texts(`SELECT DISTINCT tbl || fields AS v FROM change_log WHERE tbl LIKE 'tool\_%' ESCAPE '\' ORDER BY tbl`); got != "tool_execution_log262143 tool_manifest8191" {
		t.Errorf("a first connection logs %s", got)
	}
}
