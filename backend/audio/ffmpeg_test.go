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
		if d := len(x) - 2*Rate; d < -Rate/1000 || d > Rate/20 {
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
