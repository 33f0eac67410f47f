package storage

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// before returns a context in which Open knows only the migrations before one.
func before(ctx context.Context, first string) context.Context {
	m := fstest.MapFS{}
	src := migrationSource(ctx)
	names, _ := fs.Glob(src, "*.sql")
	for _, n := range names {
		if n < first {
			b, _ := fs.ReadFile(src, n)
			m[n] = &fstest.MapFile{Data: b}
		}
	}
	return context.WithValue(ctx, migrationsKey{}, fs.FS(m))
}

// Tools of a former version keep their approvals, which stay here, and are sent to the hub with their log.
func TestToolsOfAFormerVersionStartToSync(t *testing.T) {
	t.Parallel()
	path, root := filepath.Join(t.TempDir(), "helix.db"), &memRoot{}
	db, err := Open(before(t.Context(), "0077"), Options{Path: path, Keys: NewKeys(root)})
	must(t, err)
	tool := func(n byte, status string, approved, install any) {
		t.Helper()
		id := append(make([]byte, 15), n)
		exec(t, db, `INSERT INTO tool_manifest (id, user_id, name, version, description, source_type, source_location, status, execution_type, execution_timeout, manifest, definition_hash, approved_hash, approved_at, created_at, updated_at)
			VALUES (?1, ?2, 'tool' || ?3, '1.0.0', '', 'local', '', ?4, 'http', 30, '{}', zeroblob(32), ?5, CASE WHEN ?5 IS NOT NULL THEN 7 END, 1, 1000)`, id, db.LocalUser().ID, n, status, approved)
		if install != nil {
			exec(t, db, `INSERT INTO tool_install (tool_id, user_id, definition_hash, state, verify_result, updated_at) VALUES (?, ?, ?, ?, '[1]', 1)`, id, db.LocalUser().ID, approved, install)
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
		exec(t, db, `INSERT INTO tool_execution_log (id, user_id, tool_id, operation, input_params, started_at, status, definition_hash, caller, created_at) VALUES (randomblob(16), ?, zeroblob(16), 'x', '{}', 1, ?, zeroblob(32), '', 1)`, db.LocalUser().ID, status)
	}
	exec(t, db, `DELETE FROM change_log`)
	shut(t, db)
	db = openWith(t, path, root)
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
