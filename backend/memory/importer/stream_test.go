package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/memory/importer/importertest"
)

const tinyChat = `{"conversation_id":"c%d","title":"T","current_node":"m","mapping":{"m":{"message":{"author":{"role":"user"},"content":{"parts":["Hello [{\"\\"]}}}}}`

func chats(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(tinyChat, i)
	}
	return "[" + strings.Join(parts, ",\n") + "]\n"
}

// A truncated file yields all records before the cut and reports its position.
func TestTruncationAtEveryByte(t *testing.T) {
	t.Parallel()
	whole := chats(3)
	if got, err := readAll(t, bytesOf("c.json", whole), Options{}); err != nil || len(got) != 3 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	end := strings.LastIndex(whole, "]")
	for n := 1; n <= end; n++ {
		got, err := readAll(t, bytesOf("conversations.json", whole[:n]), Options{Format: ChatGPT})
		var broken *BrokenError
		if !errors.As(err, &broken) || broken.Offset != int64(n) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if want := strings.Count(whole[:n], "]}}}}}"); len(got) != want {
			t.Fatalf("cut at %d: %d records, want %d", n, len(got), want)
		}
		if err.Error() != fmt.Sprintf("conversations.json ends unexpectedly at byte %d", n) {
			t.Fatalf("message: %v", err)
		}
	}
}

// Bytes that are not JSON, between or in records, end the reading at their position unless the
// record can be skipped.
func TestDamage(t *testing.T) {
	t.Parallel()
	whole := chats(3)
	second := strings.Index(whole, `{"conversation_id":"c1"`)
	for _, c := range []struct {
		name string
		text string
		good int
		at   int // -1: only an error of one line
	}{
		{"between", whole[:second-1] + "#" + whole[second:], 1, second - 1},
		{"no comma", strings.Replace(whole, ",\n", " \n", 1), 1, second},
		{"behind the end", whole + "x", 3, len(whole)},
		{"comma at the end", strings.Replace(whole, "]\n", ",]", 1), 3, len(whole) - 1},
		{"word in a record", strings.Replace(whole, `"title":"T","current_node":"m","mapping":{"m":{"message":{"author":{"role":"user"},"content":{"parts":["Hello`, `"title":zzz,"current_node":"m","mapping":{"m":{"message":{"author":{"role":"user"},"content":{"parts":["Hello`, 1), 2, -1},
		{"quote is gone", strings.Replace(whole, `{"conversation_id":"c1"`, `{"conversation_id":c1"`, 1), 1, second + len(`{"conversation_id":`)},
		{"zeros", whole[:second+5] + strings.Repeat("\x00", 50) + whole[second+55:], 1, second + 5},
		{"not an array", "17", 0, 0},
	} {
		got, err := readAll(t, bytesOf("c.json", c.text), Options{Format: ChatGPT})
		good := 0
		for _, r := range got {
			if r.Conversation != nil {
				good++
			}
		}
		var broken *BrokenError
		switch {
		case good != c.good:
			t.Errorf("%s: %d records, want %d; %v", c.name, good, c.good, err)
		case c.at < 0 && (err != nil || len(got) != good+1):
			t.Errorf("%s: %v", c.name, err)
		case c.at >= 0 && (!errors.As(err, &broken) || broken.Offset != int64(c.at)):
			t.Errorf("%s: %v, want byte %d", c.name, err, c.at)
		}
	}
}

