// Package sandboxtest prepares the sandbox for tests of other packages. Only tests import it.
package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"helix/backend/sandbox"
)

// compiled is the content of the cache folder of an engine, by path. It is made once per test
// program, because compiling takes seconds.
var compiled = sync.OnceValues(func() (_ map[string][]byte, err error) {
	dir, err := os.MkdirTemp("", "helix-engine-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e, err := sandbox.Open(context.Background(), sandbox.Options{CacheDir: dir})
	if err != nil {
		return nil, err
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	return files, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	})
})

// Warm writes the compiled engine to the cache folder of a sandbox, unless the folder exists. It is
// private, because machine code in folders of others is not trusted.
func Warm(t testing.TB, cache string) {
	t.Helper()
	if _, err := os.Stat(cache); err == nil {
		return
	}
	files, err := compiled()
	if err != nil {
		t.Fatalf("compile the engine: %v", err)
	}
	for name, content := range files {
		path := filepath.Join(cache, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
