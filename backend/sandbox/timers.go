package sandbox

import (
	"container/heap"
	"math"
	"time"
)

// maxTimers is the maximum number of pending timers of a run.
const maxTimers = 10_000

type timer struct {
	id    int64
	due   time.Time
	order int
}

// timers are the pending timers of one run, the next one first. The zero value is empty.
type timers struct {
	heap  timerHeap
	count int
}

type timerHeap []timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].order < h[j].order
	}
	return h[i].due.Before(h[j].due)
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push and Pop are for container/heap.
func (h *timerHeap) Push(x any) { *h = append(*h, x.(timer)) }

// Pop removes the last element.
func (h *timerHeap) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}

// add starts a timer of ms milliseconds; it returns false if there are too many.
func (t *timers) add(id int64, ms float64) bool {
	if len(t.heap) >= maxTimers {
		return false
	}
	if math.IsNaN(ms) || ms < 0 {
		ms = 0
	}
	wait := time.Duration(min(ms, 1<<31) * float64(time.Millisecond))
	t.count++
	heap.Push(&t.heap, timer{id, time.Now().Add(wait), t.count})
	return true
}

func (t *timers) remove(id int64) {
	for i, x := range t.heap {
		if x.id == id {
			heap.Remove(&t.heap, i)
			return
		}
	}
}

func (t *timers) next() (due time.Time, ok bool) {
	if len(t.heap) == 0 {
		return time.Time{}, false
	}
	return t.heap[0].due, true
}

func (t *timers) pop() int64 { return heap.Pop(&t.heap).(timer).id }
