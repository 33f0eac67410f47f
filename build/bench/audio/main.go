// Command audio measures backend/audio and backend/audio/denoise against ffmpeg and sox in one run,
// and the words that PocketSphinx gets wrong. It prints one row per measurement; see package figures.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"helix/backend/audio"

	"helixbench/figures"
)

func main() {
	minutes := flag.Int("minutes", 10, "length of the recordings")
	flag.Parse()
	if path := os.Getenv("HELIX_BENCH_DECODE"); path != "" {
		_, err := decode(path)
		check(err)
		fmt.Print(peakMemory())
		return
	}
	dir, err := os.MkdirTemp("", "helix-bench-audio-")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	b := &bench{dir, *minutes}
	b.record()
	b.formats()
	b.resampler()
	b.quality()
	b.tones()
	b.noise()
	b.words()
	b.commands()
	b.corpus()
	b.memos()
	b.memory()
}

type bench struct {
	dir     string
	minutes int
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// record makes a recording of speech in each format.
func (b *bench) record() {
	run("flite", "-voice", "rms", "-t", strings.Join(sentences, ". "), "-o", b.path("flite.wav"))
	length := float64(b.minutes * 60)
	run("ffmpeg", "-v", "error", "-stream_loop", "-1", "-i", b.path("flite.wav"), "-t", fmt.Sprint(length), "-ar", "48000", "-ac", "2", b.path("speech.wav"))
	for _, f := range formats {
		run("ffmpeg", append(append([]string{"-v", "error", "-i", b.path("speech.wav")}, f.encode...), b.path("speech."+f.ext))...)
	}
}

var formats = []struct {
	name, ext string
	encode    []string
}{
	{"Ogg Opus", "opus", []string{"-c:a", "libopus", "-b:a", "32k"}},
	{"WebM Opus", "webm", []string{"-c:a", "libopus", "-b:a", "32k"}},
	{"MP3", "mp3", []string{"-c:a", "libmp3lame", "-b:a", "64k"}},
	{"FLAC", "flac", nil},
	{"Ogg Vorbis", "ogg", []string{"-c:a", "libvorbis"}},
	{"M4A AAC by ffmpeg", "m4a", []string{"-c:a", "aac"}},
}

// formats measures decoding to 16 kHz.
func (b *bench) formats() {
	for _, f := range formats {
		path := b.path("speech." + f.ext)
		var ours time.Duration
		var samples int64
		ours = cpu(func() {
			n, err := decode(path)
			check(err)
			samples = n
		})
		peer := run("ffmpeg", "-v", "error", "-y", "-i", path, "-ar", "16000", "-ac", "1", b.path("peer.wav"))
		figures.Print("decode to 16 kHz, "+f.name+", processor time", ours.Seconds(), "s", ours.Seconds()/peer.Seconds(), "ffmpeg")
		figures.Print("speed of decoding, "+f.name, float64(samples)/audio.Rate/ours.Seconds(), "× real time", 0, "")
	}
}

func (b *bench) resampler() {
	path := b.path("speech.wav")
	var n int64
	ours := cpu(func() {
		var err error
		n, err = decode(path)
		check(err)
	})
	peer := run("sox", "-D", path, "-b", "16", "-c", "1", b.path("peer.wav"), "rate", "-h", "16000")
	figures.Print("resample 48 to 16 kHz, processor time", ours.Seconds(), "s", ours.Seconds()/peer.Seconds(), "sox rate -h")
	figures.Print("speed of the resampler, 48 to 16 kHz", float64(n)/audio.Rate/ours.Seconds(), "× real time", 0, "")
}

// sine is a source of one second of a tone at full scale.
type sine struct {
	hz   float64
	at   int
	rate int
}

func (s *sine) Read(p []float32) (int, error) {
	left := s.rate - s.at
	if left == 0 {
		return 0, io.EOF
	}
	n := min(left, len(p))
	for i := range n {
		p[i] = float32(math.Sin(2 * math.Pi * s.hz * float64(s.at+i) / float64(s.rate)))
	}
	s.at += n
	return n, nil
}

const highRate = 48000

func (b *bench) quality() {
	var alias, peerAlias, low, high float64 = -300, -300, 300, -300
	var thdn float64 = -300
	for i := range 32 {
		hz := 8050 + float64(i)*(23000-8050)/31
		x := resampled(&sine{hz: hz, rate: highRate})
		alias = max(alias, level(x[audio.Rate/4:audio.Rate*3/4]))
		wav := b.path("tone.wav")
		writeWAV(wav, highRate, &sine{hz: hz, rate: highRate})
		run("ffmpeg", "-v", "error", "-y", "-i", wav, "-ar", "16000", "-c:a", "pcm_f32le", b.path("alias.wav"))
		peerAlias = max(peerAlias, level(samplesOf(b.path("alias.wav"))[audio.Rate/4:audio.Rate*3/4]))
	}
	for hz := 100.0; hz <= 7000; hz += 100 {
		x := resampled(&sine{hz: hz, rate: highRate})[audio.Rate/4 : audio.Rate*3/4]
		amplitude, residue := fit(x, hz)
		low, high = min(low, amplitude), max(high, amplitude)
		thdn = max(thdn, 20*math.Log10(residue/(amplitude/math.Sqrt2)))
	}
	figures.Print("alias of 32 tones from 8,050 Hz", alias, "dB", 0, "")
	figures.Print("alias below that of the peer", peerAlias-alias, "dB", 0, "ffmpeg, default resampler")
	figures.Print("ripple, 100 Hz to 7 kHz", 20*math.Log10(high/low), "dB", 0, "")
	figures.Print("distortion and noise of tones to 7 kHz", thdn, "dB", 0, "")
}

// tones measures how exactly a tone comes out of each format.
func (b *bench) tones() {
	wav := b.path("1k.wav")
	run("sox", "-n", "-r", "48000", "-c", "2", "-b", "24", wav, "synth", "2", "sine", "1000", "gain", "-6")
	for _, f := range formats {
		path := b.path("1k." + f.ext)
		run("ffmpeg", append(append([]string{"-v", "error", "-y", "-i", wav}, f.encode...), path)...)
		x := samplesOf(path)
		best, at := 0.0, 0.0
		for hz := 995.0; hz <= 1005; hz += 0.05 {
			if a, _ := fit(x[audio.Rate/2:audio.Rate*3/2], hz); a > best {
				best, at = a, hz
			}
		}
		figures.Print("tone of 1 kHz, error of the frequency, "+f.name, math.Abs(at-1000), "Hz", 0, "")
		figures.Print("tone of 2 s, error of the length, "+f.name, math.Abs(float64(len(x)-2*audio.Rate))/audio.Rate*1000, "ms", 0, "")
	}
}

// memory decodes a file of one hour and one of a second in processes of their own.
func (b *bench) memory() {
	peak := func(path string) float64 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "HELIX_BENCH_DECODE="+path)
		c.Stderr = os.Stderr
		out, err := c.Output()
		check(err)
		var mib float64
		_, err = fmt.Sscan(string(out), &mib)
		check(err)
		return mib
	}
	for _, f := range formats[:4] {
		short, long := b.path("short."+f.ext), b.path("hour."+f.ext)
		run("ffmpeg", append(append([]string{"-v", "error", "-i", b.path("flite.wav"), "-t", "1"}, f.encode...), short)...)
		run("ffmpeg", "-v", "error", "-stream_loop", "-1", "-i", b.path("speech."+f.ext), "-t", "3600", "-c", "copy", long) // encoding an hour would take minutes
		figures.Print("memory for one hour more than for one second, "+f.name, peak(long)-peak(short), "MiB", 0, "")
	}
}

