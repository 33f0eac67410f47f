package cloudsync

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

// State is the current state of sync.
type State string

// States of sync.
const (
	Off        State = "off" // not connected to a hub
	Connecting State = "connecting"
	Initial    State = "initial" // the first copy is running
	Live       State = "live"
	Polling    State = "polling" // as live, over HTTPS, because a firewall blocks the database
	Offline    State = "offline" // the hub cannot be reached
	Paused     State = "paused"
	Failed     State = "error"
)

// StatusChanged is published when the state or the error changes.
type StatusChanged struct {
	State State  `json:"state"`
	Error string `json:"error,omitempty"`
}

// Problem is a condition that a person has to resolve.
type Problem string

// Problems.
const (
	ProblemClock   Problem = "clock"   // this device's clock is off by more than five minutes
	ProblemKey     Problem = "key"     // this device lacks the key of the encrypted data
	ProblemSchema  Problem = "schema"  // the hub requires a newer version of Helix
	ProblemRemoved Problem = "removed" // another device has removed this one
)

// problemDetails are the details of an error with a Problem.
type problemDetails struct {
	Problem Problem `json:"problem"`
}

const maxClockOffset = 5 * time.Minute

// HubInfo describes the hub.
type HubInfo struct {
	Host          string `json:"host"`
	SchemaVersion int    `json:"schemaVersion"`
	Encrypted     bool   `json:"encrypted"`
	// Vectors reports whether the hub can store the embeddings of memories, and Embeddings whether
	// this device sends them.
	Vectors    bool       `json:"vectors"`
	Embeddings Embeddings `json:"embeddings"`
}

// StatusResult is the state of sync.
type StatusResult struct {
	State State `json:"state"`
	// Initial is the progress of the first copy while it is running.
	Initial      *Progress  `json:"initial,omitempty"`
	IsOnline     bool       `json:"isOnline"`
	IsSyncing    bool       `json:"isSyncing"`
	QueueLength  int        `json:"queueLength"`
	FailedCount  int        `json:"failedCount"`
	Conflicts    int        `json:"conflicts"`
	LastSyncTime *time.Time `json:"lastSyncTime"`
	// LastChange is when something was last sent or received.
	LastChange *time.Time `json:"lastChange"`
	// Devices is the number of devices of this person that this device knows of.
	Devices int `json:"devices"`
	// Cursor and Head are positions in the hub's feed, as decimal strings: what this device has
	// stored, and the end.
	Cursor        string   `json:"cursor"`
	Head          string   `json:"head"`
	ClockOffsetMS int64    `json:"clockOffsetMs"`
	Hub           *HubInfo `json:"hub,omitempty"`
	Device        string   `json:"device,omitempty"`
	Site          int64    `json:"site,omitempty"`
	Error         string   `json:"error,omitempty"`
	Problem       Problem  `json:"problem,omitempty"`
}

// Status reports the state of sync. It never contacts the hub.
func (s *Service) Status(ctx context.Context, _ struct{}) (StatusResult, error) {
	s.mu.Lock()
	r := StatusResult{State: s.state, Head: strconv.FormatInt(s.head, 10), ClockOffsetMS: s.offset.Milliseconds(), Initial: s.initial}
	if s.err != nil {
		r.Error = s.err.Message
		if d, ok := s.err.Details.(problemDetails); ok {
			r.Problem = d.Problem
		}
	}
	if r.Problem == "" && s.offset.Abs() > maxClockOffset {
		r.Problem = ProblemClock
	}
	s.mu.Unlock()
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		l, err := readLocal(tx)
		if err != nil {
			return err
		}
		if l.hub == nil {
			r.State, r.Error, r.Problem = Off, "", ""
			return nil
		}
		r.Hub = &HubInfo{Host: l.hub.Host, SchemaVersion: SchemaVersion, Encrypted: l.hub.Private, Vectors: l.hub.Vectors, Embeddings: s.embeddings(l.hub)}
		r.Device, r.Site = l.hub.Device.String(), l.site
		switch {
		case l.hub.Paused:
			r.State = Paused
		case r.State == "":
			r.State = Offline
		}
		var cursor int64
		var at, changed time.Time
		if err := tx.QueryRow(`SELECT seq, synced_at, changed_at FROM sync_cursor`).Scan(&cursor, storage.Time(&at), storage.Time(&changed)); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		r.Cursor = strconv.FormatInt(cursor, 10)
		if !at.IsZero() {
			r.LastSyncTime = &at
		}
		if !changed.IsZero() {
			r.LastChange = &changed
		}
		return tx.QueryRow(`SELECT (SELECT count(*) FROM sync_outbox WHERE parked = 0) + (SELECT count(*) FROM (SELECT DISTINCT tbl, row_id FROM change_log)),
			(SELECT count(*) FROM sync_dead_letter), (SELECT count(*) FROM sync_conflicts WHERE user_id = ? AND status = 'open' AND deleted_at IS NULL),
			(SELECT count(*) FROM sync_devices WHERE removed = 0)`, l.user).Scan(&r.QueueLength, &r.FailedCount, &r.Conflicts, &r.Devices)
	})
	r.IsOnline = r.State == Live || r.State == Polling || r.State == Initial
	r.IsSyncing = r.State == Initial || r.State == Connecting
	return r, err
}

