package vector

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
)

// The file holds, in the byte order of the machine that wrote it:
//
//	0      header: magic, byte order, version, dims, length of the model id, model id, CRC
//	512    two states, written alternately: sequence, vectors made durable by a Flush,
//	       generation, vectors it was trained on, mean, CRC
//	then   records of 32 bytes and the vector: flag, id, tag, sequence, CRC
//
// A record is written at the end of the file or over a dead one: first with the flag dead, then
// the flag alone. So after the process was killed each record is complete or dead, or it is the
// torn last record. The CRC of a record covers its position, id, tag, sequence and vector.
const (
	magic        = "HELIXVEC"
	version      = 1
	orderMark    = 0x01020304
	headerBytes  = 512
	stateFixed   = 40
	recordBytes  = 32
	recordFloats = recordBytes / 4
	align        = 4096
	writeRecords = 64 // per write

	flagLive = 0xA5
	flagDead = 0x5A
)

var (
	order      = binary.NativeEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// damage is the reason why a file cannot be used.
type damage string

func (d damage) Error() string { return string(d) }

// disk is the file as an index uses it; tests substitute failing ones.
type disk interface {
	ReadAt(b []byte, at int64) (int, error)
	WriteAt(b []byte, at int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// sideFile is the open file.
type sideFile struct {
	f       disk
	dims    int
	size    int   // bytes per record
	stride  int   // values per record
	data    int64 // offset of the records
	bytes   int64 // size of the file when it was opened
	slots   int   // number of records
	turn    uint64
	pending []float32 // records to be written
}

// state is what a Flush or a new generation writes.
type state struct {
	turn       uint64
	committed  int
	generation int
	trained    int
	mean       []float32
}

func layout(dims int) (stateBytes, data int64) {
	stateBytes = (int64(stateFixed+dims*4) + 511) / 512 * 512
	return stateBytes, (headerBytes + 2*stateBytes + align - 1) / align * align
}

func newSideFile(f disk, dims int) *sideFile {
	_, data := layout(dims)
	return &sideFile{f: f, dims: dims, size: recordBytes + dims*4, stride: recordFloats + dims, data: data}
}

// createFile creates an empty file at path, replacing an existing one atomically. It is not synced:
// after a loss of power the next Open may find it damaged, but an empty file has nothing to lose.
func createFile(path string, dims int, modelID string, mean []float32) (*sideFile, error) {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	s := newSideFile(f, dims)
	h := make([]byte, headerBytes)
	copy(h, magic)
	order.PutUint32(h[8:], orderMark)
	order.PutUint32(h[12:], version)
	order.PutUint32(h[16:], uint32(dims))
	order.PutUint32(h[20:], uint32(len(modelID)))
	copy(h[24:], modelID)
	order.PutUint32(h[headerBytes-4:], crc32.Checksum(h[:headerBytes-4], castagnoli))
	_, err = f.WriteAt(h, 0)
	if err == nil {
		err = f.Truncate(s.data)
	}
	if err == nil {
		err = s.writeState(0, 0, 0, mean)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	// Close before renaming, because Windows cannot rename an open file.
	if err := os.Rename(tmp, path); err != nil {
		return nil, err
	}
	s.f, err = os.OpenFile(path, os.O_RDWR, 0)
	return s, err
}

// openFile reads the header and the states of the file at path.
func openFile(path string, dims int, modelID string) (*sideFile, state, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, state{}, err
	}
	s := newSideFile(f, dims)
	info, err := f.Stat()
	if err == nil {
		s.bytes = info.Size()
		var st state
		if st, err = s.readHead(modelID); err == nil {
			return s, st, nil
		}
	}
	f.Close()
	return nil, state{}, err
}

func (s *sideFile) readHead(modelID string) (state, error) {
	h := make([]byte, headerBytes)
	if err := readFull(s.f, h, 0); err != nil {
		return state{}, err
	}
	switch {
	case string(h[:8]) != magic || order.Uint32(h[8:]) != orderMark || order.Uint32(h[12:]) != version:
		return state{}, damage("not a vector file of this version")
	case order.Uint32(h[headerBytes-4:]) != crc32.Checksum(h[:headerBytes-4], castagnoli):
		return state{}, damage("the header's checksum is wrong")
	case order.Uint32(h[16:]) != uint32(s.dims):
		return state{}, damage("vectors of another length")
	case order.Uint32(h[20:]) != uint32(len(modelID)) || string(h[24:24+len(modelID)]) != modelID:
		return state{}, damage("vectors of another model")
	}
	stateBytes, _ := layout(s.dims)
	var best state
	for i := range int64(2) {
		b := make([]byte, stateFixed+s.dims*4)
		if err := readFull(s.f, b, headerBytes+i*stateBytes); err != nil {
			return state{}, err
		}
		turn := order.Uint64(b)
		if turn <= best.turn || order.Uint32(b[32:]) != stateSum(b) {
			continue
		}
		best = state{
			turn: turn, committed: int(order.Uint64(b[8:])), generation: int(order.Uint32(b[16:])),
			trained: int(order.Uint64(b[24:])), mean: make([]float32, s.dims),
		}
		copy(asBytes(best.mean), b[stateFixed:])
	}
	if best.turn == 0 {
		return state{}, damage("the state's checksum is wrong")
	}
	s.turn = best.turn
	return best, nil
}

// writeState overwrites the older of the two states.
func (s *sideFile) writeState(committed, generation, trained int, mean []float32) error {
	b := make([]byte, stateFixed+s.dims*4)
	order.PutUint64(b, s.turn+1)
	order.PutUint64(b[8:], uint64(committed))
	order.PutUint32(b[16:], uint32(generation))
	order.PutUint64(b[24:], uint64(trained))
	copy(b[stateFixed:], asBytes(mean))
	order.PutUint32(b[32:], stateSum(b))
	stateBytes, _ := layout(s.dims)
	if _, err := s.f.WriteAt(b, headerBytes+int64((s.turn+1)%2)*stateBytes); err != nil {
		return err
	}
	s.turn++
	return nil
}

func stateSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:32], castagnoli), castagnoli, b[stateFixed:])
}

