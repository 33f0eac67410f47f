// Package recordings provides test data from other programs. It reads exchanges with language model
// services that go-vcr recorded, and generates the texts whose tokens another program has counted.
// Only tests and benchmarks import it.
package recordings

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// Exchange is one request and its response.
type Exchange struct {
	// Name is the path of the file in the folder, and the index of the exchange in it.
	Name string
	// Wire is the type of entry that uses this protocol, as in providers.Entry.
	Wire string
	// URL and Request are what was sent, Body is the response.
	URL, Request, Body string
	// Streamed reports that Body is a stream of server-sent events.
	Streamed bool
}

// Read returns the exchanges of all files in a folder, sorted by name. It leaves out those of
// Bedrock's own transport.
func Read(root string) ([]Exchange, error) {
	var out []Exchange
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") || strings.Contains(path, "Bedrock") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var file struct {
			Interactions []struct {
				Request  struct{ URL, Body string }
				Response struct {
					Body    string
					Headers map[string][]string
				}
			}
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for i, x := range file.Interactions {
			e := Exchange{
				Name: fmt.Sprintf("%s#%d", filepath.ToSlash(rel), i), URL: x.Request.URL, Request: x.Request.Body, Body: x.Response.Body,
				Streamed: strings.Contains(strings.Join(x.Response.Headers["Content-Type"], ""), "event-stream"),
			}
			switch u, _, _ := strings.Cut(e.URL, "?"); {
			case strings.HasSuffix(u, "/chat/completions"):
				e.Wire = "openai"
			case strings.HasSuffix(u, "/responses"):
				e.Wire = "openai_responses"
			case strings.HasSuffix(u, "/messages"), strings.Contains(u, "awPredict"):
				e.Wire = "anthropic"
			case strings.Contains(u, "enerateContent"):
				e.Wire = "gemini"
			default:
				return fmt.Errorf("%s: no wire for %s", rel, e.URL)
			}
			out = append(out, e)
		}
		return nil
	})
	return out, err
}