func (s *Service) setState(st State, err *fault.Error) {
	s.mu.Lock()
	changed := s.state != st || (s.err == nil) != (err == nil) || err != nil && s.err.Message != err.Message
	s.state, s.err = st, err
	s.mu.Unlock()
	if changed {
		s.tell()
	}
}

// tell publishes the state.
func (s *Service) tell() {
	s.mu.Lock()
	e := StatusChanged{State: s.state}
	if s.err != nil {
		e.Error = s.err.Message
	}
	s.mu.Unlock()
	bus.Publish(s.db.Bus(), s.db.LocalUser().ID, e)
}

// tellEvery is the shortest interval between reports that more changes are waiting to be sent.
const tellEvery = time.Second

// wrote publishes the state after a local change, at most once per tellEvery, while changes cannot
// be sent.
func (s *Service) wrote() {
	s.mu.Lock()
	due := s.state != Live && s.state != Polling && time.Since(s.noted) > tellEvery
	if due {
		s.noted = time.Now()
	}
	s.mu.Unlock()
	if due {
		s.tell()
	}
}

// ended sets the state after an exchange.
func (s *Service) ended(ctx context.Context, err error, r Round) {
	moved := r.Pushed+r.Pulled+r.Merged > 0
	if moved {
		if err := s.db.Write(context.WithoutCancel(ctx), func(tx *storage.Tx) error {
			_, err := tx.Exec(`UPDATE sync_cursor SET changed_at = ?`, tx.Now)
			return err
		}); err != nil {
			s.o.Logger.Warn("store when something was synced", "err", err)
		}
	}
	if r.DeadLetters > 0 {
		bus.Publish(s.db.Bus(), s.db.LocalUser().ID, DeadLettersChanged{})
	}
	switch {
	case err == nil && s.conn == nil:
		s.setState(Polling, nil)
	case err == nil:
		s.setState(Live, nil)
	default:
		s.noteError(err)
	}
	if moved {
		s.tell()
	}
}

// noteError sets the state after an error of an exchange.
func (s *Service) noteError(err error) {
	switch {
	case errors.Is(err, context.Canceled):
		s.setState(Offline, nil)
	case fault.As(err).Kind == fault.Unavailable:
		s.setState(Offline, fault.As(err))
	default:
		s.setState(Failed, fault.As(err))
	}
}

// Behind returns the number of the hub's changes that this device has not stored yet.
func (r StatusResult) Behind() int64 {
	head, _ := strconv.ParseInt(r.Head, 10, 64) // "" while off
	cursor, _ := strconv.ParseInt(r.Cursor, 10, 64)
	return max(head-cursor, 0)
}

// Summary describes the state in one line.
func (r StatusResult) Summary() string {
	switch {
	case r.State == Off:
		return "not connected"
	case r.Error != "":
		return r.Error
	case r.FailedCount > 0 || r.Conflicts > 0:
		return fmt.Sprintf("%s, %d conflicts, %d items not synced", r.State, r.Conflicts, r.FailedCount)
	}
	return fmt.Sprintf("%s, %d changes waiting", r.State, r.QueueLength)
}
