package importer

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"helix/backend/fault"
)

// zeros reads n zero bytes.
type zeros struct{ n int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.n)
	clear(p[:n])
	z.n -= n
	return int(n), nil
}

// An archive that declares a huge size is rejected before anything is decompressed; one that
// declares too small a size is read up to that size.
func TestZipBombs(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range 3 {
		w, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("%d.md", i), Method: zip.Deflate, UncompressedSize64: 3 << 30, CompressedSize64: 4})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte{0x4b, 0x04, 0x00, 0x00})
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(bytesOf("bomb.zip", b.String()), Options{}); !fault.Is(err, fault.Limit) {
		t.Errorf("9 GiB: %v", err)
	}

	var packed bytes.Buffer
	f, _ := flate.NewWriter(&packed, flate.BestCompression)
	if _, err := io.Copy(f, &zeros{64 << 20}); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	b.Reset()
	z = zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "small.md", Method: zip.Deflate, UncompressedSize64: 100, CompressedSize64: uint64(packed.Len()), CRC32: crc32.ChecksumIEEE(nil)})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(packed.Bytes())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(t, bytesOf("liar.zip", b.String()), Options{})
	if broken := (*BrokenError)(nil); !errors.As(err, &broken) || len(got) != 0 {
		t.Errorf("an entry that is larger than it says: %d records, %v", len(got), err)
	}
	r := &inflater{ReadCloser: io.NopCloser(&zeros{100}), left: 10, all: &counter{}}
	if b, err := io.ReadAll(r); !errors.Is(err, zip.ErrFormat) || len(b) != 10 {
		t.Errorf("more than an entry says it has: %d bytes, %v", len(b), err)
	}
}

func TestZipWithTooManyEntries(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes 100,001 entries")
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range MaxEntries + 1 {
		if _, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(bytesOf("many.zip", b.String()), Options{}); !fault.Is(err, fault.Limit) {
		t.Errorf("too many entries: %v", err)
	}
	b.Reset()
	z = zip.NewWriter(&b)
	for i := range 500 {
		if _, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i), Comment: strings.Repeat("x", 60_000)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(bytesOf("fat.zip", b.String()), Options{}); !fault.Is(err, fault.Limit) {
		t.Errorf("a huge table of contents: %v", err)
	}
}

// All records before the damage in an archive are read.
func TestDamagedZip(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 4000 {
		if i > 0 {
			text.WriteString(",")
		}
		fmt.Fprintf(&text, strings.Replace(tinyChat, "Hello", "%08x", 1), i, crc32.ChecksumIEEE([]byte{byte(i), byte(i >> 8), 7}))
	}
	whole := zipOf(t, "user.json", "{}", "conversations.json", "["+text.String()+"]", "z.json", "{}")
	all, err := readAll(t, bytesOf("e.zip", whole), Options{})
	if err != nil || len(all) != 4000 {
		t.Fatalf("whole: %d records, %v", len(all), err)
	}
	// Truncated, as after an interrupted download: there is no central directory.
	got, err := readAll(t, bytesOf("e.zip", whole[:len(whole)/2]), Options{})
	var broken *BrokenError
	if !errors.As(err, &broken) || broken.File != "conversations.json" || len(got) < 1000 || len(got) >= 4000 {
		t.Errorf("cut in the middle: %d records, %v", len(got), err)
	}
	if want := dump(all[:len(got)]); dump(got) != want {
		t.Error("what was read of the cut archive is not its beginning")
	}
	// Only the central directory is missing.
	got, err = readAll(t, bytesOf("e.zip", whole[:len(whole)-60]), Options{})
	if err != nil || len(got) != 4000 {
		t.Errorf("without its end: %d records, %v", len(got), err)
	}
	// A byte in the middle is changed.
	flipped := []byte(whole)
	flipped[len(whole)/2] ^= 0xff
	got, err = readAll(t, bytesOf("e.zip", string(flipped)), Options{})
	if !errors.As(err, &broken) && len(got) == 4000 {
		t.Errorf("a flipped byte: %d records, %v", len(got), err)
	}
	if broken != nil && broken.Offset == 0 {
		t.Errorf("the place of the damage is not told: %v", err)
	}
}
