package cloudsync

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// relaySocket is the connection of one program.
type relaySocket struct {
	relay *relay
	conn  *websocket.Conn
	id    identity.Identity

	device uuid.UUID // the id that the program uses, set by its first Delta; used by the reading goroutine only

	mu     sync.Mutex
	queue  []frame
	size   int
	full   bool           // the queue overflowed; Resync is the last frame sent
	hello  bool           // the client sent a Hello with ack: it gets sequence numbers, Ack, Error and Resync
	live   bool           // the pump sends changes; otherwise the writer reads the missed ones
	cursor int64          // sequence number of the last change sent
	own    map[int64]bool // sequence numbers of the client's own changes
	more   chan struct{}
}

// serve reads frames until the connection or ctx ends, while another goroutine writes.
func (k *relaySocket) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var writing sync.WaitGroup
	writing.Go(func() {
		defer k.conn.CloseNow() //nolint:errcheck // also ends a reader that is still running
		k.write(ctx)
	})
	for {
		kind, b, err := k.conn.Read(context.WithoutCancel(ctx)) // the writer closes the connection, with a status code
		if err != nil {
			break
		}
		if kind != websocket.MessageText {
			k.fail(nil, fault.Invalidf("Expected a text frame with JSON."))
			continue
		}
		if id, err := k.handle(ctx, b); err != nil {
			k.fail(id, err)
		}
	}
	cancel()
	writing.Wait()
}

// offer queues a frame for the writer. It never blocks: if the queue is full, the client is told to
// resync.
func (k *relaySocket) offer(f frame) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.seq > 0 {
		own := k.own[f.seq]
		for seq := range k.own { // a newer change may have replaced one
			if seq <= f.seq {
				delete(k.own, seq)
			}
		}
		if own || !k.live {
			return
		}
	}
	if k.full {
		return
	}
	if len(k.queue) >= relayQueue || k.size+len(f.numbered) > relayQueueBytes {
		k.full, k.queue = true, nil
	} else {
		k.queue = append(k.queue, f)
		k.size += len(f.numbered)
	}
	k.signal()
}

func (k *relaySocket) signal() {
	select {
	case k.more <- struct{}{}:
	default:
	}
}

// write sends queued frames, and the changes that the client missed before the socket was live.
func (k *relaySocket) write(ctx context.Context) {
	ping := time.NewTicker(relayPing)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = k.conn.Close(websocket.StatusGoingAway, "") // the server is stopping, or the token was revoked
			return
		case <-ping.C:
			waiting, cancel := context.WithTimeout(ctx, relayWrite)
			err := k.conn.Ping(waiting)
			cancel()
			if err != nil {
				return
			}
		case <-k.more:
			if !k.flush(ctx) {
				return
			}
		}
	}
}

// flush sends everything that is queued. It returns false if the connection must end.
func (k *relaySocket) flush(ctx context.Context) bool {
	for {
		k.mu.Lock()
		list, full, hello, live := k.queue, k.full, k.hello, k.live
		k.queue, k.size = nil, 0
		k.mu.Unlock()
		for _, f := range list {
			if !k.send(ctx, f, hello) {
				return false
			}
		}
		switch {
		case full:
			k.resync(ctx)
			return false
		case !live:
			if !k.catchUp(ctx) {
				return false
			}
		case len(list) == 0:
			return true
		}
	}
}

func (k *relaySocket) send(ctx context.Context, f frame, hello bool) bool {
	b := f.bytes
	if hello {
		b = f.numbered
	}
	if b == nil {
		return true
	}
	writing, cancel := context.WithTimeout(ctx, relayWrite)
	defer cancel()
	if k.conn.Write(writing, websocket.MessageText, b) != nil {
		return false
	}
	k.mu.Lock()
	k.cursor = max(k.cursor, f.seq)
	k.mu.Unlock()
	return true
}

// resync sends the client its cursor and closes the connection. The client should connect again
// with the cursor.
func (k *relaySocket) resync(ctx context.Context) {
	k.mu.Lock()
	cursor := k.cursor
	k.mu.Unlock()
	b, _ := json.Marshal(resyncFrame{Type: "Resync", Cursor: place(cursor)}) // cannot fail: plain values
	if k.send(ctx, frame{bytes: b, numbered: b}, true) {
		_ = k.conn.Close(websocket.StatusTryAgainLater, "too slow")
	}
}

// catchUp sends the changes after the cursor. When there are no more, the pump takes over.
func (k *relaySocket) catchUp(ctx context.Context) bool {
	s := k.relay.s
	for {
		k.mu.Lock()
		after := k.cursor
		k.mu.Unlock()
		frames, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]frame, error) { return s.relayFrames(tx, k.id.User, after, relayPage) })
		if err != nil {
			return false
		}
		for _, f := range frames {
			k.mu.Lock()
			own := k.own[f.seq] // sent right after Hello
			k.mu.Unlock()
			if !own && !k.send(ctx, f, true) {
				return false
			}
			k.mu.Lock()
			k.cursor = f.seq
			k.mu.Unlock()
		}
		if len(frames) == relayPage {
			continue
		}
		k.relay.mu.Lock()
		k.mu.Lock()
		caught := k.cursor >= k.relay.last[k.id.User]
		k.live = k.live || caught
		k.mu.Unlock()
		k.relay.mu.Unlock()
		if caught {
			k.relay.nudge() // for changes recorded in the meantime
			return true
		}
	}
}

