package audio

import (
	"encoding/binary"
	"errors"
	"math"
)

const (
	// PeakMs is the duration of a peak in milliseconds.
	PeakMs      = 10
	peakSamples = Rate * PeakMs / 1000
	peakBytes   = 3
)

// Peaks collects the waveform of a recording: minimum, maximum and root mean square of each 10 ms.
// It expects samples at Rate.
type Peaks struct {
	data   []byte // three bytes per peak: int8, int8, uint8
	n      int
	lo, hi float32
	sum    float64
}

// Write adds samples.
func (p *Peaks) Write(x []float32) {
	for _, v := range x {
		if p.n == 0 {
			p.lo, p.hi, p.sum = v, v, 0
		}
		p.lo, p.hi = min(p.lo, v), max(p.hi, v)
		p.sum += float64(v) * float64(v)
		if p.n++; p.n == peakSamples {
			p.end()
		}
	}
}

func (p *Peaks) end() {
	level := func(v float32) byte { return byte(int8(max(-127, min(127, math.Round(float64(v)*127))))) }
	p.data = append(p.data, level(p.lo), level(p.hi), byte(min(255, math.Round(math.Sqrt(p.sum/float64(p.n))*255))))
	p.n = 0
}

// Len returns the number of peaks.
func (p *Peaks) Len() int { return len(p.data) / peakBytes }

// Draw combines the peaks in [from, to) into at most the given number of buckets, fewer if there
// are fewer peaks, so that no bucket is empty.
func (p *Peaks) Draw(from, to, buckets int) (lo, hi, rms []byte) {
	from, to = max(0, min(from, p.Len())), max(0, min(to, p.Len()))
	buckets = min(buckets, to-from)
	lo, hi, rms = make([]byte, buckets), make([]byte, buckets), make([]byte, buckets)
	for b := range buckets {
		first, last := from+(to-from)*b/buckets, from+(to-from)*(b+1)/buckets
		low, high, sum := int8(math.MaxInt8), int8(math.MinInt8), 0.0
		for i := first; i < last; i++ {
			d := p.data[i*peakBytes:]
			low, high = min(low, int8(d[0])), max(high, int8(d[1]))
			sum += float64(d[2]) * float64(d[2])
		}
		lo[b], hi[b], rms[b] = byte(low), byte(high), byte(math.Round(math.Sqrt(sum/float64(last-first))))
	}
	return lo, hi, rms
}

const peaksMagic = "HXPK1"

// Encode encodes the peaks and the spans with speech for DecodePeaks.
func (p *Peaks) Encode(speech []Span) []byte {
	if p.n > 0 {
		p.end()
	}
	out := binary.LittleEndian.AppendUint32([]byte(peaksMagic), uint32(len(speech)))
	for _, s := range speech {
		out = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(out, uint32(s.StartMs)), uint32(s.EndMs))
	}
	return append(out, p.data...)
}

// DecodePeaks decodes the output of Encode.
func DecodePeaks(b []byte) (*Peaks, []Span, error) {
	const head = len(peaksMagic) + 4
	if len(b) < head || string(b[:len(peaksMagic)]) != peaksMagic {
		return nil, nil, errors.New("no peaks")
	}
	n := int(binary.LittleEndian.Uint32(b[len(peaksMagic):]))
	if b = b[head:]; n > len(b)/8 || (len(b)-8*n)%peakBytes != 0 {
		return nil, nil, errors.New("peaks are cut off")
	}
	speech := make([]Span, n)
	for i := range speech {
		speech[i] = Span{int64(binary.LittleEndian.Uint32(b[8*i:])), int64(binary.LittleEndian.Uint32(b[8*i+4:]))}
	}
	return &Peaks{data: b[8*n:]}, speech, nil
}
