package audio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"helix/backend/fault"
)

// fixtures returns three seconds of a tone in each format.
func fixtures(t testing.TB) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	args := []string{"-v", "error", "-f", "lavfi", "-i", "sine=frequency=1000:duration=3:sample_rate=48000,pan=stereo|c0=c0|c1=c0"}
	kinds := map[string][]string{
		"a.wav": {"-c:a", "pcm_s16le"}, "b.flac": {"-c:a", "flac"}, "c.mp3": {"-c:a", "libmp3lame", "-b:a", "64k"}, "d.ogg": {"-c:a", "libvorbis"},
		"e.ogg": {"-c:a", "libopus", "-b:a", "48k"}, "f.webm": {"-c:a", "libopus", "-b:a", "48k"}, "g.webm": {"-c:a", "libopus", "-b:a", "48k", "-live", "1"},
	}
	for name, how := range kinds {
		args = append(append(args, how...), filepath.Join(dir, name))
	}
	run(t, "ffmpeg", args...)
	out := map[string][]byte{}
	for name := range kinds {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = b
	}
	return out
}

// decodeAll decodes b and returns the number of samples at Rate.
func decodeAll(b []byte) (s *Stream, n int, err error) {
	s, src, err := Speech(bytes.NewReader(b))
	if err != nil {
		return nil, 0, err
	}
	buf := make([]float32, 4096)
	for {
		k, err := src.Read(buf)
		n += k
		if errors.Is(err, io.EOF) {
			return s, n, nil
		}
		if err != nil {
			return s, n, err
		}
	}
}

// TestCutFilesGiveWhatIsLeft truncates files at every 1,000th byte. What remains must be decoded,
// without other effects.
func TestCutFilesGiveWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, b := range fixtures(t) {
		const step = 1000
		before := 0
		for cut := step; cut < len(b); cut += step {
			_, n, err := decodeAll(b[:cut])
			if err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("%s cut at %d: %v", name, cut, err)
			}
			if n < before {
				t.Errorf("%s cut at %d has %d samples, less than the %d of a shorter one", name, cut, n, before)
			}
			before = n
		}
		if before < 2*Rate {
			t.Errorf("%s: %d samples of nearly the whole file", name, before)
		}
	}
}

// TestDamageInTheMiddleLosesOnlyItsPart overwrites bytes in the middle. Everything after them must
// be decoded at its original position.
func TestDamageInTheMiddleLosesOnlyItsPart(t *testing.T) {
	t.Parallel()
	all := fixtures(t)
	for _, name := range []string{"a.wav", "b.flac", "c.mp3", "d.ogg", "e.ogg"} {
		b := bytes.Clone(all[name])
		for i := range 300 {
			b[len(b)/2+i] = byte(i * 7)
		}
		_, n, err := decodeAll(b)
		if err != nil || n < 19*Rate/10 || n > 3*Rate+2000 {
			t.Errorf("%s: %d samples, %v", name, n, err)
		}
	}
	b := bytes.Clone(all["b.flac"])
	for i := range 300 {
		b[len(b)/2+i] = byte(i * 7)
	}
	if s, n, err := decodeAll(b); err != nil || n != 3*Rate || s.Lost() == 0 || s.Lost() > time.Second {
		t.Errorf("FLAC: %d samples, lost %v, %v", n, s.Lost(), err)
	}
}

func TestHeadersThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	header := func(tag, channels uint16, rate uint32, bits uint16, data ...byte) []byte {
		b := append([]byte("RIFF\xff\xff\xff\xffWAVEfmt "), 16, 0, 0, 0)
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, channels)
		b = binary.LittleEndian.AppendUint32(b, rate)
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint16(b, 0)
		b = binary.LittleEndian.AppendUint16(b, bits)
		return append(append(b, "data\xff\xff\xff\xff"...), data...)
	}
	nan := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	inf := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.Inf(-1))))
	for name, c := range map[string]struct {
		data []byte
		kind fault.Kind
	}{
		"empty":       {nil, fault.Invalid},
		"unknown":     {[]byte("GIF89a.........."), fault.Invalid},
		"m4a":         {[]byte("\x00\x00\x00\x18ftypM4A "), fault.Invalid},
		"rate 0":      {header(wavPCM, 1, 0, 16), fault.Invalid},
		"rate 7999":   {header(wavPCM, 1, 7999, 16), fault.Invalid},
		"65 channels": {header(wavPCM, 65, 8000, 16), fault.Invalid},
		"no channel":  {header(wavPCM, 0, 8000, 16), fault.Invalid},
		"12 bits":     {header(wavPCM, 1, 8000, 12), fault.Invalid},
		"NaN":         {header(wavFloat, 1, 8000, 32, nan...), fault.Invalid},
		"infinity":    {header(wavFloat, 1, 8000, 32, inf...), fault.Invalid},
	} {
		if _, n, err := decodeAll(c.data); !fault.Is(err, c.kind) {
			t.Errorf("%s: %d samples, %v", name, n, err)
		}
	}
	if _, n, err := decodeAll(header(wavPCM, 1, 8000, 16, make([]byte, 16000)...)); err != nil || n != Rate {
		t.Errorf("a file whose size was never filled in: %d samples, %v", n, err)
	}
}

