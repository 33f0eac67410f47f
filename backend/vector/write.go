package vector

import (
	"errors"

	"helix/backend/kernel"
)

const (
	firstMean  = 1024 // number of vectors at which the first mean is computed
	meanSample = 8192 // maximum number of vectors that it is computed from
	renewAfter = 512  // vectors added between re-encodings of chunks
)

// put writes at most writeRecords vectors and makes them visible to searches. The caller holds writing.
func (ix *Index) put(vs []Vector) error {
	ix.settle()
	ix.dirty = true
	n := min(len(vs), len(ix.free))
	slots := make([]uint32, 0, len(vs))
	codes := make([]uint64, len(vs)*ix.words)
	code := func(i int) []uint64 { return codes[i*ix.words : (i+1)*ix.words] }
	for i, v := range vs[:n] {
		slot := ix.free[len(ix.free)-1-i]
		slots = append(slots, slot)
		ix.seq++
		kernel.Signs(code(i), ix.file.fill(slot, v.ID, v.Tag, ix.seq, flagDead, v.Values), ix.centreOf(slot).mean)
		err := ix.file.writePending(int(slot))
		if err == nil {
			err = ix.file.mark(slot, flagLive)
		}
		if err != nil {
			return ioFault(errors.Join(err, ix.takeBack(slots, ix.file.slots)))
		}
	}
	end := ix.file.slots
	if int64(end)+int64(len(vs)-n) >= int64(none) {
		return ioFault(errors.New("no slot is left"))
	}
	for i, v := range vs[n:] {
		slot := uint32(end + i)
		slots = append(slots, slot)
		ix.seq++
		kernel.Signs(code(n+i), ix.file.fill(slot, v.ID, v.Tag, ix.seq, flagLive, v.Values), ix.centreOf(slot).mean)
	}
	if n < len(vs) {
		if err := ix.file.writePending(end); err != nil {
			return ioFault(errors.Join(err, ix.takeBack(slots[:n], end)))
		}
		ix.file.slots = end + len(vs) - n
	}
	ix.free = ix.free[:len(ix.free)-n]
	var olds []uint32
	ix.mu.Lock()
	for i, v := range vs {
		if old, had := ix.install(slots[i], v.ID, v.Tag, code(i)); had {
			olds = append(olds, old)
		}
	}
	ix.stats.FileBytes = ix.file.offset(ix.file.slots)
	ix.stats.Slots = ix.file.slots
	ix.mu.Unlock()
	for _, old := range olds {
		if err := ix.retireSlot(old); err != nil {
			return err
		}
	}
	return nil
}

// takeBack undoes writes that did not become visible: it marks the slots dead and truncates the
// file. If that fails too, the index accepts no more writes.
func (ix *Index) takeBack(slots []uint32, end int) error {
	ix.file.pending = ix.file.pending[:0]
	err := ix.file.f.Truncate(ix.file.offset(end))
	for _, s := range slots {
		err = errors.Join(err, ix.file.mark(s, flagDead))
	}
	if err != nil {
		ix.broken = ioFault(err)
	}
	return err
}

// centreOf returns the center for the codes of slot. The caller holds writing.
func (ix *Index) centreOf(slot uint32) *centre {
	if c := int(slot / chunkRows); c < len(ix.chunks) {
		return ix.chunks[c].centre
	}
	return ix.centre
}

// retireSlot marks the record of a hidden slot as dead. The slot is reused when no search
// can be reading it.
func (ix *Index) retireSlot(slot uint32) error {
	ix.left = append(ix.left, slot)
	ix.dirty = true
	if err := ix.file.mark(slot, flagDead); err != nil {
		ix.broken = ioFault(err)
		return ix.broken
	}
	return nil
}

// settle frees the slots that were given up, unless a search is running.
func (ix *Index) settle() {
	if len(ix.left) == 0 || !ix.searching.TryLock() {
		return
	}
	ix.searching.Unlock()
	ix.free = append(ix.free, ix.left...)
	ix.left = ix.left[:0]
}

// renew begins a generation if the number of vectors has doubled, and re-encodes a chunk from time
// to time until all have the new mean. The caller holds writing and has added n vectors.
func (ix *Index) renew(n int) error {
	if ix.count >= max(firstMean, 2*ix.trained) {
		if err := ix.newGeneration(); err != nil {
			return ioFault(err)
		}
	}
	ix.debt += n
	for ix.debt >= renewAfter {
		c := 0
		for c < len(ix.chunks) && ix.chunks[c].centre == ix.centre {
			c++
		}
		if c == len(ix.chunks) {
			ix.debt = 0
			return nil
		}
		ix.debt -= renewAfter
		if err := ix.encode(c); err != nil {
			return ioFault(err)
		}
	}
	return nil
}

// newGeneration recomputes the mean from vectors sampled across the index.
func (ix *Index) newGeneration() error {
	sums := make([]float64, ix.dims)
	step := max(1, ix.count/meanSample)
	var buf []float32
	seen, used := 0, 0
	for c, ch := range ix.chunks {
		for row := range chunkRows {
			if ch.live[row/64]>>(row%64)&1 == 0 {
				continue
			}
			if seen++; seen%step != 0 {
				continue
			}
			rec, err := ix.file.read(&buf, uint32(c*chunkRows+row), 1)
			if err != nil {
				return err
			}
			for i, x := range rec[recordFloats:] {
				sums[i] += float64(x)
			}
			used++
		}
	}
	if used == 0 {
		return nil
	}
	next := &centre{mean: make([]float32, ix.dims)}
	for i, s := range sums {
		next.mean[i] = float32(s / float64(used))
	}
	ix.centre, ix.trained, ix.dirty = next, ix.count, true
	ix.mu.Lock()
	ix.stats.Generation++
	ix.mu.Unlock()
	return nil
}

// encode recomputes the codes of a chunk and replaces them atomically.
func (ix *Index) encode(c int) error {
	ch := ix.chunks[c]
	codes := make([]uint64, chunkRows*ix.words)
	code := make([]uint64, ix.words)
	var buf []float32
	for at := 0; at < chunkRows; at += writeRecords {
		if ch.live[at/64] == 0 {
			continue
		}
		first := c*chunkRows + at
		n := min(writeRecords, ix.file.slots-first)
		recs, err := ix.file.read(&buf, uint32(first), n)
		if err != nil {
			return err
		}
		for i := range n {
			kernel.Signs(code, recs[i*ix.file.stride+recordFloats:(i+1)*ix.file.stride], ix.centre.mean)
			setCode(codes, at+i, code)
		}
	}
	ix.mu.Lock()
	ch.codes, ch.centre = codes, ix.centre
	ix.mu.Unlock()
	return nil
}
