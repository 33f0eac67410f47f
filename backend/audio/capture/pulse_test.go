//go:build cgo && linux

package capture_test

import (
	"context"
	"errors"
	"io"
	"math"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"gonum.org/v1/gonum/dsp/fourier"

	"helix/backend/audio"
	"helix/backend/audio/capture"
)

const pulseDir = "HELIX_PULSE_TEST_DIR"

// TestPulseAudioMicrophoneRecordsWhatIsPlayed starts a sound server of its own with a virtual
// microphone, plays a sentence to it and records it through the real path. The server's address is in
// the environment, so that it runs in a process of its own.
func TestPulseAudioMicrophoneRecordsWhatIsPlayed(t *testing.T) {
	t.Parallel()
	if os.Getenv(pulseDir) != "" {
		recordFromPulse(t, os.Getenv(pulseDir))
		return
	}
	dir := t.TempDir()
	env := append(os.Environ(), "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "XDG_CONFIG_HOME="+dir, "PULSE_RUNTIME_PATH="+filepath.Join(dir, "pulse"), "PULSE_SERVER=unix:"+filepath.Join(dir, "native"), "DBUS_SESSION_BUS_ADDRESS=", pulseDir+"="+dir)
	server := exec.Command("pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no", "--disable-shm=yes", "--system=no",
		"-L", "module-native-protocol-unix auth-anonymous=1 socket="+filepath.Join(dir, "native"),
		"-L", "module-null-sink sink_name=speaker rate=48000",
		"-L", "module-remap-source source_name=helix_test master=speaker.monitor source_properties=device.description=HelixTest")
	server.Env = env
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatalf("pulseaudio is part of the usual setup: %v", err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for { // until it answers
		info := exec.CommandContext(ctx, "pactl", "list", "short", "sources")
		info.Env = env
		if out, err := info.CombinedOutput(); err == nil && len(out) > 0 {
			break
		} else if ctx.Err() != nil {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("%v: %s\n%s", err, out, text)
		}
	}
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestPulseAudioMicrophoneRecordsWhatIsPlayed$", "-test.v")
	child.Env = env
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

func recordFromPulse(t *testing.T, dir string) {
	said := filepath.Join(dir, "said.wav")
	if out, err := exec.Command("flite", "-voice", "rms", "-t", "Search my memories for the budget meeting in March.", "-o", said).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mic := capture.System()
	devices, err := mic.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := ""
	for _, d := range devices {
		if d.Name == "HelixTest" && d.Backend == "PulseAudio" {
			id = d.ID
		}
	}
	if id == "" {
		t.Fatalf("no test microphone: %+v", devices)
	}
	sound := samples(t, said)
	heard := make(chan int, 10_000)
	r := capture.NewRecorder(capture.Options{Dir: filepath.Join(dir, "parts"), Mic: mic, Samples: func(_ uuid.UUID, _ int, p []float32) { heard <- len(p) }})
	defer r.Close()
	if _, err := r.Start(capture.Params{ID: uuid.New(), Device: id}); err != nil {
		t.Fatal(err)
	}
	<-heard // it records
	if out, err := exec.Command("paplay", said).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for len(heard) > 0 {
		<-heard
	}
	for n := 0; n < 24_000; { // what the server still has
		n += <-heard
	}
	p, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if p.Rate != 48_000 {
		t.Errorf("recorded at %d Hz, not at the rate of the device", p.Rate)
	}
	// A sound server may drop something under load, so each 100 ms are looked for on their own.
	const window = 4800
	got := pcm(t, p)
	var scores []float64
	for from := 0; from+window <= len(sound); from += window {
		scores = append(scores, correlation(sound[from:from+window], got))
	}
	slices.Sort(scores)
	t.Logf("%d windows: correlation %.3f to %.3f, median %.3f", len(scores), scores[0], scores[len(scores)-1], scores[len(scores)/2])
	if scores[len(scores)/2] < 0.95 {
		t.Errorf("the recording is not what was played: %.3f", scores)
	}
}

// correlation returns the largest normalized cross-correlation of a with a part of b.
func correlation(a, b []int16) (best float64) {
	n := 1 << bits.Len(uint(len(a)+len(b)))
	fft := fourier.NewFFT(n)
	spectrum := func(p []int16) []complex128 {
		x := make([]float64, n)
		for i, v := range p {
			x[i] = float64(v)
		}
		return fft.Coefficients(nil, x)
	}
	x, y := spectrum(a), spectrum(b)
	for i := range x {
		x[i] = y[i] * complex(real(x[i]), -imag(x[i]))
	}
	cross := fft.Sequence(nil, x)
	power := func(v int16) float64 { return float64(v) * float64(v) }
	own, part := 0.0, 0.0
	for i := range a {
		own += power(a[i])
		part += power(b[i])
	}
	for i := range len(b) - len(a) {
		if part > 1e6 {
			best = max(best, cross[i]/float64(n)/math.Sqrt(own*part))
		}
		part += power(b[i+len(a)]) - power(b[i])
	}
	return best
}

// samples returns a recording at 48 kHz.
func samples(t *testing.T, path string) (out []int16) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	st, err := audio.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	src, err := audio.Resample(st, st.SampleRate, 48_000)
	if err != nil {
		t.Fatal(err)
	}
	for buf := make([]float32, 4096); ; {
		n, err := src.Read(buf)
		for _, v := range buf[:n] {
			out = append(out, audio.PCM16(v))
		}
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
