package cloudsync

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	relayFrameBytes = 16 << 20
	relayQueue      = 1024    // frames queued per socket
	relayQueueBytes = 4 << 20 // bytes queued per socket
	relayPage       = 200
	relayPing       = 30 * time.Second
	relayWrite      = 30 * time.Second // a peer that accepts no data for this long is disconnected
	relaySockets    = 256
)

// relay lets local programs follow and change the rows of their user over WebSockets. Changed rows
// get a sequence number in relay_rows. A pump sends them to all sockets; a socket that connects
// with a cursor first reads the changes that it missed.
type relay struct {
	s    *Service
	wake chan struct{}

	mu      sync.Mutex
	sockets map[*relaySocket]bool
	last    map[uuid.UUID]int64 // last sequence number sent, by user
	stop    func()              // stops the pump
	pump    sync.WaitGroup
}

// ServeRelay upgrades a request to a relay socket. The caller must be authenticated, with its
// identity in the context of the request.
func (s *Service) ServeRelay(w http.ResponseWriter, r *http.Request) error {
	id, _ := identity.From(r.Context())
	if err := s.loadTables(r.Context()); err != nil {
		return err
	}
	if err := s.db.Write(r.Context(), s.relayBegin); err != nil {
		return err
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the gateway has already checked the origin
	if err != nil {
		s.o.Logger.Debug("relay", "err", err)
		return nil // Accept has already responded
	}
	c.SetReadLimit(relayFrameBytes)
	k := &relaySocket{relay: &s.relay, conn: c, id: id, more: make(chan struct{}, 1), own: map[int64]bool{}, live: true}
	if err := s.relay.join(r.Context(), k); err != nil {
		return c.Close(websocket.StatusTryAgainLater, fault.As(err).Message)
	}
	defer s.relay.leave(k)
	k.serve(r.Context())
	return nil
}

// ChangeParams is a Delta frame of the relay.
type ChangeParams struct {
	EntityType string          `json:"entity_type"` // a synced table
	EntityID   uuid.UUID       `json:"entity_id"`
	Data       json.RawMessage `json:"data,omitempty"` // an object of columns; omitted ones stay unchanged
	Deleted    bool            `json:"deleted,omitempty"`
	// VectorClock holds, for each device, the number of its changes to the item that the caller knows, with the
	// caller's own raised by one. A number above 2^53-1 is a string.
	VectorClock json.RawMessage `json:"vector_clock"`
	DeviceID    uuid.UUID       `json:"device_id"` // an id that the program made; it belongs to its token
}

// ChangeResult is the Ack frame of the relay.
type ChangeResult struct {
	Seq    string `json:"seq"`
	Result string `json:"result"` // applied, merged or duplicate
}

// Change changes a synced item like a Delta frame sent to the relay.
func (s *Service) Change(ctx context.Context, p ChangeParams) (ChangeResult, error) {
	if p.EntityID == uuid.Nil {
		return ChangeResult{}, fault.Invalidf("entity_id: missing.")
	}
	d := received{EntityType: p.EntityType, EntityID: p.EntityID, Data: p.Data, Deleted: p.Deleted, DeviceID: p.DeviceID}
	if err := json.Unmarshal(p.VectorClock, &d.Clock); err != nil {
		return ChangeResult{}, fault.Invalidf("vector_clock: not an object of numbers by device.")
	}
	if err := s.loadTables(ctx); err != nil {
		return ChangeResult{}, err
	}
	id, _ := identity.From(ctx)
	k := &relaySocket{relay: &s.relay, id: id, own: map[int64]bool{}}
	o, err := k.change(ctx, d)
	if err != nil {
		return ChangeResult{}, err
	}
	k.pass(o)
	return ChangeResult{place(o.seq), o.result}, nil
}

// join adds a socket and starts the pump for the first one.
func (r *relay) join(ctx context.Context, k *relaySocket) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sockets) >= relaySockets {
		return fault.Limitf("Too many programs are connected.")
	}
	if _, ok := r.last[k.id.User]; !ok {
		var head int64
		if err := r.s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM relay_rows WHERE user_id = ?`, k.id.User).Scan(&head)
		}); err != nil {
			return err
		}
		r.last[k.id.User] = head
	}
	r.sockets[k] = true
	if len(r.sockets) == 1 {
		ctx, cancel := context.WithCancel(context.Background())
		captured := bus.Subscribe(r.s.db.Bus(), func(uuid.UUID, storage.CapturedRows) { r.nudge() })
		applied := bus.Subscribe(r.s.db.Bus(), func(uuid.UUID, Applied) { r.nudge() })
		r.stop = func() { captured(); applied(); cancel() }
		r.pump.Go(func() { r.run(ctx) })
	}
	return nil
}

func (r *relay) leave(k *relaySocket) {
	r.mu.Lock()
	delete(r.sockets, k)
	if len(r.sockets) == 0 {
		r.stop()
		clear(r.last)
	}
	r.mu.Unlock()
}

func (r *relay) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run sends changes until ctx is done.
func (r *relay) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		if err := r.tell(ctx); err != nil && ctx.Err() == nil {
			r.s.o.Logger.Warn("relay", "err", err)
		}
	}
}

// tell records local changes and sends every change that was not sent yet.
func (r *relay) tell(ctx context.Context) error {
	var behind bool
	if err := r.s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM change_log WHERE seq > (SELECT seen_seq FROM relay_state))`).Scan(&behind)
	}); err != nil {
		return err
	}
	if behind {
		if err := r.s.db.Write(ctx, r.s.relayNote); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for user, last := range r.last {
		for more := true; more; {
			frames, err := storage.Result(ctx, r.s.db.Read, func(tx *storage.Tx) ([]frame, error) { return r.s.relayFrames(tx, user, last, relayPage) })
			if err != nil {
				return err
			}
			for _, f := range frames {
				last = f.seq
				if f.bytes == nil {
					continue
				}
				for k := range r.sockets {
					if k.id.User == user {
						k.offer(f)
					}
				}
			}
			more = len(frames) == relayPage
		}
		r.last[user] = last
	}
	return nil
}

// broadcast sends a frame other than a change to all sockets of a user.
func (r *relay) broadcast(user uuid.UUID, v any) {
	b, _ := json.Marshal(v) // cannot fail: plain values
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.sockets {
		if k.id.User == user {
			k.offer(frame{bytes: b, numbered: b})
		}
	}
}

// frame is an encoded frame, without and with its sequence number.
type frame struct {
	seq             int64 // 0 if the frame is not a change
	bytes, numbered []byte
}

// relayFrames encodes the changes after a sequence number. The frame of a row that must not be sent
// has no bytes.
func (s *Service) relayFrames(tx *storage.Tx, user uuid.UUID, after int64, limit int) ([]frame, error) {
	rows, err := relayAfter(tx, user, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]frame, 0, len(rows))
	for _, row := range rows {
		f := frame{seq: row.seq}
		d, err := s.relayDelta(tx, user, row)
		if err != nil {
			return nil, err
		}
		if d != nil {
			if f.numbered, err = json.Marshal(d); err != nil {
				return nil, err
			}
			d.Seq = ""
			if f.bytes, err = json.Marshal(d); err != nil {
				return nil, err
			}
		}
		out = append(out, f)
	}
	return out, nil
}

func place(n int64) string { return strconv.FormatInt(n, 10) }
