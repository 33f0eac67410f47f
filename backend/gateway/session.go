package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// session is one client on one pipe, or the permanent session of a credential on POST /rpc.
type session struct {
	srv    *Server
	conn   uuid.UUID
	pipe   Pipe   // nil on POST /rpc
	kind   string // websocket, bridge, memory, http, …
	peer   string // for counting wrong tokens
	since  time.Time
	ctx    context.Context // of every call
	cancel context.CancelCauseFunc
	out    outbox
	slots  chan struct{} // one token per running call
	writes *bucket
	batch  chan struct{} // one token per batch being answered
	work   sync.WaitGroup

	mu      sync.Mutex
	cred    *credential // nil until authenticated
	id      identity.Identity
	base    context.Context // ctx with id; nil: created at the next call
	client  ClientInfo
	greeted bool // connect has succeeded
	calls   map[string]*call
	closed  bool
	ending  bool // accepts no more calls

	hub *hub
	sub subscription // guarded by hub.mu

	turn turn // which goroutine reads
	bad  int  // consecutive frames that were not JSON; used by the reader

	answering atomic.Int32 // calls whose answer is not queued yet

	lastUse time.Time // of an http session; guarded by Server.mu
}

var (
	errSessionClosed = fmt.Errorf("the session was closed: %w", context.Canceled)
	errCanceled      = fmt.Errorf("rpc.cancel: %w", context.Canceled)
)

type sessionKey struct{}

// sessionOf returns the session of the call that ctx belongs to.
func sessionOf(ctx context.Context) (*session, error) {
	if ss, ok := ctx.Value(sessionKey{}).(*session); ok {
		return ss, nil
	}
	return nil, fault.Unavailablef("Only a client can call this.")
}

func (s *Server) newSession(ctx context.Context, p Pipe, kind, peer string) *session {
	ss := &session{srv: s, conn: storage.NewID(), pipe: p, kind: kind, peer: peer, since: time.Now(),
		slots: make(chan struct{}, s.o.Limits.InFlight), batch: make(chan struct{}, 4),
		writes: newBucket(s.o.Limits.WriteRate, s.o.Limits.WriteBurst), calls: map[string]*call{}}
	ss.ctx, ss.cancel = context.WithCancelCause(context.WithValue(ctx, sessionKey{}, ss))
	l := &s.o.Limits
	ss.out = outbox{pipe: p, maxEvents: l.QueueEvents, maxBytes: l.QueueBytes, blocked: l.WriteBlocked, room: make(chan struct{}, 1),
		makeGap: s.gapFrame, fail: func(err error, stalled bool) {
			if stalled {
				ss.close(1013, "the client does not read")
				return
			}
			ss.close(1006, "")
		}}
	return ss
}

// Serve runs one session over p until the pipe or ctx ends. If id has a user, the session belongs
// to that user from the start and has id.Scopes; otherwise the client must connect first, with a
// token. It returns nil after a normal close by the peer.
func (s *Server) Serve(ctx context.Context, p Pipe, id identity.Identity) error {
	if s.stopping.Load() {
		return fault.Unavailablef("Helix is stopping.")
	}
	s.attach()
	kind := id.Pipe
	if kind == "" {
		kind = "memory"
	}
	ss := s.newSession(ctx, p, kind, kind)
	if id.User != uuid.Nil {
		if err := ss.admit(&credential{client: id.Client, user: User{ID: id.User, DisplayName: s.displayName(id.User)}, scopes: id.Scopes}); err != nil {
			ss.close(1013, "too many sessions")
			return err
		}
		ss.mu.Lock()
		ss.client.ID = id.Label
		ss.id.Label = id.Label
		ss.mu.Unlock()
	}
	return s.serve(ss)
}

func (s *Server) displayName(user uuid.UUID) string {
	if u := s.o.User(); user == u.ID {
		return u.DisplayName
	}
	return ""
}

// serve reads frames until the pipe ends, then waits for everything that the session started.
func (s *Server) serve(ss *session) error {
	s.mu.Lock()
	s.sessions[ss.conn] = ss
	s.mu.Unlock()
	stop := context.AfterFunc(ss.ctx, func() { ss.close(1001, "") })
	defer stop()
	limit(ss.pipe, s.o.Limits.PreAuthFrame)
	if ss.authenticated() {
		limit(ss.pipe, s.o.Limits.MaxPayload)
	} else {
		t := time.AfterFunc(s.o.Limits.AuthTime, func() {
			if !ss.authenticated() {
				ss.close(1008, "no connect within the time")
			}
		})
		defer t.Stop()
	}
	if p, ok := ss.pipe.(pinger); ok {
		defer s.keepAlive(ss, p)()
	}
	err := ss.read()
	ss.close(1000, "")
	s.forget(ss)
	ss.work.Wait()
	s.sessionEnded(ss)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || ss.ctx.Err() != nil {
		return nil
	}
	return err
}

func limit(p Pipe, n int) {
	if l, ok := p.(readLimiter); ok {
		l.SetReadLimit(int64(n))
	}
}

