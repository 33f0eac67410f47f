package sandbox

import (
	"container/list"
	"sync"
)

// lru holds the programs compiled last, by the hash of their source.
type lru struct {
	mu    sync.Mutex
	max   int
	order *list.List // of *lruEntry, the latest first
	byKey map[[32]byte]*list.Element
}

type lruEntry struct {
	key [32]byte
	p   *Program
}

func newLRU(n int) *lru {
	return &lru{max: n, order: list.New(), byKey: map[[32]byte]*list.Element{}}
}

func (l *lru) get(key [32]byte) *Program {
	l.mu.Lock()
	defer l.mu.Unlock()
	el, ok := l.byKey[key]
	if !ok {
		return nil
	}
	l.order.MoveToFront(el)
	return el.Value.(*lruEntry).p
}

func (l *lru) add(key [32]byte, p *Program) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if el, ok := l.byKey[key]; ok {
		l.order.MoveToFront(el)
		return
	}
	l.byKey[key] = l.order.PushFront(&lruEntry{key, p})
	if l.order.Len() > l.max {
		el := l.order.Back()
		delete(l.byKey, el.Value.(*lruEntry).key)
		l.order.Remove(el)
	}
}
