// Package vector finds the nearest of many vectors by cosine. It keeps one bit a dimension in
// memory, scans those, and scores the best few hundred exactly from a file beside them.
//
// The file is a cache: whoever owns an index can make it again from the vectors in the
// database, and has to when Stats tells that it was rebuilt. A process that is killed leaves a
// file that Open either reads in full or finds damaged.
//
// Vectors are read with positioned reads and not through a mapping: pages of a mapping that a
// search has touched count as memory of the process, a fault costs more than a read, and a
// disk error would end the process instead of one read.
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
	// DefaultRescore is how many candidates are scored exactly when SearchOptions do not say.
	DefaultRescore = 400
	// exactBelow is the number of candidates under which codes are not asked at all.
	exactBelow = 20_000
	maxDims    = 16_384
	maxModelID = 256
	fileName   = "vectors.bin"
)

// Vector is one vector to add. Tag is what the caller wants to know again later, such as the
// start of the hash of the text that the vector stands for.
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
	Rescore int     // candidates to score exactly, never less than 10 a result; 0: as many as matter, at most DefaultRescore or 10 a result
	Exact   bool    // score everything exactly
}

// Stats describes an index.
type Stats struct {
	ModelID     string
	Dims        int
	Count       int    // vectors that can be found
	Slots       int    // places in the file, also those that are free
	Generation  int    // how often the mean was computed
	MemoryBytes int64  // codes, ids, tags, tables, and rows kept for the next search
	FileBytes   int64  // size of the file
	Rebuilt     string // why the file was not used by Open; "": it was
	Dropped     int    // vectors that Open left out because their writing had not ended
	ReadErrors  int64  // vectors that could not be read since Open
	Kernel      string // instructions in use
}

// Index is an open index. All methods may be called from any goroutine.
//
// Three locks, taken in this order: writing serialises Add, Remove and Flush; searching is
// held shared by a search from start to end, and a writer only tries it, to learn that nobody
// looks at slots which were given up; mu guards the tables and is held for microseconds.
type Index struct {
	dims, words int
	modelID     string
	exactBelow  int
	compacting  bool // compact rows are faster than reading whole ones

	writing sync.Mutex
	file    *sideFile
	centre  *centre  // of new codes; older chunks follow one at a time
	trained int      // vectors when centre was computed
	debt    int      // vectors added since a chunk was last encoded again
	left    []uint32 // slots given up; a search may still read them
	free    []uint32 // slots that can be used again
	seq     uint64
	dirty   bool  // something was written since the last Flush
	broken  error // a write failed half-way and could not be taken back

	searching sync.RWMutex
	mu        sync.RWMutex
	chunks    []*chunk
	rows      rowTable
	count     int
	closed    bool
	stats     Stats // only Rebuilt, Dropped, Generation, FileBytes

	compacts   compacts // its lock comes after searching and before mu
	readErrors counter
	scratches  sync.Pool
}

// Open opens the index in the folder dir, which it makes, for vectors of dims values made by
// the model modelID. A file that is damaged, of another model or of another length is
// replaced by an empty one, and Stats().Rebuilt says why.
func Open(dir string, dims int, modelID string) (*Index, error) {
	if dims < 1 || dims > maxDims || len(modelID) > maxModelID {
		return nil, fault.Invalidf("Vectors must have 1 to %d values and a model name of at most %d bytes.", maxDims, maxModelID)
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

// Add puts a vector in, in the place of an older one with the same id. The next search finds
// it. A vector of another length, with a value that is not a finite number, or of zeros is
// refused. Only the direction is kept: vectors are stored with length 1.
func (ix *Index) Add(id uint32, tag uint64, vec []float32) error {
	return ix.AddBatch([]Vector{{ID: id, Tag: tag, Values: vec}})
}

// AddBatch adds many vectors, which is faster than one at a time. When one is refused, none
// is added. After a full disk some of them may have been added.
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

// Remove takes a vector out; the next search does not find it. An unknown id is no error.
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

// Tag returns what Add was given with the vector of id, and whether there is one.
func (ix *Index) Tag(id uint32) (uint64, bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	slot, ok := ix.rows.get(id)
	if !ok {
		return 0, false
	}
	return ix.chunks[slot/chunkRows].tags[slot%chunkRows], true
}

// Len is the number of vectors that can be found.
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

// Flush makes what was added and removed so far survive a loss of power. Without it, it
// survives the end of the process, but not of the system.
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

// Stats describes the index as it is now.
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

// Close flushes and closes the file after the searches that run have ended. Searches that
// come later find nothing. It may be called again.
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

// Check tells why vec cannot be added to an index of dims values, or nil.
func Check(vec []float32, dims int) error {
	if len(vec) != dims {
		return fault.Invalidf("A vector of %d values doesn't fit an index of %d.", len(vec), dims)
	}
	zero := true
	for _, x := range vec {
		if x-x != 0 { // NaN or infinite
			return fault.Invalidf("A vector contains a value that isn't a finite number.")
		}
		zero = zero && x == 0
	}
	if zero {
		return fault.Invalidf("A vector of zeros has no direction.")
	}
	return nil
}

// unit writes vec with length 1 to dst. The sum is taken in float64, where squares of
// float32 neither overflow nor vanish.
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

// usable tells why nothing can be written.
func (ix *Index) usable() error {
	if ix.closed { // written under writing too
		return fault.Unavailablef("The vector index is closed.")
	}
	return ix.broken
}

// ioFault turns an error of the file system into one for a person.
func ioFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fault.Limitf("The disk is full. Nothing was changed.").WithCause(err)
	}
	return fault.Internalf(err, "The vector index cannot be written.")
}
