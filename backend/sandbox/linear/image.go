// Package linear manages the linear memories of guests. They start as an image, grow up to a limit,
// and are restored to the image after a run, so that nothing of the run is left. Only sandbox and
// qjs import it.
package linear

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// Page is the unit in bytes in which images are stored and restored.
const Page = 4096

// Chunk is a non-zero part of an image: whole pages.
type Chunk struct {
	At   int
	Data []byte
}

// Chunks returns the pages of mem that are not all zero.
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

// Image is the initial content of memories. Where the system can map a file privately, they share
// the pages of a large image until they write to them; elsewhere each gets a copy. It is safe for
// use by many goroutines.
type Image struct {
	size   int
	chunks []Chunk // nil: memories get a copy
	shared *shared // nil: by copying
	hot    hotPages
}

// shareAbove is the content size in bytes above which an image is shared instead of copied.
const shareAbove = 128 << 10

// NewImage creates an image of size bytes from its chunks, which must be in order and must not
// change. keep is how many private bytes an idle memory may have.
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

// Size returns the size of the image in bytes.
func (im *Image) Size() int { return im.size }

// Shared reports whether memories share the pages of the image until they write to them.
func (im *Image) Shared() bool { return im.shared != nil }

// Close frees the image. Release the memories that use it first.
func (im *Image) Close() {
	if im.shared != nil {
		im.shared.close()
	}
}

// paint restores mem[from:to] to the content of the image, which is zero beyond its end.
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

// wipe clears b in pieces: a single long clear would delay a garbage collection.
func wipe(b []byte) {
	const piece = 1 << 20
	for ; len(b) > piece; b = b[piece:] {
		clear(b[:piece])
	}
	clear(b)
}

// lay copies the image's content in from..to to memory that is zero there.
func (im *Image) lay(mem []byte, from, to int) {
	for _, c := range im.chunks {
		first, last := max(c.At, from), min(c.At+len(c.Data), to)
		if first < last {
			copy(mem[first:last], c.Data[first-c.At:])
		}
	}
}

// same reports whether mem[at:at+Page] equals the image there.
func (im *Image) same(mem []byte, at int) bool {
	var zero [Page]byte
	for _, c := range im.chunks {
		if at >= c.At && at < c.At+len(c.Data) {
			return bytes.Equal(mem[at:at+Page], c.Data[at-c.At:at-c.At+Page])
		}
	}
	return bytes.Equal(mem[at:at+Page], zero[:])
}

// usage is the current and the maximum size of a memory.
type usage struct {
	size    atomic.Uint64
	peak    atomic.Uint64
	refused atomic.Bool
}

// Size returns the current size of the memory in bytes. It may be called from any goroutine.
func (u *usage) Size() uint64 { return u.size.Load() }

// Peak returns the largest size in bytes since Restore. It may be called from any goroutine.
func (u *usage) Peak() uint64 { return u.peak.Load() }

// Refused reports whether growth was refused since Restore. It may be called from any goroutine.
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

// hotPages are the pages that nearly every run writes, learned from the first runs. Copying them
// back costs less than giving them back to the system, which takes a call and then a page fault for
// each that is touched again.
type hotPages struct {
	keep int // maximum total size in bytes

	mu    sync.Mutex
	looks int // number of memories learned from
	pages []bool
	spans []span
}

const (
	maxLooks = 8
	maxHot   = 1024     // pages; those beyond are always given back
	hotGap   = 3 * Page // spans that are closer are merged
)

// of returns the hot spans within a memory of the given size.
func (h *hotPages) of(size int) []span {
	h.mu.Lock()
	defer h.mu.Unlock()
	spans := h.spans
	for len(spans) > 0 && spans[len(spans)-1].to > size {
		spans = spans[:len(spans)-1]
	}
	return spans
}

// learn marks the pages of a used memory that were written as hot: those in written if it is known,
// else those that differ from the image.
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
