package audio

import "io"

const samplesPerMs = Rate / 1000

// Trimmed is the list of the parts that remain of a recording, in order and without overlap.
type Trimmed []Span

// Duration returns the length of all parts in milliseconds.
func (t Trimmed) Duration() (ms int64) {
	for _, s := range t {
		ms += s.EndMs - s.StartMs
	}
	return ms
}

// Spans returns the parts as they lie in the trimmed recording, one directly after the other.
func (t Trimmed) Spans() []Span {
	out := make([]Span, len(t))
	at := int64(0)
	for i, s := range t {
		out[i] = Span{at, at + s.EndMs - s.StartMs}
		at = out[i].EndMs
	}
	return out
}

// Original converts the times of a word in the trimmed recording to times in the whole one.
func (t Trimmed) Original(w Span) Span {
	var out Span
	at := int64(0)
	for i, s := range t {
		n := s.EndMs - s.StartMs
		if w.StartMs >= at && (w.StartMs < at+n || i == len(t)-1) {
			out.StartMs = s.StartMs + w.StartMs - at
		}
		if w.EndMs >= at && (w.EndMs <= at+n || i == len(t)-1) && out.EndMs == 0 {
			out.EndMs = s.StartMs + w.EndMs - at
		}
		at += n
	}
	out.EndMs = max(out.EndMs, out.StartMs)
	return out
}

// Trim returns only the given parts of src, which has the sample rate Rate.
func Trim(src Source, t Trimmed) Source { return &trimmer{src: src, left: t} }

type trimmer struct {
	src  Source
	left Trimmed
	at   int64 // of the next sample of src
}

// Read implements Source.
func (t *trimmer) Read(p []float32) (int, error) {
	for len(t.left) > 0 {
		from, to := t.left[0].StartMs*samplesPerMs, t.left[0].EndMs*samplesPerMs
		if t.at >= to {
			t.left = t.left[1:]
			continue
		}
		keep := t.at >= from
		next := from // where what is read now ends
		if keep {
			next = to
		}
		n, err := t.src.Read(p[:min(int64(len(p)), next-t.at)])
		t.at += int64(n)
		if err != nil || keep && n > 0 {
			if !keep {
				n = 0
			}
			return n, err
		}
	}
	return 0, io.EOF
}
