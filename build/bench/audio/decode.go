package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"time"

	"helix/backend/audio"

	"helixbench/figures"
)

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

const wav = "wav"

// speech returns a stereo recording of speech in a format, of about a minute.
func (b *bench) speech(ext string) string {
	path := b.path("speech." + ext)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if ext == wav {
		run("flite", "-voice", "rms", "-t", strings.Join(sentences, ". "), "-o", b.path("flite.wav"))
		run("ffmpeg", "-v", "error", "-i", b.path("flite.wav"), "-ar", "48000", "-ac", "2", path)
		return path
	}
	for _, f := range formats {
		if f.ext == ext {
			run("ffmpeg", append(append([]string{"-v", "error", "-i", b.speech(wav)}, f.encode...), path)...)
		}
	}
	return path
}

// long returns the recording repeated up to a length. It is copied instead of encoded, which would take
// minutes.
func (b *bench) long(ext string, length time.Duration) string {
	path := b.path(fmt.Sprintf("%.0f.%s", length.Seconds(), ext))
	if _, err := os.Stat(path); err != nil {
		run("ffmpeg", "-v", "error", "-stream_loop", "-1", "-i", b.speech(ext), "-t", fmt.Sprint(length.Seconds()), "-c", "copy", path)
	}
	return path
}

func (b *bench) length() time.Duration { return time.Duration(b.minutes) * time.Minute }

// decoded decodes a recording to 16 kHz and returns the processor time. It must have its whole length.
func decoded(path string, length time.Duration) time.Duration {
	var n int64
	used := cpu(func() {
		var err error
		n, err = decode(path)
		figures.Check(err)
	})
	if d := audio.Duration(n, audio.Rate) - length; d.Abs() > length/50 {
		figures.Check(fmt.Errorf("%s: %s are missing", path, -d))
	}
	return used
}

// formats measures decoding to 16 kHz.
func (b *bench) formats() {
	for _, f := range formats {
		path := b.long(f.ext, b.length())
		ours := decoded(path, b.length())
		peer := run("ffmpeg", "-v", "error", "-y", "-i", path, "-ar", "16000", "-ac", "1", b.path("peer.wav"))
		figures.Print("decode to 16 kHz, "+f.name+", processor time", ours.Seconds(), "s", ours.Seconds()/peer.Seconds(), "ffmpeg")
		figures.Print("speed of decoding, "+f.name, b.length().Seconds()/ours.Seconds(), "× real time", 0, "")
	}
}

