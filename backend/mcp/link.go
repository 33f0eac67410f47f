package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/oauth"
	"helix/backend/storage"
)

// The states of a server.
const (
	StateStopped   = "stopped"
	StateStarting  = "starting"
	StateReady     = "ready"
	StateFailed    = "failed"
	StateNeedsAuth = "needs_auth"
	StateSuspended = "suspended" // its entry waits for approval
)

// Limits of running servers.
const (
	maxRunning      = 12 // per user
	maxConcurrent   = 8  // calls of one server
	maxFailures     = 5
	failuresWithin  = 10 * time.Minute
	maxBackOff      = time.Minute
	maxFaults       = 3 // violations of the protocol, before the server is started again
	faultsWithin    = time.Minute
	listAge         = 5 * time.Minute // after it, the tools are listed again before a call
	downloadTimeout = 3 * time.Minute // for the first start of npx and the like
)

// link is the connection to one server. It starts when it is first needed.
type link struct {
	s     *Service
	id    uuid.UUID
	user  uuid.UUID
	name  string
	log   *serverLog
	slots chan struct{} // one for each call in progress

	refreshing chan struct{}       // holds one value while the tools are listed
	checked    map[[32]byte]string // problems of the listed definitions by hash; guarded by refreshing

	mu        sync.Mutex
	state     string
	live      *connection // nil unless ready
	attempt   *attempt    // nil unless starting
	lastError string
	startedAt time.Time
	lastUse   time.Time
	idle      time.Duration
	patience  time.Duration // for an answer that is not that of a tool
	calls     int
	failures  []time.Time
	faults    []time.Time // violations of the protocol on the open connection
	notBefore time.Time
	stale     bool // the server announced another list
	listedAt  time.Time
	challenge oauth.Challenge // of the last refusal for want of a sign-in
}

// attempt is a start in progress.
type attempt struct {
	done chan struct{}
	stop context.CancelFunc
	err  error
}

// link returns the connection to a server of the caller.
func (s *Service) link(r *serverRow) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[r.id]
	if l == nil {
		l = &link{s: s, id: r.id, user: r.user, name: r.Name, slots: make(chan struct{}, maxConcurrent), refreshing: make(chan struct{}, 1), patience: downloadTimeout, state: StateStopped, lastError: r.lastError}
		l.log = &serverLog{added: throttled(250*time.Millisecond, func(seq int64) { bus.Publish(s.bus, l.user, LogAdded{l.name, seq}) })}
		s.links[r.id] = l
	}
	return l
}

// throttled calls fn at most once in each interval.
func throttled(interval time.Duration, fn func(int64)) func(int64) {
	var mu sync.Mutex
	var last time.Time
	return func(v int64) {
		mu.Lock()
		now := time.Now()
		due := now.Sub(last) >= interval
		if due {
			last = now
		}
		mu.Unlock()
		if due {
			fn(v)
		}
	}
}

// acquire returns the connection, starting the server if necessary. The caller calls release when it
// no longer uses it.
func (l *link) acquire(ctx context.Context) (c *connection, release func(), err error) {
	for {
		if c, release, ok := l.open(); ok {
			return c, release, nil
		}
		l.mu.Lock()
		if l.live != nil {
			l.mu.Unlock()
			continue // it became ready meanwhile
		}
		if l.state == StateFailed {
			text := l.lastError
			l.mu.Unlock()
			return nil, nil, fault.Unavailablef("%s failed %d times and isn't started again by itself. Start it with: helix mcp start %s. Last error: %s", l.name, maxFailures, l.name, text)
		}
		a := l.attempt
		if a == nil {
			a = l.begin()
		}
		l.mu.Unlock()
		if a == nil {
			return nil, nil, fault.Unavailablef("Helix is stopping.")
		}
		select {
		case <-a.done:
			if a.err != nil {
				return nil, nil, a.err
			}
		case <-ctx.Done():
			return nil, nil, fault.As(ctx.Err())
		}
	}
}

// open returns the connection if there is one.
func (l *link) open() (c *connection, release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live == nil {
		return nil, nil, false
	}
	l.calls++
	var once sync.Once
	return l.live, func() {
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.calls--
			l.lastUse = l.s.o.Now()
		})
	}, true
}

// begin starts the server in the background. The caller holds l.mu.
func (l *link) begin() *attempt {
	ctx, stop := context.WithCancel(l.s.as(l.user))
	a := &attempt{done: make(chan struct{}), stop: stop}
	wait := time.Until(l.notBefore)
	if !l.s.spawn(func() {
		defer stop()
		l.publish(StateStarting)
		c, err := l.connect(ctx, wait)
		l.finish(ctx, a, c, err)
	}) {
		stop()
		return nil
	}
	l.attempt = a
	return a
}

