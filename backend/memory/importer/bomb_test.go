package importer

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"helix/backend/fault"
)

// bombFiles lists a file and its repeated part, for each format.
var bombFiles = []struct{ name, head, part string }{
	{"conversations.json", `[`, strings.Replace(tinyChat, "Hello", strings.Repeat("Hello again ", 200), 1) + ","},
	{"claude.json", `[`, `{"uuid":"1","name":"n","chat_messages":[{"uuid":"2","sender":"human","text":"` + strings.Repeat("hi ", 500) + `"}]},`},
	{"locomo.json", `[`, `{"sample_id":"s","conversation":{"speaker_a":"A","speaker_b":"B","session_1":[{"speaker":"A","dia_id":"D1:1","text":"` + strings.Repeat("hi ", 500) + `"}]}},`},
	{"notes.md", "# A\n\n", strings.Repeat("all work and no play ", 50) + "\n\n"},
	{"text.txt", "", strings.Repeat("all work and no play ", 50) + "\n\n"},
	{"lines.jsonl", "", `{"content":"` + strings.Repeat("all work ", 100) + `"}` + "\n"},
}

// deflated compresses head followed by about size bytes of part without building the text, by
// repeating deflate blocks.
func deflated(head, part string, size int64) (packed []byte, plain int64) {
	piece := func(text string) []byte {
		var b bytes.Buffer
		w, _ := flate.NewWriter(&b, flate.BestCompression)
		_, _ = io.WriteString(w, text)
		_ = w.Flush()
		return b.Bytes()
	}
	block := strings.Repeat(part, 1+(256<<10)/len(part))
	n := max(1, int(size/int64(len(block))))
	packed = append(piece(head), bytes.Repeat(piece(block), n)...)
	return append(packed, 1, 0, 0, 0xff, 0xff), int64(len(head)) + int64(n)*int64(len(block)) // an empty last block
}

// bomb returns a small archive of one of several kinds that decompresses to a large size.
func bomb(rng *rand.Rand) (name string, archive []byte) {
	f := bombFiles[rng.IntN(len(bombFiles))]
	size := int64(128<<20) << rng.IntN(5) // 128 MiB to 2 GiB
	packed, plain := deflated(f.head, f.part, size)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	put := func(name string, body []byte, claims int64) {
		w, err := z.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Deflate, UncompressedSize64: uint64(claims), CompressedSize64: uint64(len(body))})
		if err == nil {
			_, err = w.Write(body)
		}
		if err != nil {
			panic(err)
		}
	}
	kinds := []string{"honest", "lying", "many", "overlapping", "nested", "no directory", "no directory, lying", "no directory, no sizes"}
	kind := kinds[rng.IntN(len(kinds))]
	switch kind {
	case "honest", "no directory":
		put(f.name, packed, plain)
	case "lying", "no directory, lying":
		put(f.name, packed, rng.Int64N(100_000))
	case "many":
		small, each := deflated(f.head, f.part, size/64)
		for i := range 64 {
			put(fmt.Sprintf("%02d/%s", i, f.name), small, each)
		}
	case "overlapping": // one body for many entries of the directory
		put(f.name, packed, plain)
		_ = z.Close()
		return kind + " " + f.name, overlap(b.Bytes(), 200)
	case "nested":
		put("inner.zip", packed, plain)
		put("inner.txt", packed, plain)
	case "no directory, no sizes": // the sizes follow the body
		_ = z.Close()
		b.Reset()
		head := make([]byte, 30)
		copy(head, "PK\x03\x04")
		binary.LittleEndian.PutUint16(head[6:], 8)
		binary.LittleEndian.PutUint16(head[8:], zip.Deflate)
		binary.LittleEndian.PutUint16(head[26:], uint16(len(f.name)))
		b.Write(head)
		b.WriteString(f.name)
		b.Write(packed)
		return kind + " " + f.name, b.Bytes()
	}
	_ = z.Close()
	if strings.HasPrefix(kind, "no directory") {
		return kind + " " + f.name, b.Bytes()[:bytes.LastIndex(b.Bytes(), []byte("PK\x01\x02"))]
	}
	return kind + " " + f.name, b.Bytes()
}

