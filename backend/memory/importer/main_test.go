package importer

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helix/backend/testkit"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

func berlin(t testing.TB) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("the time zones are not on this machine")
	}
	return zone
}

// readAll reads a source to its end, and returns the error other than io.EOF that ended it.
func readAll(t testing.TB, src Source, o Options) ([]Record, error) {
	t.Helper()
	r, err := Open(src, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []Record
	for _, p := range r.Problems() {
		out = append(out, Record{Problem: &p})
	}
	for last := -1.0; ; {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if p := r.Progress(); p < last || p > 1 {
			t.Fatalf("progress went from %v to %v", last, p)
		} else {
			last = p
		}
		out = append(out, rec)
	}
}

// bytesOf returns a source without a path.
func bytesOf(name, content string) Source {
	return Source{Data: strings.NewReader(content), Size: int64(len(content)), Name: name}
}

// file writes a file and returns its path.
func file(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// dump formats records for review.
func dump(records []Record) string {
	var b strings.Builder
	when := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.Format(time.RFC3339Nano)
	}
	for _, r := range records {
		switch {
		case r.Problem != nil:
			fmt.Fprintf(&b, "problem file=%q line=%d %s\n", r.Problem.File, r.Problem.Line, r.Problem.Message)
		case r.Memory != nil:
			m := r.Memory
			fmt.Fprintf(&b, "memory id=%q type=%q layer=%d tags=%q at=%s %q\n", m.ExternalID, m.Type, m.Layer, m.Tags, when(m.At), m.Content)
		case r.Document != nil:
			d := r.Document
			fmt.Fprintf(&b, "document %s path=%q part=%d title=%q %s tags=%q aliases=%q links=%q at=%s\n%q\n", d.Source, d.Path, d.Part, d.Title, d.Mime, d.Tags, d.Aliases, d.Links, when(d.Date), d.Text)
		case r.Conversation != nil:
			c := r.Conversation
			fmt.Fprintf(&b, "conversation %s id=%q title=%q %s to %s participants=%q\n", c.Source, c.ExternalID, c.Title, when(c.Started), when(c.Ended), c.Participants)
			for _, t := range c.Turns {
				meta := t.Metadata()
				if meta == nil {
					meta = json.RawMessage("{}")
				}
				fmt.Fprintf(&b, "  %s %s %q %s %s %q\n", t.ExternalID, t.Role, t.Speaker, when(t.At), meta, t.Text)
			}
		}
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update and review):\n%s", name, got)
	}
}