// answer queues a frame for this socket, if its client asked for such frames.
func (k *relaySocket) answer(v any) {
	k.mu.Lock()
	hello := k.hello
	k.mu.Unlock()
	if hello {
		b, _ := json.Marshal(v) // cannot fail: plain values
		k.offer(frame{bytes: b, numbered: b})
	}
}

func (k *relaySocket) fail(id *uuid.UUID, err error) {
	e := fault.As(err)
	if e.Kind == fault.Internal {
		k.relay.s.o.Logger.Error("relay", "err", err)
	}
	k.answer(errorFrame{Type: "Error", Kind: string(e.Kind), Message: e.Message, EntityID: id})
}

// handle processes one frame. The id is that of the row that an error is about, if known.
func (k *relaySocket) handle(ctx context.Context, b []byte) (*uuid.UUID, error) {
	var d received
	if err := json.Unmarshal(b, &d); err != nil {
		var field *json.UnmarshalTypeError
		if errors.As(err, &field) {
			return nil, fault.Invalidf("%s: not a value that this field takes.", field.Field)
		}
		return nil, fault.Invalidf("The frame is not JSON of a known form.")
	}
	switch d.Type {
	case "Hello":
		return nil, k.greet(ctx, d)
	case "Delta":
	default:
		return nil, fault.Invalidf("type: %.32q is not Hello or Delta.", d.Type)
	}
	if d.EntityID == uuid.Nil {
		return nil, fault.Invalidf("entity_id: missing.")
	}
	o, err := k.change(ctx, d)
	if err != nil {
		return &d.EntityID, err
	}
	k.answer(ackFrame{Type: "Ack", EntityID: d.EntityID, Seq: place(o.seq), Result: o.result})
	k.pass(o)
	return nil, nil
}

// change stores a Delta.
func (k *relaySocket) change(ctx context.Context, d received) (o outcome, err error) {
	err = k.relay.s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := k.relay.s.relayBegin(tx); err != nil {
			return err
		}
		if err := k.bind(tx, d.DeviceID); err != nil {
			return err
		}
		if d.Clock[d.DeviceID] == 0 {
			return fault.Invalidf("vector_clock: the entry for device_id is missing.")
		}
		if o, err = k.relay.s.applyDelta(tx, k.id.User, d); err != nil {
			return err
		}
		if o.result == "applied" { // the sender also needs the result of a merge
			k.mu.Lock()
			k.own[o.seq] = true
			k.mu.Unlock()
		}
		return nil
	})
	return o, err
}

// pass sends a stored Delta to the other programs.
func (k *relaySocket) pass(o outcome) {
	if o.conflict != nil {
		k.relay.broadcast(k.id.User, o.conflict)
	}
	k.relay.nudge()
}

// greet handles a Hello: it sends the changes that the client missed, and afterwards the kinds of
// frames that it asked for.
func (k *relaySocket) greet(ctx context.Context, d received) error {
	var head int64
	if err := k.relay.s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM relay_rows WHERE user_id = ?`, k.id.User).Scan(&head)
	}); err != nil {
		return err
	}
	k.mu.Lock()
	k.hello, k.live, k.queue, k.size, k.cursor = d.Ack, false, nil, 0, int64(d.Cursor)
	if k.cursor < 0 || k.cursor > head { // a cursor from another database
		k.cursor = 0
		b, _ := json.Marshal(resyncFrame{Type: "Resync", Cursor: "0"}) // cannot fail: plain values
		k.queue = append(k.queue, frame{bytes: b, numbered: b})
	}
	k.mu.Unlock()
	k.signal()
	return nil
}

// bind checks that a client uses the device id that its token has used before.
func (k *relaySocket) bind(tx *storage.Tx, device uuid.UUID) error {
	denied := fault.Deniedf("device_id: this token belongs to another device.")
	if device == uuid.Nil {
		return fault.Invalidf("device_id: missing.")
	}
	if k.device == device {
		return nil
	}
	if k.device != uuid.Nil || device == k.relay.s.db.Device().ID || device == k.relay.s.relayDevice(tx) {
		return denied
	}
	var token uuid.UUID
	switch err := tx.QueryRow(`SELECT token_id FROM relay_clients WHERE device_id = ?`, device).Scan(&token); {
	case err == nil && token != k.id.Token:
		return denied
	case err != nil && k.id.Token != uuid.Nil:
		var other bool
		if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM relay_clients WHERE token_id = ?)`, k.id.Token).Scan(&other); err != nil {
			return err
		}
		if other {
			return denied
		}
		if _, err := tx.Exec(`INSERT INTO relay_clients (device_id, token_id) VALUES (?, ?)`, device, k.id.Token); err != nil {
			return err
		}
	}
	k.device = device
	return nil
}
