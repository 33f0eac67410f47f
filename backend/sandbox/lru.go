package sandbox

import (
	"container/list"
	"sync"
)

// maxPrograms is how many bytes of bytecode are kept: a source of 1 MiB can become many.
const maxPrograms = 64 << 20

// lru holds the programs compiled last, by the hash of their source.
type lru struct {
	mu    sync.Mutex
	max   int
	bytes int        // of bytecode
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
	l.bytes += len(p.code)
	for l.order.Len() > l.max || l.bytes > maxPrograms && l.order.Len() > 1 {
		el := l.order.Back()
		old := el.Value.(*lruEntry)
		delete(l.byKey, old.key)
		l.order.Remove(el)
		l.bytes -= len(old.p.code)
	}
}