// peakMemory returns the peak of this process in MiB. Getrusage would return that of the process which
// started this one, if it is larger.
func peakMemory() float64 {
	text, err := os.ReadFile("/proc/self/status")
	check(err)
	_, rest, ok := strings.Cut(string(text), "VmHWM:")
	var kib float64
	if _, err = fmt.Sscan(rest, &kib); !ok {
		err = errors.New("no VmHWM in /proc/self/status")
	}
	check(err)
	return kib / 1024
}

// cpu returns the processor time of fn.
func cpu(fn func()) time.Duration {
	used := func() time.Duration {
		var r syscall.Rusage
		check(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	start := used()
	fn()
	return used() - start
}

// run runs a program and returns its processor time.
func run(name string, args ...string) time.Duration {
	c := exec.Command(name, args...)
	if out, err := c.CombinedOutput(); err != nil {
		check(fmt.Errorf("%s %v: %w\n%s", name, args, err, out))
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

func open(path string) (*os.File, audio.Source) {
	f, err := os.Open(path)
	check(err)
	_, src, err := audio.Speech(f)
	check(err)
	return f, src
}

// decode decodes a file and returns the number of samples.
func decode(path string) (n int64, err error) {
	f, src := open(path)
	defer f.Close()
	buf := make([]float32, 4096)
	for {
		k, err := src.Read(buf)
		n += int64(k)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func readAll(src audio.Source) (x []float32) {
	buf := make([]float32, 4096)
	for {
		n, err := src.Read(buf)
		x = append(x, buf[:n]...)
		if errors.Is(err, io.EOF) {
			return x
		}
		check(err)
	}
}

func samplesOf(path string) []float32 {
	f, src := open(path)
	defer f.Close()
	return readAll(src)
}

func resampled(s *sine) []float32 {
	src, err := audio.Resample(s, s.rate, audio.Rate)
	check(err)
	return readAll(src)
}

func writeWAV(path string, rate int, src audio.Source) {
	f, err := os.Create(path)
	check(err)
	_, err = audio.WriteWAV(f, rate, src)
	check(err)
	check(f.Close())
}

// level returns the level in dB relative to a sine at full scale.
func level(x []float32) float64 {
	return 10 * math.Log10(2*energy(x)/float64(len(x))+1e-30)
}

func energy(x []float32) (e float64) {
	for _, v := range x {
		e += float64(v) * float64(v)
	}
	return e
}

// fit returns the amplitude of a tone in x and the root mean square of the rest.
func fit(x []float32, hz float64) (amplitude, residue float64) {
	var ss, sc, cc, ys, yc float64
	for i, v := range x {
		s, c := math.Sincos(2 * math.Pi * hz * float64(i) / audio.Rate)
		ss, sc, cc, ys, yc = ss+s*s, sc+s*c, cc+c*c, ys+float64(v)*s, yc+float64(v)*c
	}
	det := ss*cc - sc*sc
	a, b := (ys*cc-yc*sc)/det, (yc*ss-ys*sc)/det
	var rest float64
	for i, v := range x {
		s, c := math.Sincos(2 * math.Pi * hz * float64(i) / audio.Rate)
		d := float64(v) - a*s - b*c
		rest += d * d
	}
	return math.Hypot(a, b), math.Sqrt(rest / float64(len(x)))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "audio:", err)
		os.Exit(1)
	}
}
