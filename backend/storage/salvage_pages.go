package storage

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
)

// pageSize is the page size of every Helix database; the header of a damaged one is not trusted.
const pageSize = 4096

// The b-tree page types of the SQLite file format.
const (
	indexInterior = 0x02
	tableInterior = 0x05
	indexLeaf     = 0x0a
	tableLeaf     = 0x0d
)

// The pointer map entries of the SQLite file format: what a page is, and its parent.
const (
	ptrRoot  = 1
	ptrFree  = 2
	ptrBtree = 5
	ptrMap   = 6 // our own value: a page of the map itself
)

// pageFile reads a damaged database page by page, trusting neither its header nor its
// b-trees. Committed frames of the WAL override the pages in the file.
type pageFile struct {
	db, wal *os.File
	frames  map[uint32]int64 // page → offset of its content in the WAL
	n       uint32           // pages
	ptr     []ptrEntry       // by page
	claimed []uint32         // by page: an interior page that points to it; 0: none
}

type ptrEntry struct {
	kind   byte
	parent uint32
}

func openPages(path, walPath string) (_ *pageFile, err error) {
	f := &pageFile{frames: map[uint32]int64{}}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	var size int64
	if f.db, err = os.Open(path); err == nil {
		size = fileSize(path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f.n = uint32((size + pageSize - 1) / pageSize)
	if exists(walPath) {
		if f.wal, err = os.Open(walPath); err != nil {
			return nil, err
		}
		w := readWAL(walPath)
		for _, fr := range w.committed {
			f.frames[fr.page] = fr.at + walFrameHeader
			f.n = max(f.n, fr.page)
		}
	}
	f.ptr, f.claimed = make([]ptrEntry, f.n+1), make([]uint32, f.n+1)
	for p := uint32(1); p <= f.n; p++ {
		f.ptr[p] = f.pointer(p)
	}
	var buf [pageSize]byte
	for p := uint32(1); p <= f.n; p++ {
		if f.ptr[p].kind == ptrFree || f.ptr[p].kind == ptrMap || f.read(p, buf[:]) != nil {
			continue
		}
		b, ok := parsePage(p, buf[:])
		if !ok {
			continue
		}
		for _, c := range b.children() {
			if c > 0 && c <= f.n && (f.claimed[c] == 0 || f.ptr[c] == ptrEntry{ptrBtree, p}) {
				f.claimed[c] = p
			}
		}
	}
	return f, nil
}

func (f *pageFile) close() {
	if f.db != nil {
		_ = f.db.Close()
	}
	if f.wal != nil {
		_ = f.wal.Close()
	}
}

// read fills b with page p. Beyond the end of a truncated file the content is zero.
func (f *pageFile) read(p uint32, b []byte) error {
	src, at := f.db, int64(p-1)*pageSize
	if off, ok := f.frames[p]; ok {
		src, at = f.wal, off
	}
	clear(b)
	if src == nil {
		return io.EOF
	}
	if _, err := src.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// pointer returns the pointer map entry of p; incremental vacuum maintains one for every page.
func (f *pageFile) pointer(p uint32) ptrEntry {
	const per = pageSize/5 + 1
	const pending = 0x40000000/pageSize + 1
	if p < 2 {
		return ptrEntry{kind: ptrRoot}
	}
	at := (p-2)/per*per + 2
	if at == pending {
		at++
	}
	if p <= at {
		return ptrEntry{kind: ptrMap}
	}
	var b [pageSize]byte
	if f.read(at, b[:]) != nil {
		return ptrEntry{}
	}
	off := 5 * (p - at - 1)
	e := ptrEntry{b[off], binary.BigEndian.Uint32(b[off+1:])}
	if e.kind < ptrRoot || e.kind > ptrBtree || e.parent > f.n {
		return ptrEntry{}
	}
	return e
}

// root follows the parents of p to the root of its b-tree; it returns 0 if p is in none. Without an
// entry in the pointer map, a page that nothing points to is assumed to be a root.
func (f *pageFile) root(p uint32) uint32 {
	for range 32 {
		e := f.ptr[p]
		switch {
		case p == 1 || e.kind == ptrRoot:
			return p
		case e.kind == ptrFree, e.kind == ptrMap:
			return 0
		case e.kind == ptrBtree && e.parent > 0:
			p = e.parent
		case f.claimed[p] > 0:
			p = f.claimed[p]
		case e.kind == 0:
			return p
		default:
			return 0
		}
	}
	return 0
}

// btreePage is one b-tree page with its cells.
type btreePage struct {
	kind  byte
	b     []byte
	cells []int
	right uint32
}

// parsePage parses a b-tree page; ok reports whether its header is valid and every cell begins
// inside it.
func parsePage(p uint32, b []byte) (out btreePage, ok bool) {
	head := 0
	if p == 1 {
		head = 100
	}
	out = btreePage{kind: b[head], b: b}
	cellsAt := head + 8
	switch out.kind {
	case indexInterior, tableInterior:
		out.right = binary.BigEndian.Uint32(b[head+8:])
		cellsAt += 4
	case indexLeaf, tableLeaf:
	default:
		return out, false
	}
	n := int(binary.BigEndian.Uint16(b[head+3:]))
	if cellsAt+2*n > pageSize {
		return out, false
	}
	bad := 0
	for i := range n {
		at := int(binary.BigEndian.Uint16(b[cellsAt+2*i:]))
		if at < cellsAt+2*n || at > pageSize-3 {
			bad++
			continue
		}
		out.cells = append(out.cells, at)
	}
	return out, bad <= n/2
}

func (b btreePage) children() (out []uint32) {
	if b.kind != tableInterior && b.kind != indexInterior {
		return nil
	}
	for _, at := range b.cells {
		if at+4 <= pageSize {
			out = append(out, binary.BigEndian.Uint32(b.b[at:]))
		}
	}
	return append(out, b.right)
}

// records calls fn with each readable record of the page. bad is the number of unreadable ones.
func (f *pageFile) records(b btreePage, fn func(rowid int64, vals []any) error) (bad int64, err error) {
	if b.kind == tableInterior {
		return 0, nil
	}
	for _, at := range b.cells {
		rowid, vals, ok := f.record(b, at)
		if !ok {
			bad++
			continue
		}
		if err := fn(rowid, vals); err != nil {
			return bad, err
		}
	}
	return bad, nil
}

func (f *pageFile) record(b btreePage, at int) (rowid int64, vals []any, ok bool) {
	if b.kind == indexInterior {
		at += 4
	}
	size, n := uvarint(b.b[at:])
	if n == 0 || size < 2 || size > math.MaxInt32 {
		return 0, nil, false
	}
	at += n
	most := (pageSize-12)*64/255 - 23
	if b.kind == tableLeaf {
		id, n := uvarint(b.b[at:])
		if n == 0 {
			return 0, nil, false
		}
		rowid, at, most = int64(id), at+n, pageSize-35
	}
	payload, ok := f.payload(b.b, at, int(size), most)
	if !ok {
		return 0, nil, false
	}
	vals, ok = decodeRecord(payload)
	return rowid, vals, ok
}

// payload collects a cell's content from its page and from its overflow pages.
func (f *pageFile) payload(b []byte, at, size, most int) ([]byte, bool) {
	local := size
	if size > most {
		least := (pageSize-12)*32/255 - 23
		if local = least + (size-least)%(pageSize-4); local > most {
			local = least
		}
	}
	if at+local > pageSize {
		return nil, false
	}
	if local == size {
		return b[at : at+local], true
	}
	if at+local+4 > pageSize || int64(size) > int64(f.n)*pageSize {
		return nil, false
	}
	out := append(make([]byte, 0, size), b[at:at+local]...)
	next := binary.BigEndian.Uint32(b[at+local:])
	var over [pageSize]byte
	for len(out) < size {
		if next < 2 || next > f.n || f.ptr[next].kind == ptrFree || f.ptr[next].kind == ptrBtree || f.read(next, over[:]) != nil {
			return nil, false
		}
		out = append(out, over[4:4+min(pageSize-4, size-len(out))]...)
		next = binary.BigEndian.Uint32(over[:])
	}
	return out, true
}

// decodeRecord decodes a record; ok is false unless its header and sizes match exactly.
func decodeRecord(p []byte) (vals []any, ok bool) {
	size, n := uvarint(p)
	if n == 0 || size < uint64(n) || size > uint64(len(p)) {
		return nil, false
	}
	head, body := p[n:size], p[size:]
	for len(head) > 0 {
		t, n := uvarint(head)
		if n == 0 {
			return nil, false
		}
		head = head[n:]
		width := 0
		switch {
		case t >= 12:
			if t > math.MaxInt32 {
				return nil, false
			}
			width = int(t-12) / 2
		case t < 8:
			width = []int{0, 1, 2, 3, 4, 6, 8, 8}[t]
		case t > 9:
			return nil, false
		}
		if width > len(body) {
			return nil, false
		}
		v := body[:width]
		body = body[width:]
		switch {
		case t == 0:
			vals = append(vals, nil)
		case t == 7:
			vals = append(vals, math.Float64frombits(binary.BigEndian.Uint64(v)))
		case t == 8, t == 9:
			vals = append(vals, int64(t-8))
		case t < 7:
			i := int64(int8(v[0]))
			for _, c := range v[1:] {
				i = i<<8 | int64(c)
			}
			vals = append(vals, i)
		case t%2 == 0:
			vals = append(vals, append([]byte{}, v...))
		default:
			vals = append(vals, string(v))
		}
	}
	return vals, len(body) == 0
}

// uvarint decodes SQLite's variable-length integer; n is 0 if b ends within it.
func uvarint(b []byte) (v uint64, n int) {
	for i := range 9 {
		if i >= len(b) {
			return 0, 0
		}
		if i == 8 {
			return v<<8 | uint64(b[i]), 9
		}
		v = v<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
