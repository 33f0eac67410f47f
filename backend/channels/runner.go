package channels

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// runner is a channel that is enabled: its adapter receives in one goroutine and sends in another.
type runner struct {
	s       *Service
	c       channelRow
	adapter Adapter
	stop    context.CancelFunc
	ended   chan struct{}
	outgo   chan struct{} // the outbox has something to send
	busy    chan struct{} // a turn was started
	failure error         // why there is no adapter
}

// start starts an enabled channel, if the service runs.
func (s *Service) start(c channelRow) {
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()
	if life == nil {
		return
	}
	ctx, cancel := context.WithCancel(as(life, c.user))
	r := &runner{s: s, c: c, stop: cancel, ended: make(chan struct{}), outgo: make(chan struct{}, 1), busy: make(chan struct{}, 1)}
	r.adapter, r.failure = s.newAdapter(ctx, &c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != life || life.Err() != nil || s.running[c.id] != nil {
		cancel()
		return
	}
	s.running[c.id] = r
	s.work.Go(func() {
		defer close(r.ended)
		defer cancel()
		if r.failure == nil {
			r.run(ctx)
		}
		<-ctx.Done()
		s.mu.Lock()
		if s.running[c.id] == r {
			delete(s.running, c.id)
		}
		s.mu.Unlock()
	})
}

// adapter returns the adapter of a channel.
func (s *Service) adapter(ctx context.Context, c *channelRow) (Adapter, error) {
	secret, err := s.o.Secrets.Value(ctx, c.secret)
	if err != nil {
		return nil, err
	}
	switch c.kind {
	case kindWebhook:
		return newWebhook(s, c, secret)
	case kindTelegram:
		return newTelegram(s, c, string(secret))
	}
	return nil, fault.Invalidf("Channels of the kind %s are not supported.", c.kind)
}

// limitsOf returns the limits of a kind of channel, whether or not it runs.
func limitsOf(kind string) Limits {
	if kind == kindTelegram {
		return telegramLimits
	}
	return webhookLimits
}

// checkServiceURL accepts https, and http to this computer.
func checkServiceURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && !(u.Scheme == "http" && isLocal(u)) {
		return nil, fault.InvalidField("config.url", fault.CodeInvalid, "The address must be https without a password, or http to this computer. A webhook needs one for its replies.")
	}
	return u, nil
}

func isLocal(u *url.URL) bool {
	return u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost" || u.Hostname() == "::1"
}

// serviceClient returns a client for the address of a channel's service, with the limits in o. Of this
// computer it reaches only the port in the address.
func (s *Service) serviceClient(address, usual string, o safehttp.Options) (*safehttp.Client, error) {
	u, err := checkServiceURL(firstOf(address, usual))
	if err != nil {
		return nil, err
	}
	port, _ := strconv.Atoi(u.Port())
	o.MaxRedirects, o.DenyPorts = -1, s.o.OwnPort
	o.AllowLoopback = func(p int) bool { return isLocal(u) && p == port }
	return s.o.HTTP(o), nil
}

// halt stops a channel and waits for it.
func (s *Service) halt(id uuid.UUID) {
	s.mu.Lock()
	r := s.running[id]
	delete(s.running, id)
	s.mu.Unlock()
	if r != nil {
		r.stop()
		<-r.ended
	}
}

// restart applies changes of a channel.
func (s *Service) restart(ctx context.Context, id uuid.UUID) error {
	s.halt(id)
	c, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (channelRow, error) { return loadChannel(tx, id) })
	if err != nil {
		return err
	}
	if c.enabled && c.device == s.db.Device().ID {
		s.start(c)
	}
	bus.Publish(s.bus, c.user, Changed{id, s.stateOf(&c).State})
	return nil
}

// run receives and sends until ctx ends.
func (r *runner) run(ctx context.Context) {
	var others sync.WaitGroup
	others.Go(func() { _ = fault.Catch(func() error { r.progress(ctx); return nil }) })
	others.Go(func() {
		err := fault.Catch(func() error { return r.adapter.Run(ctx, sink{r.s, r.c.id, r.c.user}) })
		if err != nil && ctx.Err() == nil {
			r.s.log.Warn("a channel stopped receiving", "channel", r.c.id, "err", err)
		}
	})
	if err := r.s.recoverSending(ctx, &r.c); err != nil && ctx.Err() == nil {
		r.s.log.Error("unsent messages of a channel wait", "channel", r.c.id, "err", err)
	}
	for ctx.Err() == nil {
		var wait time.Duration
		err := fault.Catch(func() (err error) { wait, err = r.send(ctx); return err })
		if err != nil && ctx.Err() == nil {
			r.s.log.Error("messages of a channel wait", "channel", r.c.id, "err", err)
			wait = longestRetry
		}
		var timer <-chan time.Time
		release := func() {}
		if wait > 0 {
			timer, release = r.s.o.Clock.After(wait)
		}
		select {
		case <-r.outgo:
		case <-timer:
		case <-ctx.Done():
		}
		release()
	}
	others.Wait()
}

// wakeSender notes that the outbox of a channel has something to send.
func (s *Service) wakeSender(id uuid.UUID) {
	if r := s.runner(id); r != nil {
		signal(r.outgo)
	}
}

// runner returns the runner of a channel, or nil if it does not run.
func (s *Service) runner(id uuid.UUID) *runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

// stateOf returns the state of a channel.
func (s *Service) stateOf(c *channelRow) Health {
	r := s.runner(c.id)
	switch {
	case !c.enabled && c.lastError != "":
		return Health{State: Failed, Detail: c.lastError}
	case !c.enabled:
		return Health{State: Disabled}
	case r == nil:
		return Health{State: Disconnected}
	case r.failure != nil:
		return Health{State: Failed, Detail: fault.As(r.failure).Message}
	}
	return r.adapter.Health()
}

// disable stops a channel whose service refuses it.
func (s *Service) disable(ctx context.Context, id uuid.UUID, why string) error {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE channels SET enabled = 0, last_error = ?, updated_at = ? WHERE id = ?`, why, tx.Now, id)
		return err
	})
	if r := s.runner(id); r != nil {
		r.stop() // it may be the caller, so nobody waits for it
		bus.Publish(s.bus, r.c.user, Changed{id, Failed})
	}
	return err
}

var errNoHook = errors.New("no webhook channel has this id")
