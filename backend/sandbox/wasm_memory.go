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
	hot    hotPages
}

// shareAbove is from how many bytes of content an image is shared instead of copied.
const shareAbove = 128 << 10

// newMemoryImage makes an image of a memory of size bytes.
func newMemoryImage(size int, chunks []memoryChunk) *memoryImage {
	im := &memoryImage{size: size, chunks: chunks}
	content := 0
	for _, c := range chunks {
		content += len(c.data)
	}
	if content > shareAbove {
		im.shared = newSharedImage(im)
	}
	return im
}

// memoryChunks are the pages of mem that are not zero.
func memoryChunks(mem []byte) []memoryChunk {
	var zero [wasmPage]byte
	var chunks []memoryChunk
	for i := 0; i < len(mem); i += wasmPage {
		if bytes.Equal(mem[i:i+wasmPage], zero[:]) {
			continue
		}
		if n := len(chunks); n > 0 && chunks[n-1].at+len(chunks[n-1].data) == i {
			chunks[n-1].data = mem[chunks[n-1].at : i+wasmPage]
			continue
		}
		chunks = append(chunks, memoryChunk{i, mem[i : i+wasmPage]})
	}
	return chunks
}

// paint makes mem[from:to] what the image holds there; behind the image that is zero.
func (im *memoryImage) paint(mem []byte, from, to int) {
	at := from
	for _, c := range im.chunks {
		end := c.at + len(c.data)
		if end <= at {
			continue
		}
		if c.at >= to {
			break
		}
		if c.at > at {
			wipe(mem[at:c.at])
			at = c.at
		}
		at += copy(mem[at:to], c.data[at-c.at:])
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
func (im *memoryImage) lay(mem []byte, from, to int) {
	for _, c := range im.chunks {
		first, last := max(c.at, from), min(c.at+len(c.data), to)
		if first < last {
			copy(mem[first:last], c.data[first-c.at:])
		}
	}
}

// same reports whether mem[at:at+wasmPage] is what the image holds there.
func (im *memoryImage) same(mem []byte, at int) bool {
	var zero [wasmPage]byte
	for _, c := range im.chunks {
		if at >= c.at && at < c.at+len(c.data) {
			return bytes.Equal(mem[at:at+wasmPage], c.data[at-c.at:at-c.at+wasmPage])
		}
	}
	return bytes.Equal(mem[at:at+wasmPage], zero[:])
}

func (im *memoryImage) close() {
	if im.shared != nil {
		im.shared.close()
	}
}
