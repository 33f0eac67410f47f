package voice

import (
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"helix/backend/audio"
	"helix/backend/fault"
	"helix/backend/storage"
)

func TestWordsOfATrimmedRecordingHaveTheirOriginalTimes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	path := filepath.Join(t.TempDir(), "late.wav")
	if out, err := exec.Command("sox", say(t, "Practice makes perfect."), path, "pad", "3", "4").CombinedOutput(); err != nil {
		t.Fatalf("sox: %v\n%s", err, out)
	}
	for _, trim := range []bool{true, false} {
		_, err := f.UpdateSettings(f.ctx, SettingsParams{TrimSilence: &trim})
		f.must(err)
		f.local.got = nil
		r, err := f.UploadMemo(f.ctx, UploadParams{Path: path})
		f.must(err)
		for f.next() {
		}
		tr, err := f.GetTranscript(f.ctx, RecordingParams{r.RecordingID})
		f.must(err)
		m := f.memo(r.MemoID)
		got := f.local.got[0]
		if len(tr.Words) != 4 || m.DurationMs == nil || *m.DurationMs < 7000 {
			t.Fatalf("%+v, %+v", tr.Words, m)
		}
		if !trim {
			if tr.Words[0].StartMs != 100 || got.Duration.Milliseconds() != *m.DurationMs {
				t.Errorf("without trimming: %+v of %v", tr.Words, got.Duration)
			}
			continue
		}
		// The fake engine hears the first word 100 ms after the beginning of what it gets, which is
		// 200 ms before the speech.
		if start := tr.Words[0].StartMs; start < 2850 || start > 3200 || tr.Words[0].EndMs != start+300 {
			t.Errorf("trimmed: %+v", tr.Words)
		}
		if got.Duration.Milliseconds() > *m.DurationMs-5000 || got.Speech[0].StartMs != 0 {
			t.Errorf("the engine got %v: %+v", got.Duration, got.Speech)
		}
	}
	if files, err := os.ReadDir(f.tempDir()); err != nil || len(files) != 0 {
		t.Errorf("temporary files are left: %v, %v", files, err)
	}
}

func TestDenoisingIsOffUnlessChosen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	yes := true
	for _, c := range []struct {
		change       SettingsParams
		local, cloud bool
	}{{SettingsParams{}, false, false}, {SettingsParams{DenoiseForCloud: &yes}, false, false}, {SettingsParams{Denoise: &yes}, true, true}} {
		conf, err := f.UpdateSettings(f.ctx, c.change)
		if err != nil || conf.denoises(true) != c.local || conf.denoises(false) != c.cloud {
			t.Errorf("%+v: %+v, %v", c.change, conf, err)
		}
	}
	no := false
	conf, err := f.UpdateSettings(f.ctx, SettingsParams{DenoiseForCloud: &no})
	if err != nil || !conf.denoises(true) || conf.denoises(false) {
		t.Errorf("%+v, %v", conf, err)
	}
	var stored Settings
	f.must(f.db.Read(f.ctx, func(tx *storage.Tx) error {
		stored, err = settings(tx, f.db.LocalUser().ID)
		return err
	}))
	if !stored.Denoise || stored.DenoiseForCloud || !stored.TrimSilence {
		t.Errorf("stored %+v", stored)
	}
}

// TestEnginesGetTheDenoisedSound compares the loudness of noise in both kinds of decoded files.
func TestEnginesGetTheDenoisedSound(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	path := filepath.Join(t.TempDir(), "noise.wav")
	if out, err := exec.Command("sox", "-R", "-n", "-r", "44100", "-c", "2", path, "synth", "2", "whitenoise", "gain", "-20").CombinedOutput(); err != nil {
		t.Fatalf("sox: %v\n%s", err, out)
	}
	level := func(quiet bool) (db float64, n int64) {
		in, err := os.Open(path)
		f.must(err)
		defer in.Close()
		d, err := f.decode(f.ctx, in, quiet)
		f.must(err)
		out, err := os.Open(d.Path)
		f.must(err)
		defer out.Close()
		st, err := audio.Open(out)
		f.must(err)
		var sum float64
		p := make([]float32, 4096)
		for {
			k, err := st.Read(p)
			for _, v := range p[:k] {
				sum += float64(v) * float64(v)
			}
			n += int64(k)
			if errors.Is(err, io.EOF) {
				return 10 * math.Log10(sum/float64(n)+1e-12), n
			}
			f.must(err)
		}
	}
	raw, n := level(false)
	clean, m := level(true)
	if clean > raw-10 || n != m {
		t.Errorf("%.1f dB and %d samples became %.1f dB and %d", raw, n, clean, m)
	}
	if _, err := f.decode(f.ctx, &io.LimitedReader{R: nil}, true); !errors.Is(err, errDecode) || !fault.Is(err, fault.Invalid) {
		t.Errorf("an empty file: %v", err)
	}
}

// TestRecordingCanBeHeardWithoutNoise compares the pauses of a noisy recording with those of its denoised copy.
func TestRecordingCanBeHeardWithoutNoise(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	if err := f.noise.Available(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	noise, noisy := filepath.Join(dir, "noise.wav"), filepath.Join(dir, "noisy.wav")
	for _, args := range [][]string{{"-R", "-n", "-r", "16000", "-c", "1", "-b", "16", noise, "synth", "4", "whitenoise", "gain", "-30"}, {"-m", "-v", "1", say(t, "Practice makes perfect."), "-v", "1", noise, noisy}} {
		if out, err := exec.Command("sox", args...).CombinedOutput(); err != nil {
			t.Fatalf("sox %v: %v\n%s", args, err, out)
		}
	}
	up, err := f.UploadMemo(f.ctx, UploadParams{Path: noisy})
	f.must(err)
	end := func(as string) (sum string, rest float64) {
		sum, kind, err := f.Sound(f.ctx, AudioURLParams{RecordingID: up.RecordingID, As: as})
		f.must(err)
		if kind != "audio/wav" {
			t.Errorf("%s: %s", as, kind)
		}
		ref, err := blobRef(sum)
		f.must(err)
		in, err := f.db.Blobs().Open(ref)
		f.must(err)
		defer in.Close()
		_, src, err := audio.Speech(in)
		f.must(err)
		var x []float32
		for buf := make([]float32, 4096); ; {
			n, err := src.Read(buf)
			x = append(x, buf[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			f.must(err)
		}
		if d := len(x) - 4*audio.Rate; d < -16 || d > 16 {
			t.Errorf("%s: %d samples", as, len(x))
		}
		for _, v := range x[len(x)-audio.Rate/2:] {
			rest += float64(v) * float64(v)
		}
		return sum, rest
	}
	original, before := end("")
	clean, after := end("denoised")
	if clean == original || after > before/10 {
		t.Errorf("the energy of a pause is %.5f, and %.5f without noise", before, after)
	}
	if again, _ := end("denoised"); again != clean {
		t.Error("it was made again")
	}
	if m := f.memo(up.MemoID); m.AudioSHA256 != original {
		t.Errorf("the recording is now %s", m.AudioSHA256)
	}
	if _, _, err := f.Sound(f.ctx, AudioURLParams{RecordingID: up.RecordingID, As: "loud"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("unknown form: %v", err)
	}
}
