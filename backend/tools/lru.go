package tools

import (
	"container/list"
	"sync"
)

// lru keeps the entries used last, at most n.
type lru[K comparable, V any] struct {
	mu    sync.Mutex
	n     int
	order *list.List
	items map[K]*list.Element
}

type lruItem[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](n int) *lru[K, V] {
	return &lru[K, V]{n: n, order: list.New(), items: map[K]*list.Element{}}
}

func (c *lru[K, V]) get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[k]
	if !ok {
		return v, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*lruItem[K, V]).value, true
}

func (c *lru[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[k]; ok {
		e.Value.(*lruItem[K, V]).value = v
		c.order.MoveToFront(e)
		return
	}
	c.items[k] = c.order.PushFront(&lruItem[K, V]{k, v})
	if c.order.Len() > c.n {
		e := c.order.Back()
		c.order.Remove(e)
		delete(c.items, e.Value.(*lruItem[K, V]).key)
	}
}
