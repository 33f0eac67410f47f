//go:build !containers

package container

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// openWorkspace returns an engine on f whose sessions may see the workspaces in the folder.
func openWorkspace(t *testing.T, f *fake) (*Engine, string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, area := range []string{"shared", "tmp", "vault"} {
		if err := os.MkdirAll(filepath.Join(root, "user", area), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	e := Open(Options{Owner: "test", Host: "unix://" + f.socket, Dir: initDir, Workspaces: root})
	t.Cleanup(func() { e.Close() })
	return e, filepath.Join(root, "user")
}

func spawn(t *testing.T, e *Engine, mounts ...Mount) *Session {
	t.Helper()
	s, err := e.Spawn(t.Context(), SessionSpec{ID: uuid.New(), ImageID: "sha256:abc", Mounts: mounts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSessionRunsCommandsInOneContainer(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e, workspace := openWorkspace(t, f)
	s := spawn(t, e, Mount{Source: filepath.Join(workspace, "shared"), Target: "/shared"})
	for range 3 {
		var chunks []Chunk
		r, err := s.Exec(t.Context(), Command{Argv: []string{"cat"}, Stdin: []byte("hello"), Timeout: time.Minute, Output: func(c Chunk) { chunks = append(chunks, c) }})
		if err != nil || r.Output != "hello" || r.Status != Success || len(chunks) != 1 || chunks[0] != (Chunk{1, "stdout", "hello"}) {
			t.Fatalf("%+v, %v, %v", r, chunks, err)
		}
	}
	if n := len(f.created); n != 1 || f.started[0].Alone || f.started[0].Dir != "/shared" {
		t.Errorf("%d containers, %+v", n, f.started[0])
	}
	if len(e.Status().Running) != 1 {
		t.Errorf("%+v", e.Status())
	}
	s.Close()
	if f.left() != 0 || len(e.Status().Running) != 0 {
		t.Errorf("%d are left over", f.left())
	}
	if _, err := s.Exec(t.Context(), Command{Argv: []string{"x"}, Timeout: time.Minute}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after the end: %v", err)
	}
}

func TestSessionsSeeOnlySharedAndTemporaryFolders(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e, workspace := openWorkspace(t, f)
	outside := t.TempDir()
	if err := os.Symlink(filepath.Join(workspace, "vault"), filepath.Join(workspace, "shared", "link")); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]Mount{
		"vault":        {Source: filepath.Join(workspace, "vault"), Target: "/vault"},
		"link":         {Source: filepath.Join(workspace, "shared", "link"), Target: "/x"},
		"whole":        {Source: workspace, Target: "/x"},
		"all users":    {Source: filepath.Dir(workspace), Target: "/x"},
		"outside":      {Source: outside, Target: "/x"},
		"above":        {Source: filepath.Join(workspace, "shared", "..", "..", ".."), Target: "/x"},
		"missing":      {Source: filepath.Join(workspace, "nothing"), Target: "/x"},
		"own folder":   {Source: filepath.Join(workspace, "shared"), Target: "/.helix/x"},
		"root":         {Source: filepath.Join(workspace, "shared"), Target: "/"},
		"not absolute": {Source: filepath.Join(workspace, "shared"), Target: "x"},
	} {
		if _, err := e.Spawn(t.Context(), SessionSpec{ID: uuid.New(), ImageID: "sha256:abc", Mounts: []Mount{m}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(f.created) != 0 {
		t.Errorf("%+v", f.created)
	}
}

func TestCanceledCommandLeavesItsSessionUsable(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.forever = true
	e, _ := openWorkspace(t, f)
	s := spawn(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	f.stdout = "begun"
	r, err := s.Exec(ctx, Command{Argv: []string{"x"}, Timeout: MaxCommandTime, Output: func(Chunk) { cancel() }})
	if err != nil || r.Status != Cancelled || r.Output != "begun" {
		t.Fatalf("%+v, %v", r, err)
	}
	f.mu.Lock()
	f.forever = false
	f.mu.Unlock()
	if r, err := s.Exec(t.Context(), Command{Argv: []string{"x"}, Timeout: time.Minute}); err != nil || r.Status != Success {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLostContainerEndsItsSession(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.forever, f.stdout = true, "begun"
	e, _ := openWorkspace(t, f)
	s := spawn(t, e)
	var once sync.Once
	_, err := s.Exec(t.Context(), Command{Argv: []string{"x"}, Timeout: MaxCommandTime, Output: func(Chunk) { once.Do(func() { s.b.conn.Close() }) }})
	if d, _ := fault.As(err).Details.(Refusal); !fault.Is(err, fault.Unavailable) || d.Code != SidecarConnectionFailed {
		t.Errorf("%v", err)
	}
	<-s.Done()
	if d, _ := fault.As(s.Err()).Details.(Refusal); d.Code != SidecarConnectionFailed || f.left() != 0 {
		t.Errorf("%v, %d are left over", s.Err(), f.left())
	}
}

func TestKillEndsASession(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e, _ := openWorkspace(t, f)
	s := spawn(t, e)
	if !e.Kill(s.ID.String()) {
		t.Fatal("there is no such run")
	}
	<-s.Done()
	if left := f.left(); left != 0 {
		t.Errorf("%d are left over", left)
	}
}

func TestIdleSessionEnds(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e, _ := openWorkspace(t, f)
	s, err := e.Spawn(t.Context(), SessionSpec{ID: uuid.New(), ImageID: "sha256:abc", Idle: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if f.left() != 0 || s.Err() == nil {
		t.Errorf("%d are left over, %v", f.left(), s.Err())
	}
}

func TestLongOutputKeepsBothEnds(t *testing.T) {
	t.Parallel()
	var seen strings.Builder
	last := int64(0)
	tr := &Transcript{output: func(c Chunk) {
		if c.Seq != last+1 {
			t.Errorf("%d after %d", c.Seq, last)
		}
		last = c.Seq
		seen.WriteString(c.Data)
	}}
	whole := "first" + strings.Repeat("ünïcode ", 50_000) + "last"
	tr.copy("stdout", bytes.NewReader([]byte(whole)))
	text, truncated := tr.text()
	if seen.String() != whole {
		t.Error("the pieces are not the whole")
	}
	if !truncated || len(text) > 64<<10+100 || !strings.HasPrefix(text, "first") || !strings.HasSuffix(text, "last") || !strings.Contains(text, "bytes omitted") {
		t.Errorf("%d bytes, %t", len(text), truncated)
	}
}
