package channels

import (
	"sync"

	"github.com/google/uuid"

	"helix/backend/bus"
)

// condition is the state of an adapter. Changes of it are published.
type condition struct {
	s             *Service
	channel, user uuid.UUID

	mu sync.Mutex
	h  Health
}

func newCondition(s *Service, c *channelRow, state string) *condition {
	return &condition{s: s, channel: c.id, user: c.user, h: Health{State: state, Since: s.o.Clock.Now()}}
}

// Health implements Adapter.
func (c *condition) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.h
}

// set notes a state and why it is so.
func (c *condition) set(state, detail string) {
	c.mu.Lock()
	changed := c.h.State != state || c.h.Detail != detail
	if c.h.State != state {
		c.h.State, c.h.Since = state, c.s.o.Clock.Now()
	}
	c.h.Detail = detail
	c.mu.Unlock()
	if changed {
		bus.Publish(c.s.bus, c.user, Changed{c.channel, state})
	}
}

// setAccount notes the name under which the channel is known to its service.
func (c *condition) setAccount(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.h.Account = name
}
