// Package apigen generates the OpenRPC document, the protocol reference and the TypeScript types
// from the method table. Only build/gen and tests import it, so that no program contains the Go
// parser.
package apigen

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"helix/backend/gateway"
)

// The generated files, relative to the root of the repository.
const (
	DocumentFile   = "docs/openrpc.json"
	EmbeddedFile   = "backend/openrpc.json.gz" // the same without white space, which package backend embeds
	ProtocolFile   = "docs/protocol.md"
	TypeScriptFile = "frontend/src/lib/rpc/schema.gen.ts"
)

// Files returns every generated file for a, by path, with the comments read from the Go source
// under root. missing lists the methods whose function has no comment.
func Files(a *gateway.API, root string) (files map[string][]byte, missing []string, err error) {
	docs, err := Comments(a, root)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range a.Methods() {
		if docs.Method(m) == "" {
			missing = append(missing, m.Name)
		}
	}
	document := a.Document(docs)
	var compact bytes.Buffer
	if err := json.Compact(&compact, document); err != nil {
		return nil, nil, err
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	if _, err := compact.WriteTo(w); err != nil {
		return nil, nil, err
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	return map[string][]byte{
		DocumentFile:   document,
		EmbeddedFile:   packed.Bytes(),
		ProtocolFile:   Protocol(a, docs),
		TypeScriptFile: TypeScript(a, docs),
	}, missing, nil
}

// Write writes those files under root that differ.
func Write(files map[string][]byte, root string) error {
	for name, want := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, want) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Check compares the files under root with the generated ones. The error names those that differ.
func Check(files map[string][]byte, root string) error {
	var stale []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		have, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(have, files[name]) {
			stale = append(stale, name)
		}
	}
	if len(stale) > 0 {
		return fmt.Errorf("generated files are out of date: %v; run make generate", stale)
	}
	return nil
}
