//go:build linux

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/schema"
	"helix/backend/storage"
)

// recorded returns the status of the only call, with its error class, and how many audit entries say that
// calls began and ended.
func (e *env) recorded() (status string, began, ended int) {
	e.Helper()
	if err := e.db.Read(e.ctx, func(tx *storage.Tx) error {
		if err := tx.QueryRow(`SELECT status || ' ' || error_class FROM mcp_calls`).Scan(&status); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT count(*) FILTER (WHERE action = ?), count(*) FILTER (WHERE action IN (?, ?)) FROM audit_log WHERE subject_id = 'files.wait'`, audit.Start, audit.Complete, audit.Error).Scan(&began, &ended)
	}); err != nil {
		e.Fatal(err)
	}
	return status, began, ended
}

func TestCallIsOnRecordBeforeTheServerIsAsked(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.add("files", "plain")
	e.approve("files", "wait")
	begun := make(chan struct{}, 1)
	defer bus.Subscribe(e.db.Bus(), func(uuid.UUID, Progress) { begun <- struct{}{} })()
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.reg.Call(ctx, callable.Ref{Kind: Kind, ID: "files.wait"}, callable.Request{}) //nolint:errcheck // it is canceled
	}()
	<-begun // the server works on it
	if status, began, ended := e.recorded(); status != "running " || began != 1 || ended != 0 {
		t.Errorf("during the call: %q, %d began, %d ended", status, began, ended)
	}
	cancel()
	<-done
	if status, began, ended := e.recorded(); status != "cancelled canceled" || began != 1 || ended != 1 {
		t.Errorf("after the call: %q, %d began, %d ended", status, began, ended)
	}
}

func TestNextStartClosesCallsThatACrashInterrupted(t *testing.T) {
	t.Parallel()
	e := setup(t)
	row := func(q string) {
		if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(q, storage.NewID(), e.db.LocalUser().ID, storage.NewID(), make([]byte, 32), tx.Now)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	row(`INSERT INTO mcp_calls (id, user_id, server_id, server, tool, arguments, status, definition_hash, caller, created_at) VALUES (?1, ?2, ?3, 'files', 'wait', '{}', 'running', ?4, 'user', ?5)`)
	if err := e.s.closeInterrupted(e.ctx); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := e.recorded(); status != "running " { // it began after this service
		t.Errorf("a running call: %q", status)
	}
	next := New(e.db, e.s.o)
	defer next.Close()
	if err := next.closeInterrupted(e.ctx); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := e.recorded(); status != "failure interrupted" {
		t.Errorf("after a start: %q", status)
	}
}

func TestSecretArgumentsAreInNoRow(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.add("files", "hostile:secret")
	e.approve("files", "echo")
	for _, length := range []int{1, maxRowOutput} { // the larger one goes to a file
		text := strings.Repeat("planted\"1", length)
		in, err := json.Marshal(echoIn{text})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := e.call("files.echo", string(in)); err != nil || !strings.Contains(string(out.Output), "planted") {
			t.Fatalf("%.100s, %v", out.Output, err)
		}
	}
	rows, file := "", ""
	if err := e.db.Read(e.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT json_group_array(json_object('c', arguments || output, 's', bytes)), (SELECT file FROM pragma_database_list WHERE name = 'main') FROM mcp_calls`).Scan(&rows, &file)
	}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(rows, "planted") || strings.Count(rows, schema.Masked) < 2 {
		t.Errorf("%.2000s", rows)
	}
	if err := filepath.WalkDir(filepath.Dir(file), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("planted")) {
			t.Errorf("%s has the secret", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
