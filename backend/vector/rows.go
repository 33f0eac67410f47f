package vector

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"helix/backend/kernel"
)

const (
	chunkRows = 2048
	none      = ^uint32(0) // stands for no slot
	pageIDs   = 256

	chunkBytes = int64(unsafe.Sizeof(chunk{}))
	pageBytes  = int64(unsafe.Sizeof(page{})) + 24 // including its entry in the map
)

type counter = atomic.Int64

// centre is the vector that is subtracted from vectors to compute their codes: the mean of a generation.
type centre struct{ mean []float32 }

// chunk holds the codes of chunkRows slots of the file. Codes, ids and tags of a slot that is not
// live in the snapshot of a search may change during the search; others do not.
type chunk struct {
	centre *centre
	codes  []uint64 // in blocks of kernel.Lanes
	live   [chunkRows / 64]uint64
	ids    [chunkRows]uint32
	tags   [chunkRows]uint64

	compact *compact // guarded by mu
}

// setCode writes the code of a row to codes.
func setCode(codes []uint64, row int, code []uint64) {
	at := row/kernel.Lanes*kernel.Lanes*len(code) + row%kernel.Lanes
	for w, x := range code {
		codes[at+w*kernel.Lanes] = x
	}
}

// rowTable maps ids to slots. Ids are row numbers, so they are dense.
type rowTable struct{ pages map[uint32]*page }

// page holds the slots of pageIDs consecutive ids.
type page struct {
	have  [pageIDs / 64]uint64
	slots [pageIDs]uint32
}

func (t *rowTable) get(id uint32) (uint32, bool) {
	p := t.pages[id/pageIDs]
	if p == nil || p.have[id%pageIDs/64]>>(id%64)&1 == 0 {
		return none, false
	}
	return p.slots[id%pageIDs], true
}

func (t *rowTable) set(id, slot uint32) {
	p := t.pages[id/pageIDs]
	if p == nil {
		p = &page{}
		t.pages[id/pageIDs] = p
	}
	p.have[id%pageIDs/64] |= 1 << (id % 64)
	p.slots[id%pageIDs] = slot
}

func (t *rowTable) drop(id uint32) {
	p := t.pages[id/pageIDs]
	p.have[id%pageIDs/64] &^= 1 << (id % 64)
	if p.have == [pageIDs / 64]uint64{} {
		delete(t.pages, id/pageIDs)
	}
}

// common counts the ids of b that have a slot. It stops at most or slightly above.
func (t *rowTable) common(b *Bitmap, most int) int {
	n := 0
	const per = pageIDs / 64
	for at := 0; at < len(b.words) && n < most; at += per {
		words := b.words[at:min(at+per, len(b.words))]
		p := (*page)(nil)
		for i, w := range words {
			if w == 0 {
				continue
			}
			if p == nil {
				if p = t.pages[uint32(at/per)]; p == nil {
					break
				}
			}
			n += bits.OnesCount64(w & p.have[i])
		}
	}
	return n
}

// markSlots sets the bits of the slots of the ids of b.
func (t *rowTable) markSlots(marks []uint64, b *Bitmap) {
	const per = pageIDs / 64
	for at := 0; at < len(b.words); at += per {
		p := (*page)(nil)
		for i, w := range b.words[at:min(at+per, len(b.words))] {
			if w == 0 {
				continue
			}
			if p == nil {
				if p = t.pages[uint32(at/per)]; p == nil {
					break
				}
			}
			for w &= p.have[i]; w != 0; w &= w - 1 {
				slot := p.slots[i*64+bits.TrailingZeros64(w)]
				marks[slot/64] |= 1 << (slot % 64)
			}
		}
	}
}

// install makes the vector in slot visible to searches. If there was an older one with the same id
// it returns its slot. The caller holds mu and writing.
func (ix *Index) install(slot, id uint32, tag uint64, code []uint64) (old uint32, had bool) {
	for int(slot/chunkRows) >= len(ix.chunks) {
		ix.chunks = append(ix.chunks, &chunk{centre: ix.centre, codes: make([]uint64, chunkRows*ix.words)})
	}
	c, row := ix.chunks[slot/chunkRows], int(slot%chunkRows)
	setCode(c.codes, row, code)
	c.ids[row], c.tags[row] = id, tag
	if c.compact != nil {
		c.compact.have[row/64] &^= 1 << (row % 64)
	}
	c.live[row/64] |= 1 << (row % 64)
	old, had = ix.rows.get(id)
	if had {
		ix.unset(old)
	}
	ix.rows.set(id, slot)
	ix.count++
	return old, had
}

// unset hides a slot from later searches. The caller holds mu.
func (ix *Index) unset(slot uint32) {
	ix.chunks[slot/chunkRows].live[slot%chunkRows/64] &^= 1 << (slot % 64)
	ix.count--
}
