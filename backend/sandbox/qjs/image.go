package qjs

import (
	"encoding/binary"
	"errors"

	"helix/backend/sandbox/linear"
)

// maxPrivate is the maximum size in bytes of the private pages of an idle memory that shares the
// rest.
const maxPrivate = 384 << 10

// A snapshot consists of the magic, the size of the memory, the number of chunks, offset and length
// of each, and then their bytes in order; numbers are 32 bits, little-endian.
const snapshotMagic = "HXSNAP1\n"

// writeImage returns a memory as a snapshot, without its zero pages.
func writeImage(mem []byte) []byte {
	chunks := linear.Chunks(mem)
	out := append([]byte{}, snapshotMagic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(mem)))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(chunks)))
	for _, c := range chunks {
		out = binary.LittleEndian.AppendUint32(out, uint32(c.At))
		out = binary.LittleEndian.AppendUint32(out, uint32(len(c.Data)))
	}
	for _, c := range chunks {
		out = append(out, c.Data...)
	}
	return out
}

var errSnapshot = errors.New("not a snapshot")

// readImage parses a snapshot. The image refers to its bytes.
func readImage(b []byte) (*linear.Image, error) {
	const head = len(snapshotMagic) + 8
	if len(b) < head || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return nil, errSnapshot
	}
	size := binary.LittleEndian.Uint32(b[head-8:])
	n := int(binary.LittleEndian.Uint32(b[head-4:]))
	if size%65536 != 0 || size > MaxMemory || n > (len(b)-head)/8 {
		return nil, errSnapshot
	}
	chunks := make([]linear.Chunk, 0, n)
	data := b[head+8*n:]
	end := uint32(0)
	for i := range n {
		at, length := binary.LittleEndian.Uint32(b[head+8*i:]), binary.LittleEndian.Uint32(b[head+8*i+4:])
		if at < end || at > size || length > size-at || int(length) > len(data) || (at|length)%linear.Page != 0 {
			return nil, errSnapshot
		}
		chunks = append(chunks, linear.Chunk{At: int(at), Data: data[:length:length]})
		data, end = data[length:], at+length
	}
	if len(data) != 0 {
		return nil, errSnapshot
	}
	return linear.NewImage(int(size), chunks, maxPrivate), nil
}
