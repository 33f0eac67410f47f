package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"helix/backend/audio"
	"helix/backend/audio/denoise"
	"helix/backend/transcribe"

	"helixbench/figures"
)

// sentences are spoken by flite.
var sentences = []string{
	"remind me to call the dentist tomorrow at nine in the morning", "add milk eggs and bread to the shopping list", "open the project folder and show me the latest report",
	"search my memories for the budget meeting in march", "i went to the beach with my sister last summer", "set a timer for twenty five minutes",
	"what is the weather going to be like this weekend", "send an email to john about the new contract", "turn off the lights in the living room",
	"play some quiet music while i am working", "my grandmother used to bake apple pie every sunday", "create a note about the conversation with the doctor",
	"how many days are left until the end of the year", "i feel very happy about the results of the test", "please translate this sentence into french",
	"schedule a meeting with the design team on friday afternoon", "the train was late and i missed the start of the show", "read me the last message from my brother",
	"find all the photos from our trip to italy", "stop recording and save the file",
}

var voices = []string{"rms", "slt"}

// noise measures the suppressor.
func (b *bench) noise() {
	s := denoise.New()
	defer s.Close() //nolint:errcheck // the process ends
	figures.Print("load the noise suppressor, processor time", cpu(func() {
		d, err := s.Source(context.Background(), &list{})
		figures.Check(err)
		figures.Check(d.Close())
	}).Seconds()*1000, "ms", 0, "")
	for _, voice := range voices {
		path := b.path("speech-" + voice + ".wav")
		run("flite", "-voice", voice, "-t", strings.Join(sentences, ". "), "-o", path)
		speech := samplesAt(path, denoise.Rate)
		for _, c := range []struct {
			kind string
			snr  float64
		}{{"white", 0}, {"pink", 5}, {"brown", 5}} {
			noisy := b.noisy(speech, c.kind, c.snr)
			var out []float32
			used := cpu(func() { out = denoised(s, noisy) })
			figures.Print(fmt.Sprintf("gain in SI-SDR, %s noise at %.0f dB, voice %s", c.kind, c.snr, voice), sisdr(speech, out)-sisdr(speech, noisy), "dB", 0, "")
			if c.kind == "white" && voice == voices[0] {
				figures.Print("speed of noise suppression", float64(len(noisy))/denoise.Rate/used.Seconds(), "× real time", 0, "")
			}
		}
	}
}

// noisy returns speech with noise at a signal-to-noise ratio in dB. Both have the rate of the suppressor.
func (b *bench) noisy(speech []float32, kind string, snr float64) []float32 {
	path := b.path("noise.wav")
	run("sox", "-R", "-n", "-r", fmt.Sprint(denoise.Rate), "-c", "1", path, "synth", fmt.Sprint(len(speech)/denoise.Rate+1), kind+"noise", "gain", "-12")
	noise := samplesAt(path, denoise.Rate)[:len(speech)]
	scale := float32(math.Sqrt(energy(speech) / energy(noise) / math.Pow(10, snr/10)))
	for i := range noise {
		noise[i] = speech[i] + scale*noise[i]
	}
	return noise
}

func denoised(s *denoise.Suppressor, x []float32) []float32 {
	src, err := s.Source(context.Background(), &list{x})
	figures.Check(err)
	out := readAll(src)
	figures.Check(src.Close())
	return out
}

// recognized returns what PocketSphinx hears in samples at 16 kHz, through our speech detection.
func (b *bench) recognized(x []float32) transcribe.Transcript {
	out := b.path("engine.wav")
	writeWAV(out, audio.Rate, &list{x})
	d := audio.NewDetector()
	d.Write(x)
	t, err := transcribe.NewPocketSphinx().Transcribe(context.Background(), transcribe.Audio{Path: out, Duration: audio.Duration(int64(len(x)), audio.Rate), Speech: d.Speech()}, transcribe.Options{})
	figures.Check(err)
	return t
}

// wordTime is how far a word may be from its time, in ms.
const wordTime = 150

