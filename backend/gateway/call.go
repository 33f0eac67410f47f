package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
)

// call is one request that has passed all checks before decoding and holds a slot.
type call struct {
	ss         *session
	m          *method
	r          *request
	id         identity.Identity
	ctx        callContext
	prev, next *call // in inFlight
}

// meta is the content of the reserved params._meta.
type meta struct {
	IdempotencyKey *uuid.UUID `json:"idempotencyKey,omitempty"`
	DeadlineMs     *int64     `json:"deadlineMs,omitempty"`
}

// admitCall checks the session, the scope and the rate, and takes a slot. A batch waits for
// its slot; a single call is refused if all are taken.
func (ss *session) admitCall(r *request, wait bool) (*call, error) {
	if r.bad != nil {
		return nil, r.bad
	}
	s := ss.srv
	m := s.api.methods[r.method]
	ss.mu.Lock()
	authed, id, ending := ss.cred != nil, ss.id, ss.ending
	if ss.base == nil {
		ss.base = identity.With(ss.ctx, id)
	}
	base := ss.base
	ss.mu.Unlock()
	scopes := id.Scopes
	if !authed && r.method != "connect" {
		return nil, unauthenticated()
	}
	if ending {
		return nil, fault.Unavailablef("This session is being closed. Connect again.")
	}
	if m == nil {
		return nil, noMethod(r.method)
	}
	if !scopes.Has(m.scope) {
		return nil, fault.Deniedf("This session may not do that: it needs the scope %q.", scopeName(m.scope)).
			WithDetails(map[string]any{"need": scopeName(m.scope), "have": scopes.Names()})
	}
	if m.scope&Approve != 0 && !id.Person() {
		return nil, fault.Deniedf("Only a person can do that. Nothing was changed.")
	}
	if s.stopping.Load() {
		return nil, fault.Unavailablef("Helix is stopping.")
	}
	if s.o.Gate != nil {
		if err := s.o.Gate(m.target()); err != nil {
			return nil, err
		}
	}
	if m.scope&(Write|Approve|Admin) != 0 {
		if after, ok := ss.writes.take(time.Now()); !ok {
			return nil, limited(after, "Too many changes at once. Try again in a moment.")
		}
	}
	if m.costly {
		if after, ok := s.costly.take(id.User, time.Now()); !ok {
			return nil, limited(after, "Too many expensive calls at once. Try again in a moment.")
		}
	}
	if wait {
		select {
		case ss.slots <- struct{}{}:
		case <-ss.ctx.Done():
			return nil, errSessionClosed
		}
	} else {
		select {
		case ss.slots <- struct{}{}:
		default:
			return nil, limited(50*time.Millisecond, "This session already has %d calls running.", cap(ss.slots))
		}
	}
	c := &call{ss: ss, m: m, r: r, id: id}
	c.ctx.base = base
	if ss.pipe != nil { // ids on POST /rpc are unique per request only
		ss.mu.Lock()
		if _, taken := ss.calls[string(r.id)]; taken {
			ss.mu.Unlock()
			<-ss.slots
			return nil, badRequest("a call with this id is still running")
		}
		ss.calls[string(r.id)] = c
		ss.mu.Unlock()
	}
	s.running.add(c)
	return c, nil
}

// target returns the name that an alias stands for, or the name itself.
func (m *method) target() string {
	if m.aliasOf != "" {
		return m.aliasOf
	}
	return m.name
}

// run executes the call and returns its response frame. The slot is released when it returns.
func (c *call) run() []byte {
	frame, _ := c.runStatus()
	return frame
}

// runStatus is run that also returns the HTTP status.
func (c *call) runStatus() (frame []byte, status int) {
	frame, err := c.execute()
	c.ctx.cancel(nil)
	if c.ss.pipe != nil {
		c.ss.mu.Lock()
		delete(c.ss.calls, string(c.r.id))
		c.ss.mu.Unlock()
	}
	<-c.ss.slots
	c.ss.srv.running.done(c)
	if err != nil {
		w := c.ss.logged(c.m.name, err)
		return errorFrame(c.r.id, w), w.status
	}
	return frame, 200
}

// execute decodes, runs and encodes; it returns the response frame.
func (c *call) execute() (frame []byte, err error) {
	defer func() {
		if v := recover(); v != nil { // from decoding; invoke recovers itself, so that a repeated call gets its answer
			frame, err = nil, fault.Caught(v)
		}
	}()
	meta, err := decodeMeta(c.r.params)
	if err != nil {
		return nil, err
	}
	p, err := c.m.decode(c.r.params)
	if err != nil {
		return nil, err
	}
	if c.m.name != "connect" { // which takes the user only from the token
		if err := sameUser(c.r.params, c.id.User); err != nil {
			return nil, err
		}
	}
	deadline := c.m.deadline
	if deadline == 0 {
		deadline = c.ss.srv.o.Limits.CallDeadline
	}
	if meta.DeadlineMs != nil {
		deadline = min(deadline, duration.Of(*meta.DeadlineMs, time.Millisecond))
	}
	c.ctx.setDeadline(time.Now().Add(deadline))
	ctx := context.Context(&c.ctx)
	if meta.IdempotencyKey != nil && c.m.name != "connect" {
		result, err := c.ss.srv.once(ctx, c.id.User, *meta.IdempotencyKey, c.m, p, func() ([]byte, error) {
			_, result, err := c.invoke(ctx, p)
			return result, err
		})
		if err != nil {
			return nil, err
		}
		frame, _, err = okFrame(c.r.id, json.RawMessage(result))
		return frame, err
	}
	frame, _, err = c.invoke(ctx, p)
	return frame, err
}

