package sandbox

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"helix/backend/sandbox/meter"
	"helix/backend/sandbox/prelude"
	"helix/backend/sandbox/qjs"
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
		SHA256  string `json:"sha256"` // of the original module
	} `json:"engine"`
	Meter   int                     `json:"meter"`   // version of the instrumentation
	Prelude string                  `json:"prelude"` // SHA-256 of its source
	Files   map[string]manifestFile `json:"files"`
	Run     qjs.Layout              `json:"run"`
	Compile qjs.Layout              `json:"compile"`
}

type manifestFile struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Same   string `json:"same"` // the file with the same content, or empty
}

type artefacts struct {
	files    fs.FS
	manifest manifest
}

const manifestFormat = 2

var (
	errMissing = errors.New("no manifest")
	errStale   = errors.New("made by another version")
)

func loadArtefacts(files fs.FS) (*artefacts, error) {
	a := artefacts{files: files}
	text, err := fs.ReadFile(files, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errMissing
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &a.manifest); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	m := a.manifest
	if m.Format != manifestFormat || m.Meter != meter.Version || m.Prelude != hashText([]byte(prelude.Source())) {
		return nil, errStale
	}
	return &a, nil
}

func hashText(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// read returns the content of a file after verifying it against the manifest.
func (a *artefacts) read(name string) ([]byte, error) {
	want, ok := a.manifest.Files[name]
	if !ok {
		return nil, fmt.Errorf("%s is not in the manifest", name)
	}
	if want.Same != "" {
		name = want.Same
	}
	b, err := fs.ReadFile(a.files, name)
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != want.Size || hashText(b) != want.SHA256 {
		return nil, fmt.Errorf("%s does not match the manifest", name)
	}
	return b, nil
}

// template loads a prepared world.
func (a *artefacts) template(l qjs.Layout, name string) (*qjs.Template, error) {
	b, err := a.read(name)
	if err != nil {
		return nil, err
	}
	return qjs.NewTemplate(b, l)
}
