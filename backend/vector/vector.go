// Package vector finds the nearest of many vectors by cosine. It keeps one bit per dimension in
// memory, scans these codes, and scores the best few hundred exactly with vectors read from a file.
//
// The file is a cache: the owner of an index can rebuild it from the vectors in the database, and
// must do so if Stats reports that it was rebuilt. If a process is killed, Open can either read the
// file completely or finds it damaged.
//
// Vectors are read with positioned reads rather than a memory mapping: touched pages of a mapping
// count as memory of the process, a page fault costs more than a read, and a disk error would kill
// the process instead of failing one read.
package vector

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"helix/backend/fault"
	"helix/backend/kernel"
)

const (
	// DefaultRescore is the default of SearchOptions.Rescore.
	DefaultRescore = 400
	// exactBelow is the number of candidates below which codes are not used.
	exactBelow = 20_000
	maxDims    = 16_384
	maxModelID = 256
	fileName   = "vectors.bin"
)

// Vector is one vector to add. Tag is stored with it for the caller, such as a prefix of the hash
// of the text that the vector represents.
type Vector struct {
	ID     uint32
	Tag    uint64
	Values []float32
}

// Hit is one result; Score is the cosine.
type Hit struct {
	ID    uint32
	Score float32
}

// SearchOptions narrow or widen a search; the zero value searches everything.
type SearchOptions struct {
	Allow   *Bitmap // only these ids; nil: all
	Rescore int     // number of candidates to score exactly, at least 10 per result; 0: as many as matter, at most DefaultRescore or 10 per result
	Exact   bool    // score everything exactly
}

// Stats describes an index.
type Stats struct {
	ModelID     string
	Dims        int
	Count       int    // vectors that can be found
	Slots       int    // positions in the file, including free ones
	Generation  int    // number of times that the mean was computed
	MemoryBytes int64  // codes, ids, tags, tables, and rows kept for the next search
	FileBytes   int64  // size of the file
	Rebuilt     string // why the file was not used by Open; "": it was
	Dropped     int    // vectors that Open skipped because they were not written completely
	ReadErrors  int64  // vectors that could not be read since Open
	Kernel      string // instructions in use
}

// Index is an open index. All methods are safe for concurrent use.
//
// There are three locks, acquired in this order. writing serializes Add, Remove and Flush.
// searching is held shared during a search; a writer only tries it, to find out whether a search
// may still use slots that were given up. mu guards the tables and is held for microseconds.
type Index struct {
	dims, words int
	modelID     string
	exactBelow  int
	compacting  bool // compact rows are faster than reading full ones

	writing sync.Mutex
	file    *sideFile
	centre  *centre  // of new codes; older chunks are updated one at a time
	trained int      // number of vectors when centre was computed
	debt    int      // vectors added since a chunk was last re-encoded
	left    []uint32 // slots given up, which a search may still read
	free    []uint32 // slots that can be reused
	seq     uint64
	dirty   bool  // there are writes since the last Flush
	broken  error // a write failed and could not be undone

	searching sync.RWMutex
	mu        sync.RWMutex
	chunks    []*chunk
	rows      rowTable
	count     int
	closed    bool
	stats     Stats // only Rebuilt, Dropped, Generation, FileBytes

	compacts   compacts // its lock is acquired after searching and before mu
	readErrors counter
	scratches  sync.Pool
}

// Open opens the index in the folder dir, which it creates if necessary, for vectors of dims values
// of the model modelID. A file that is damaged, or has another model or length, is replaced by an
// empty one; Stats().Rebuilt is the reason.
func Open(dir string, dims int, modelID string) (*Index, error) {
	if dims < 1 || dims > maxDims || len(modelID) > maxModelID {
		return nil, fault.Invalidf("Vectors have 1 to %d values and a model name of at most %d bytes.", maxDims, maxModelID)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, ioFault(err)
	}
	ix := newIndex(dims, modelID)
	path := filepath.Join(dir, fileName)
	err := ix.load(path)
	var bad damage
	if errors.As(err, &bad) {
		ix = newIndex(dims, modelID)
		ix.stats.Rebuilt = string(bad)
	}
	if errors.As(err, &bad) || errors.Is(err, os.ErrNotExist) {
		ix.centre = &centre{mean: make([]float32, dims)}
		ix.file, err = createFile(path, dims, modelID, ix.centre.mean)
	}
	if err != nil {
		return nil, ioFault(err)
	}
	return ix, nil
}

func newIndex(dims int, modelID string) *Index {
	ix := &Index{dims: dims, words: (dims + 63) / 64, modelID: modelID, exactBelow: exactBelow, compacting: kernel.Level() != "go"}
	ix.rows.pages = map[uint32]*page{}
	ix.compacts.most = mostCompact
	ix.scratches.New = func() any { return &scratch{} }
	return ix
}

// Add adds a vector, replacing one with the same id. The next search finds it. Vectors of another length,
// with values that are not finite, or of only zeros are rejected. Vectors are normalized to length 1.
func (ix *Index) Add(id uint32, tag uint64, vec []float32) error {
	return ix.AddBatch([]Vector{{ID: id, Tag: tag, Values: vec}})
}

