package audio

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/fault"
)

func TestAACIsDecodedByFFmpeg(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // its copies are removed
	dir := t.TempDir()
	wav := tone(t, dir, 44100, 2, true)
	for _, name := range []string{"tone.m4a", "tone.caf"} {
		path := filepath.Join(dir, name)
		codec := "aac"
		if name == "tone.caf" {
			codec = "pcm_s16be"
		}
		run(t, "ffmpeg", "-v", "error", "-y", "-i", wav, "-c:a", codec, path)
		st, x := decodeFile(t, path)
		if st.SampleRate != 44100 || st.Channels != 2 || st.Lost() != 0 {
			t.Errorf("%s: %+v", name, st.Info)
		}
		if d := len(x) - 2*Rate; d < -Rate/1000 || d > Rate/1000 {
			t.Errorf("%s: %d samples, want %d", name, len(x), 2*Rate)
		}
		amplitude, _, residue := fit(x[Rate/2:Rate*3/2], 1000, Rate)
		if math.Abs(amplitude-0.25) > 0.01 || residue > 0.01 {
			t.Errorf("%s: amplitude %.3f, residue %.4f", name, amplitude, residue)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		early, err := Open(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		early.Close()
		early.Close()
		if name != "tone.m4a" {
			continue
		}
		if _, err := openFFmpeg(bytes.NewReader(b), "m4a", "/nowhere/ffmpeg"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "Install ffmpeg") {
			t.Errorf("without ffmpeg: %v", err)
		}
		if _, n, err := decodeAll(b[:len(b)/2]); !fault.Is(err, fault.Invalid) {
			t.Errorf("half a file: %d samples, %v", n, err)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// blocks is a decoder of frames that count up, in blocks of 700.
type blocks struct{ at int }

func (*blocks) info() Info  { return Info{SampleRate: Rate, Channels: 2} }
func (*blocks) lost() int64 { return 0 }
func (b *blocks) next() ([]float32, error) {
	out := make([]float32, 2*700)
	for i := range out {
		out[i] = float32(b.at + i/2)
	}
	b.at += 700
	return out, nil
}

// TestSoundAfterTheStatedEndIsKept reads on after the end that a wrong header states.
func TestSoundAfterTheStatedEndIsKept(t *testing.T) {
	t.Parallel()
	x := &ffmpeg{decoder: &blocks{}, left: 1000}
	at := 0
	for at < 10_000 {
		out, err := x.next()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range out {
			if v != float32(at+i/2) {
				t.Fatalf("frame %d is %v", at+i/2, v)
			}
		}
		at += len(out) / 2
	}
}

func TestDamagedMP4HasNoDuration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "tone.m4a")
	run(t, "ffmpeg", "-v", "error", "-i", tone(t, dir, 48000, 1, false), "-c:a", "aac", path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := mp4Duration(bytes.NewReader(b), int64(len(b))); math.Abs(d-2) > 0.0011 {
		t.Errorf("%v s", d)
	}
	for cut := range len(b) {
		if cut%97 != 0 && cut > 200 {
			continue
		}
		if d := mp4Duration(bytes.NewReader(b[:cut]), int64(cut)); d != 0 && math.Abs(d-2) > 0.0011 {
			t.Errorf("cut at %d: %v s", cut, d)
		}
		c := bytes.Clone(b)
		for i := range min(8, len(c)-cut) {
			c[cut+i] = 0xFF
		}
		mp4Duration(bytes.NewReader(c), int64(len(c))) // it ends
	}
}
