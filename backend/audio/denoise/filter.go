package denoise

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// filter applies the gains of RNNoise to the spectrum of its input. RNNoise itself shifts the phases
// of low frequencies and adds harmonics, which distorts deep voices more than the noise that it
// removes; the phases of the input are closer to those of the speech.
type filter struct {
	fft       *fourier.FFT
	window    [2 * frame]float64 // root of a Hann window, for analysis and synthesis
	in, out   [3 * frame]float64 // the latest frames of the input; those of RNNoise, which are one frame late
	tail      [frame]float64     // of the last synthesis
	work      []float64
	noisy, by []complex128
}

func newFilter() *filter {
	f := &filter{fft: fourier.NewFFT(2 * frame), work: make([]float64, 2*frame), noisy: make([]complex128, frame+1), by: make([]complex128, frame+1)}
	for i := range f.window {
		f.window[i] = math.Sin(math.Pi * (float64(i) + 0.5) / (2 * frame))
	}
	return f
}

// apply takes a frame of the input and the output of RNNoise for the frame before. It replaces the
// latter by the filtered input, which is another frame late.
func (f *filter) apply(in, out *[frame]float32) {
	copy(f.in[:], f.in[frame:])
	copy(f.out[:], f.out[frame:])
	for i := range frame {
		f.in[2*frame+i], f.out[2*frame+i] = float64(in[i]), float64(out[i])
	}
	f.noisy = f.transform(f.noisy, f.in[:2*frame])
	f.by = f.transform(f.by, f.out[frame:])
	for k, x := range f.noisy {
		y := f.by[k]
		power := real(x)*real(x) + imag(x)*imag(x)
		// The part of the output that is in phase with the input.
		gain := (real(x)*real(y) + imag(x)*imag(y)) / (power + 1e-20)
		f.noisy[k] = x * complex(max(0, min(1, gain)), 0)
	}
	f.fft.Sequence(f.work, f.noisy)
	for i := range frame {
		out[i] = float32(f.tail[i] + f.work[i]*f.window[i]/(2*frame))
		f.tail[i] = f.work[frame+i] * f.window[frame+i] / (2 * frame)
	}
}

func (f *filter) transform(dst []complex128, x []float64) []complex128 {
	for i, w := range f.window {
		f.work[i] = x[i] * w
	}
	return f.fft.Coefficients(dst, f.work)
}
