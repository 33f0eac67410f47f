package sandbox

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"helix/backend/sandbox/prelude"
)

//go:embed all:artefacts
var embedded embed.FS

// manifest describes the engine artefacts; build/engines/gen writes it.
type manifest struct {
	Format int `json:"format"`
	Engine struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Package string `json:"package"`
	} `json:"engine"`
	Prelude string                  `json:"prelude"` // SHA-256 of the prelude's source
	Files   map[string]manifestFile `json:"files"`
}

type manifestFile struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // of the content, not of its compressed form
}

type artefacts struct {
	manifest manifest
	engine   []byte
	prelude  []byte // bytecode; nil when the prelude's source has changed since
}

var errMissing = errors.New("no manifest")

func loadArtefacts(fsys fs.FS) (*artefacts, error) {
	var a artefacts
	text, err := fs.ReadFile(fsys, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errMissing
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &a.manifest); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if a.manifest.Format != 1 {
		return nil, fmt.Errorf("manifest has format %d, want 1", a.manifest.Format)
	}
	if a.engine, err = a.read(fsys, "engine.wasm"); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(prelude.Source()))
	if hex.EncodeToString(sum[:]) == a.manifest.Prelude {
		a.prelude, err = a.read(fsys, "prelude.bin")
	}
	return &a, err
}

func (a *artefacts) read(fsys fs.FS, name string) ([]byte, error) {
	want, ok := a.manifest.Files[name]
	if !ok {
		return nil, fmt.Errorf("%s is not in the manifest", name)
	}
	packed, err := fs.ReadFile(fsys, name+".gz")
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b := bytes.NewBuffer(make([]byte, 0, want.Size+bytes.MinRead))
	if _, err := io.Copy(b, io.LimitReader(z, want.Size+1)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	sum := sha256.Sum256(b.Bytes())
	if int64(b.Len()) != want.Size || hex.EncodeToString(sum[:]) != want.SHA256 {
		return nil, fmt.Errorf("%s does not match the manifest", name)
	}
	return b.Bytes(), nil
}