// keepAlive pings at every tick and closes the session if there is no answer.
func (s *Server) keepAlive(ss *session, p pinger) (stop func()) {
	var mu sync.Mutex
	var t *time.Timer
	done := false
	mu.Lock()
	defer mu.Unlock() // the timer may fire before it is stored
	t = time.AfterFunc(s.o.Limits.Tick, func() {
		ctx, cancel := context.WithTimeout(ss.ctx, s.o.Limits.PongWithin)
		err := p.Ping(ctx)
		cancel()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case done:
		case err != nil:
			ss.close(1011, "no answer to a ping")
		default:
			if c := ss.credential(); c != nil && c.client == identity.ClientBrowser {
				s.auth.touch(ss.ctx, c, time.Now()) // an open page keeps its session alive
			}
			t.Reset(s.o.Limits.Tick)
		}
	})
	return func() {
		mu.Lock()
		done = true
		t.Stop()
		mu.Unlock()
	}
}

// sessionEnded reports that ss has ended and nothing in it is running any more.
func (s *Server) sessionEnded(ss *session) {
	if id := ss.identity(); s.o.SessionEnded != nil && id.User != uuid.Nil {
		s.o.SessionEnded(identity.With(context.WithoutCancel(ss.ctx), id), id)
	}
}

// forget removes the session from all registries.
func (s *Server) forget(ss *session) {
	if ss.hub != nil {
		ss.hub.leave(ss)
	}
	s.mu.Lock()
	delete(s.sessions, ss.conn)
	cred := ss.credential()
	if cred != nil {
		if s.perUser[cred.user.ID]--; s.perUser[cred.user.ID] <= 0 {
			delete(s.perUser, cred.user.ID)
		}
	}
	s.mu.Unlock()
	if cred != nil {
		s.sessionsChanged(cred.user.ID)
	}
}

// admit authenticates the session with c.
func (ss *session) admit(c *credential) error {
	s := ss.srv
	s.mu.Lock()
	if s.perUser[c.user.ID] >= s.o.Limits.SessionsPerUser {
		s.mu.Unlock()
		return fault.Limitf("%d sessions are already open. Close one first.", s.o.Limits.SessionsPerUser)
	}
	s.perUser[c.user.ID]++
	s.mu.Unlock()
	ss.mu.Lock()
	ss.hub = s.hubOf(c.user.ID)
	ss.mu.Unlock()
	ss.hold(c, c.scopes)
	ss.leaveWaiting()
	s.sessionsChanged(c.user.ID)
	return nil
}

// hold records c as the credential of the session, for its first token and for one that it connects
// with later.
func (ss *session) hold(c *credential, scopes Scope) {
	ss.mu.Lock()
	former := ss.cred
	ss.cred = c
	ss.id = c.identity(ss.conn, scopes, ss.kind, ss.id.Label)
	ss.base = nil
	ss.mu.Unlock()
	if c != former && c.client == identity.ClientToken && !c.expires.IsZero() {
		t := time.AfterFunc(time.Until(c.expires), func() { ss.close(1008, "the token has expired") })
		context.AfterFunc(ss.ctx, func() { t.Stop() })
	}
}

// wait adds the session to those that have not authenticated. If there are too many, the oldest is
// closed: an honest client connects at once, so whoever has waited longest is the least likely to
// be one, and a client that occupies the places cannot keep others out.
func (ss *session) wait() {
	s := ss.srv
	s.mu.Lock()
	s.waiting = append(s.waiting, ss)
	var oldest *session
	if len(s.waiting) > s.o.Limits.Unauthenticated {
		oldest = s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
	}
	s.mu.Unlock()
	if oldest != nil {
		oldest.close(1006, "") // at once: a close handshake would hold the connection for seconds
	}
}

// leaveWaiting removes the session from those that have not authenticated.
func (ss *session) leaveWaiting() {
	s := ss.srv
	s.mu.Lock()
	if i := slices.Index(s.waiting, ss); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.mu.Unlock()
}

func (s *Server) sessionsChanged(user uuid.UUID) { bus.Publish(s.bus, user, SessionsChanged{}) }

func (ss *session) credential() *credential {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.cred
}

func (ss *session) authenticated() bool { return ss.credential() != nil }

func (ss *session) identity() identity.Identity {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.id
}

// close ends the session: running calls are canceled, and the pipe is closed with code.
func (ss *session) close(code int, reason string) {
	ss.mu.Lock()
	if ss.closed {
		ss.mu.Unlock()
		return
	}
	ss.closed = true
	ss.mu.Unlock()
	ss.cancel(errSessionClosed)
	ss.out.close()
	if c, ok := ss.pipe.(closer); ok {
		c.Close(code, reason)
	}
}

