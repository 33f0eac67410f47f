package qjs

import "bytes"

// page is the size in which memories are compared and put back.
const page = 4096

// image is the memory of a template, put under new instances and back under used ones.
// Where the system can map a file privately, instances share its pages until they write to
// them; elsewhere each gets a copy.
type image struct {
	size   uint32
	cow    *cow    // nil: by copying
	chunks []chunk // what is not zero, when copying
}

type chunk struct {
	at   uint32
	data []byte
}

func newImage(mem []byte) *image {
	im := &image{size: uint32(len(mem)), cow: newCow(mem)}
	if im.cow != nil {
		return im
	}
	var zero [page]byte
	for i := 0; i < len(mem); i += page {
		p := mem[i : i+page]
		if bytes.Equal(p, zero[:]) {
			continue
		}
		if n := len(im.chunks); n > 0 && im.chunks[n-1].at+uint32(len(im.chunks[n-1].data)) == uint32(i) {
			im.chunks[n-1].data = append(im.chunks[n-1].data, p...)
			continue
		}
		im.chunks = append(im.chunks, chunk{uint32(i), append([]byte(nil), p...)})
	}
	return im
}

// place puts the image under a memory of its size that has no content yet.
func (im *image) place(l *linear) error {
	if im.cow != nil {
		return im.cow.place(l)
	}
	im.copyTo(l)
	return nil
}

// restore makes all of a used memory of its size the image again.
func (im *image) restore(l *linear) error {
	if im.cow != nil {
		return im.cow.restore(l)
	}
	im.copyTo(l)
	return nil
}

func (im *image) copyTo(l *linear) {
	mem := l.bytes()[:im.size]
	at := uint32(0)
	for _, c := range im.chunks {
		clear(mem[at:c.at])
		copy(mem[c.at:], c.data)
		at = c.at + uint32(len(c.data))
	}
	clear(mem[at:])
}

// close frees the image; instances that use it must be closed before.
func (im *image) close() {
	if im.cow != nil {
		im.cow.close()
	}
}