// Reading can be continued after each record and yields the remaining ones.
func TestImportResumesAfterEachRecord(t *testing.T) {
	t.Parallel()
	var big bytes.Buffer
	if _, err := importertest.ChatGPT(&big, importertest.Options{Conversations: 6, Turns: 4}); err != nil {
		t.Fatal(err)
	}
	jsonl, err := os.ReadFile(filepath.Join("testdata", "memories.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat(strings.Repeat("word ", 100)+"\n\n", 1200)
	sources := map[string]Source{
		"chatgpt": bytesOf("c.json", big.String()),
		"jsonl":   bytesOf("m.jsonl", string(jsonl)),
		"text":    bytesOf("t.txt", text),
		"zip":     bytesOf("e.zip", zipOf(t, "b/conversations.json", big.String(), "a/conversations.json", chats(4))),
		"notes":   bytesOf("n.zip", zipOf(t, "a.md", "# A", "b/c.md", "---\ntags: x\n---\n"+text, "d.md", "# D")),
		"vault":   {Path: vault(t)},
	}
	for name, src := range sources {
		all, err := readAll(t, src, Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		for len(all) > 0 && all[0].After == (Position{}) { // skip the files excluded from the start
			all = all[1:]
		}
		if len(all) < 3 {
			t.Fatalf("%s: %d records", name, len(all))
		}
		for i, r := range all {
			rest, err := readAll(t, src, Options{From: r.After})
			if err != nil {
				t.Fatal(name, err)
			}
			for len(rest) > 0 && rest[0].After == (Position{}) {
				rest = rest[1:]
			}
			if got, want := dump(rest), dump(all[i+1:]); got != want {
				t.Errorf("%s: behind record %d: %d records, want %d", name, i, len(rest), len(all)-i-1)
			}
		}
	}
}

// pattern is a file of any size that uses no memory: head, repeated body, tail.
type pattern struct {
	head, body, tail string
	size             int64
}

func (p pattern) ReadAt(b []byte, at int64) (int, error) {
	n := 0
	for n < len(b) && at < p.size {
		var part string
		switch tail := p.size - int64(len(p.tail)); {
		case at < int64(len(p.head)):
			part = p.head[at:]
		case at >= tail:
			part = p.tail[at-tail:]
		default:
			part = p.body[(at-int64(len(p.head)))%int64(len(p.body)):]
			part = part[:min(int64(len(part)), tail-at)]
		}
		c := copy(b[n:], part)
		n, at = n+c, at+int64(c)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// A line or a record of a gigabyte is skipped without using memory.
func TestEndlessRecords(t *testing.T) {
	if raced {
		t.Skip("measures memory")
	}
	size := int64(96 << 20)
	if os.Getenv("HELIX_LONG") != "" {
		size = 1 << 30
	}
	body := strings.Repeat("abcdefgh ", 10_000)
	first, second := fmt.Sprintf(tinyChat, 1), fmt.Sprintf(tinyChat, 2)
	for _, c := range []struct {
		name          string
		p             pattern
		format        string
		good, problem int
	}{
		{"lines", pattern{"{\"content\":\"one\"}\n{\"content\":\"", body, "\"}\n{\"content\":\"two\"}\n", size}, JSONL, 2, 1},
		{"array", pattern{"[" + first + ",{\"mapping\":{},\"x\":\"", body, "\"}," + second + "]", size}, ChatGPT, 2, 1},
		{"spaces", pattern{"[" + first, strings.Repeat(" ", 4096), "," + second + "]", size}, ChatGPT, 2, 0},
		{"text", pattern{"", strings.Repeat("abcdefgh", 10_000), "", size}, Text, int(size/maxPart) + 1, 0},
	} {
		var before, after runtime.MemStats
		peak := uint64(0)
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := Open(Source{Data: c.p, Size: size}, Options{Format: c.format})
		if err != nil {
			t.Fatal(c.name, err)
		}
		good, problem := 0, 0
		for {
			rec, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(c.name, err)
			}
			if rec.Problem != nil {
				problem++
			} else {
				good++
			}
			runtime.ReadMemStats(&after)
			peak = max(peak, after.HeapInuse)
		}
		_ = r.Close()
		if math.Abs(float64(good-c.good)) > 1 || c.format != Text && good != c.good || problem != c.problem {
			t.Errorf("%s: %d records and %d problems, want %d and %d", c.name, good, problem, c.good, c.problem)
		}
		if peak > before.HeapInuse+80<<20 {
			t.Errorf("%s: the heap grew to %d MB", c.name, peak>>20)
		}
	}
}

func TestDivisionOfLongTexts(t *testing.T) {
	t.Parallel()
	paragraph := strings.Repeat("ä word ", 90) + "\n\n"
	text := strings.Repeat(paragraph, 1500)
	got, err := readAll(t, bytesOf("long.md", "---\ntags: [x]\ntitle: Long\n---\n"+text), Options{Format: Markdown})
	if err != nil {
		t.Fatal(err)
	}
	var joined strings.Builder
	for i, r := range got {
		d := r.Document
		joined.WriteString(d.Text)
		if d.Part != i || len(d.Text) > maxPart || len(d.Tags) != 1 || !strings.HasSuffix(d.Text, "\n\n") {
			t.Errorf("part %d: %q number %d, %d bytes, tags %q", i, d.Title, d.Part, len(d.Text), d.Tags)
		}
	}
	if joined.String() != text {
		t.Error("the parts are not the text")
	}
	if len(got) < 3 || got[0].Document.Title != "Long" || got[1].Document.Title != "Long (2)" {
		t.Errorf("%d parts", len(got))
	}
	if all, err := readAll(t, bytesOf("x.txt", "x"+strings.Repeat("ä", maxPart)), Options{Format: Text}); err != nil || len(all) != 3 || strings.Contains(all[1].Document.Text, "\uFFFD") {
		t.Errorf("a text without spaces: %d parts, %v", len(all), err)
	}
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"utf8-bom": "\uFEFFCafé.\r\nZwei", "utf16le": "\xFF\xFEC\x00a\x00f\x00\xe9\x00.\x00\r\x00\n\x00Z\x00w\x00e\x00i\x00", "cr": "Café.\rZwei", "nfd": "Cafe\u0301.\nZwei",
	} {
		got, err := readAll(t, bytesOf("t.txt", content), Options{})
		if err != nil || len(got) != 1 || got[0].Document.Text != "Café.\nZwei" {
			t.Errorf("%s: %s %v", name, dump(got), err)
		}
	}
	if _, err := Open(bytesOf("p.png", "\x89PNG\r\n\x1a\n\x00\x00"), Options{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a picture: %v", err)
	}
}

func TestOpenRejectsUnreadableSources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		src  Source
		o    Options
		kind fault.Kind
	}{
		"missing":        {Source{Path: filepath.Join(t.TempDir(), "x")}, Options{}, fault.NotFound},
		"empty folder":   {Source{Path: t.TempDir()}, Options{}, fault.Invalid},
		"unknown format": {bytesOf("x", "x"), Options{Format: "word"}, fault.Invalid},
		"no such format": {Source{Path: vault(t)}, Options{Format: ChatGPT}, fault.Invalid},
		"too large":      {Source{Data: strings.NewReader(""), Size: MaxFile + 1}, Options{}, fault.Limit},
		"not an archive": {bytesOf("z.zip", "PK\x03\x04 and nothing else"), Options{}, fault.Invalid},
	} {
		if _, err := Open(c.src, c.o); !fault.Is(err, c.kind) {
			t.Errorf("%s: %v, want %s", name, err, c.kind)
		}
	}
	if got, err := readAll(t, bytesOf("e.json", " [ ] "), Options{}); err != nil || len(got) != 0 {
		t.Errorf("an export without conversations: %v %v", got, err)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	zone := berlin(t)
	for text, want := range map[string]string{
		"2023-05-08T13:56:00Z":      "2023-05-08T13:56:00Z",
		"2023-05-08T13:56:00.5Z":    "2023-05-08T13:56:00.5Z",
		"2023-05-08T13:56:00+02:00": "2023-05-08T11:56:00Z",
		"2023-05-08 13:56":          "2023-05-08T11:56:00Z",
		"2023-01-08T13:56:00":       "2023-01-08T12:56:00Z",
		"2023-05-08":                "2023-05-07T22:00:00Z",
		"1683547001":                "2023-05-08T11:56:41Z",
		"1683547001.25":             "2023-05-08T11:56:41.25Z",
		"1683547001250":             "2023-05-08T11:56:41.25Z",
		"-1":                        "1969-12-31T23:59:59Z",
		"NaN":                       "",
		"1e300":                     "",
		"99999-01-01":               "",
		"yesterday":                 "",
		"":                          "",
	} {
		got := ""
		if at, ok := parseTime(text, zone); ok {
			got = at.Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	if at := locomoTime("1:56 pm on 8 May, 2023", time.UTC); at == nil || at.Format(time.RFC3339) != "2023-05-08T13:56:00Z" {
		t.Errorf("LoCoMo: %v", at)
	}
	if at := locomoTime("12:09 am on 13 September, 2023", time.UTC); at == nil || at.Hour() != 0 {
		t.Errorf("LoCoMo at midnight: %v", at)
	}
}