// invoke runs the handler and encodes what it returns.
func (c *call) invoke(ctx context.Context, p any) (frame, result []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			frame, result, err = nil, nil, fault.Caught(v)
		}
	}()
	v, err := c.m.invoke(ctx, p)
	if err != nil {
		// A handler that stopped because the call ended reports why it ended.
		if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			return nil, nil, ctx.Err()
		}
		return nil, nil, err
	}
	if frame, result, err = okFrame(c.r.id, v); err != nil {
		return nil, nil, fault.Internalf(err, "Helix has an internal error. The log has the details.")
	}
	if len(frame) > c.ss.srv.o.Limits.MaxPayload {
		return nil, nil, fault.Limitf("The result is larger than %d MiB. Ask for less at once with limit and offset.", c.ss.srv.o.Limits.MaxPayload>>20)
	}
	return frame, result, nil
}

// scopeName returns the name of the scope that a method requires.
func scopeName(s Scope) string {
	names := s.Names()
	if len(names) == 0 {
		return "none"
	}
	return names[len(names)-1]
}

// decodeMeta decodes params._meta as strictly as the params themselves.
func decodeMeta(params []byte) (m meta, err error) {
	raw, ok := topField(params, "_meta")
	if !ok {
		return m, nil
	}
	if err := decodeParams(raw, metaPlan, false, &m); err != nil {
		var w *wireError
		if errors.As(err, &w) {
			w.Message = "_meta: " + w.Message
		}
		return m, err
	}
	if m.DeadlineMs != nil && *m.DeadlineMs <= 0 {
		return m, badParams("_meta: deadlineMs must be positive")
	}
	return m, nil
}

// sameUser refuses a userId in the params that differs from the session's: only the session
// determines whose data a call may access.
func sameUser(params []byte, user uuid.UUID) error {
	raw, ok := topField(params, "userId")
	if !ok || string(raw) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil // the decoder has checked its type
	}
	if id, err := uuid.Parse(text); err != nil || id != user {
		return fault.Deniedf("This session belongs to another user.")
	}
	return nil
}

// topField finds a member of an object that is known to be valid JSON.
func topField(obj []byte, name string) (raw []byte, ok bool) {
	if len(obj) == 0 || obj[0] != '{' || (!bytes.Contains(obj, []byte(name)) && bytes.IndexByte(obj, '\\') < 0) {
		return nil, false
	}
	s := scanner{b: obj}
	_ = s.object(1, func(m member) error { // already valid
		if string(m.key) == name {
			raw, ok = m.raw, true
		}
		return nil
	})
	return raw, ok
}

// cancelIDs decodes {ids: [...]}; for anything else it returns no ids.
func cancelIDs(params []byte) (ids []string) {
	raw, ok := topField(params, "ids")
	if !ok || raw[0] != '[' {
		return nil
	}
	s := scanner{b: raw}
	_ = s.array(1, func(id []byte) error { ids = append(ids, string(id)); return nil }) // already valid
	return ids
}

// inFlight is the list of running calls. Stopping waits for them, and logs those that did not end.
type inFlight struct {
	mu    sync.Mutex
	first *call
	empty chan struct{} // closed when the list becomes empty; nil if no one is waiting
}

func (f *inFlight) add(c *call) {
	f.mu.Lock()
	c.next = f.first
	if f.first != nil {
		f.first.prev = c
	}
	f.first = c
	f.mu.Unlock()
}

func (f *inFlight) done(c *call) {
	f.mu.Lock()
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		f.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	if f.first == nil && f.empty != nil {
		close(f.empty)
		f.empty = nil
	}
	f.mu.Unlock()
}

// wait returns when no calls are running or after d, with the names of those that are still
// running.
func (f *inFlight) wait(d time.Duration) (left []string) {
	f.mu.Lock()
	if f.first == nil {
		f.mu.Unlock()
		return nil
	}
	if f.empty == nil {
		f.empty = make(chan struct{})
	}
	ch := f.empty
	f.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ch:
		return nil
	case <-t.C:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := f.first; c != nil; c = c.next {
		left = append(left, c.m.name)
	}
	slices.Sort(left)
	return left
}
