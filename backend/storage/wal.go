package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

const (
	walHeader      = 32
	walFrameHeader = 24
	walMagic       = 0x377f0682
)

// walFrame is one page in the WAL.
type walFrame struct {
	page uint32
	at   int64 // offset of the frame's header
}

// walState is the content of a WAL, read without SQLite, which silently stops at the first frame
// with a wrong checksum.
type walState struct {
	salt      [8]byte
	good      uint32 // leading frames that SQLite would replay
	damaged   bool   // the header is damaged, or committed frames follow a damaged one
	committed []walFrame
}

// readWAL reads the WAL at path. Each frame is verified with the checksum in the frame before it,
// so one damaged frame does not hide the frames after it.
func readWAL(path string) (w walState) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) < walHeader {
		return w
	}
	if w.salt = [8]byte(b[16:24]); len(b) < walHeader+walFrameHeader+pageSize {
		return w
	}
	le := binary.BigEndian.Uint32(b)&1 == 0
	var sum [8]byte
	headerGood := binary.BigEndian.Uint32(b)&^1 == walMagic && binary.BigEndian.Uint32(b[8:]) == pageSize
	if headerGood {
		sum = walSum(le, [8]byte{}, b[:24])
		headerGood = bytes.Equal(sum[:], b[24:32])
	}
	if !headerGood {
		w.damaged, w.salt = true, [8]byte(b[walHeader+8:walHeader+16])
		le = chains(b, true)
	}
	broken := !headerGood
	var open []walFrame
	for at, i := walHeader, uint32(1); at+walFrameHeader+pageSize <= len(b); at, i = at+walFrameHeader+pageSize, i+1 {
		h := b[at : at+walFrameHeader]
		sum = walSum(le, sum, h[:8])
		sum = walSum(le, sum, b[at+walFrameHeader:at+walFrameHeader+pageSize])
		good := bytes.Equal(h[8:16], w.salt[:]) && bytes.Equal(sum[:], h[16:24]) && binary.BigEndian.Uint32(h) > 0
		sum = [8]byte(h[16:24])
		if !good {
			broken = true
			continue
		}
		open = append(open, walFrame{binary.BigEndian.Uint32(h), int64(at)})
		if binary.BigEndian.Uint32(h[4:]) == 0 {
			continue
		}
		w.committed = append(w.committed, open...)
		open = nil
		if broken {
			w.damaged = true
		} else {
			w.good = i
		}
	}
	return w
}

// chains reports whether the checksum of the second frame is correct with little-endian sums.
func chains(b []byte, le bool) bool {
	at := walHeader + walFrameHeader + pageSize
	if at+walFrameHeader+pageSize > len(b) {
		return le
	}
	sum := walSum(le, [8]byte(b[walHeader+16:walHeader+24]), b[at:at+8])
	sum = walSum(le, sum, b[at+walFrameHeader:at+walFrameHeader+pageSize])
	return bytes.Equal(sum[:], b[at+16:at+24])
}

// walSum continues SQLite's checksum from seed over b, whose length is a multiple of 8.
func walSum(le bool, seed [8]byte, b []byte) (out [8]byte) {
	order := binary.ByteOrder(binary.BigEndian)
	if le {
		order = binary.LittleEndian
	}
	s0, s1 := binary.BigEndian.Uint32(seed[:4]), binary.BigEndian.Uint32(seed[4:])
	for ; len(b) >= 8; b = b[8:] {
		s0 += order.Uint32(b) + s1
		s1 += order.Uint32(b[4:]) + s0
	}
	binary.BigEndian.PutUint32(out[:4], s0)
	binary.BigEndian.PutUint32(out[4:], s1)
	return out
}

// walProblem returns a description of committed changes that are missing from the WAL. The index of
// the WAL, which survives a crash, records how many frames were committed; it never runs ahead of
// what is durable. "" means that nothing is known to be missing.
func walProblem(db string) string {
	w := readWAL(db + "-wal")
	if max, filled, salt, ok := walIndex(db + "-shm"); ok && max > filled {
		switch {
		case fileSize(db+"-wal") < walHeader:
			return fmt.Sprintf("the WAL is missing or cut; it held %d pages of committed changes", max-filled)
		case salt == w.salt && w.good < max:
			return fmt.Sprintf("the WAL is damaged or cut: %d of %d committed pages check out", w.good, max)
		}
	}
	if w.damaged {
		return "the WAL is damaged before its last committed change"
	}
	return ""
}

// walIndex returns how many frames the WAL index counts, how many of them are already in the file,
// and the salt of the WAL that it belongs to. The index is in the machine's byte order.
func walIndex(path string) (frames, filled uint32, salt [8]byte, ok bool) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) < 136 || !bytes.Equal(b[:48], b[48:96]) || binary.NativeEndian.Uint32(b) != 3007000 || b[12] != 1 {
		return 0, 0, salt, false
	}
	return binary.NativeEndian.Uint32(b[16:]), binary.NativeEndian.Uint32(b[96:]), [8]byte(b[32:40]), true
}
