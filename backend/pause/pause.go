// Package pause holds the one switch of background work: embeddings, automatic backups, pruning
// and schedules stop while somebody or something holds it. What a person starts goes on.
package pause

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
)

// Reason says who or what holds background work back.
type Reason string

// The reasons. A person's outlives a restart; the others are found again after it.
const (
	Person   Reason = "person"
	LowSpace Reason = "low_space"
)

// Enum lists the reasons for clients.
func (Reason) Enum() []string { return []string{string(LowSpace), string(Person)} }

// State is what clients see of a Pause.
type State struct {
	Paused  bool     `json:"paused"`
	Reasons []Reason `json:"reasons"`
	// Until is when a person's pause ends by itself; absent: it is ended by hand.
	Until *time.Time `json:"until,omitempty"`
}

// Changed is published when background work was paused or may go on.
type Changed struct {
	State State `json:"state"`
}

// Pause is safe for concurrent use. A nil Pause holds nothing back.
type Pause struct {
	file string
	bus  *bus.Bus
	now  func() time.Time

	mu    sync.Mutex
	until map[Reason]time.Time // of the reasons that hold; zero: no end
}

// Open returns a Pause that keeps a person's in file; "": nowhere. A file that cannot be read
// counts as none, and its error is returned beside the Pause.
func Open(file string, b *bus.Bus) (*Pause, error) {
	p := &Pause{file: file, bus: b, now: time.Now, until: map[Reason]time.Time{}}
	if file == "" {
		return p, nil
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	var until time.Time
	if err == nil {
		err = json.Unmarshal(raw, &until)
	}
	if err != nil {
		return p, fmt.Errorf("read whether background work is paused: %w", err)
	}
	p.until[Person] = until
	return p, nil
}

// Set makes r hold background work back, or lets go of it, and reports whether that is new.
func (p *Pause) Set(r Reason, on bool) (changed bool) {
	if p == nil {
		return false
	}
	p.mu.Lock()
	_, was := p.until[r]
	delete(p.until, r)
	if on {
		p.until[r] = time.Time{}
	}
	p.mu.Unlock()
	if was != on {
		p.publish()
	}
	return was != on
}

// Hold pauses background work for a person until the time until; zero: until Release.
func (p *Pause) Hold(until time.Time) error {
	raw, err := json.Marshal(until.UTC())
	if err != nil {
		return err
	}
	if p.file != "" {
		if err := os.WriteFile(p.file, raw, 0o600); err != nil {
			return fmt.Errorf("keep that background work is paused: %w", err)
		}
	}
	p.mu.Lock()
	p.until[Person] = until
	p.mu.Unlock()
	p.publish()
	return nil
}

// Release ends a person's pause.
func (p *Pause) Release() error {
	if p.file != "" {
		if err := os.Remove(p.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget that background work is paused: %w", err)
		}
	}
	p.Set(Person, false)
	return nil
}

// Active reports whether background work must wait.
func (p *Pause) Active() bool { return p.State().Paused }

// By reports whether r holds background work back.
func (p *Pause) By(r Reason) bool { return slices.Contains(p.State().Reasons, r) }

// State describes the pause at this moment.
func (p *Pause) State() State {
	s := State{Reasons: []Reason{}}
	if p == nil {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, r := range []Reason{LowSpace, Person} {
		until, held := p.until[r]
		if !held || !until.IsZero() && !now.Before(until) {
			continue
		}
		s.Paused, s.Reasons = true, append(s.Reasons, r)
		if !until.IsZero() {
			s.Until = &until
		}
	}
	return s
}

func (p *Pause) publish() { bus.Publish(p.bus, uuid.Nil, Changed{p.State()}) }