// AddBatch adds many vectors, which is faster than adding them one at a time. If one is rejected,
// none is added. If the disk is full, some of them may have been added.
func (ix *Index) AddBatch(vs []Vector) error {
	for _, v := range vs {
		if err := Check(v.Values, ix.dims); err != nil {
			return err
		}
	}
	ix.writing.Lock()
	defer ix.writing.Unlock()
	if err := ix.usable(); err != nil {
		return err
	}
	for len(vs) > 0 {
		n := min(len(vs), writeRecords)
		if err := ix.put(vs[:n]); err != nil {
			return err
		}
		vs = vs[n:]
		if err := ix.renew(n); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a vector; the next search does not find it. An unknown id is not an error.
func (ix *Index) Remove(id uint32) error {
	ix.writing.Lock()
	defer ix.writing.Unlock()
	if err := ix.usable(); err != nil {
		return err
	}
	ix.mu.Lock()
	slot, ok := ix.rows.get(id)
	if ok {
		ix.rows.drop(id)
		ix.unset(slot)
	}
	ix.mu.Unlock()
	if !ok {
		return nil
	}
	return ix.retireSlot(slot)
}

// Tag returns the tag of the vector with an id. ok is false if there is none.
func (ix *Index) Tag(id uint32) (uint64, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	slot, ok := ix.rows.get(id)
	if !ok {
		return 0, false
	}
	return ix.chunks[slot/chunkRows].tags[slot%chunkRows], true
}

// Len returns the number of vectors in the index.
func (ix *Index) Len() int {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.count
}

// Vector appends the vector of id, of length 1, to dst[:0].
func (ix *Index) Vector(id uint32, dst []float32) ([]float32, bool) {
	ix.searching.RLock()
	defer ix.searching.RUnlock()
	ix.mu.RLock()
	slot, ok := ix.rows.get(id)
	closed := ix.closed
	ix.mu.RUnlock()
	if !ok || closed {
		return dst[:0], false
	}
	s := ix.scratches.Get().(*scratch)
	defer ix.scratches.Put(s)
	recs, err := ix.file.read(&s.records, slot, 1)
	if err != nil {
		ix.readErrors.Add(1)
		return dst[:0], false
	}
	return append(dst[:0], recs[recordFloats:]...), true
}

// Flush makes all changes durable in case of a loss of power. Without it they survive the end of
// the process, but not of the system.
func (ix *Index) Flush() error {
	ix.writing.Lock()
	defer ix.writing.Unlock()
	if err := ix.usable(); err != nil {
		return err
	}
	return ix.flush()
}

func (ix *Index) flush() error {
	if !ix.dirty {
		return nil
	}
	if err := ix.file.f.Sync(); err != nil {
		return ioFault(err)
	}
	if err := ix.file.writeState(ix.file.slots, ix.stats.Generation, ix.trained, ix.centre.mean); err != nil {
		return ioFault(err)
	}
	if err := ix.file.f.Sync(); err != nil {
		return ioFault(err)
	}
	ix.dirty = false
	return nil
}

// Stats returns the current state of the index.
func (ix *Index) Stats() Stats {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	s := ix.stats
	s.ModelID, s.Dims, s.Count, s.Kernel = ix.modelID, ix.dims, ix.count, kernel.Level()
	s.ReadErrors = ix.readErrors.Load()
	s.MemoryBytes = int64(len(ix.rows.pages)) * pageBytes
	for _, c := range ix.chunks {
		s.MemoryBytes += int64(len(c.codes))*8 + chunkBytes + c.compact.bytes()
	}
	return s
}

// Close waits for active searches, then flushes and closes the file. Later searches return nothing.
// It may be called more than once.
func (ix *Index) Close() error {
	ix.writing.Lock()
	defer ix.writing.Unlock()
	ix.mu.RLock()
	closed := ix.closed
	ix.mu.RUnlock()
	if closed {
		return nil
	}
	var err error
	if ix.broken == nil {
		err = ix.flush()
	}
	ix.searching.Lock()
	defer ix.searching.Unlock()
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.closed, ix.chunks, ix.count = true, nil, 0
	ix.rows.pages = nil
	return errors.Join(err, ioFault(ix.file.f.Close()))
}

// Check returns the reason why vec cannot be added to an index of dims values, or nil.
func Check(vec []float32, dims int) error {
	if len(vec) != dims {
		return fault.Invalidf("A vector of %d values does not fit an index of %d.", len(vec), dims)
	}
	zero := true
	for _, x := range vec {
		if x-x != 0 { // NaN or infinite
			return fault.Invalidf("A vector holds a value that is not a finite number.")
		}
		zero = zero && x == 0
	}
	if zero {
		return fault.Invalidf("A vector of zeros has no direction.")
	}
	return nil
}

// unit writes vec normalized to length 1 to dst. The sum is computed in float64, in which squares
// of float32 neither overflow nor underflow.
func unit(dst, vec []float32) {
	var sum float64
	for _, x := range vec {
		sum += float64(x) * float64(x)
	}
	f := 1 / math.Sqrt(sum)
	for i, x := range vec {
		dst[i] = float32(float64(x) * f)
	}
}

// usable returns the reason why writing is not possible, or nil.
func (ix *Index) usable() error {
	if ix.closed { // closed is written with writing held too
		return fault.Unavailablef("The vector index is closed.")
	}
	return ix.broken
}

// ioFault converts an error of the file system to one for people.
func ioFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fault.Limitf("The disk is full. Nothing was changed.").WithCause(err)
	}
	return fault.Internalf(err, "The vector index cannot be written.")
}
