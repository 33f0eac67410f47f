// Package bus delivers typed events between services of one process. Publishers do not know the
// subscribers; the gateway forwards selected event types to clients. Any package may import it.
package bus

import (
	"reflect"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// Bus delivers events by their Go type. The zero value is not usable; call New.
type Bus struct {
	mu   sync.RWMutex
	subs map[reflect.Type][]*sub
}

type sub struct{ fn any }

// New returns an empty bus.
func New() *Bus { return &Bus{subs: map[reflect.Type][]*sub{}} }

// Publish calls each subscriber of type E with e, which belongs to user, in the order of
// subscription, and returns when all have returned. Publish after the transaction that made the
// change has committed (storage.Tx.AfterCommit).
func Publish[E any](b *Bus, user uuid.UUID, e E) {
	b.mu.RLock()
	subs := b.subs[reflect.TypeFor[E]()]
	b.mu.RUnlock()
	for _, s := range subs {
		s.fn.(func(uuid.UUID, E))(user, e)
	}
}

// Subscribe calls fn for each event of type E until cancel is called. fn runs on the
// publisher's goroutine: it must return quickly and must not block; start a goroutine for longer
// work. fn may publish, subscribe and cancel.
func Subscribe[E any](b *Bus, fn func(user uuid.UUID, e E)) (cancel func()) {
	t := reflect.TypeFor[E]()
	s := &sub{fn: fn}
	b.mu.Lock()
	b.subs[t] = append(slices.Clip(b.subs[t]), s)
	b.mu.Unlock()
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.subs[t] = slices.DeleteFunc(slices.Clone(b.subs[t]), func(x *sub) bool { return x == s })
	}
}
