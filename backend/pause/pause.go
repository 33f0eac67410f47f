// Package pause is the switch for background work: embeddings, automatic backups, pruning and
// schedules stop while it is paused. Work that a person starts continues.
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

// Reason is why background work is paused.
type Reason string

// The reasons. A pause by a person survives a restart; the others are detected again.
const (
	Person   Reason = "person"
	LowSpace Reason = "low_space"
)

// Enum lists the reasons for clients.
func (Reason) Enum() []string { return []string{string(LowSpace), string(Person)} }

// State is the state of a Pause for clients.
type State struct {
	Paused  bool     `json:"paused"`
	Reasons []Reason `json:"reasons"`
	// Until is when a person's pause ends automatically; absent: it does not.
	Until *time.Time `json:"until,omitempty"`
}

// Changed is published when background work was paused or may continue.
type Changed struct {
	State State `json:"state"`
}

// Pause is the state of the switch. It is safe for concurrent use. A nil Pause is never paused.
type Pause struct {
	file string
	bus  *bus.Bus
	now  func() time.Time

	mu    sync.Mutex
	until map[Reason]time.Time // of the active reasons; zero: no end
}

// Open returns a Pause that stores a person's pause in file; "": it is not stored. If the file
// cannot be read, there is no pause, and the error is returned together with the Pause.
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

// Set adds or removes r as a reason to pause, and reports whether that changed anything.
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

// By reports whether r pauses background work.
func (p *Pause) By(r Reason) bool { return slices.Contains(p.State().Reasons, r) }

// State returns the current state of the pause.
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
