package sandbox

import (
	"encoding/binary"
	"math"
)

// The file types of WASI.
const (
	fileUnknown   = 0
	fileDirectory = 3
	fileRegular   = 4
)

// WASI rights; only those used here.
const (
	rightRead     = 1 << 1
	rightSeek     = 1 << 2
	rightTell     = 1 << 5
	rightWrite    = 1 << 6
	rightOpen     = 1 << 13
	rightReaddir  = 1 << 14
	rightPathStat = 1 << 18
	rightFileStat = 1 << 21
	rightPoll     = 1 << 27
)

// Flags of an open file.
const (
	flagAppend   = 1
	flagNonblock = 4
)

// maxOpen is how many files a guest may have open, including standard input and output.
const maxOpen = 64

// openFile is the file of a descriptor. The whole content is read when a file is opened.
type openFile struct {
	kind    byte
	std     int // 0 input, 1 output, 2 errors; -1 for a file
	flags   uint16
	content []byte // of standard input or a regular file
	at      int64
	path    string     // of a file or folder on this machine
	name    string     // the guest's name of a preopened folder; "" for files that the guest opened
	list    []DirEntry // of a folder
	time    int64      // of the last change, in nanoseconds
}

// rest returns how many bytes are left to read.
func (f *openFile) rest() int64 { return max(int64(len(f.content))-f.at, 0) }

// fileTable contains the open files of one run, by descriptor.
type fileTable struct {
	open  []*openFile
	bytes int64 // total size of contents, without input
}

func (t *fileTable) get(fd uint32) *openFile {
	if uint64(fd) >= uint64(len(t.open)) {
		return nil
	}
	return t.open[fd]
}

// add assigns the lowest free descriptor to f.
func (t *fileTable) add(f *openFile) (fd uint32, ok bool) {
	for i, o := range t.open {
		if o == nil && i > 2 {
			t.open[i] = f
			return uint32(i), true
		}
	}
	if len(t.open) >= maxOpen {
		return 0, false
	}
	t.open = append(t.open, f)
	return uint32(len(t.open) - 1), true
}

func (t *fileTable) drop(fd uint32) {
	f := t.open[fd]
	t.open[fd] = nil
	if f.std < 0 {
		t.bytes -= int64(len(f.content))
	}
}

// openStandard opens standard input, output and error.
func (w *moduleRun) openStandard() {
	w.files.open = append(make([]*openFile, 0, 8),
		&openFile{kind: fileUnknown, std: 0, content: w.c.Input},
		&openFile{kind: fileUnknown, std: 1},
		&openFile{kind: fileUnknown, std: 2},
	)
}

func (w *moduleRun) fdClose(_ *openFile, _ guestMemory, p []uint64) errno {
	w.files.drop(uint32(p[0]))
	return errnoOK
}

func (w *moduleRun) fdAdvise(f *openFile, _ guestMemory, _ []uint64) errno {
	if f.std >= 0 {
		return errnoSpipe
	}
	return errnoOK
}

func (w *moduleRun) fdStat(f *openFile, m guestMemory, p []uint64) errno {
	var b [24]byte
	b[0] = f.kind
	binary.LittleEndian.PutUint16(b[2:], f.flags)
	var rights, below uint64 = rightRead | rightSeek | rightTell | rightFileStat | rightPoll, 0
	switch {
	case f.std == 0:
		rights = rightRead | rightPoll | rightFileStat
	case f.std > 0:
		rights = rightWrite | rightPoll | rightFileStat
	case f.kind == fileDirectory:
		below = rights
		rights = rightOpen | rightReaddir | rightPathStat | rightFileStat
		below |= rights
	}
	binary.LittleEndian.PutUint64(b[8:], rights)
	binary.LittleEndian.PutUint64(b[16:], below)
	return m.put(p[1], b[:])
}

func (w *moduleRun) fdSetFlags(f *openFile, _ guestMemory, p []uint64) errno {
	if p[1]&^(flagAppend|flagNonblock) != 0 {
		return errnoInval
	}
	f.flags = uint16(p[1])
	return errnoOK
}

func (w *moduleRun) fdFileStat(f *openFile, m guestMemory, p []uint64) errno {
	size := int64(len(f.content))
	if f.std >= 0 {
		size = 0
	}
	return m.put(p[1], fileStat(f.kind, size, f.time, f.path))
}