func (l *link) connect(ctx context.Context, wait time.Duration) (c *connection, err error) {
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, fault.As(ctx.Err())
		}
	}
	defer func() {
		if v := recover(); v != nil {
			err = fault.Caught(v)
		}
	}()
	row, err := storage.Result(ctx, l.s.db.Read, func(tx *storage.Tx) (serverRow, error) { return loadServer(tx, l.name) })
	if err != nil {
		return nil, err
	}
	if err := l.s.checkStart(ctx, &row); err != nil {
		return nil, err
	}
	if err := l.s.makeRoom(l); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.idle, l.patience = duration.Of(row.IdleMinutes, time.Minute), duration.Of(row.StartTimeoutMs, time.Millisecond)
	l.mu.Unlock()
	return l.dial(ctx, &row)
}

// finish ends an attempt. c is the connection if err is nil.
func (l *link) finish(ctx context.Context, a *attempt, c *connection, err error) {
	if err == nil {
		err = l.list(ctx, c) // the pinned definitions are checked before the first call
	}
	text := ""
	if err != nil {
		text = l.s.o.Scrub(l.s.as(l.user), fault.As(err).Message)
	}
	l.mu.Lock()
	if err == nil && l.attempt != a {
		err = fault.New(fault.Canceled, "The start of %s was canceled.", l.name)
	}
	state := StateReady
	now := l.s.o.Now()
	switch {
	case err == nil:
		l.live, l.startedAt, l.lastUse, l.lastError, l.faults = c, now, now, "", nil
		l.notBefore = time.Time{}
	case errors.Is(err, errNeedsAuth):
		state = StateNeedsAuth
	case refused(err):
		state = StateSuspended
	case fault.Is(err, fault.Canceled), l.attempt != a:
		state = StateStopped
	default:
		state = l.failed(now)
	}
	if err != nil && !fault.Is(err, fault.Canceled) {
		l.lastError = text
	}
	if l.attempt == a {
		l.attempt, l.state = nil, state
	}
	state, text = l.state, l.lastError
	l.mu.Unlock()
	if err != nil && c != nil {
		c.close()
	}
	if err == nil {
		l.s.spawn(func() { l.watch(c) })
	}
	l.s.saveStart(l, c, text)
	a.err = err
	close(a.done)
	l.publish(state)
}

// refused reports whether a server may not start, because it is disabled or not approved.
func refused(err error) bool {
	_, ok := callable.RefusalOf(err)
	return ok
}

// failed records a failure and returns the state that follows. The caller holds l.mu.
func (l *link) failed(now time.Time) string {
	l.failures = slices.DeleteFunc(l.failures, func(t time.Time) bool { return now.Sub(t) > failuresWithin })
	l.failures = append(l.failures, now)
	if len(l.failures) >= maxFailures {
		return StateFailed
	}
	l.notBefore = time.Now().Add(backOff(len(l.failures)))
	return StateStopped
}

// backOff returns how long to wait after n failures: one second, doubled each time.
func backOff(n int) time.Duration {
	return min(time.Second<<min(n-1, 16), maxBackOff)
}

// watch waits for the end of a connection that nobody requested.
func (l *link) watch(c *connection) {
	err := c.wait()
	refusal := c.rt.refused(l.name)
	needsAuth := refusal != nil && errors.Is(refusal, errNeedsAuth)
	l.mu.Lock()
	if l.live != c {
		l.mu.Unlock()
		return // it was stopped
	}
	l.live = nil
	if needsAuth { // together, as the call that was refused reads it
		l.state = StateNeedsAuth
	}
	l.mu.Unlock()
	c.close()
	text := l.s.o.Scrub(l.s.as(l.user), c.failure(l.name, err))
	l.log.add("rpc", text)
	l.mu.Lock()
	l.lastError = text
	if l.live == nil && l.attempt == nil && !needsAuth {
		l.state = l.failed(l.s.o.Now())
	}
	state := l.state
	l.mu.Unlock()
	l.s.saveStart(l, nil, text)
	l.publish(state)
}

// stop ends the connection or the start, and waits until nothing of it is left.
func (l *link) stop(state string) {
	l.mu.Lock()
	c, a := l.live, l.attempt
	l.live, l.attempt = nil, nil
	was := l.state
	l.state = state
	l.mu.Unlock()
	if a != nil {
		a.stop()
		<-a.done
	}
	if c != nil {
		c.close()
	}
	if was != state || a != nil {
		l.publish(state)
	}
}

// reset forgets failures, so that the server may be started again.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures, l.notBefore = nil, time.Time{}
	if l.live == nil && l.attempt == nil {
		l.state = StateStopped
	}
}