// readFrames reads until the pipe ends. over is false if another goroutine continues to read.
func (ss *session) readFrames() (err error, over bool) { //nolint:revive // the error is the result
	for {
		frame, err := ss.pipe.Read(ss.ctx)
		var reqs []request
		var batch bool
		if err == nil && len(frame) > ss.frameLimit() { // for pipes without a limit of their own
			ss.close(1009, "the frame is too large")
			return nil, true
		}
		if err == nil {
			reqs, batch, err = parseFrame(frame)
		}
		if err != nil {
			if !isFrameError(err) {
				return err, true
			}
			ss.out.send(errorFrame(nullID, ss.logged("", parseError(err))))
			if ss.bad++; ss.bad == 3 {
				ss.out.flush(time.Second) // closing discards the queue
				ss.close(1007, "three frames in a row were not JSON")
				return nil, true
			}
			continue
		}
		ss.bad = 0
		if batch {
			ss.handleBatch(reqs)
			continue
		}
		if !ss.handle(&reqs[0], frame) {
			return nil, false
		}
	}
}

func (ss *session) frameLimit() int {
	if ss.authenticated() {
		return ss.srv.o.Limits.MaxPayload
	}
	return ss.srv.o.Limits.PreAuthFrame
}

// handle processes one request that is not part of a batch and came in frame. It reports whether
// the caller is still the reader.
func (ss *session) handle(r *request, frame []byte) bool {
	if r.bad == nil && r.id == nil {
		ss.notified(r)
		return true
	}
	c, err := ss.admitCall(r, false)
	if err != nil {
		ss.reply(errorFrame(r.id, ss.logged(r.method, err)))
		return true
	}
	if c.m.name == "connect" { // in order, because the following requests depend on it
		ss.reply(c.run())
		return true
	}
	if ss.turn.inline && c.m.pace.quick() {
		return ss.runInline(c, frame)
	}
	ss.work.Add(1)
	ss.answering.Add(1)
	ss.srv.workers.run(func() {
		defer ss.work.Done()
		defer ss.answering.Add(-1)
		began := time.Now()
		answer := c.run()
		c.m.pace.took(time.Since(began))
		if ss.turn.inline { // we own the frame
			recycle(frame)
		}
		ss.out.send(answer)
	})
	return true
}

// reply sends a response of the reader itself.
func (ss *session) reply(frame []byte) {
	if !ss.turn.inline {
		ss.out.send(frame)
	} else if ss.out.later(frame) {
		ss.srv.workers.run(ss.out.drain)
	}
}

// handleBatch answers the entries of a batch together, in their order. They run concurrently.
func (ss *session) handleBatch(reqs []request) {
	if !ss.authenticated() { // at most connect can succeed here, so no goroutines are needed
		ss.out.send(joinBatch(ss.answerBatch(reqs)))
		return
	}
	select {
	case ss.batch <- struct{}{}:
	default:
		answers := [][]byte{}
		for i := range reqs {
			if reqs[i].id != nil {
				answers = append(answers, errorFrame(reqs[i].id, ss.logged(reqs[i].method, limited(100*time.Millisecond, "Too many batches at once."))))
			}
		}
		ss.out.send(joinBatch(answers))
		return
	}
	ss.work.Add(1)
	ss.answering.Add(1)
	go func() {
		defer ss.work.Done()
		defer ss.answering.Add(-1)
		out := joinBatch(ss.answerBatch(reqs))
		<-ss.batch
		ss.out.send(out)
	}()
}

// answerBatch runs the entries, each once a slot is free, and returns the responses.
func (ss *session) answerBatch(reqs []request) [][]byte {
	answers := make([][]byte, len(reqs))
	var wg sync.WaitGroup
	for i := range reqs {
		r := &reqs[i]
		if r.bad == nil && r.id == nil {
			ss.notified(r)
			continue
		}
		c, err := ss.admitCall(r, true)
		if err != nil {
			answers[i] = errorFrame(r.id, ss.logged(r.method, err))
			continue
		}
		if c.m.name == "connect" {
			answers[i] = c.run()
			continue
		}
		wg.Add(1)
		ss.srv.workers.run(func() {
			defer wg.Done()
			answers[i] = c.run()
		})
	}
	wg.Wait()
	kept := answers[:0]
	for _, a := range answers {
		if a != nil {
			kept = append(kept, a)
		}
	}
	return kept
}

func joinBatch(answers [][]byte) []byte {
	if len(answers) == 0 {
		return nil
	}
	out := []byte{'['}
	for i, a := range answers {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, a...)
	}
	return append(out, ']')
}

// notified handles a notification. rpc.cancel is the only one that clients can send.
func (ss *session) notified(r *request) {
	if r.method != "rpc.cancel" {
		return
	}
	for _, id := range cancelIDs(r.params) {
		ss.mu.Lock()
		c := ss.calls[id]
		ss.mu.Unlock()
		if c != nil {
			c.ctx.cancel(errCanceled)
		}
	}
}

// logged converts err to its wire form and logs what the client does not see.
func (ss *session) logged(method string, err error) *wireError {
	w, internal := toWire(err)
	if internal {
		attrs := []any{slog.String("method", method), slog.String("requestId", w.Data.RequestID), slog.Any("error", err)}
		if p := (*fault.Panic)(nil); errors.As(err, &p) {
			attrs = append(attrs, slog.String("stack", string(p.Stack)))
		}
		ss.srv.log.Error("call failed", attrs...)
	}
	return w
}
