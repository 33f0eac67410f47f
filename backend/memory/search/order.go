package search

import (
	"cmp"
	"slices"
)

// before compares for sorting: highest score first; ties are broken by the later time, then by id.
func (c *catalog) before(a, b scored) int {
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	return c.tie(a.item, b.item)
}

// tie orders items of equal score.
func (c *catalog) tie(a, b uint32) int {
	if a == b {
		return 0
	}
	x, y := c.row(a), c.row(b)
	if x.occurred != y.occurred { // noTime is the smallest value, so it comes last
		return cmp.Compare(y.occurred, x.occurred)
	}
	return slices.Compare(x.id[:], y.id[:])
}

// leading keeps the smallest limit elements of those added.
type leading[T any] struct {
	limit int
	less  func(a, b T) int
	heap  []T // once full, a heap with the greatest kept element first
}

func (l *leading[T]) add(x T) {
	switch {
	case len(l.heap) < l.limit:
		if l.heap = append(l.heap, x); len(l.heap) == l.limit {
			for i := l.limit/2 - 1; i >= 0; i-- {
				sink(l.heap, i, l.less)
			}
		}
	case l.limit > 0 && l.less(x, l.heap[0]) < 0:
		l.heap[0] = x
		sink(l.heap, 0, l.less)
	}
}

// sorted returns the kept elements in order.
func (l *leading[T]) sorted() []T {
	slices.SortFunc(l.heap, l.less)
	return l.heap
}

// sink restores the heap after its first element was replaced. The greatest element comes first.
func sink[T any](heap []T, i int, less func(a, b T) int) {
	for {
		j := 2*i + 1
		if j >= len(heap) {
			return
		}
		if j+1 < len(heap) && less(heap[j+1], heap[j]) > 0 {
			j++
		}
		if less(heap[j], heap[i]) <= 0 {
			return
		}
		heap[i], heap[j] = heap[j], heap[i]
		i = j
	}
}
