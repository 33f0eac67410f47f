// Package lru implements a cache that evicts the least recently used entry. Any package may import
// it.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps the most recently used entries, limited by their number and, unless there is only
// one, by their total size. It is safe for use by many goroutines.
type Cache[K comparable, V any] struct {
	entries int
	bytes   int64
	size    func(V) int64

	mu    sync.Mutex
	used  int64      // bytes
	order *list.List // of *entry[K, V], most recent first
	byKey map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// New returns a cache of at most the given number of entries and total bytes, as reported by size;
// a nil size means no byte limit.
func New[K comparable, V any](entries int, bytes int64, size func(V) int64) *Cache[K, V] {
	if size == nil {
		size = func(V) int64 { return 0 }
	}
	return &Cache[K, V]{entries: entries, bytes: bytes, size: size, order: list.New(), byKey: map[K]*list.Element{}}
}

// Get returns the value of a key, which counts as a use.
func (c *Cache[K, V]) Get(key K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byKey[key]
	if !ok {
		return v, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*entry[K, V]).value, true
}

// Put sets the value of a key.
func (c *Cache[K, V]) Put(key K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byKey[key]; ok {
		c.remove(el)
	}
	c.byKey[key] = c.order.PushFront(&entry[K, V]{key, v})
	c.used += c.size(v)
	for c.order.Len() > c.entries || c.used > c.bytes && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

func (c *Cache[K, V]) remove(el *list.Element) {
	old := c.order.Remove(el).(*entry[K, V])
	delete(c.byKey, old.key)
	c.used -= c.size(old.value)
}

// Clear drops all entries.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Init()
	clear(c.byKey)
	c.used = 0
}