// fileStat encodes a WASI filestat. All of a file's times are that of its last change; device and
// inode reveal nothing about the machine.
func fileStat(kind byte, size, changed int64, path string) []byte {
	var b [64]byte
	binary.LittleEndian.PutUint64(b[8:], inode(path))
	b[16] = kind
	binary.LittleEndian.PutUint64(b[24:], 1)
	binary.LittleEndian.PutUint64(b[32:], uint64(size))
	for at := 40; at < len(b); at += 8 {
		binary.LittleEndian.PutUint64(b[at:], uint64(changed))
	}
	return b[:]
}

func (w *moduleRun) fdRead(f *openFile, m guestMemory, p []uint64) errno {
	n, e := w.readFrom(m, f, p[1], p[2], f.at)
	if e != errnoOK {
		return e
	}
	if e := m.put32(p[3], n); e != errnoOK {
		return e
	}
	f.at += int64(n)
	return errnoOK
}

func (w *moduleRun) fdPread(f *openFile, m guestMemory, p []uint64) errno {
	switch {
	case f.std >= 0:
		return errnoSpipe
	case p[3] > math.MaxInt64:
		return errnoInval
	}
	n, e := w.readFrom(m, f, p[1], p[2], int64(p[3]))
	if e != errnoOK {
		return e
	}
	return m.put32(p[4], n)
}

func (w *moduleRun) readFrom(m guestMemory, f *openFile, vectors, count uint64, at int64) (n uint32, e errno) {
	switch {
	case f.kind == fileDirectory:
		return 0, errnoIsdir
	case f.std > 0:
		return 0, errnoBadf
	}
	bufs, e := m.vectors(vectors, count)
	if e != errnoOK {
		return 0, e
	}
	var src []byte
	if at < int64(len(f.content)) {
		src = f.content[at:]
	}
	for _, b := range bufs {
		c := copy(b, src)
		n, src = n+uint32(c), src[c:]
	}
	w.work(8*len(bufs) + int(n)/16)
	return n, errnoOK
}

func (w *moduleRun) fdWrite(f *openFile, m guestMemory, p []uint64) errno {
	if f.std <= 0 {
		return errnoBadf
	}
	bufs, e := m.vectors(p[1], p[2])
	if e != errnoOK {
		return e
	}
	var total uint64
	for _, b := range bufs {
		total += uint64(len(b))
	}
	if total > math.MaxInt32 {
		return errnoInval
	}
	if _, ok := m.Read(uint32(p[3]), 4); !ok {
		return errnoFault
	}
	w.work(8 * len(bufs))
	for _, b := range bufs {
		if f.std == 1 {
			w.writeOutput(b)
		} else {
			w.writeErrors(b)
		}
	}
	return m.put32(p[3], uint32(total))
}

func (w *moduleRun) fdPwrite(f *openFile, _ guestMemory, _ []uint64) errno {
	if f.std >= 0 {
		return errnoSpipe
	}
	return errnoBadf
}

// fdRenumber moves a descriptor to another one that is open.
func (w *moduleRun) fdRenumber(_ guestMemory, p []uint64) errno {
	from, to := w.file(p[0]), w.file(p[1])
	switch {
	case from == nil || to == nil:
		return errnoBadf
	case from.name != "" || to.name != "":
		return errnoNotsup
	case uint32(p[0]) == uint32(p[1]):
		return errnoOK
	}
	w.files.drop(uint32(p[1]))
	w.files.open[uint32(p[1])] = from
	w.files.open[uint32(p[0])] = nil
	return errnoOK
}

func (w *moduleRun) fdSeek(f *openFile, m guestMemory, p []uint64) errno {
	const set, current, end = 0, 1, 2
	switch {
	case f.std >= 0:
		return errnoSpipe
	case f.kind == fileDirectory:
		return errnoBadf
	}
	var base int64
	switch uint32(p[2]) {
	case set:
	case current:
		base = f.at
	case end:
		base = int64(len(f.content))
	default:
		return errnoInval
	}
	delta := int64(p[1])
	if delta > 0 && base > math.MaxInt64-delta {
		return errnoOverflow
	}
	if base+delta < 0 {
		return errnoInval
	}
	if e := m.put64(p[3], uint64(base+delta)); e != errnoOK {
		return e
	}
	f.at = base + delta
	return errnoOK
}

func (w *moduleRun) fdTell(f *openFile, m guestMemory, p []uint64) errno {
	switch {
	case f.std >= 0:
		return errnoSpipe
	case f.kind == fileDirectory:
		return errnoBadf
	}
	return m.put64(p[1], uint64(f.at))
}

// put writes all of b.
func (m guestMemory) put(at uint64, b []byte) errno {
	if !m.Write(uint32(at), b) {
		return errnoFault
	}
	return errnoOK
}
