package importer

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// FuzzRead reads arbitrary bytes as each format: reading ends, every record can be stored, and
// reading can continue after each record.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.*"))
	if err != nil {
		f.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join("testdata", "vault", "*.md"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(files, more...) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 20_000 {
			f.Add(data)
		}
	}
	f.Add([]byte(chats(2)))
	f.Add([]byte(zipOf(f, "a.md", "---\ntags: &a [*a]\n---\n# A", "conversations.json", chats(1))))
	f.Add([]byte("---\na: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\ntags: *c\n---\n"))
	f.Add([]byte("PK\x03\x04\x14\x00\x08\x00\x08\x00"))
	f.Add([]byte(`{"session_1":[{"speaker":"A","text":"x"}],"session_01":[],"speaker_a":"A","speaker_b":"A"}`))
	part := `{"kind":"turn","parentId":"p","source":"claude","sourceRef":"r","content":"x","seq":0,"tags":["a"],"metadata":{"model":"m"}}`
	f.Add([]byte(part + "\n" + part + "\n" + `{"kind":"chunk","parentId":"p","content":" y","startOffset":0,"endOffset":2}` + "\n" + `{"content":"z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range append([]string{Auto}, Formats...) {
			src := bytesOf("file", string(data))
			r, err := Open(src, Options{Format: format})
			if err != nil {
				continue
			}
			last := Position{}
			n := 0
			for {
				rec, err := r.Next(t.Context())
				if err != nil {
					var broken *BrokenError
					if errors.As(err, &broken) && (broken.Offset < 0 || !r.Archive() && broken.Offset > int64(len(data))) {
						t.Fatalf("%s: %v of %d bytes", format, err, len(data))
					}
					break
				}
				if n++; n > 10*len(data)+10 {
					t.Fatalf("%s: no end", format)
				}
				if rec.After == last {
					t.Fatalf("%s: two records end at %+v", format, last)
				}
				last = rec.After
				checkRecord(t, format, rec)
			}
			_ = r.Close()
			again, err := Open(src, Options{Format: format, From: last})
			if err != nil {
				t.Fatalf("%s: open again: %v", format, err)
			}
			if rec, err := again.Next(t.Context()); n > 0 && err == nil {
				t.Fatalf("%s: behind the last record is %+v", format, rec)
			}
			_ = again.Close()
		}
	})
}

func checkRecord(t *testing.T, format string, rec Record) {
	t.Helper()
	text := func(what, s string, max int) {
		if !utf8.ValidString(s) || len(s) > max {
			t.Fatalf("%s: %s is %q", format, what, s)
		}
	}
	switch {
	case rec.Conversation != nil:
		c := rec.Conversation
		text("title", c.Title, maxTitle)
		text("id", c.ExternalID, maxTitle)
		for _, turn := range c.Turns {
			text("turn", turn.Text, 3*MaxRecord)
			text("turn id", turn.ExternalID, maxTitle)
			if turn.Text == "" || turn.Role != "user" && turn.Role != "assistant" || turn.Metadata() != nil && !json.Valid(turn.Metadata()) {
				t.Fatalf("%s: turn %+v", format, turn)
			}
		}
	case rec.Document != nil:
		d := rec.Document
		text("title", d.Title, maxTitle+20)
		text("text", d.Text, 4*maxPart)
		if len(d.Tags) > maxTags {
			t.Fatalf("%s: %d tags", format, len(d.Tags))
		}
	case rec.Memory != nil:
		text("memory", rec.Memory.Content, 3*MaxRecord)
		if rec.Memory.Content == "" {
			t.Fatal("an empty memory")
		}
	case rec.Problem != nil:
		text("problem", rec.Problem.Message, 1000)
	default:
		t.Fatal("an empty record")
	}
}

// FuzzElements checks that the byte scanner and encoding/json agree about the elements of an array.
func FuzzElements(f *testing.F) {
	for _, s := range []string{`[]`, `[1,2]`, `["a\"]",{"b":[1,{"c":"}"}]},null , true,-1.5e3]`, `[[[]],{}]`, ` [ "x" ] `, `[1 2]`, `[,]`, `[1,]`, `["\u005d"]`, `["\\"]`, `[tru,nul]`, `[{]}`, `["]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || data[0] != '[' {
			return
		}
		var want []json.RawMessage
		valid := json.Unmarshal(data, &want) == nil
		e := newElements(&oneByte{data: data}, "x")
		var got []string
		var err error
		for {
			var raw []byte
			if raw, _, err = e.next(); err != nil {
				break
			}
			got = append(got, string(raw))
		}
		if !valid {
			return
		}
		if !errors.Is(err, io.EOF) || len(got) != len(want) {
			t.Fatalf("%q: %q, %v", data, got, err)
		}
		for i := range want {
			if got[i] != string(want[i]) {
				t.Fatalf("%q: element %d is %q", data, i, got[i])
			}
		}
	})
}

// oneByte reads one byte at a time.
type oneByte struct{ data []byte }

func (r *oneByte) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	p[0] = r.data[0]
	r.data = r.data[1:]
	return 1, nil
}
