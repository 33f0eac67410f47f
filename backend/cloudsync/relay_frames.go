package cloudsync

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Clocks maps each device to the number of changes that it has made to a row.
type Clocks map[uuid.UUID]int64

// exactInJSON is the largest integer that every JSON parser represents exactly. Larger numbers are
// sent as decimal strings.
const exactInJSON = 1<<53 - 1

func exact(n int64) any {
	if n > exactInJSON || n < -exactInJSON {
		return strconv.FormatInt(n, 10)
	}
	return n
}

// MarshalJSON encodes c as {"clocks":{…}}.
func (c Clocks) MarshalJSON() ([]byte, error) {
	out := map[string]any{}
	for id, n := range c {
		out[id.String()] = exact(n)
	}
	return json.Marshal(map[string]any{"clocks": out})
}

// UnmarshalJSON accepts {"clocks":{…}} and the flat form {…}.
func (c *Clocks) UnmarshalJSON(b []byte) error {
	var wrapped struct {
		Clocks *map[uuid.UUID]number64 `json:"clocks"`
	}
	if err := json.Unmarshal(b, &wrapped); err != nil {
		return err
	}
	if wrapped.Clocks == nil {
		wrapped.Clocks = &map[uuid.UUID]number64{}
		if err := json.Unmarshal(b, wrapped.Clocks); err != nil {
			return err
		}
	}
	*c = Clocks{}
	for id, n := range *wrapped.Clocks {
		if n < 0 {
			return fmt.Errorf("a clock below zero")
		}
		(*c)[id] = int64(n)
	}
	return nil
}

// covers reports whether c includes every change in o.
func (c Clocks) covers(o Clocks) bool {
	for id, n := range o {
		if c[id] < n {
			return false
		}
	}
	return true
}

func (c Clocks) with(o Clocks) Clocks {
	out := maps.Clone(c)
	if out == nil {
		out = Clocks{}
	}
	for id, n := range o {
		out[id] = max(out[id], n)
	}
	return out
}

// The frames of the relay. A Delta with Deleted set has no data.
type (
	deltaFrame struct {
		Type       string         `json:"type"` // Delta
		EntityType string         `json:"entity_type"`
		EntityID   uuid.UUID      `json:"entity_id"`
		Data       map[string]any `json:"data"`
		Deleted    bool           `json:"deleted,omitempty"`
		Clock      Clocks         `json:"vector_clock"`
		DeviceID   uuid.UUID      `json:"device_id"`
		Seq        string         `json:"seq,omitempty"`
	}
	conflictSide struct {
		ID           uuid.UUID      `json:"id"`
		Data         map[string]any `json:"data"`
		Clock        Clocks         `json:"vector_clock"`
		LastModified time.Time      `json:"last_modified"`
		DeviceID     uuid.UUID      `json:"device_id"`
	}
	conflictFrame struct {
		Type     string       `json:"type"` // Conflict
		EntityID uuid.UUID    `json:"entity_id"`
		Local    conflictSide `json:"local"`
		Remote   conflictSide `json:"remote"`
	}
	ackFrame struct {
		Type     string    `json:"type"` // Ack
		EntityID uuid.UUID `json:"entity_id"`
		Seq      string    `json:"seq"`
		Result   string    `json:"result"` // applied, merged or duplicate
	}
	errorFrame struct {
		Type     string     `json:"type"` // Error
		Kind     string     `json:"kind"`
		Message  string     `json:"message"`
		EntityID *uuid.UUID `json:"entity_id,omitempty"`
	}
	resyncFrame struct {
		Type   string `json:"type"` // Resync
		Cursor string `json:"cursor"`
	}
)

// received is a frame from a client: a Hello or a Delta.
type received struct {
	Type       string          `json:"type"`
	Cursor     number64        `json:"cursor"`
	Ack        bool            `json:"ack"`
	EntityType string          `json:"entity_type"`
	EntityID   uuid.UUID       `json:"entity_id"`
	Data       json.RawMessage `json:"data"`
	Deleted    bool            `json:"deleted"`
	Clock      Clocks          `json:"vector_clock"`
	DeviceID   uuid.UUID       `json:"device_id"`
}
