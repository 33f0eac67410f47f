// Package linear makes the linear memories of guests: they begin as an image, grow within a
// limit, and become the image again after a run, so that nothing of it is left. Only sandbox
// and qjs import it.
package linear

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// Page is the unit in which images are kept and put back.
const Page = 4096

// Chunk is a part of an image that is not zero: whole pages.
type Chunk struct {
	At   int
	Data []byte
}

// Chunks returns the pages of mem that are not zero.
func Chunks(mem []byte) []Chunk {
	var zero [Page]byte
	var chunks []Chunk
	for i := 0; i < len(mem); i += Page {
		if bytes.Equal(mem[i:i+Page], zero[:]) {
			continue
		}
		if n := len(chunks); n > 0 && chunks[n-1].At+len(chunks[n-1].Data) == i {
			chunks[n-1].Data = mem[chunks[n-1].At : i+Page]
			continue
		}
		chunks = append(chunks, Chunk{i, mem[i : i+Page]})
	}
	return chunks
}

// Image is what memories begin with. Where the system can map a file privately, they share
// the pages of a large image until they write to them; elsewhere each gets a copy. It is safe
// for use by many goroutines.
type Image struct {
	size   int
	chunks []Chunk // in order
	shared *shared // nil: by copying
	hot    hotPages
}

// shareAbove is from how many bytes of content an image is shared instead of copied.
const shareAbove = 128 << 10

// NewImage makes an image of size bytes from its chunks, which are in order and do not change.
// keep is how many bytes a memory at rest may have for itself.
func NewImage(size int, chunks []Chunk, keep int) *Image {
	im := &Image{size: size, chunks: chunks, hot: hotPages{keep: keep}}
	content := 0
	for _, c := range chunks {
		content += len(c.Data)
	}
	if content > shareAbove {
		im.shared = newShared(im)
	}
	return im
}

// Size is how many bytes the image has.
func (im *Image) Size() int { return im.size }

// Shared reports whether memories share the pages of the image until they write to them.
func (im *Image) Shared() bool { return im.shared != nil }

// Close frees the image. Memories that begin with it must be released before.
func (im *Image) Close() {
	if im.shared != nil {
		im.shared.close()
	}
}

// paint makes mem[from:to] what the image holds there; behind the image that is zero.
func (im *Image) paint(mem []byte, from, to int) {
	at := from
	for _, c := range im.chunks {
		end := c.At + len(c.Data)
		if end <= at {
			continue
		}
		if c.At >= to {
			break
		}
		if c.At > at {
			wipe(mem[at:c.At])
			at = c.At
		}
		at += copy(mem[at:to], c.Data[at-c.At:])
	}
	if at < to {
		wipe(mem[at:to])
	}
}

// wipe is clear, in pieces: one long clear would keep a collection waiting.
func wipe(b []byte) {
	const piece = 1 << 20
	for ; len(b) > piece; b = b[piece:] {
		clear(b[:piece])
	}
	clear(b)
}

// lay copies what the image holds from..to onto memory that is zero there.
func (im *Image) lay(mem []byte, from, to int) {
	for _, c := range im.chunks {
		first, last := max(c.At, from), min(c.At+len(c.Data), to)
		if first < last {
			copy(mem[first:last], c.Data[first-c.At:])
		}
	}
}

// same reports whether mem[at:at+Page] is what the image holds there.
func (im *Image) same(mem []byte, at int) bool {
	var zero [Page]byte
	for _, c := range im.chunks {
		if at >= c.At && at < c.At+len(c.Data) {
			return bytes.Equal(mem[at:at+Page], c.Data[at-c.At:at-c.At+Page])
		}
	}
	return bytes.Equal(mem[at:at+Page], zero[:])
}

// usage is how far a memory has grown.
type usage struct {
	size    atomic.Uint64
	peak    atomic.Uint64
	refused atomic.Bool
}

// Size is how many bytes the memory has now. Any goroutine.
func (u *usage) Size() uint64 { return u.size.Load() }

// Peak is the most bytes that it had since Restore. Any goroutine.
func (u *usage) Peak() uint64 { return u.peak.Load() }

// Refused reports whether growth was refused since Restore. Any goroutine.
func (u *usage) Refused() bool { return u.refused.Load() }

func (u *usage) grown(size uint64) {
	u.size.Store(size)
	u.peak.Store(size)
}

func (u *usage) rewind() {
	u.refused.Store(false)
	u.peak.Store(u.size.Load())
}

// span is a range of bytes; whole pages.
type span struct{ from, to int }

// hotPages are the pages that nearly every run writes, learned from the first ones. To copy
// them back costs less than to give them back, which is a call and then a fault for each that
// is touched again.
type hotPages struct {
	keep int // bytes that they may have together

	mu    sync.Mutex
	looks int // used memories that were learned from
	pages []bool
	spans []span
}

const (
	maxLooks = 8
	maxHot   = 1024     // pages; those behind are always given back
	hotGap   = 3 * Page // spans that are closer become one
)

// of returns the spans below the size of a memory.
func (h *hotPages) of(size int) []span {
	h.mu.Lock()
	defer h.mu.Unlock()
	spans := h.spans
	for len(spans) > 0 && spans[len(spans)-1].to > size {
		spans = spans[:len(spans)-1]
	}
	return spans
}

// learn takes the pages of a used memory that were written as hot: those in written, or else
// those that differ from the image.
func (h *hotPages) learn(im *Image, mem []byte, written []span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.looks == maxLooks {
		return
	}
	h.looks++
	n := min(len(mem)/Page, maxHot)
	if len(h.pages) < n {
		h.pages = append(h.pages, make([]bool, n-len(h.pages))...)
	}
	if written == nil {
		for i := range n {
			h.pages[i] = h.pages[i] || !im.same(mem, i*Page)
		}
	}
	for _, s := range written {
		for i := s.from / Page; i < min(s.to/Page, n); i++ {
			h.pages[i] = true
		}
	}
	h.spans = nil
	room := h.keep
	for i, hot := range h.pages {
		if !hot {
			continue
		}
		s := span{i * Page, (i + 1) * Page}
		if n := len(h.spans); n > 0 && s.from-h.spans[n-1].to <= hotGap {
			s.from = h.spans[n-1].to
		}
		if room -= s.to - s.from; room < 0 {
			return
		}
		if n := len(h.spans); n > 0 && s.from == h.spans[n-1].to {
			h.spans[n-1].to = s.to
			continue
		}
		h.spans = append(h.spans, s)
	}
}
