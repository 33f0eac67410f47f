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

// State is what sync does at the moment.
type State string

// The states.
const (
	Off        State = "off" // not connected to a hub
	Connecting State = "connecting"
	Initial    State = "initial" // the first copy
	Live       State = "live"
	Offline    State = "offline" // the hub cannot be reached
	Paused     State = "paused"
	Failed     State = "error"
)

// StatusChanged is published when the state or the error changes.
type StatusChanged struct {
	State State  `json:"state"`
	Error string `json:"error,omitempty"`
}

// HubInfo describes the hub.
type HubInfo struct {
	Host          string `json:"host"`
	SchemaVersion int    `json:"schemaVersion"`
	Encrypted     bool   `json:"encrypted"`
}

// StatusResult is the state of sync.
type StatusResult struct {
	State State `json:"state"`
	// Initial says how far the first copy is, while there is one.
	Initial      *Progress  `json:"initial,omitempty"`
	IsOnline     bool       `json:"isOnline"`
	IsSyncing    bool       `json:"isSyncing"`
	QueueLength  int        `json:"queueLength"`
	FailedCount  int        `json:"failedCount"`
	Conflicts    int        `json:"conflicts"`
	LastSyncTime *time.Time `json:"lastSyncTime"`
	// Cursor and Head are places in the hub's feed, as decimal strings.
	Cursor        string   `json:"cursor"`
	Head          string   `json:"head"`
	ClockOffsetMS int64    `json:"clockOffsetMs"`
	Hub           *HubInfo `json:"hub,omitempty"`
	Device        string   `json:"device,omitempty"`
	Site          int64    `json:"site,omitempty"`
	Error         string   `json:"error,omitempty"`
}

// Status says how sync stands. It never calls the hub.
func (s *Service) Status(ctx context.Context, _ struct{}) (StatusResult, error) {
	s.mu.Lock()
	r := StatusResult{State: s.state, Head: strconv.FormatInt(s.head, 10), ClockOffsetMS: s.offset.Milliseconds(), Initial: s.initial}
	if s.err != nil {
		r.Error = s.err.Message
	}
	s.mu.Unlock()
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		l, err := readLocal(tx)
		if err != nil {
			return err
		}
		if l.hub == nil {
			r.State = Off
			return nil
		}
		r.Hub = &HubInfo{Host: l.hub.Host, SchemaVersion: SchemaVersion, Encrypted: l.hub.Private}
		r.Device, r.Site = l.hub.Device.String(), l.site
		switch {
		case l.hub.Paused:
			r.State = Paused
		case r.State == "":
			r.State = Offline
		}
		var cursor int64
		var at time.Time
		if err := tx.QueryRow(`SELECT seq, synced_at FROM sync_cursor`).Scan(&cursor, storage.Time(&at)); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		r.Cursor = strconv.FormatInt(cursor, 10)
		if !at.IsZero() {
			r.LastSyncTime = &at
		}
		return tx.QueryRow(`SELECT (SELECT count(*) FROM sync_outbox WHERE parked = 0) + (SELECT count(*) FROM (SELECT DISTINCT tbl, row_id FROM change_log)),
			(SELECT count(*) FROM sync_dead_letter), (SELECT count(*) FROM sync_conflicts WHERE user_id = ? AND status = 'open' AND deleted_at IS NULL)`, l.user).Scan(&r.QueueLength, &r.FailedCount, &r.Conflicts)
	})
	r.IsOnline = r.State == Live || r.State == Initial
	r.IsSyncing = r.State == Initial || r.State == Connecting
	return r, err
}

func (s *Service) setState(st State, err *fault.Error) {
	s.mu.Lock()
	changed := s.state != st || (s.err == nil) != (err == nil) || err != nil && s.err.Message != err.Message
	s.state, s.err = st, err
	s.mu.Unlock()
	if !changed {
		return
	}
	e := StatusChanged{State: st}
	if err != nil {
		e.Error = err.Message
	}
	bus.Publish(s.db.Bus(), s.db.LocalUser().ID, e)
}

// ended turns the end of a round into a state.
func (s *Service) ended(err error) {
	switch {
	case err == nil:
		s.setState(Live, nil)
	case errors.Is(err, context.Canceled):
		s.setState(Offline, nil)
	case fault.As(err).Kind == fault.Unavailable:
		s.setState(Offline, fault.As(err))
	default:
		s.setState(Failed, fault.As(err))
	}
}

// Summary is one line for people who look whether all is well.
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
