package apigen

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/gateway"
)

var update = flag.Bool("update", false, "write the golden files")

// Colour is an enum.
type Colour string

// Enum lists the colours.
func (Colour) Enum() []Colour { return []Colour{"red", "green"} }

// Common is embedded.
type Common struct {
	ID uuid.UUID `json:"id"` // of the row
}

// Thing has a field of every shape.
type Thing struct {
	Common
	// Name is shown to people.
	//
	// It has two paragraphs with a * / in it.
	Name    string            `json:"name"`
	Colour  Colour            `json:"colour"`
	At      time.Time         `json:"at"`
	Until   *time.Time        `json:"until"`
	Data    []byte            `json:"data,omitempty"`
	Count   gateway.BigInt    `json:"count"`
	Size    int64             `json:"size"`
	Part    *Thing            `json:"part,omitempty"`
	Parts   []Thing           `json:"parts"`
	Labels  map[string]string `json:"labels"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	Odd     map[string]Colour `json:"odd-name"`
	Choices []Colour          `json:"choices"`
	Inline  struct {
		A int `json:"a"`
	} `json:"inline"`
}

// Box is generic.
type Box[T any] struct {
	Items []T `json:"items"`
}

type service struct{}

// Get returns one thing. It may take a while.
func (*service) Get(context.Context, Common) (Thing, error) { return Thing{}, nil }

// List returns the things.
func (*service) List(context.Context, struct{}) (Box[Thing], error) { return Box[Thing]{}, nil }

// Changed says that a thing changed.
type Changed struct {
	ID uuid.UUID `json:"id"`
}

func table() *gateway.API {
	var s *service
	a := gateway.NewAPI()
	gateway.Handle(a, "things.get", gateway.Read, s.Get, gateway.Costly(), gateway.Deadline(5*time.Minute))
	gateway.Handle(a, "things.list", gateway.Read, s.List)
	gateway.Alias(a, "get_thing", "things.get", gateway.Preset("id", "x"))
	gateway.Forward[Changed](a, "things.changed")
	return a
}

// comments reads this file as well, which Comments skips because it is a test.
func comments(t *testing.T) gateway.Docs {
	t.Helper()
	dir := t.TempDir()
	src, err := os.ReadFile("apigen_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.go"), src, 0o600); err != nil {
		t.Fatal(err)
	}
	docs := gateway.Docs{}
	if err := readPackage(docs, "helix/backend/gateway/apigen", dir); err != nil {
		t.Fatal(err)
	}
	if err := readPackage(docs, "helix/backend/gateway", ".."); err != nil {
		t.Fatal(err)
	}
	return docs
}

func TestGoldenFiles(t *testing.T) {
	t.Parallel()
	a, docs := table(), comments(t)
	for name, got := range map[string][]byte{"openrpc.json": a.Document(docs), "protocol.md": Protocol(a, docs), "schema.ts": TypeScript(a, docs)} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(got) {
			t.Errorf("%s differs; run go test ./backend/gateway/apigen -update and review", name)
		}
	}
}

func TestCheckFindsADifference(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	files := map[string][]byte{DocumentFile: []byte("a"), EmbeddedFile: []byte("a"), ProtocolFile: []byte("b"), TypeScriptFile: []byte("c")}
	if err := Write(files, root); err != nil {
		t.Fatal(err)
	}
	if err := Check(files, root); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ProtocolFile), []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Check(files, root); err == nil || !strings.Contains(err.Error(), ProtocolFile) || strings.Contains(err.Error(), DocumentFile) {
		t.Fatalf("err = %v", err)
	}
}

func TestMethodCommentLosesItsGoName(t *testing.T) {
	t.Parallel()
	docs := comments(t)
	for _, m := range table().Methods() {
		if m.Name == "things.get" {
			if got := docs.Method(m); got != "Returns one thing. It may take a while." {
				t.Fatalf("comment = %q", got)
			}
		}
	}
}
