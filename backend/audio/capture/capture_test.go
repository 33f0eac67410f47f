package capture_test

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"helix/backend/audio"
	"helix/backend/audio/capture"
	"helix/backend/audio/capture/capturetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("HELIX_CAPTURE_CRASH_DIR"); dir != "" {
		crashChild(dir)
	}
	os.Exit(testkit.Run(m))
}

type notice struct {
	what  capture.Notice
	ended *capture.Part
}

type bench struct {
	*capture.Recorder
	mic     *capturetest.Mic
	dir     string
	notices chan notice
	space   atomic.Int64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{mic: &capturetest.Mic{}, dir: t.TempDir(), notices: make(chan notice, 100)}
	b.space.Store(1 << 40)
	b.Recorder = capture.NewRecorder(capture.Options{
		Dir: b.dir, Mic: b.mic, Space: func() (int64, error) { return b.space.Load(), nil },
		Notice: func(_ uuid.UUID, n capture.Notice, p *capture.Part) { b.notices <- notice{n, p} },
	})
	t.Cleanup(b.Close)
	return b
}

func (b *bench) start(t *testing.T, p capture.Params) uuid.UUID {
	t.Helper()
	p.ID = uuid.New()
	p.Next = uuid.New
	if _, err := b.Start(p); err != nil {
		t.Fatal(err)
	}
	return p.ID
}

// ramp returns samples that are all different and exact in 16 bits.
func ramp(from, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(int16((from+i)*7)) / math.MaxInt16
	}
	return out
}

func pcm(t *testing.T, p *capture.Part) []int16 {
	t.Helper()
	f, err := p.WAV()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil || len(b) < 44 || binary.LittleEndian.Uint32(b[40:]) != uint32(len(b)-44) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	out := make([]int16, (len(b)-44)/2)
	for i := range out {
		out[i] = int16(binary.LittleEndian.Uint16(b[44+2*i:]))
	}
	return out
}

func checkRamp(t *testing.T, got []int16, n int) {
	t.Helper()
	if len(got) != n {
		t.Fatalf("%d samples, want %d", len(got), n)
	}
	for i, v := range got {
		if want := audio.PCM16(ramp(i, 1)[0]); v != want {
			t.Fatalf("sample %d is %d, want %d", i, v, want)
		}
	}
}

func TestRecordingIsBitExactForAnyBlockSize(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 160, 441, 4096} {
		b := newBench(t)
		b.start(t, capture.Params{})
		n := 0
		for n < 20_000 {
			b.mic.Play(ramp(n, size))
			n += size
		}
		p, err := b.Stop()
		if err != nil {
			t.Fatal(err)
		}
		checkRamp(t, pcm(t, p), n)
		if len(p.Gaps()) > 0 || b.State().Open {
			t.Errorf("gaps %v, open %v", p.Gaps(), b.State().Open)
		}
	}
}

func TestPausedSoundIsLeftOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t, capture.Params{})
	b.mic.Play(ramp(0, 1000))
	if err := b.Pause(); err != nil {
		t.Fatal(err)
	}
	b.mic.Play(ramp(5, 700))
	if err := b.Resume(); err != nil {
		t.Fatal(err)
	}
	b.mic.Play(ramp(1000, 1000))
	p, err := b.Stop()
	if err != nil {
		t.Fatal(err)
	}
	checkRamp(t, pcm(t, p), 2000)
}

func TestOverflowBecomesSilenceOfTheSameLength(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t, capture.Params{})
	n := 0
	for range 20 { // far more than the ring holds, faster than the writer empties it
		b.mic.Play(ramp(n, 300_000))
		n += 300_000
	}
	p, err := b.Stop()
	if err != nil {
		t.Fatal(err)
	}
	got := pcm(t, p)
	if len(got) != n || len(p.Gaps()) == 0 {
		t.Fatalf("%d samples of %d, gaps %v", len(got), n, p.Gaps())
	}
	for i, v := range got {
		if v != 0 && v != audio.PCM16(ramp(i, 1)[0]) {
			t.Fatalf("sample %d is at the wrong place", i)
		}
	}
}

func TestPreRollContainsSoundFromBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.Listen("", true); err != nil {
		t.Fatal(err)
	}
	b.mic.Play(ramp(0, 100_000))
	pre, err := b.Start(capture.Params{ID: uuid.New(), PreRoll: 500 * time.Millisecond})
	if err != nil || pre != 500*time.Millisecond {
		t.Fatalf("pre-roll %s, %v", pre, err)
	}
	b.mic.Play(ramp(100_000, 16_000))
	p, err := b.Stop()
	if err != nil {
		t.Fatal(err)
	}
	got := pcm(t, p)
	if len(got) != 24_000 || got[0] != audio.PCM16(ramp(92_000, 1)[0]) || got[23_999] != audio.PCM16(ramp(115_999, 1)[0]) {
		t.Errorf("%d samples", len(got))
	}
	if !b.State().Open {
		t.Error("the device was closed")
	}
}

func TestRecordingContinuesWithTheDefaultDevice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t, capture.Params{Device: "01"})
	b.mic.Play(ramp(0, 1600))
	b.mic.Unplug(nil)
	if n := <-b.notices; n.what != capture.DeviceChanged || n.ended != nil {
		t.Fatalf("%+v", n)
	}
	b.mic.Play(ramp(1600, 1600))
	p, err := b.Stop()
	if err != nil {
		t.Fatal(err)
	}
	checkRamp(t, pcm(t, p), 3200)
	if len(b.mic.Opens) != 2 || b.mic.Opens[1] != "" {
		t.Errorf("opened %q", b.mic.Opens)
	}
}

