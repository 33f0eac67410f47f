package audio

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

const (
	hop       = Rate / 100 // samples per frame: 10 ms
	window    = 512
	lowBin    = 100 * window / Rate
	highBin   = 4000 * window / Rate
	floor     = 1e-6 // power of a bin in silence
	minWindow = 60   // frames after which each bin is assumed to have shown its noise level
	threshold = 0.38 // lowest mean log likelihood ratio of speech
	reach     = 4    // frames added on both sides of a frame with speech, for soft onsets and endings
	hangover  = 30   // longest pause within a span, in frames
	padding   = 20   // frames added before and after a span
)

// Span is a part of a recording.
type Span struct {
	StartMs int64 `json:"startMs"`
	EndMs   int64 `json:"endMs"`
}

// Detector detects speech. It uses the likelihood ratio test of Sohn, Kim and Sung (1999), with a
// noise spectrum that follows the minima of each bin (Cohen 2002). It expects samples at Rate.
type Detector struct {
	fft     *fourier.FFT
	taper   []float64
	in      []float64 // samples of the current window
	power   []float64 // spectrum of the frame
	smooth  []float64
	lowest  []float64 // minimum of smooth in this and the previous stretch
	nextLow []float64 // minimum of smooth in this stretch
	noise   []float64
	prior   []float64 // speech-to-noise ratio of the previous frame
	coef    []complex128
	work    []float64
	voiced  []bool // one entry per frame
	n       int64
}

// NewDetector returns a detector for one recording.
func NewDetector() *Detector {
	d := &Detector{fft: fourier.NewFFT(window), taper: make([]float64, window), work: make([]float64, window)}
	for i := range d.taper {
		d.taper[i] = 0.5 - 0.5*math.Cos(2*math.Pi*(float64(i)+0.5)/window)
	}
	for _, s := range []*[]float64{&d.power, &d.smooth, &d.lowest, &d.nextLow, &d.noise, &d.prior} {
		*s = make([]float64, highBin)
	}
	d.in = make([]float64, (window-hop)/2, 2*window) // centers each frame in its window
	return d
}

// Write adds samples.
func (d *Detector) Write(p []float32) {
	d.n += int64(len(p))
	for _, v := range p {
		d.in = append(d.in, float64(v))
		if len(d.in) == window {
			d.frame()
		}
	}
}

func (d *Detector) frame() {
	for i, v := range d.in {
		d.work[i] = v * d.taper[i]
	}
	d.in = d.in[:copy(d.in, d.in[hop:])]
	d.coef = d.fft.Coefficients(d.coef, d.work)
	first := len(d.voiced) == 0
	var sum float64
	for k := lowBin; k < highBin; k++ {
		c := d.coef[k]
		p := (real(c)*real(c)+imag(c)*imag(c))/window + floor
		d.power[k] = p
		d.smooth[k] = 0.7*d.smooth[k] + 0.3*p
		if first {
			d.smooth[k], d.lowest[k], d.nextLow[k], d.noise[k] = p, p, p, p
		}
		d.lowest[k], d.nextLow[k] = min(d.lowest[k], d.smooth[k]), min(d.nextLow[k], d.smooth[k])
		if d.smooth[k] < 4*d.lowest[k] { // no speech in this bin
			d.noise[k] = 0.93*d.noise[k] + 0.07*p
		}
		d.noise[k] = max(d.noise[k], d.lowest[k])
		if d.noise[k] > 6*d.lowest[k] { // the estimate was raised by speech
			d.noise[k] = 2 * d.lowest[k]
		}
		post := min(p/d.noise[k], 1000)
		prior := 0.9*d.prior[k] + 0.1*max(post-1, 0)
		gain := prior / (1 + prior)
		d.prior[k] = min(gain*gain*post, 1000)
		sum += post*gain - math.Log1p(prior)
	}
	if len(d.voiced)%minWindow == minWindow-1 {
		copy(d.lowest, d.nextLow)
		copy(d.nextLow, d.smooth)
	}
	d.voiced = append(d.voiced, sum/(highBin-lowBin) > threshold)
}

// frames returns the smoothed decisions: a frame has speech if at least three of the five frames
// around it do, or if it is close to such a frame.
func (d *Detector) frames() []bool {
	out := make([]bool, len(d.voiced))
	at := func(i int) int {
		if i >= 0 && i < len(d.voiced) && d.voiced[i] {
			return 1
		}
		return 0
	}
	for i, n, until := 0, at(0)+at(1), -1; i < len(out); i++ {
		n += at(i+2) - at(i-3)
		if n >= 3 {
			for j := max(0, i-reach); j < i && until < i; j++ {
				out[j] = true
			}
			until = i + reach
		}
		out[i] = out[i] || i <= until
	}
	return out
}

// Speech returns the spans with speech, in order, with some padding on both sides. No samples can
// be added afterwards.
func (d *Detector) Speech() []Span {
	end := d.n * 1000 / Rate
	d.Write(make([]float32, window)) // completes the last frames, whose windows extend past the end
	d.n -= window
	out := []Span{}
	last := math.MinInt
	for i, v := range d.frames() {
		if !v {
			continue
		}
		from, to := max(0, int64(i-padding)*10), min(end, int64(i+1+padding)*10)
		if from >= end {
			break
		}
		if k := len(out) - 1; k >= 0 && (i-last <= hangover || from <= out[k].EndMs) {
			out[k].EndMs = to
		} else {
			out = append(out, Span{from, to})
		}
		last = i
	}
	return out
}

// Voiced returns the duration of speech in milliseconds, without padding.
func (d *Detector) Voiced() (ms int64) {
	for _, v := range d.frames() {
		if v {
			ms += 10
		}
	}
	return ms
}
