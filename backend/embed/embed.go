// Package embed turns sentences into vectors whose inner product says how near they are in
// meaning. It runs the Universal Sentence Encoder Lite (Cer et al. 2018) on this machine.
//
// The weights are in the binary (make models puts them there) and are used where they lie:
// what is on the heap is the tokenizer and some scratch memory, and it is given back after
// ten minutes without work.
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
	inner   = 256 // floats of a piece
	window  = 128 // pieces that the encoder reads at once

	// idle is how long a model keeps its memory without work.
	idle = 10 * time.Minute
	// batch is how many pieces go through the layers together: enough that the weights are
	// read once for several sentences, few enough that a canceled call ends soon.
	batch = 128
	// keptRunes is the longest text whose scratch memory is kept: what is beyond is rare.
	keptRunes = 1 << 16
)

// Model is the sentence encoder. It is safe for concurrent use; each call works on one core.
type Model struct {
	weights *weights
	check   func() error // that the weights are those of the manifest; computed once

	mu      sync.Mutex
	words   *tokenizer // nil: released
	scratch []*scratch // that no call uses; the capacity is how many are kept
	active  int        // calls that are running
	leave   bool       // Release was asked for
	timer   *time.Timer
}

// Open returns the model that is in the binary. Without one the error is fault.Unavailable. The
// weights are checked against their hash at the first use; see Check.
func Open() (*Model, error) { return open(files) }

// Check reports fault.Unavailable when the weights are damaged. Embed calls it.
func (m *Model) Check() error { return m.check() }

// ModelID names the model and its version; vectors of different models do not compare.
func (m *Model) ModelID() string { return modelID }

// Dims is the length of a vector: 512.
func (m *Model) Dims() int { return dims }

// Tokens gives the pieces of text as the encoder reads them, by number. Bytes that are not
// UTF-8 count as U+FFFD.
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

// Embed gives a vector of length one for each text, in order. A text of more than 128 pieces
// is the mean of its windows of 128, each weighing as much as it has pieces. The vector of a
// text is the same, bit by bit, whatever else is in the call or runs beside it. The empty text
// has a vector too: the one that the encoder gives to a sentence without pieces.
//
// It stops between windows when ctx ends and returns its error.
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

// Release gives the memory of the model back, as soon as no call runs; the next call takes
// what it needs again, in some milliseconds. It happens by itself after ten minutes without a
// call.
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

// normalize gives v the length one. A window's vector never is zero, and only windows that
// are each other's opposite could add up to it.
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