// endless is a long WAV file that is generated while it is read.
type endless struct {
	head *bytes.Reader
	left int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.head.Len() > 0 {
		return e.head.Read(p)
	}
	n := int(min(int64(len(p)), e.left))
	e.left -= int64(n)
	if n == 0 {
		return 0, io.EOF
	}
	clear(p[:n])
	return n, nil
}

// TestMemoryDoesNotGrowWithTheLength decodes ten minutes, or an hour with HELIX_LONG, whose samples take
// 115 MB or 700 MB, and draws the waveform.
func TestMemoryDoesNotGrowWithTheLength(t *testing.T) {
	seconds := 600
	if os.Getenv("HELIX_LONG") != "" {
		seconds = 3600
	}
	size := int64(2*48000) * int64(seconds)
	h := append([]byte("RIFF\xff\xff\xff\xffWAVEfmt "), 16, 0, 0, 0, 1, 0, 1, 0)
	h = binary.LittleEndian.AppendUint32(h, 48000)
	h = binary.LittleEndian.AppendUint32(h, 96000)
	h = append(append(h, 2, 0, 16, 0), "data"...)
	h = binary.LittleEndian.AppendUint32(h, uint32(size))
	decodeInBoundedMemory(t, "WAV", &endless{bytes.NewReader(h), size}, seconds)
}

// TestMemoryOfCompressedFormatsDoesNotGrowWithTheLength decodes two minutes of each format, or an hour with
// HELIX_LONG.
func TestMemoryOfCompressedFormatsDoesNotGrowWithTheLength(t *testing.T) {
	seconds := 120
	if os.Getenv("HELIX_LONG") != "" {
		seconds = 3600
	}
	dir := t.TempDir()
	for name, b := range fixtures(t) {
		if name == "a.wav" || name == "g.webm" { // a live stream has no length to check
			continue
		}
		short, long := filepath.Join(dir, name), filepath.Join(dir, "long-"+name)
		if err := os.WriteFile(short, b, 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, "ffmpeg", "-v", "error", "-stream_loop", "-1", "-i", short, "-t", fmt.Sprint(seconds), "-c", "copy", long)
		f, err := os.Open(long)
		if err != nil {
			t.Fatal(err)
		}
		decodeInBoundedMemory(t, name, f, seconds)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// decodeInBoundedMemory decodes a file that has about the given length, and draws its waveform.
func decodeInBoundedMemory(t *testing.T, name string, r io.Reader, seconds int) {
	t.Helper()
	var before, m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, src, err := Speech(r)
	if err != nil {
		t.Fatal(err)
	}
	p := &Peaks{}
	buf := make([]float32, 8192)
	n, most := 0, uint64(0)
	for i := 0; err == nil; i++ {
		var k int
		k, err = src.Read(buf)
		p.Write(buf[:k])
		if n += k; i%100 == 0 {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
		}
	}
	if d := n - seconds*Rate; d < -seconds*Rate/20 || d > seconds*Rate/20 || name == "WAV" && d != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%s: %d samples, %v", name, n, err)
	}
	if grown := int64(most) - int64(before.HeapInuse); grown > 16<<20 {
		t.Errorf("%s: %d MiB of memory", name, grown>>20)
	}
}

func FuzzOpen(f *testing.F) {
	for _, b := range fixtures(f) {
		f.Add(b[:min(len(b), 1500)])
	}
	f.Add([]byte("\x1aE\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		s, err := Open(bytes.NewReader(b))
		if err != nil {
			return
		}
		buf := make([]float32, 8192)
		for n := 0; n < 2_000_000; {
			k, err := s.Read(buf)
			if n += k; err != nil {
				return
			}
			for _, v := range buf[:k] {
				if v != v {
					t.Fatal("a sample is not a number")
				}
			}
		}
	})
}
