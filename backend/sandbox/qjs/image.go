package qjs

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// page is the size in which memories are compared and put back.
const page = 4096

// maxPrivate is how many bytes a memory at rest keeps for itself where it shares the rest.
const maxPrivate = 384 << 10

// image is the memory of a template, put under new instances and back under used ones.
// Where the system can map a file privately, instances share its pages until they write to
// them; elsewhere each gets a copy.
type image struct {
	size   uint32
	chunks []chunk // what is not zero, in order
	cow    *cow    // nil: by copying
}

type chunk struct {
	at   uint32
	data []byte
}

// A snapshot is the magic, the size of the memory, the number of chunks, then offset and
// length of each, then their bytes one after another; numbers are 32 bits, little-endian.
const snapshotMagic = "HXSNAP1\n"

// writeImage is a memory as a snapshot, without its zero pages.
func writeImage(mem []byte) []byte {
	var zero [page]byte
	var chunks []chunk
	for i := 0; i < len(mem); i += page {
		if bytes.Equal(mem[i:i+page], zero[:]) {
			continue
		}
		if n := len(chunks); n > 0 && int(chunks[n-1].at)+len(chunks[n-1].data) == i {
			chunks[n-1].data = mem[chunks[n-1].at : i+page]
			continue
		}
		chunks = append(chunks, chunk{uint32(i), mem[i : i+page]})
	}
	out := append([]byte{}, snapshotMagic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(mem)))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(chunks)))
	for _, c := range chunks {
		out = binary.LittleEndian.AppendUint32(out, c.at)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(c.data)))
	}
	for _, c := range chunks {
		out = append(out, c.data...)
	}
	return out
}

var errSnapshot = errors.New("not a snapshot")

// readImage reads a snapshot, whose bytes it keeps.
func readImage(b []byte) (*image, error) {
	const head = len(snapshotMagic) + 8
	if len(b) < head || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return nil, errSnapshot
	}
	im := &image{size: binary.LittleEndian.Uint32(b[head-8:])}
	n := int(binary.LittleEndian.Uint32(b[head-4:]))
	if im.size%65536 != 0 || im.size > MaxMemory || n > (len(b)-head)/8 {
		return nil, errSnapshot
	}
	data := b[head+8*n:]
	end := uint32(0)
	for i := range n {
		at, size := binary.LittleEndian.Uint32(b[head+8*i:]), binary.LittleEndian.Uint32(b[head+8*i+4:])
		if at < end || at > im.size || size > im.size-at || int(size) > len(data) || (at|size)%page != 0 {
			return nil, errSnapshot
		}
		im.chunks = append(im.chunks, chunk{at, data[:size:size]})
		data, end = data[size:], at+size
	}
	if len(data) != 0 {
		return nil, errSnapshot
	}
	if im.cow = newCow(im); im.cow != nil {
		im.chunks = nil // the file has them
	}
	return im, nil
}

// place puts the image under a memory of its size that has no content yet.
func (im *image) place(l *linear) error {
	if im.cow != nil {
		return im.cow.place(l)
	}
	im.copyTo(l.bytes())
	return nil
}

// restore makes all of a used memory of its size the image again.
func (im *image) restore(l *linear) error {
	if im.cow != nil {
		return im.cow.restore(l)
	}
	im.copyTo(l.bytes())
	return nil
}

func (im *image) copyTo(mem []byte) {
	mem = mem[:im.size]
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
