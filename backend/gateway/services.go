package gateway

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
)

// Services runs the named background services and tracks the state of each. Add them before Run.
type Services struct {
	bus *bus.Bus
	log *slog.Logger

	mu   sync.Mutex
	all  []*service
	ctx  context.Context // of Run; nil before and afterwards
	work sync.WaitGroup
}

// service is one entry; Services.mu guards its fields.
type service struct {
	name     string
	run      func(ctx context.Context) error
	port     func() int
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the service has ended; nil: it is not running
	again    chan struct{} // restarts it at once
	state    string
	err      error
	since    time.Time
	restarts int
	external ServiceControl
}

// ServiceControl is a service that manages its own state, such as the gateway's listener.
type ServiceControl interface {
	State() (running bool, since time.Time, restarts int, port int, err error)
	Start(ctx context.Context) error
	Stop()
}

// NewServices returns an empty registry that publishes changes on b.
func NewServices(b *bus.Bus, log *slog.Logger) *Services { return &Services{bus: b, log: log} }

// Add registers a service. run must block until ctx ends and return nil on a clean stop. port
// returns the port of the service; nil means that it has none.
func (r *Services) Add(name string, run func(ctx context.Context) error, port func() int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, &service{name: name, run: run, port: port, state: "stopped"})
}

func (r *Services) addExternal(name string, c ServiceControl) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, &service{name: name, external: c})
}

// Run starts every service and blocks until ctx ends and all have stopped. A failed service does
// not end the others, and is restarted.
func (r *Services) Run(ctx context.Context) error {
	r.mu.Lock()
	r.ctx = ctx
	for _, s := range r.all {
		if s.external == nil {
			r.startLocked(s)
		}
	}
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.ctx = nil
	r.mu.Unlock()
	r.work.Wait()
	return nil
}

// The delay before a failed service is restarted. It doubles up to the longest one, and is reset
// once the service has run for that long.
const (
	firstRestart = time.Second
	lastRestart  = time.Minute
)

// startLocked starts s unless it is running; one that is waiting for its restart starts now. The
// caller must hold r.mu.
func (r *Services) startLocked(s *service) {
	if s.ended != nil {
		if s.state == "failed" {
			select {
			case s.again <- struct{}{}:
			default:
			}
			r.retriedLocked(s)
		}
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan struct{})
	s.cancel, s.ended, s.again = cancel, ended, make(chan struct{}, 1)
	s.state, s.err, s.since = "running", nil, time.Now()
	r.work.Go(func() {
		err := r.supervise(ctx, s)
		stopped := ctx.Err() != nil
		cancel()
		r.mu.Lock()
		s.state, s.err, s.since, s.ended = "stopped", nil, time.Now(), nil
		if err != nil && !(stopped && errors.Is(err, context.Canceled)) {
			s.state, s.err = "failed", err
		}
		close(ended)
		r.mu.Unlock()
		r.changed(s.name)
	})
	go r.changed(s.name)
}

// supervise runs s until it ends without an error or ctx ends. If it fails or panics, neither the
// process nor another service ends: it is restarted after a delay, and until then its state is
// failed.
func (r *Services) supervise(ctx context.Context, s *service) error {
	for delay := firstRestart; ; delay = min(2*delay, lastRestart) {
		begun := time.Now()
		err := fault.Catch(func() error { return s.run(ctx) })
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Since(begun) >= lastRestart {
			delay = firstRestart
		}
		r.log.Error("service failed; it is started again", slog.String("service", s.name), slog.Duration("after", delay), slog.Any("error", err))
		r.mu.Lock()
		if s.state == "running" {
			s.state, s.err, s.since = "failed", err, time.Now()
		}
		r.mu.Unlock()
		r.changed(s.name)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-s.again:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
		r.mu.Lock()
		r.retriedLocked(s)
		r.mu.Unlock()
		r.changed(s.name)
	}
}

// retriedLocked records that a failed service is running again. The caller must hold r.mu.
func (r *Services) retriedLocked(s *service) {
	if s.state == "failed" {
		s.state, s.err, s.since = "running", nil, time.Now()
		s.restarts++
	}
}

// Degraded returns the services that have failed.
func (r *Services) Degraded() []Degraded {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Degraded
	for _, s := range r.all {
		if s.state == "failed" {
			out = append(out, Degraded{
				Area: s.name, Reason: "This service has failed: " + fault.As(s.err).Message,
				Hint: "Helix restarts it automatically. If it keeps failing, restart Helix and report the log messages.",
			})
		}
	}
	return out
}

// ServicesChanged reports that a service started, stopped or failed.
type ServicesChanged struct {
	Name string `json:"name"`
}

func (r *Services) changed(name string) {
	if r.bus != nil {
		bus.Publish(r.bus, uuid.Nil, ServicesChanged{name})
	}
}

// ServiceParams identify a service.
type ServiceParams struct {
	// One of memory-synthesis, psychology-decay, skill-sandbox, voice-pipeline,
	// sync-coordinator, skills, scheduler, agent and gateway, or * for all but the gateway.
	Name string `json:"name"`
}