// agreement compares decoded speech with that of ffmpeg, which uses libopus for Opus.
func (b *bench) agreement() {
	for _, c := range []struct {
		name, file string
		encode     []string
	}{
		{"FLAC", "agree.flac", []string{"-ar", "44100"}},
		{"Ogg Vorbis", "agree.ogg", []string{"-ar", "44100", "-c:a", "libvorbis"}},
		{"MP3", "agree.mp3", []string{"-ar", "44100", "-c:a", "libmp3lame", "-b:a", "96k"}},
		{"Opus, CELT", "celt.opus", []string{"-ar", "48000", "-c:a", "libopus", "-b:a", "96k", "-application", "audio"}},
		{"Opus, SILK", "silk.opus", []string{"-ar", "16000", "-c:a", "libopus", "-b:a", "16k", "-application", "voip"}},
	} {
		path := b.path(c.file)
		run("ffmpeg", append(append([]string{"-v", "error", "-y", "-t", "30", "-i", b.speech(wav), "-ac", "1"}, c.encode...), path)...)
		how := []string{"-v", "error"}
		if strings.HasPrefix(c.name, "Opus") {
			how = append(how, "-c:a", "libopus")
		}
		raw, err := exec.Command("ffmpeg", append(how, "-i", path, "-f", "f32le", "-ac", "1", "-")...).Output()
		figures.Check(err)
		theirs := make([]float32, len(raw)/4)
		for i := range theirs {
			theirs[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		f, err := os.Open(path)
		figures.Check(err)
		st, err := audio.Open(f)
		figures.Check(err)
		ours := readAll(st)
		figures.Check(f.Close())
		if d := len(ours) - len(theirs); d < -st.SampleRate/100 || d > st.SampleRate/100 {
			figures.Check(fmt.Errorf("%s: %d samples, ffmpeg has %d", c.name, len(ours), len(theirs)))
		}
		n := min(len(ours), len(theirs))
		figures.Print("agreement with the decoder of ffmpeg, "+c.name, min(200, sisdr(theirs[:n], ours[:n])), "dB", 0, "")
	}
}

func (b *bench) resampler() {
	path := b.long(wav, b.length())
	ours := decoded(path, b.length())
	peer := run("sox", "-D", path, "-b", "16", "-c", "1", b.path("peer.wav"), "rate", "-h", "16000")
	figures.Print("resample 48 to 16 kHz, processor time", ours.Seconds(), "s", ours.Seconds()/peer.Seconds(), "sox rate -h")
	figures.Print("speed of the resampler, 48 to 16 kHz", b.length().Seconds()/ours.Seconds(), "× real time", 0, "")
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
		tone := b.path("tone.wav")
		writeWAV(tone, highRate, &sine{hz: hz, rate: highRate})
		run("ffmpeg", "-v", "error", "-y", "-i", tone, "-ar", "16000", "-c:a", "pcm_f32le", b.path("alias.wav"))
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
	tone := b.path("1k.wav")
	run("sox", "-n", "-r", "48000", "-c", "2", "-b", "24", tone, "synth", "2", "sine", "1000", "gain", "-6")
	for _, f := range formats {
		path := b.path("1k." + f.ext)
		run("ffmpeg", append(append([]string{"-v", "error", "-y", "-i", tone}, f.encode...), path)...)
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

// flac compresses a recording as Helix stores it, and compares the copy.
func (b *bench) flac() {
	recording := b.path("recording.wav")
	run("ffmpeg", "-v", "error", "-y", "-i", b.long(wav, b.length()), "-ar", "48000", "-ac", "1", "-c:a", "pcm_s16le", recording)
	copied := b.path("recording.flac")
	in, err := os.Open(recording)
	figures.Check(err)
	out, err := os.Create(copied)
	figures.Check(err)
	ours := cpu(func() { figures.Check(audio.EncodeFLAC(out, in)) })
	figures.Check(errors.Join(in.Close(), out.Close()))
	peer := run("ffmpeg", "-v", "error", "-y", "-i", recording, b.path("peer.flac"))
	size := func(path string) float64 {
		st, err := os.Stat(path)
		figures.Check(err)
		return float64(st.Size())
	}
	figures.Print("compress to FLAC, processor time", ours.Seconds(), "s", ours.Seconds()/peer.Seconds(), "ffmpeg")
	figures.Print("size of the FLAC file", 100*size(copied)/size(recording), "% of the WAV file", size(copied)/size(b.path("peer.flac")), "ffmpeg")
	x, y := samplesOf(recording), samplesOf(copied)
	different := max(len(x), len(y)) - min(len(x), len(y))
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			different++
		}
	}
	figures.Print("samples of the FLAC file that differ", float64(different), "count", 0, "")
}

// memory decodes files of hours and one of a second in processes of their own.
func (b *bench) memory() {
	measure := func(path string) (mib, seconds float64) {
		inChild(childDecode, path, &mib, &seconds)
		return mib, seconds
	}
	for _, f := range formats {
		short, _ := measure(b.long(f.ext, time.Second))
		mib, seconds := measure(b.long(f.ext, time.Hour))
		figures.Print("memory for one hour more than for one second, "+f.name, mib-short, "MiB", 0, "")
		figures.Print("decode one hour, processor time, "+f.name, seconds, "s", 0, "")
		if f.ext == "opus" {
			mib, _ = measure(b.long(f.ext, 4*time.Hour-5*time.Minute)) // each copy of the stream is longer than its time stamps say
			figures.Print("memory for nearly four hours more than for one second, "+f.name, mib-short, "MiB", 0, "")
		}
	}
}

func decodeChild(path string) {
	used := cpu(func() {
		_, err := decode(path)
		figures.Check(err)
	})
	fmt.Println(peakMemory(), used.Seconds())
}

func open(path string) (*os.File, audio.Source) {
	f, err := os.Open(path)
	figures.Check(err)
	_, src, err := audio.Speech(f)
	figures.Check(err)
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
		figures.Check(err)
	}
}

func samplesOf(path string) []float32 {
	f, src := open(path)
	defer f.Close()
	return readAll(src)
}

// samplesAt decodes a file to another rate.
func samplesAt(path string, rate int) []float32 {
	f, err := os.Open(path)
	figures.Check(err)
	defer f.Close()
	st, err := audio.Open(f)
	figures.Check(err)
	src, err := audio.Resample(st, st.SampleRate, rate)
	figures.Check(err)
	return readAll(src)
}

func resampled(s *sine) []float32 {
	src, err := audio.Resample(s, s.rate, audio.Rate)
	figures.Check(err)
	return readAll(src)
}

func writeWAV(path string, rate int, src audio.Source) {
	f, err := os.Create(path)
	figures.Check(err)
	_, err = audio.WriteWAV(f, rate, src)
	figures.Check(err)
	figures.Check(f.Close())
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
