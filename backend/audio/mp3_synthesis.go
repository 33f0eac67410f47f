package audio

import (
	"math"
	"sync"
)

// hybrid is the filter bank of a channel: an inverse MDCT for each of 32 subbands, and their synthesis.
type hybrid struct {
	overlap [32][18]float32 // second halves of the last transforms
	v       [1024]float32   // the latest 16 vectors of the synthesis
	at      int             // of the latest one
}

// transform turns the 18 lines of a subband into its samples. If silent is set, they are all zero.
func (f *hybrid) transform(x []float32, s, block int, silent bool) {
	t := layer3Tables()
	over := &f.overlap[s]
	var out [36]float32
	switch {
	case silent:
	case block == shortBlock:
		w := &t.window[shortBlock]
		for i := range 3 {
			var y [6]float32
			for n := range y {
				c := &t.dct6[n]
				y[n] = x[i]*c[0] + x[3+i]*c[1] + x[6+i]*c[2] + x[9+i]*c[3] + x[12+i]*c[4] + x[15+i]*c[5]
			}
			o := out[6+6*i:]
			for n := range 3 { // the transform has the symmetries of a DCT-IV
				o[n] += y[n+3] * w[n]
				o[3+n] -= y[5-n] * w[3+n]
				o[6+n] -= y[2-n] * w[6+n]
				o[9+n] -= y[n] * w[9+n]
			}
		}
	default:
		w := &t.window[block]
		var y [18]float32
		x := (*[18]float32)(x)
		for n := range y {
			c := &t.dct18[n]
			y[n] = x[0]*c[0] + x[1]*c[1] + x[2]*c[2] + x[3]*c[3] + x[4]*c[4] + x[5]*c[5] + x[6]*c[6] + x[7]*c[7] + x[8]*c[8] +
				x[9]*c[9] + x[10]*c[10] + x[11]*c[11] + x[12]*c[12] + x[13]*c[13] + x[14]*c[14] + x[15]*c[15] + x[16]*c[16] + x[17]*c[17]
		}
		for n := range 9 {
			out[n] = y[n+9] * w[n]
			out[9+n] = -y[17-n] * w[9+n]
			out[18+n] = -y[8-n] * w[18+n]
			out[27+n] = -y[n] * w[27+n]
		}
	}
	for i := range 18 {
		x[i] = out[i] + over[i]
		over[i] = out[18+i]
	}
	if s&1 == 1 { // every other subband has its frequencies inverted
		for i := 1; i < 18; i += 2 {
			x[i] = -x[i]
		}
	}
}

// synthesize writes 576 samples at every step-th place of out.
func (f *hybrid) synthesize(x *[granuleLines]float32, out []float32, step int) {
	t := layer3Tables()
	cosines := dct32Factors()
	var in [32]float32
	var sum [32]float32
	for slot := range 18 {
		for s := range in {
			in[s] = x[18*s+slot]
		}
		dct32(&in, cosines)
		f.at = (f.at - 64) & 1023
		v := f.v[f.at : f.at+64]
		// The 64 values are cosines of the 32 of the DCT, by symmetry.
		v[16] = 0
		for i := range 16 {
			v[i] = in[16+i]
			v[17+i] = -in[31-i]
			v[33+i] = -in[15-i]
		}
		for i := 1; i < 16; i++ {
			v[48+i] = -in[i]
		}
		clear(sum[:])
		for i := range 8 {
			a := (*[32]float32)(f.v[(f.at+128*i)&1023:])
			b := (*[32]float32)(f.v[(f.at+128*i+96)&1023:])
			wa, wb := (*[32]float32)(t.synth[64*i:]), (*[32]float32)(t.synth[64*i+32:])
			for j := range sum {
				sum[j] += a[j]*wa[j] + b[j]*wb[j]
			}
		}
		o := out[32*slot*step:]
		for j, y := range sum {
			o[j*step] = y
		}
	}
}

// dct32Factors are 1/(2 cos) of the stages of dct32.
var dct32Factors = sync.OnceValue(func() *[5][16]float32 {
	var f [5][16]float32
	for stage := range f {
		n := 32 >> stage
		for i := range n / 2 {
			f[stage][i] = float32(0.5 / math.Cos((float64(i)+0.5)*math.Pi/float64(n)))
		}
	}
	return &f
})

// dct32 replaces x by its DCT-II without normalization (Lee 1984).
func dct32(x *[32]float32, factors *[5][16]float32) {
	var y [32]float32
	for stage := range factors {
		n := 32 >> stage
		half := n / 2
		f := factors[stage][:half]
		for from := 0; from < 32; from += n {
			a, b := x[from:from+n], y[from:from+n]
			for i := range f {
				p, q := a[i], a[n-1-i]
				b[i], b[half+i] = p+q, (p-q)*f[i]
			}
		}
		*x = y
	}
	for n := 4; n <= 32; n *= 2 {
		half := n / 2
		for from := 0; from < 32; from += n {
			a, b := x[from:from+n], y[from:from+n]
			for i := range half - 1 {
				b[2*i], b[2*i+1] = a[i], a[half+i]+a[half+i+1]
			}
			b[n-2], b[n-1] = a[half-1], a[n-1]
		}
		*x = y
	}
}
