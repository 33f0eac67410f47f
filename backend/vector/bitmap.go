package vector

import (
	"iter"
	"math/bits"
	"slices"
)

// Bitmap is a set of ids with one bit per id. The zero value is an empty set. It must not be used
// concurrently with a modification.
type Bitmap struct{ words []uint64 }

// NewBitmap returns an empty set with capacity for the ids below n. It grows for larger ids.
func NewBitmap(n int) *Bitmap { return &Bitmap{words: make([]uint64, (max(n, 0)+63)/64)} }

// Set adds id.
func (b *Bitmap) Set(id uint32) {
	w := int(id >> 6)
	if w >= len(b.words) {
		b.words = append(b.words, make([]uint64, w+1-len(b.words))...)
	}
	b.words[w] |= 1 << (id & 63)
}

// Clear removes id.
func (b *Bitmap) Clear(id uint32) {
	if w := int(id >> 6); w < len(b.words) {
		b.words[w] &^= 1 << (id & 63)
	}
}

// Has reports whether id is in the set.
func (b *Bitmap) Has(id uint32) bool {
	w := int(id >> 6)
	return w < len(b.words) && b.words[w]>>(id&63)&1 != 0
}

// Count returns the number of ids in the set.
func (b *Bitmap) Count() int {
	n := 0
	for _, w := range b.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// And removes the ids that are not in o.
func (b *Bitmap) And(o *Bitmap) {
	n := min(len(b.words), len(o.words))
	for i, w := range o.words[:n] {
		b.words[i] &= w
	}
	clear(b.words[n:])
}

// Or adds the ids of o.
func (b *Bitmap) Or(o *Bitmap) {
	if n := len(o.words); n > len(b.words) {
		b.words = append(b.words, make([]uint64, n-len(b.words))...)
	}
	for i, w := range o.words {
		b.words[i] |= w
	}
}

// AndNot removes the ids of o.
func (b *Bitmap) AndNot(o *Bitmap) {
	for i, w := range o.words[:min(len(b.words), len(o.words))] {
		b.words[i] &^= w
	}
}

// Clone returns an independent copy.
func (b *Bitmap) Clone() *Bitmap { return &Bitmap{words: slices.Clone(b.words)} }

// All yields the ids in ascending order.
func (b *Bitmap) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, w := range b.words {
			for ; w != 0; w &= w - 1 {
				if !yield(uint32(i*64 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}
