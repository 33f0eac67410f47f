package audio

import (
	"errors"
	"io"
	"slices"
	"testing"
)

// counted returns the numbers of its samples.
type counted struct{ at, n, step int }

func (c *counted) Read(p []float32) (int, error) {
	if c.at == c.n {
		return 0, io.EOF
	}
	n := min(len(p), c.step, c.n-c.at)
	for i := range n {
		p[i] = float32(c.at + i)
	}
	c.at += n
	return n, nil
}

func TestTrimKeepsTheSpansAndMapsTimesBack(t *testing.T) {
	t.Parallel()
	parts := Trimmed{{0, 30}, {100, 150}, {150, 160}, {400, 500}}
	var want []float32
	for _, s := range parts {
		for i := s.StartMs * samplesPerMs; i < min(s.EndMs*samplesPerMs, 450*samplesPerMs); i++ {
			want = append(want, float32(i))
		}
	}
	for _, step := range []int{1, 7, 160, 100_000} {
		src := Trim(&counted{n: 450 * samplesPerMs, step: step}, parts)
		var got []float32
		p := make([]float32, 333)
		for {
			n, err := src.Read(p)
			got = append(got, p[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("reads of %d: %d samples, want %d", step, len(got), len(want))
		}
	}
	// Each millisecond that is kept is mapped back to itself.
	for i, s := range parts.Spans() {
		for ms := s.StartMs; ms < s.EndMs; ms++ {
			w := parts.Original(Span{ms, ms + 1})
			if at := parts[i].StartMs + ms - s.StartMs; w != (Span{at, at + 1}) {
				t.Fatalf("%d ms became %v, want %d", ms, w, at)
			}
		}
	}
	if w := parts.Original(Span{20, 40}); w != (Span{20, 110}) {
		t.Errorf("a word across a cut: %v", w)
	}
	if w := parts.Original(Span{190, 300}); w != (Span{500, 610}) {
		t.Errorf("a word after the end: %v", w)
	}
}
