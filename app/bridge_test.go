package app

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"helix/backend/gateway"
)

// The window of a backend in another process returns the path itself, which that backend accepts.
func TestPickedFileOfAWindowWithoutItsOwnBackend(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chats.zip")
	if err := os.WriteFile(path, []byte("zip"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &Bridge{shell: &shell{remote: func(context.Context) (gateway.Pipe, error) { return nil, nil }}}
	if f := b.picked(path, false); f.Token != path || f.Name != "chats.zip" || f.Size != 3 {
		t.Errorf("picked %+v", f)
	}
	if f := (&Bridge{shell: &shell{}}).picked(path, false); f.Token != "" {
		t.Errorf("without any backend: %+v", f)
	}
}