// words measures the word error rate and the word times of PocketSphinx, then its word error rate for
// noisy speech and for the same without its noise.
func (b *bench) words() {
	suppressor := denoise.New()
	defer suppressor.Close() //nolint:errcheck // the process ends
	for _, voice := range voices {
		var wrong, total int
		var late []float64
		for i, text := range sentences {
			path := b.said(voice, i)
			t := b.recognized(samplesOf(path))
			want := strings.Fields(text)
			total += len(want)
			wrong += distance(want, strings.Fields(t.Text))
			late = append(late, timeErrors(t.Words, want, spokenAt(voice, text))...)
		}
		slices.Sort(late)
		near, _ := slices.BinarySearch(late, wordTime+1)
		figures.Print("words that PocketSphinx gets wrong, voice "+voice, 100*float64(wrong)/float64(total), "%", 0, "")
		figures.Print(fmt.Sprintf("word times within %d ms, of %d, voice %s", wordTime, len(late), voice), 100*float64(near)/float64(len(late)), "%", 0, "")
		figures.Print("error of word times, p95, voice "+voice, late[len(late)*95/100], "ms", 0, "")
	}
	for _, kind := range []string{"white", "pink", "brown"} {
		var noisy, clean, total int
		for i, text := range sentences[:10] {
			x := b.noisy(samplesAt(b.said(voices[0], i), denoise.Rate), kind, 10)
			heard := func(x []float32) int {
				src, err := audio.Resample(&list{x}, denoise.Rate, audio.Rate)
				figures.Check(err)
				return distance(strings.Fields(text), strings.Fields(b.recognized(readAll(src)).Text))
			}
			noisy, clean, total = noisy+heard(x), clean+heard(denoised(suppressor, x)), total+len(strings.Fields(text))
		}
		figures.Print("words that PocketSphinx gets wrong in "+kind+" noise at 10 dB", 100*float64(noisy)/float64(total), "%", 0, "")
		figures.Print("the same without the noise", 100*float64(clean)/float64(total), "%", float64(clean)/float64(max(1, noisy)), "with the noise, "+kind)
	}
}

// said returns the file of a sentence that flite has spoken.
func (b *bench) said(voice string, i int) string {
	path := b.path(fmt.Sprintf("%s-%d.wav", voice, i))
	run("flite", "-voice", voice, "-t", sentences[i], "-o", path)
	return path
}

// spokenAt returns when flite begins each word of a text, in ms, from the ends of its phones. It is nil if
// the words have other phones alone than in the text.
func spokenAt(voice, text string) (out []float64) {
	phones := func(option, text string) (list []string) {
		printed, err := exec.Command("flite", "-voice", voice, option, "-t", text, "-o", "/dev/null").Output()
		figures.Check(err)
		return strings.Fields(string(printed))
	}
	var ends []float64
	for _, p := range phones("-psdur", text) {
		name, end, _ := strings.Cut(p, ":")
		at, err := strconv.ParseFloat(end, 64)
		figures.Check(err)
		if name != "pau" || len(ends) == 0 {
			ends = append(ends, at*1000)
		}
	}
	at := 0
	for _, w := range strings.Fields(text) {
		if at >= len(ends) {
			return nil
		}
		out = append(out, ends[at])
		for _, p := range phones("-ps", w) {
			if p != "pau" {
				at++
			}
		}
	}
	if at != len(ends)-1 {
		return nil
	}
	return out
}

// timeErrors returns how far the beginning of each recognized word is from the spoken one, in ms.
func timeErrors(got []transcribe.Word, want []string, at []float64) (out []float64) {
	if at == nil {
		return nil
	}
	k := 0
	for i, w := range want {
		if n := slices.IndexFunc(got[k:], func(g transcribe.Word) bool { return g.Text == w }); n >= 0 && n <= 2 {
			k += n
			out = append(out, math.Abs(float64(got[k].StartMs)-at[i]))
			k++
		}
	}
	return out
}

// list is a source of samples in memory.
type list struct{ x []float32 }

func (l *list) Read(p []float32) (int, error) {
	if len(l.x) == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.x)
	l.x = l.x[n:]
	return n, nil
}

// sisdr returns the scale-invariant signal-to-distortion ratio in dB.
func sisdr(ref, x []float32) float64 {
	var xr float64
	for i := range ref {
		xr += float64(x[i]) * float64(ref[i])
	}
	gain := xr / energy(ref)
	var signal, distortion float64
	for i := range ref {
		s := gain * float64(ref[i])
		signal += s * s
		distortion += (float64(x[i]) - s) * (float64(x[i]) - s)
	}
	return 10 * math.Log10(signal/distortion)
}

// distance returns the edit distance of two lists of words.
func distance(a, b []string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		last := row[0]
		row[0] = i + 1
		for j, y := range b {
			d := last
			if x != y {
				d++
			}
			last = row[j+1]
			row[j+1] = min(d, last+1, row[j]+1)
		}
	}
	return row[len(b)]
}
