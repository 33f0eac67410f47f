package audio

import (
	"encoding/binary"
	"io"
)

// mp4Duration returns how long the sound of an MP4 file is according to its edit list, which leaves out
// the padding of the last frame, in seconds; 0 if it doesn't say so (ISO/IEC 14496-12, 8.6.6).
func mp4Duration(r io.ReaderAt, size int64) float64 {
	var scale uint32
	var length uint64
	boxes(r, 0, size, func(kind string, from, to int64) {
		if kind != "moov" {
			return
		}
		boxes(r, from, to, func(kind string, from, to int64) {
			b := fields(r, from, to)
			switch {
			case kind == "mvhd" && len(b) >= 24 && b[0] == 1:
				scale = binary.BigEndian.Uint32(b[20:])
			case kind == "mvhd" && len(b) >= 16:
				scale = binary.BigEndian.Uint32(b[12:])
			case kind == "trak" && length == 0:
				length = soundEdits(r, from, to)
			}
		})
	})
	if scale == 0 {
		return 0
	}
	return float64(length) / float64(scale)
}

// soundEdits returns the sum of the edits of a track with sound.
func soundEdits(r io.ReaderAt, from, to int64) (length uint64) {
	sound := false
	var edits uint64
	boxes(r, from, to, func(kind string, from, to int64) {
		if kind != "mdia" && kind != "edts" {
			return
		}
		boxes(r, from, to, func(kind string, from, to int64) {
			b := fields(r, from, to)
			switch {
			case kind == "hdlr" && len(b) >= 12:
				sound = string(b[8:12]) == "soun"
			case kind == "elst" && len(b) >= 8:
				width := 12 // bytes of an entry: duration, position in the media, and rate
				if b[0] == 1 {
					width = 20
				}
				for b = b[8:]; len(b) >= width; b = b[width:] {
					if width == 20 {
						edits += binary.BigEndian.Uint64(b)
					} else {
						edits += uint64(binary.BigEndian.Uint32(b))
					}
				}
			}
		})
	})
	if !sound {
		return 0
	}
	return edits
}

// boxes calls fn with the content of each box between two positions.
func boxes(r io.ReaderAt, from, to int64, fn func(kind string, from, to int64)) {
	for range 10_000 {
		var head [16]byte
		if n, err := r.ReadAt(head[:], from); n < 8 || from+8 > to || err != nil && n < len(head) && from+int64(n) < to {
			return
		}
		size, start := int64(binary.BigEndian.Uint32(head[:])), int64(8)
		switch size {
		case 0: // up to the end
			size = to - from
		case 1:
			size, start = int64(binary.BigEndian.Uint64(head[8:])), 16 //nolint:gosec // a negative size ends the walk
		}
		if size < start || size > to-from {
			return
		}
		fn(string(head[4:8]), from+start, from+size)
		from += size
	}
}

// fields returns the start of a box.
func fields(r io.ReaderAt, from, to int64) []byte {
	b := make([]byte, min(to-from, 4096))
	n, _ := r.ReadAt(b, from) // what is missing is not read
	return b[:n]
}