// ServiceState is the current state of one service.
type ServiceState struct {
	Name     string     `json:"name"`
	State    string     `json:"state"` // running, stopping, stopped, failed
	Running  bool       `json:"running"`
	Port     int        `json:"port,omitempty"`
	PID      int        `json:"pid"` // of the backend, since services share its process
	Since    *time.Time `json:"since,omitempty"`
	Restarts int        `json:"restarts"`
	Error    string     `json:"error,omitempty"`
}

// ServiceList lists the services of this build.
type ServiceList struct {
	Services []ServiceState `json:"services"`
	Total    int            `json:"total"`
}

// List returns the current state of each service of this build.
func (r *Services) List(context.Context, struct{}) (ServiceList, error) {
	r.mu.Lock()
	all := slices.Clone(r.all)
	r.mu.Unlock()
	out := ServiceList{Services: []ServiceState{}, Total: len(all)}
	for _, s := range all {
		out.Services = append(out.Services, r.stateOf(s))
	}
	slices.SortFunc(out.Services, func(a, b ServiceState) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (r *Services) stateOf(s *service) ServiceState {
	st := ServiceState{Name: s.name, PID: os.Getpid()}
	var since time.Time
	var err error
	if s.external != nil {
		st.Running, since, st.Restarts, st.Port, err = s.external.State()
		st.State = "stopped"
		if st.Running {
			st.State = "running"
		}
	} else {
		r.mu.Lock()
		st.State, since, st.Restarts, err = s.state, s.since, s.restarts, s.err
		r.mu.Unlock()
		st.Running = st.State == "running" || st.State == "stopping"
		if s.port != nil && st.Running {
			st.Port = s.port()
		}
	}
	if !since.IsZero() {
		u := since.UTC()
		st.Since = &u
	}
	if err != nil {
		st.Error = fault.As(err).Message
	}
	return st
}

// find returns the services that name refers to.
func (r *Services) find(name string) ([]*service, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*service
	for _, s := range r.all {
		if s.name == name || (name == "*" && s.external == nil) {
			found = append(found, s)
		}
	}
	if len(found) == 0 && name != "*" {
		return nil, fault.NotFoundf("This build has no service %.64q.", name)
	}
	return found, nil
}

// Start starts a service; starting a running one has no effect.
func (r *Services) Start(ctx context.Context, p ServiceParams) (ServiceList, error) {
	found, err := r.find(p.Name)
	if err != nil {
		return ServiceList{}, err
	}
	for _, s := range found {
		if s.external != nil {
			if err := s.external.Start(context.WithoutCancel(ctx)); err != nil {
				return ServiceList{}, fault.Unavailablef("The service did not start.").WithCause(err)
			}
			continue
		}
		r.mu.Lock()
		if r.ctx == nil {
			r.mu.Unlock()
			return ServiceList{}, fault.Unavailablef("Services are not running in this process.")
		}
		r.startLocked(s)
		r.mu.Unlock()
	}
	return r.states(found), nil
}

// Stop stops a service and waits until it has ended; stopping a stopped one has no effect.
func (r *Services) Stop(ctx context.Context, p ServiceParams) (ServiceList, error) {
	found, err := r.find(p.Name)
	if err != nil {
		return ServiceList{}, err
	}
	for _, s := range found {
		if err := r.stop(ctx, s); err != nil {
			return ServiceList{}, err
		}
	}
	return r.states(found), nil
}

func (r *Services) stop(ctx context.Context, s *service) error {
	if s.external != nil {
		s.external.Stop()
		return nil
	}
	r.mu.Lock()
	if s.ended == nil {
		r.mu.Unlock()
		return nil
	}
	s.state = "stopping"
	cancel, ended := s.cancel, s.ended
	r.mu.Unlock()
	cancel()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Restart stops and starts a service.
func (r *Services) Restart(ctx context.Context, p ServiceParams) (ServiceList, error) {
	found, err := r.find(p.Name)
	if err != nil {
		return ServiceList{}, err
	}
	for _, s := range found {
		if x, ok := s.external.(interface {
			Restart(ctx context.Context) error
		}); ok {
			if err := x.Restart(context.WithoutCancel(ctx)); err != nil {
				return ServiceList{}, fault.Unavailablef("The service did not start again.").WithCause(err)
			}
			continue
		}
		if err := r.stop(ctx, s); err != nil {
			return ServiceList{}, err
		}
		r.mu.Lock()
		if r.ctx == nil {
			r.mu.Unlock()
			return ServiceList{}, fault.Unavailablef("Services are not running in this process.")
		}
		s.restarts++
		r.startLocked(s)
		r.mu.Unlock()
	}
	return r.states(found), nil
}

func (r *Services) states(found []*service) ServiceList {
	out := ServiceList{Services: []ServiceState{}, Total: len(found)}
	for _, s := range found {
		out.Services = append(out.Services, r.stateOf(s))
	}
	return out
}
