package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestSameBytes builds the artefacts twice.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	const engine = "../node_modules/quickjs-wasi/quickjs.wasm"
	if _, err := os.Stat(engine); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the engine is not here; run make engines")
	}
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		if err := run(engine, dir); err != nil {
			t.Fatal(err)
		}
	}
	names, err := os.ReadDir(a)
	if err != nil || len(names) != 4 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, n := range names {
		x, err := os.ReadFile(filepath.Join(a, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		y, err := os.ReadFile(filepath.Join(b, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if string(x) != string(y) {
			t.Errorf("two builds of %s differ", n.Name())
		}
	}
}

// TestWrongEngine checks that an unexpected engine stops the build.
func TestWrongEngine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "quickjs.wasm")
	if err := os.WriteFile(path, make([]byte, engineSize), 0o600); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := run(path, out); err == nil {
		t.Error("built with a wrong engine")
	}
	if names, err := os.ReadDir(out); err != nil || len(names) != 0 {
		t.Errorf("something was written: %v, %v", names, err)
	}
	if err := pinned(path, filepath.Join(out, "copy"), hash(nil)); err == nil {
		t.Error("copied a wrong file")
	}
	if names, err := os.ReadDir(out); err != nil || len(names) != 0 {
		t.Errorf("something was copied: %v, %v", names, err)
	}
}