func (l *link) publish(state string) {
	l.mu.Lock()
	if state == StateStarting {
		l.state = state
	}
	l.mu.Unlock()
	bus.Publish(l.s.bus, l.user, Changed{l.name, state})
}

// stopIdle stops servers that nobody has used for their idle time.
func (s *Service) stopIdle() {
	s.mu.Lock()
	all := make([]*link, 0, len(s.links))
	for _, l := range s.links {
		all = append(all, l)
	}
	s.mu.Unlock()
	for _, l := range all {
		l.mu.Lock()
		idle := l.live != nil && l.calls == 0 && s.o.Now().Sub(l.lastUse) >= l.idle
		l.mu.Unlock()
		if idle {
			l.stop(StateStopped)
		}
	}
}

// makeRoom stops the server that was unused for the longest time if too many run.
func (s *Service) makeRoom(l *link) error {
	for {
		s.mu.Lock()
		var oldest *link
		n := 0
		for _, o := range s.links {
			o.mu.Lock()
			if o.user == l.user && o != l && (o.live != nil || o.attempt != nil) {
				if n++; o.live != nil && o.calls == 0 && (oldest == nil || o.lastUse.Before(oldest.lastUse)) {
					oldest = o
				}
			}
			o.mu.Unlock()
		}
		s.mu.Unlock()
		if n < maxRunning {
			return nil
		}
		if oldest == nil {
			return fault.Limitf("%d MCP servers are running and all are busy. Stop one, then try again.", maxRunning)
		}
		oldest.stop(StateStopped)
	}
}

// saveStart stores the result of a start. The row is only a copy for display, so errors are logged.
func (s *Service) saveStart(l *link, c *connection, text string) {
	err := s.write(context.WithoutCancel(s.as(l.user)), func(tx *storage.Tx) error {
		if c == nil || text != "" {
			_, err := tx.Exec(`UPDATE mcp_servers SET last_error = ?, updated_at = ? WHERE id = ?`, text, tx.Now, l.id)
			return err
		}
		_, err := tx.Exec(`UPDATE mcp_servers SET last_error = '', last_started = ?1, updated_at = ?1, version = ?2, protocol = ?3 WHERE id = ?4`, tx.Now, c.version, c.protocol, l.id)
		return err
	})
	if err != nil {
		s.log.Warn("store the state of an MCP server", "server", l.name, "err", err)
	}
}

// limited returns a context for a request that is no call of a tool: a server that never answers it must not
// be waited for.
func (l *link) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return context.WithTimeout(ctx, l.patience)
}

// use calls fn with the connection, and once more with a new one if the server has forgotten the session.
func (l *link) use(ctx context.Context, fn func(ctx context.Context, session *sdk.ClientSession) error) error {
	for retried := false; ; retried = true {
		c, release, err := l.acquire(ctx)
		if err != nil {
			return err
		}
		err = fn(ctx, c.session)
		release()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, sdk.ErrSessionMissing) && !retried {
			l.drop(c, StateStopped)
			continue
		}
		if violates(err) {
			l.violated(c)
		}
		if err = c.translate(l.name, err); errors.Is(err, errNeedsAuth) { // also of a server that was ready
			l.drop(c, StateNeedsAuth)
			l.publish(StateNeedsAuth)
		}
		return err
	}
}

// violates reports whether an answer says that the server, rather than a call, is at fault.
func violates(err error) bool {
	var wire *jsonrpc.Error
	return errors.As(err, &wire) && (wire.Code == jsonrpc.CodeInternalError || wire.Code == jsonrpc.CodeParseError || wire.Code == jsonrpc.CodeInvalidRequest)
}

// violated counts a violation of the protocol on a connection, and starts the server again after three in a minute.
func (l *link) violated(c *connection) {
	l.mu.Lock()
	now := l.s.o.Now()
	l.faults = slices.DeleteFunc(l.faults, func(t time.Time) bool { return now.Sub(t) > faultsWithin })
	due := false
	if l.live == c {
		l.faults = append(l.faults, now)
		due = len(l.faults) == maxFaults
	}
	l.mu.Unlock()
	if !due {
		return
	}
	l.log.add("rpc", "The server violated the protocol three times within a minute and is started again.")
	l.s.spawn(func() {
		l.drop(c, StateStopped)
		_, release, err := l.acquire(l.s.as(l.user))
		if err != nil {
			return // the state of the server says why
		}
		release()
	})
}

// drop closes a connection that is of no use any more, so that the next call opens another.
func (l *link) drop(c *connection, state string) {
	l.mu.Lock()
	if l.live != c {
		l.mu.Unlock()
		return
	}
	l.live, l.state = nil, state
	l.mu.Unlock()
	c.close()
}
