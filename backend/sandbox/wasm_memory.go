package sandbox

import "bytes"

// wasmPage is the unit in which images are kept and put back.
const wasmPage = 4096

// memoryChunk is a part of an image that is not zero; whole pages.
type memoryChunk struct {
	at   int
	data []byte
}

// memoryImage is what a module's linear memory holds before its first instruction.
type memoryImage struct {
	size   int
	chunks []memoryChunk
	shared *sharedImage // nil where a system cannot share pages, or when copying is cheaper
}

// shareAbove is from how many bytes of content an image is shared instead of copied.
const shareAbove = 128 << 10

// newMemoryImage keeps what mem holds.
func newMemoryImage(mem []byte) *memoryImage {
	im := &memoryImage{size: len(mem)}
	var zero [wasmPage]byte
	content := 0
	for i := 0; i < len(mem); i += wasmPage {
		p := mem[i : i+wasmPage]
		if bytes.Equal(p, zero[:]) {
			continue
		}
		content += wasmPage
		if n := len(im.chunks); n > 0 && im.chunks[n-1].at+len(im.chunks[n-1].data) == i {
			im.chunks[n-1].data = append(im.chunks[n-1].data, p...)
			continue
		}
		im.chunks = append(im.chunks, memoryChunk{i, append([]byte(nil), p...)})
	}
	if content > shareAbove {
		if im.shared = newSharedImage(im); im.shared != nil {
			im.chunks = nil
		}
	}
	return im
}

// paint makes mem, of the image's size or longer, the image, and what lies behind it zero.
func (im *memoryImage) paint(mem []byte) {
	at := 0
	for _, c := range im.chunks {
		clear(mem[at:c.at])
		copy(mem[c.at:], c.data)
		at = c.at + len(c.data)
	}
	clear(mem[at:])
}

// lay copies the image onto memory that is zero.
func (im *memoryImage) lay(mem []byte, from int) {
	for _, c := range im.chunks {
		if end := c.at + len(c.data); end > from {
			skip := max(from-c.at, 0)
			copy(mem[c.at+skip:end], c.data[skip:])
		}
	}
}

func (im *memoryImage) close() {
	if im.shared != nil {
		im.shared.close()
	}
}
