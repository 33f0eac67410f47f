package cloudsync

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	pollEvery  = 30 * time.Second // ± 20 %; needed because notifications can get lost
	settle     = 200 * time.Millisecond
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// Run exchanges changes until ctx is done: after each local change, after each notification from
// the hub, and every 30 seconds. While there is no hub, it waits for one.
func (s *Service) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	nudge := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	defer bus.Subscribe(s.db.Bus(), func(uuid.UUID, storage.CapturedRows) { nudge(); s.wrote() })()
	connected := make(chan struct{}, 1)
	defer bus.Subscribe(s.db.Bus(), func(uuid.UUID, connectionChanged) {
		nudge()
		select {
		case connected <- struct{}{}:
		default:
		}
	})()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.exchangeLoop(ctx, wake); return nil })
	g.Go(func() error { s.listenLoop(ctx, nudge, connected); return nil })
	return g.Wait()
}

// connectionChanged is published when this device was connected, disconnected, paused or resumed.
type connectionChanged struct{}

// active reports whether this device has a hub and sync is not paused.
func (s *Service) active(ctx context.Context) bool {
	l, err := s.local(ctx)
	return err == nil && l.hub != nil && !l.hub.Paused
}

func (s *Service) exchangeLoop(ctx context.Context, wake <-chan struct{}) {
	wait := time.Duration(0)
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-wake:
			if s.live(ctx) {
				continue
			}
			if failures > 0 && s.failed() { // further writes do not shorten the backoff
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
			}
			select { // collect several writes in one exchange
			case <-ctx.Done():
				return
			case <-time.After(settle):
			}
		}
		wait = jitter(pollEvery)
		if !s.active(ctx) {
			failures = 0
			continue
		}
		if _, err := s.exchange(ctx, ""); err != nil && ctx.Err() == nil {
			wait = backoff(failures)
			failures++
			s.o.Logger.Info("sync", "err", fault.As(err).Message, "again", wait.Round(time.Second))
			continue
		}
		failures = 0
		if s.polls() {
			wait = jitter(askEvery)
		}
	}
}

// polls reports whether this device exchanges changes over HTTPS.
func (s *Service) polls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == Polling
}

func (s *Service) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // not security-sensitive
}

// backoff returns the delay after a number of failures. Its limit doubles from one second to five
// minutes, with full jitter.
func backoff(failures int) time.Duration {
	most := min(retryFirst<<min(failures, 10), retryMost)
	return max(most/10, time.Duration(float64(most)*rand.Float64())) //nolint:gosec // not security-sensitive
}

// listenLoop keeps a second connection open, on which the hub announces new entries in its feed. It
// starts as soon as a hub is connected.
func (s *Service) listenLoop(ctx context.Context, nudge func(), connected <-chan struct{}) {
	for failures := 0; ctx.Err() == nil; failures++ {
		if s.active(ctx) {
			begin := time.Now()
			if err := s.listen(ctx, nudge); err != nil && ctx.Err() == nil {
				s.o.Logger.Debug("listen to the hub", "err", fault.As(err).Message)
			}
			if time.Since(begin) > retryMost {
				failures = 0
			}
		}
		select {
		case <-ctx.Done():
		case <-connected:
			failures = 0
		case <-time.After(max(backoff(failures), retryFirst)):
		}
	}
}

func (s *Service) listen(ctx context.Context, nudge func()) error {
	l, err := s.local(ctx)
	if err != nil {
		return err
	}
	password, err := s.secrets.Value(s.asUser(ctx), passwordSecret)
	if err != nil {
		return err
	}
	c, err := l.hub.connect(ctx, string(password))
	if err != nil {
		return hubError(l.hub.Host, err)
	}
	defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // only used to listen
	if _, err := c.Exec(ctx, "listen "+pgx.Identifier{l.hub.Channel}.Sanitize()); err != nil {
		return hubError(l.hub.Host, err)
	}
	s.reopened.Store(true)
	s.listening()
	nudge()
	for s.active(ctx) {
		waiting, cancel := context.WithTimeout(ctx, pollEvery)
		n, err := c.WaitForNotification(waiting)
		timedOut := waiting.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case timedOut:
		case err != nil:
			return hubError(l.hub.Host, err)
		default:
			s.announced(n.Payload)
			nudge()
		}
	}
	return nil
}

// Pause stops the exchange of changes until Resume.
func (s *Service) Pause(ctx context.Context, _ struct{}) (StatusResult, error) {
	return s.setPaused(ctx, true)
}

// Resume continues after a Pause.
func (s *Service) Resume(ctx context.Context, _ struct{}) (StatusResult, error) {
	return s.setPaused(ctx, false)
}

func (s *Service) setPaused(ctx context.Context, on bool) (StatusResult, error) {
	if err := s.db.Write(ctx, func(tx *storage.Tx) error {
		l, err := readLocal(tx)
		if err != nil {
			return err
		}
		if l.hub == nil {
			return errNotEnrolled
		}
		l.hub.Paused = on
		tx.AfterCommit(func() { bus.Publish(s.db.Bus(), l.user, connectionChanged{}) })
		return writeHub(tx, l.hub)
	}); err != nil {
		return StatusResult{}, err
	}
	return s.Status(ctx, struct{}{})
}
