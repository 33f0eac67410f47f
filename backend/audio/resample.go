package audio

import (
	"errors"
	"fmt"
	"io"
	"math"

	"helix/backend/kernel"
)

const (
	stopBand  = 120    // attenuation in dB
	passBand  = 0.9125 // fraction of the lower of the two Nyquist frequencies
	mostExact = 1024   // largest number of phases stored for an exact ratio
	between   = 2048   // phases between which other ratios interpolate
)

// resampler is a polyphase filter with a Kaiser window. Its delay is compensated, and each output
// sample depends only on the input around it, so the result does not depend on the sizes of reads.
type resampler struct {
	src      Source
	up, down int64 // the ratio of the rates in lowest terms
	taps     int
	phases   []float32 // taps coefficients per phase
	rows     int64     // phases per input sample

	buf    []float32
	base   int64 // index of the input sample buf[0]
	have   int64 // input samples read
	out    int64 // output samples returned
	ended  bool
	failed error
}

// Resample resamples src from one sample rate to another. n samples become n·to/from, rounded up.
func Resample(src Source, from, to int) (Source, error) {
	if from < minRate || from > maxRate || to < minRate || to > maxRate {
		return nil, fmt.Errorf("resample from %d to %d Hz", from, to)
	}
	if from == to {
		return src, nil
	}
	g := gcd(from, to)
	r := &resampler{src: src, up: int64(to / g), down: int64(from / g)}
	r.rows = r.up
	if r.up > mostExact {
		r.rows = between
	}
	nyquist := float64(min(from, to)) / 2
	pass := nyquist * passBand
	n := (stopBand - 7.95) / (14.36 * (nyquist - pass) / float64(from))
	r.taps = (int(math.Ceil(n)) + 7) / 8 * 8
	r.design((pass + nyquist) / 2 / float64(from))
	r.base = int64(-r.taps / 2)
	r.buf = make([]float32, r.taps/2, block+2*r.taps) // silence before the beginning
	return r, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// design computes the filter of each phase, and of one more for interpolation. cutoff is relative
// to the input rate.
func (r *resampler) design(cutoff float64) {
	const beta = 0.1102 * (stopBand - 8.7)
	norm := bessel(beta)
	row := make([]float64, r.taps)
	r.phases = make([]float32, int(r.rows+1)*r.taps)
	for p := range int(r.rows) + 1 {
		var sum float64
		for k := range row {
			x := float64(k-r.taps/2+1) - float64(p)/float64(r.rows)
			row[k] = 0
			if t := 2 * x / float64(r.taps); math.Abs(t) < 1 {
				row[k] = 2 * cutoff * sinc(2*cutoff*x) * bessel(beta*math.Sqrt(1-t*t)) / norm
			}
			sum += row[k]
		}
		for k, v := range row {
			r.phases[p*r.taps+k] = float32(v / sum)
		}
	}
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

// bessel returns the modified Bessel function I0.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > sum*1e-17; k++ {
		term *= (x / 2 / k) * (x / 2 / k)
		sum += term
	}
	return sum
}

// Read implements Source.
func (r *resampler) Read(p []float32) (n int, err error) {
	for n < len(p) {
		whole, part := r.out*r.down/r.up, r.out*r.down%r.up
		from := whole - int64(r.taps/2) + 1
		for from+int64(r.taps) > r.base+int64(len(r.buf)) {
			r.fill(from)
		}
		if r.ended && whole >= r.have {
			if n > 0 {
				break
			}
			return 0, r.failed
		}
		x := r.buf[from-r.base:][:r.taps]
		if r.rows == r.up {
			p[n] = kernel.Dot(x, r.phases[int(part)*r.taps:][:r.taps])
		} else {
			at := float64(part) / float64(r.up) * float64(r.rows)
			row := int(at)
			a, b := kernel.Dot(x, r.phases[row*r.taps:][:r.taps]), kernel.Dot(x, r.phases[(row+1)*r.taps:][:r.taps])
			p[n] = a + (b-a)*float32(at-float64(row))
		}
		n++
		r.out++
	}
	return n, nil
}

// fill discards input before sample from and reads more. After the end of the input it appends
// silence.
func (r *resampler) fill(from int64) {
	if len(r.buf)+1 > cap(r.buf) {
		drop := copy(r.buf, r.buf[from-r.base:])
		r.base, r.buf = from, r.buf[:drop]
	}
	room := r.buf[len(r.buf):cap(r.buf)]
	if r.ended {
		clear(room)
		r.buf = r.buf[:cap(r.buf)]
		return
	}
	n, err := r.src.Read(room)
	r.buf = r.buf[:len(r.buf)+n]
	r.have += int64(n)
	if err != nil {
		r.ended, r.failed = true, err
		if !errors.Is(err, io.EOF) {
			r.have = 0 // return no more samples
		}
	}
}