// overlap repeats the only entry of the central directory under other names of the same length.
func overlap(archive []byte, n int) []byte {
	at := bytes.LastIndex(archive, []byte("PK\x01\x02"))
	end := bytes.LastIndex(archive, []byte("PK\x05\x06"))
	entry, tail := archive[at:end], bytes.Clone(archive[end:])
	out := bytes.Clone(archive[:at])
	for i := range n {
		e := bytes.Clone(entry)
		copy(e[46:], fmt.Sprintf("%03d", i))
		out = append(out, e...)
	}
	binary.LittleEndian.PutUint16(tail[8:], uint16(n))
	binary.LittleEndian.PutUint16(tail[10:], uint16(n))
	binary.LittleEndian.PutUint32(tail[12:], uint32(n*len(entry)))
	return append(out, tail...)
}

// countedFile counts the bytes read from an archive.
type countedFile struct {
	io.ReaderAt
	n atomic.Int64
}

func (c *countedFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.n.Add(int64(n))
	return n, err
}

// Whatever an archive declares, without confirmation no more is decompressed than the limits for
// its actual size.
func TestZipBombsAreNotUnpackedUnasked(t *testing.T) {
	t.Parallel()
	cases := 50
	if os.Getenv("HELIX_LONG") != "" {
		cases = 500
	}
	asked := 0
	for seed := range cases {
		name, archive := bomb(rand.New(rand.NewPCG(uint64(seed), 7)))
		size := int64(len(archive))
		data := &countedFile{ReaderAt: bytes.NewReader(archive)}
		r, err := Open(Source{Data: data, Size: size, Name: "bomb.zip"}, Options{})
		var inflated int64
		if err == nil {
			// Sniffing reads the files once, reading them a second time.
			for err == nil {
				_, err = r.Next(t.Context())
			}
			inflated = r.tree.inflated.n
			if e := r.Close(); e != nil {
				t.Fatal(e)
			}
		} else if f := fault.As(err); f.Kind == fault.Limit {
			asked++
			var d Large
			text, _ := json.Marshal(f.Details)
			if json.Unmarshal(text, &d) != nil || d.Code != "large_archive" || d.PackedBytes != size || d.UnpackedBytes <= askFrom || d.Files == 0 {
				t.Errorf("case %d (%s): the question is %s %s", seed, name, f.Message, text)
			}
		}
		limit := max(askFrom, askRatio*size)
		if inflated > 2*limit+1<<20 {
			t.Errorf("case %d (%s, %d bytes): %d bytes were unpacked, %v", seed, name, size, inflated, err)
		}
		if n := data.n.Load(); n > 8*size+maxDirectory {
			t.Errorf("case %d (%s, %d bytes): %d bytes of it were read, %v", seed, name, size, n, err)
		}
		if strings.HasPrefix(name, "honest") && !fault.Is(err, fault.Limit) {
			t.Errorf("case %d (%s): %v, want a question", seed, name, err)
		}
	}
	if asked < cases/4 {
		t.Errorf("only %d of %d archives were asked about", asked, cases)
	}
}

func TestLargeArchiveIsReadWhenAllowed(t *testing.T) {
	t.Parallel()
	f := bombFiles[5]
	packed, plain := deflated(f.head, f.part, 80<<20)
	for name, claims := range map[string]int64{"honest": plain, "lying": plain / 2} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.CreateRaw(&zip.FileHeader{Name: f.name, Method: zip.Deflate, UncompressedSize64: uint64(claims), CompressedSize64: uint64(len(packed))})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(packed)
		_ = z.Close()
		r, err := Open(bytesOf("big.zip", b.String()), Options{AllowLarge: true})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for err == nil {
			if _, err = r.Next(t.Context()); err == nil {
				n++
			}
		}
		if want := int(plain) / len(f.part); name == "honest" && (!errors.Is(err, io.EOF) || n != want) {
			t.Errorf("%d of %d records, %v", n, want, err)
		}
		if broken := (*BrokenError)(nil); name == "lying" && !errors.As(err, &broken) {
			t.Errorf("a file that is larger than it says: %v", err)
		}
		_ = r.Close()
	}
}

// Pictures and sound make exports of chats large, but are never decompressed.
func TestOnlyWhatIsReadCounts(t *testing.T) {
	t.Parallel()
	packed, plain := deflated("", strings.Repeat("\x00", 1000), 200<<20)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "picture.png", Method: zip.Deflate, UncompressedSize64: uint64(plain), CompressedSize64: uint64(len(packed))})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(packed)
	if w, err = z.Create("note.md"); err == nil {
		_, err = io.WriteString(w, "# A note\n\nwith text")
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(t, bytesOf("e.zip", b.String()), Options{}); err != nil || len(got) != 1 {
		t.Errorf("%d records, %v", len(got), err)
	}
}