func (s *sideFile) offset(slot int) int64 { return s.data + int64(slot)*int64(s.size) }

// read reads n records from slot on as floats into *buf.
func (s *sideFile) read(buf *[]float32, slot uint32, n int) ([]float32, error) {
	want := n * s.stride
	if cap(*buf) < want {
		*buf = make([]float32, max(want, readRecords*s.stride))
	}
	recs := (*buf)[:want]
	_, err := s.f.ReadAt(asBytes(recs), s.offset(int(slot)))
	return recs, err
}

// fill appends the record of a vector to s.pending and returns the part for the vector.
func (s *sideFile) fill(slot, id uint32, tag, seq uint64, flag byte, vec []float32) []float32 {
	at := len(s.pending)
	s.pending = slices.Grow(s.pending, s.stride)[:at+s.stride]
	rec := s.pending[at:]
	unit(rec[recordFloats:], vec)
	b := asBytes(rec)
	clear(b[:recordBytes])
	b[0] = flag
	order.PutUint32(b[4:], id)
	order.PutUint64(b[8:], tag)
	order.PutUint64(b[16:], seq)
	order.PutUint32(b[24:], recordSum(b, slot))
	return rec[recordFloats:]
}

func recordSum(b []byte, slot uint32) uint32 {
	var place [4]byte
	order.PutUint32(place[:], slot)
	sum := crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, b[1:24])
	return crc32.Update(sum, castagnoli, b[28:])
}

// writePending writes the pending records, starting at slot.
func (s *sideFile) writePending(slot int) error {
	_, err := s.f.WriteAt(asBytes(s.pending), s.offset(slot))
	s.pending = s.pending[:0]
	return err
}

// mark writes the flag of a record.
func (s *sideFile) mark(slot uint32, flag byte) error {
	_, err := s.f.WriteAt([]byte{flag}, s.offset(int(slot)))
	return err
}

// readFull reads all of b. Reaching the end of the file is damage.
func readFull(f disk, b []byte, at int64) error {
	_, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		return damage("the file breaks off")
	}
	return err
}
