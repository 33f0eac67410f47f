package sandbox

import (
	"container/list"
	"sync"
)

// lru keeps what was compiled last, by the hash of what it was made from: so many entries,
// and so many bytes together unless there is only one. It is safe for use by many goroutines.
type lru[V any] struct {
	most      int
	mostBytes int64
	size      func(V) int64

	mu    sync.Mutex
	bytes int64
	order *list.List // of *lruEntry[V], the latest first
	byKey map[[32]byte]*list.Element
}

type lruEntry[V any] struct {
	key [32]byte
	v   V
}

func newLRU[V any](most int, mostBytes int64, size func(V) int64) *lru[V] {
	return &lru[V]{most: most, mostBytes: mostBytes, size: size, order: list.New(), byKey: map[[32]byte]*list.Element{}}
}

func (l *lru[V]) get(key [32]byte) (v V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	el, ok := l.byKey[key]
	if !ok {
		return v, false
	}
	l.order.MoveToFront(el)
	return el.Value.(*lruEntry[V]).v, true
}

// add keeps v, unless there is an entry of that key already.
func (l *lru[V]) add(key [32]byte, v V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if el, ok := l.byKey[key]; ok {
		l.order.MoveToFront(el)
		return
	}
	l.byKey[key] = l.order.PushFront(&lruEntry[V]{key, v})
	l.bytes += l.size(v)
	for l.order.Len() > l.most || l.bytes > l.mostBytes && l.order.Len() > 1 {
		old := l.order.Remove(l.order.Back()).(*lruEntry[V])
		delete(l.byKey, old.key)
		l.bytes -= l.size(old.v)
	}
}

func (l *lru[V]) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order.Init()
	clear(l.byKey)
	l.bytes = 0
}
