package importer

import (
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"

	"helix/backend/fault"
)

// salvageZip reads an archive whose central directory, at its end, is damaged or missing, as after
// an interrupted download. It finds the entries sequentially from the beginning. Everything after
// the first entry whose size cannot be determined is lost.
func salvageZip(data io.ReaderAt, name, print string, sum *sizing, done func() error) (*tree, error) {
	size := sum.packed
	t := &tree{archive: true, fingerprint: print, close: done, inflated: &counter{}}
	seen := map[string]bool{}
	for at := int64(0); len(t.entries) < MaxEntries; {
		var head [30]byte
		if _, err := data.ReadAt(head[:], at); err != nil || string(head[:4]) != string(zipMagic) {
			break
		}
		flags, method := binary.LittleEndian.Uint16(head[6:]), binary.LittleEndian.Uint16(head[8:])
		packed, plain := int64(binary.LittleEndian.Uint32(head[18:])), int64(binary.LittleEndian.Uint32(head[22:]))
		nameLen, extra := int64(binary.LittleEndian.Uint16(head[26:])), int64(binary.LittleEndian.Uint16(head[28:]))
		raw := make([]byte, nameLen)
		if _, err := data.ReadAt(raw, at+30); err != nil {
			break
		}
		from := at + 30 + nameLen + extra
		file := string(raw)
		isMeasured := false
		if flags&8 != 0 || plain == 0xFFFFFFFF || packed == 0xFFFFFFFF { // sizes follow the data
			var found int64
			packed, plain, found = measure(data, from, size, method, sum.left())
			t.inflated.n += found
			if err := sum.count(found); err != nil {
				return nil, err
			}
			isMeasured = true
			if packed < 0 {
				packed, plain = size-from, found
			}
			if method == 0 {
				plain = packed
			}
		}
		body := io.NewSectionReader(data, from, max(min(packed, size-from), 0))
		usable := refuseName(file) == "" && !hidden(file) && flags&1 == 0 && (method == 0 || method == 8) && !seen[file]
		if usable && len(file) > 0 && file[len(file)-1] != '/' {
			seen[file] = true
			if !isMeasured {
				if err := sum.add(file, max(plain, packed)); err != nil {
					return nil, err
				}
			}
			t.entries = append(t.entries, entry{name: file, size: max(plain, packed), open: func() (io.ReadCloser, error) {
				part := io.NewSectionReader(body, 0, body.Size())
				if method == 0 {
					return &inflater{ReadCloser: section{part}, left: part.Size(), all: t.inflated}, nil
				}
				return &inflater{ReadCloser: flate.NewReader(part), left: plain, all: t.inflated}, nil
			}})
		}
		at = from + packed
		if flags&8 != 0 {
			at += descriptor(data, at)
		}
	}
	if len(t.entries) == 0 {
		return nil, fault.Invalidf("The archive %s is damaged and nothing in it can be read.", name)
	}
	t.sort()
	return t, nil
}

// measure inflates an entry to determine its sizes. packed and plain are -1 if it does not end, or
// not within most bytes; found is the number of bytes inflated.
func measure(data io.ReaderAt, from, size int64, method uint16, most int64) (packed, plain, found int64) {
	if method != 8 {
		return -1, -1, 0
	}
	in := &measured{r: io.NewSectionReader(data, from, max(size-from, 0))}
	found, err := io.Copy(io.Discard, io.LimitReader(flate.NewReader(in), most+1))
	if err != nil || found > most {
		return -1, -1, found
	}
	return in.n, found, found
}

// measured reads byte by byte, so that the inflater does not read past its end.
type measured struct {
	r   *io.SectionReader
	buf []byte // of full, not yet read
	n   int64

	full [4 << 10]byte // small, because an archive may have very many small entries
}

func (m *measured) ReadByte() (byte, error) {
	if len(m.buf) == 0 {
		n, err := m.r.Read(m.full[:])
		if n == 0 {
			return 0, errors.Join(err, io.ErrUnexpectedEOF)
		}
		m.buf = m.full[:n]
	}
	c := m.buf[0]
	m.buf = m.buf[1:]
	m.n++
	return c, nil
}

func (m *measured) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := m.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}

// descriptor returns the length of the data descriptor after an entry's data.
func descriptor(data io.ReaderAt, at int64) int64 {
	var head [28]byte
	n, _ := data.ReadAt(head[:], at)
	for _, length := range []int{16, 12, 24, 20} { // with and without signature; 8-byte sizes
		signed := string(head[:4]) == "PK\x07\x08"
		if signed != (length == 16 || length == 24) || n < length+4 {
			continue
		}
		if next := string(head[length : length+2]); next == "PK" {
			return int64(length)
		}
	}
	return 16
}
