package discovery

import (
	"os"
	"testing"

	"helix/backend/jcs"
	"helix/backend/openapi"
)

// example reads an example that comes with Helix.
func (e *env) example(name string) map[string]any {
	e.Helper()
	raw, err := os.ReadFile("examples/" + name)
	if err != nil {
		e.Fatal(err)
	}
	doc, err := openapi.Decode(raw)
	if err != nil {
		e.Fatal(err)
	}
	return doc
}

func TestExampleIsTheSameInYAMLAndJSON(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for name, server := range map[string]string{"weather.yaml": "https://api.open-meteo.com", "calendar.yaml": "https://cloud.example.com/remote.php/dav"} {
		text, err := os.ReadFile("examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		asJSON, err := jcs.Marshal(e.example(name))
		if err != nil {
			t.Fatal(err)
		}
		var hashes []string
		for _, content := range []string{string(text), string(asJSON)} {
			r, err := e.s.ImportManifest(e.ctx, ImportManifestParams{Content: content})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Warnings) != 0 || r.Manifest.Execution.Server != server {
				t.Errorf("%+v", r)
			}
			hashes = append(hashes, r.DefinitionHash)
		}
		if hashes[0] != hashes[1] {
			t.Errorf("%s: YAML gives the hash %s, JSON %s", name, hashes[0], hashes[1])
		}
	}
}
