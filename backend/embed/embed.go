// Package embed computes vectors of sentences whose inner product measures similarity in meaning.
// It runs the Universal Sentence Encoder Lite (Cer et al. 2018) on this machine.
//
// The weights are embedded in the binary (by make models) and used in place. The heap holds only
// the tokenizer and scratch memory, which are released after ten minutes without work.
package embed

import (
	"context"
	"embed"
	"math"
	"sync"
	"time"
)

//go:embed all:model
var files embed.FS

const (
	modelID = "use-lite-512@0.2.0"
	dims    = 512
	inner   = 256 // floats per piece
	window  = 128 // pieces that the encoder processes as one input

	// idle is how long a model keeps its memory without work.
	idle = 10 * time.Minute
	// batch is the number of pieces that pass through the layers together: enough for the weights
	// to be read once for several sentences, and few enough for a canceled call to end soon.
	batch = 128
	// keptRunes is the length of the longest text whose scratch memory is kept. Longer texts are rare.
	keptRunes = 1 << 16
)

// Model is the sentence encoder. It is safe for concurrent use; each call uses one core.
type Model struct {
	weights *weights
	check   func() error // verifies the weights against the manifest; computed once

	mu      sync.Mutex
	words   *tokenizer // nil: released
	scratch []*scratch // unused; the capacity is the number kept
	active  int        // calls in progress
	leave   bool       // Release was called
	timer   *time.Timer
}

// Open returns the model in the binary. If there is none the error is fault.Unavailable. The
// weights are verified at the first use; see Check.
func Open() (*Model, error) { return open(files) }

// Check returns fault.Unavailable if the weights are damaged. Embed calls it.
func (m *Model) Check() error { return m.check() }

// ModelID returns the name and version of the model. Vectors of different models cannot be compared.
func (m *Model) ModelID() string { return modelID }

// Dims returns the length of a vector: 512.
func (m *Model) Dims() int { return dims }

// Tokens returns the pieces of text by number, as the encoder reads them. Invalid UTF-8 is read as U+FFFD.
func (m *Model) Tokens(text string) []int {
	t, s := m.acquire()
	defer m.done(s)
	s.pieces, _ = t.tokens(context.Background(), &s.lattice, s.pieces[:0], text)
	ids := make([]int, len(s.pieces))
	for i, p := range s.pieces {
		ids[i] = int(p)
	}
	return ids
}

// Embed returns a vector of length one for each text, in order. For a text of more than 128 pieces
// it is the mean of the vectors of its windows of 128 pieces, weighted by their number of pieces.
// The vector of a text is bit-for-bit the same, whatever other texts are in the call or are
// embedded concurrently. The empty text has a vector too, that of a sentence without pieces.
//
// If ctx ends, Embed stops between windows and returns the error of ctx.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	t, s := m.acquire()
	defer m.done(s)
	out := make([][]float32, len(texts))
	s.begin()
	for i, text := range texts {
		out[i] = make([]float32, dims)
		var err error
		if s.pieces, err = t.tokens(ctx, &s.lattice, s.pieces[:0], text); err != nil {
			return nil, err
		}
		pieces := s.pieces
		for {
			w := pieces[:min(window, len(pieces))]
			if s.rows+len(w) > batch {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				m.weights.encode(s)
			}
			s.add(m.weights, w, out[i], len(s.pieces))
			if pieces = pieces[len(w):]; len(pieces) == 0 {
				break
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.weights.encode(s)
	for _, v := range out {
		normalize(v)
	}
	return out, nil
}

// Release releases the memory of the model as soon as no call is in progress. The next call
// allocates it again within a few milliseconds. This also happens automatically after ten minutes
// without a call.
func (m *Model) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave = true
	m.release()
}

func (m *Model) release() {
	if !m.leave || m.active > 0 {
		return
	}
	m.leave = false
	m.words = nil
	clear(m.scratch[:cap(m.scratch)])
	m.scratch = m.scratch[:0]
	if m.timer != nil {
		m.timer.Stop()
	}
	m.weights.forget()
}

// acquire begins a call; done ends it.
func (m *Model) acquire() (*tokenizer, *scratch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active++
	if m.timer != nil {
		m.timer.Stop()
	}
	if m.words == nil {
		m.words = newTokenizer(m.weights.vocab)
	}
	if n := len(m.scratch); n > 0 {
		s := m.scratch[n-1]
		m.scratch = m.scratch[:n-1]
		return m.words, s
	}
	return m.words, &scratch{}
}

func (m *Model) done(s *scratch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cap(s.lattice.runes) <= keptRunes && len(m.scratch) < cap(m.scratch) {
		m.scratch = append(m.scratch, s)
	}
	if m.active--; m.active > 0 {
		return
	}
	if m.timer == nil {
		m.timer = time.AfterFunc(idle, m.Release)
	} else {
		m.timer.Reset(idle)
	}
	m.release()
}

// normalize scales v to length one. It cannot be zero, because the vector of a window never is, and
// only windows with opposite vectors could cancel out.
func normalize(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	r := 1 / math.Sqrt(sum)
	for i, x := range v {
		v[i] = float32(float64(x) * r)
	}
}