func TestPausedRecordingContinuesAfterItsDeviceIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.Close()
		b.start(t, capture.Params{Device: "01"})
		b.mic.Play(ramp(0, 1600))
		if err := b.Pause(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		if b.State().Open {
			t.Error("a paused device is still open after 31 s")
		}
		b.mic.Gone = "01"
		if err := b.Resume(); err != nil {
			t.Fatal(err)
		}
		if n := <-b.notices; n.what != capture.DeviceChanged || n.ended != nil {
			t.Errorf("%+v", n)
		}
		b.mic.Play(ramp(1600, 1600))
		p, err := b.Stop()
		if err != nil {
			t.Fatal(err)
		}
		checkRamp(t, pcm(t, p), 3200)
	})
}

func TestLostDeviceKeepsWhatWasRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t, capture.Params{})
	b.mic.Play(ramp(0, 1600))
	b.mic.Unplug(capture.ErrNoMicrophone)
	n := <-b.notices
	if n.what != capture.DeviceLost || n.ended == nil {
		t.Fatalf("%+v", n)
	}
	checkRamp(t, pcm(t, n.ended), 1600)
	if s := b.State(); s.ID != uuid.Nil || s.Open {
		t.Errorf("%+v", s)
	}
}

func TestRecordingEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t, capture.Params{Max: time.Second})
	b.mic.Play(ramp(0, 10_000))
	b.mic.Play(ramp(10_000, 10_000))
	n := <-b.notices
	if n.what != capture.Limit {
		t.Fatalf("%+v", n)
	}
	checkRamp(t, pcm(t, n.ended), 16_000)
}

func TestFullDiskRefusesToStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.space.Store(50 << 20)
	if _, err := b.Start(capture.Params{ID: uuid.New()}); err == nil {
		t.Fatal("started")
	}
	if files, _ := os.ReadDir(b.dir); len(files) > 0 || b.State().Open {
		t.Errorf("left %v", files)
	}
}

func TestWithoutMicrophoneNothingIsLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.mic.Fail = capture.ErrNoMicrophone
	if _, err := b.Start(capture.Params{ID: uuid.New()}); !errors.Is(err, capture.ErrNoMicrophone) {
		t.Fatal(err)
	}
	if files, _ := os.ReadDir(b.dir); len(files) > 0 {
		t.Errorf("left %v", files)
	}
}

func TestLevelsTellPeakAndClipping(t *testing.T) {
	t.Parallel()
	levels := make(chan capture.Level, 1000)
	mic := &capturetest.Mic{}
	r := capture.NewRecorder(capture.Options{Dir: t.TempDir(), Mic: mic, Level: func(_ uuid.UUID, l capture.Level) { levels <- l }})
	defer r.Close()
	if _, err := r.Start(capture.Params{ID: uuid.New()}); err != nil {
		t.Fatal(err)
	}
	half := make([]float32, 800)
	for i := range half {
		half[i] = 0.5
	}
	mic.Play(half)
	loud := make([]float32, 800)
	loud[10], loud[11], loud[12] = 1, -1, 1
	mic.Play(loud)
	mic.Play(make([]float32, 61*800))
	if l := <-levels; math.Abs(l.PeakDB+6.02) > 0.01 || math.Abs(l.RMSDB+6.02) > 0.01 || l.Clipped || l.ElapsedMs == 0 {
		t.Errorf("%+v", l)
	}
	if l := <-levels; l.PeakDB != 0 || !l.Clipped {
		t.Errorf("%+v", l)
	}
	for i := range 61 {
		if l := <-levels; l.Quiet != (i >= 59) || l.PeakDB != capture.SilenceDB {
			t.Fatalf("block %d: %+v", i, l)
		}
	}
}

// crashChild records and reports how much it has played, until it is killed.
func crashChild(dir string) {
	mic := &capturetest.Mic{}
	written := make(chan int, 1000)
	r := capture.NewRecorder(capture.Options{Dir: dir, Mic: mic, Samples: func(_ uuid.UUID, _ int, p []float32) { written <- len(p) }})
	if _, err := r.Start(capture.Params{ID: uuid.New()}); err != nil {
		os.Exit(3)
	}
	for n, stored := 0, 0; ; n += 160 {
		for stored < n-1600+160 { // in real time, the writer is never more than 100 ms behind
			stored += <-written
		}
		mic.Play(ramp(n, 160))
		os.Stdout.WriteString(strconv.Itoa(n+160) + "\n") //nolint:errcheck // the parent has gone
	}
}

// TestKillLosesAtMostTheLast100Ms kills a recording process at 20 random moments.
func TestKillLosesAtMostTheLast100Ms(t *testing.T) {
	t.Parallel()
	moments := []int{160, 1600} // before and while anything is written
	for len(moments) < 20 {
		moments = append(moments, 1600+rand.IntN(40_000))
	}
	for _, stop := range moments {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HELIX_CAPTURE_CRASH_DIR="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		played := 0
		for line := make([]byte, 0, 16); played < stop; {
			var c [1]byte
			if _, err := out.Read(c[:]); err != nil {
				t.Fatal(err)
			}
			if c[0] != '\n' {
				line = append(line, c[0])
				continue
			}
			if played, err = strconv.Atoi(string(line)); err != nil {
				t.Fatal(err)
			}
			line = line[:0]
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		parts, err := capture.Orphans(dir, uuid.Nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(parts) == 0 { // nothing was written before the kill
			if stop > 3200 {
				t.Errorf("%d samples: nothing is left", stop)
			}
			continue
		}
		got := pcm(t, parts[0])
		if len(got) < played-1600 {
			t.Errorf("killed at %d: %d samples of %d are left", stop, len(got), played)
		}
		checkRamp(t, got, len(got))
		if err := parts[0].Remove(); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}
