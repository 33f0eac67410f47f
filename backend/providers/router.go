package providers

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/safehttp"
)

// Limits on retries and on the circuit breaker.
const (
	attempts      = 3
	baseDelay     = 250 * time.Millisecond
	maxDelay      = 2 * time.Second
	maxRetryAfter = time.Minute
	maxErrorBody  = 64 << 10

	circuitFailures = 5
	circuitWindow   = time.Minute
	circuitFirst    = 30 * time.Second
	circuitLongest  = 5 * time.Minute
)

// Meter enforces the budget: no call is made without a hold on it.
type Meter interface {
	Reserve(ctx context.Context, e Estimate) (Hold, error)
}

// Hold is reserved budget. Settle is called exactly once.
type Hold interface {
	Settle(u Usage, cost Micros, outcome string)
}

// Estimate is the highest use and cost that a call may have.
type Estimate struct {
	Provider, Model, Purpose string
	Input, Output            int64
	Micros                   Micros
	PriceUnknown             bool
}

// RoleConfig is the chain of models of a role, the preferred one first, with its settings.
type RoleConfig struct {
	Chain       []ModelRef `json:"chain"`
	Effort      Effort     `json:"effort,omitempty"`
	Temperature *float64   `json:"temperature,omitempty"`
	MaxOutput   int        `json:"maxOutput,omitempty"`
	// MaxCostMicrosCall is the highest cost of one call; a call that may cost more is refused.
	MaxCostMicrosCall Micros `json:"maxCostMicrosCall,omitempty"`
}

// Options configures Open. Config, Key, HTTP and Meter are required.
type Options struct {
	// Config returns the registry of the caller in ctx.
	Config func(ctx context.Context) (map[string]Entry, map[Role]RoleConfig, error)
	// Key returns the key of an entry and its source; "" if it has none.
	Key func(ctx context.Context, name string, e Entry) (key, source string, err error)
	// Catalog returns the active catalog.
	Catalog func() (*Catalog, error)
	HTTP    *safehttp.Client
	Meter   Meter
	// Override changes the description of a model, and reports whether the model is named there; nil:
	// no overrides.
	Override func(provider string, i *ModelInfo) (named bool)
	// AllowScripted permits the scripted wire, for tests and evaluations.
	AllowScripted bool
	// AssumedPrice is charged if no price is known; the zero value means 15 and 75 dollars per
	// million tokens of input and output.
	AssumedPrice Price
	// Rand returns a uniform number in [0, 1); nil: math/rand.
	Rand   func() float64
	Logger *slog.Logger // nil: slog.Default()
}

// Router answers requests. It is safe for concurrent use and starts no goroutines of its own.
type Router struct {
	o Options

	mu       sync.Mutex
	circuits map[string]*circuit
	slots    map[string]chan struct{}
	recent   map[string][]*started // calls of the last minute, if limited
	left     map[string]*remaining // by provider: what is left of the service's own limits
	scripts  map[string]*script
	failed   map[string]string // the last transport error of a provider, until it answers
	loaded   map[ModelRef]loaded
	ratios   ratios
}

// Open returns a router.
func Open(o Options) (*Router, error) {
	if o.Config == nil || o.Key == nil || o.HTTP == nil || o.Meter == nil {
		return nil, errors.New("providers: Config, Key, HTTP and Meter are required")
	}
	if o.Catalog == nil {
		o.Catalog = embeddedCatalog
	}
	if o.Override == nil {
		o.Override = func(string, *ModelInfo) bool { return false }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if !o.AssumedPrice.Known() {
		in, out := Micros(15_000_000), Micros(75_000_000)
		o.AssumedPrice = Price{Input: &in, Output: &out}
	}
	return &Router{o: o, circuits: map[string]*circuit{}, slots: map[string]chan struct{}{}, recent: map[string][]*started{}, left: map[string]*remaining{}, scripts: map[string]*script{}, failed: map[string]string{}, loaded: map[ModelRef]loaded{}}, nil
}

// target is one model of a chain with everything needed to call it.
type target struct {
	name  string
	title string // for people
	model string
	entry Entry
	info  ModelInfo
	key   string
}

// chain returns the models that may answer q, and q with the role's settings.
func (r *Router) chain(ctx context.Context, q Request) (Request, map[string]Entry, []ModelRef, RoleConfig, error) {
	entries, roles, err := r.o.Config(ctx)
	if err != nil {
		return q, nil, nil, RoleConfig{}, err
	}
	if q.Model != "" {
		return q, entries, []ModelRef{q.Model}, RoleConfig{}, nil
	}
	c := roles[q.Role]
	if len(c.Chain) == 0 && q.Role == RoleFast {
		c = roles[RoleChat]
	}
	if len(c.Chain) == 0 {
		return q, nil, nil, c, fault.Unavailablef("Set up a model first.").WithDetails(map[string]string{"screen": "settings/models", "role": string(q.Role)})
	}
	if q.Reasoning == "" {
		q.Reasoning = c.Effort
	}
	if p := q.Pin; p != nil {
		if !slices.Contains(c.Chain, p.Model) {
			return q, nil, nil, c, fault.Conflictf("%s is no longer a model of the role %s. Nothing was sent.", p.Model, q.Role)
		}
		c.Chain = []ModelRef{p.Model}
	}
	if q.Temperature == nil {
		q.Temperature = c.Temperature
	}
	if q.MaxOutput == 0 {
		q.MaxOutput = c.MaxOutput
	}
	return q, entries, c.Chain, c, nil
}

// resolve finds a model in the registry, and its key.
func (r *Router) resolve(ctx context.Context, entries map[string]Entry, ref ModelRef) (target, error) {
	name, model := ref.Split()
	e, ok := entries[name]
	if !ok || model == "" {
		return target{}, fault.Invalidf("%q isn't a model of any provider.", ref)
	}
	if e.Disabled {
		return target{}, fault.Unavailablef("Provider %s is disabled.", name)
	}
	if e.Type == WireScripted && !r.o.AllowScripted {
		return target{}, fault.Deniedf("Scripted providers are for tests.")
	}
	t := target{name: name, title: r.title(name), model: model, entry: e}
	var err error
	if t.info, err = r.info(name, e, model); err != nil {
		return target{}, err
	}
	var source string
	if t.key, source, err = r.o.Key(ctx, name, e); err != nil {
		return target{}, err
	}
	if source == "" && !e.local() {
		return target{}, fault.Unavailablef("No key for %s.", t.title)
	}
	return t, nil
}

// title returns the name of a service for people: the catalog's, or else that of its entry.
func (r *Router) title(name string) string {
	if c, err := r.o.Catalog(); err == nil {
		name = cmp.Or(c.Providers[name].Name, name)
	}
	return name
}

// info describes a model of an entry.
func (r *Router) info(name string, e Entry, model string) (ModelInfo, error) {
	cat, err := r.o.Catalog()
	if err != nil {
		return ModelInfo{}, err
	}
	provider := catalogProvider(cat, name, e)
	ref := ModelRef(name + "/" + model)
	if i, ok := cat.Info(provider, model); ok {
		i.Ref = ref
		r.limitToLoaded(&i)
		r.o.Override(name, &i)
		return i, nil
	}
	i := ModelInfo{Ref: ref, Name: model, Family: familyOf(model), Window: 128_000, Output: 16_000, Caps: Caps{Tools: true}, Source: "assumed"}
	if e.local() {
		i.Caps.Structured = true
		r.limitToLoaded(&i)
	}
	if named := r.o.Override(name, &i); !named && !e.SkipCatalogValidation && !e.local() {
		near := cat.nearest(provider, model)
		return ModelInfo{}, fault.Invalidf("%s has no model %q.%s", name, model, similar(near)).WithDetails(map[string]any{"nearest": near})
	}
	return i, nil
}

func catalogProvider(c *Catalog, name string, e Entry) string {
	if e.CatalogProvider != "" {
		return e.CatalogProvider
	}
	if _, ok := c.Providers[name]; ok {
		return name
	}
	if e.BaseURL == "" || e.official() {
		return map[string]string{WireChat: "openai", WireResponses: "openai", WireAnthropic: "anthropic", WireGemini: "google"}[e.Type]
	}
	return name
}

// Complete returns the complete answer. On an error, the reply holds what was received before it.
func (r *Router) Complete(ctx context.Context, q Request) (Reply, error) {
	return Fold(r.Stream(ctx, q))
}

// Stream answers q. It ends after Finish or one error. Breaking out of the loop or canceling ctx
// closes the connection and settles the usage so far.
func (r *Router) Stream(ctx context.Context, q Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		q, entries, chain, role, err := r.chain(ctx, q)
		if err != nil {
			yield(Event{}, err)
			return
		}
		s := &session{r: r, q: q, role: role, yield: yield}
		var last error
		for _, ref := range chain {
			t, err := r.resolve(ctx, entries, ref)
			if err == nil {
				err = fits(q, t.info)
			}
			if err == nil && q.Pin != nil && q.Pin.Host != t.entry.host() {
				err = fault.Conflictf("%s is at another address now. Nothing was sent.", t.name)
			}
			if err != nil {
				if last == nil || !fallsBack(last) {
					last = err
				}
				continue
			}
			done, err := s.try(ctx, t)
			if done {
				return
			}
			if last = err; !fallsBack(err) {
				break
			}
		}
		yield(Event{}, last)
	}
}

// fits checks that a model supports a request, before calling it.
func fits(q Request, i ModelInfo) error {
	if len(q.Tools) > 0 && !i.Caps.Tools {
		return fault.Invalidf("%s can't call tools.", i.Ref)
	}
	if n := int(roughTokens(q)); i.Window > 0 && n > i.Window {
		hint := ""
		if i.silent {
			hint = " " + silentHint(i.Ref)
		}
		return fault.Limitf("The conversation is too long for %s.%s", i.Ref, hint).WithDetails(map[string]int{"tokens": n, "window": i.Window}).
			WithCause(&ServiceError{Code: codeContext})
	}
	return nil
}

// session is one request being tried along its chain.
type session struct {
	r       *Router
	q       Request
	role    RoleConfig
	yield   func(Event, error) bool
	attempt int
	stopped bool
	void    Event // the Discard for a failed attempt, sent only if another attempt begins
}

// try calls one model until its attempts are used up. done reports that the consumer has received the
// end.
func (s *session) try(ctx context.Context, t target) (done bool, err error) {
	for n := range attempts {
		visible, err := s.once(ctx, t)
		if s.stopped || err == nil {
			return true, nil
		}
		switch {
		case ctx.Err() != nil:
			s.yield(Event{}, fault.As(ctx.Err()))
			return true, nil
		case visible && (!s.q.AllowDiscard || !retryable(err)):
			s.yield(Event{}, err)
			return true, nil
		case visible:
			s.void = Event{Type: EventDiscard, Attempt: s.attempt, Raw: fault.As(err).Message}
		}
		if n == attempts-1 || !retryable(err) {
			return false, err
		}
		if err := s.wait(ctx, t, n, err); err != nil {
			return false, err
		}
	}
	return false, nil
}

// wait sleeps before the next attempt, or returns the error if the attempt would come too late.
func (s *session) wait(ctx context.Context, t target, n int, cause error) error {
	d := time.Duration(s.r.o.Rand() * float64(min(maxDelay, baseDelay<<n)))
	if after := fault.As(cause).RetryAfter; after > 0 {
		if after > maxRetryAfter {
			return cause
		}
		d = after + time.Duration(s.r.o.Rand()*float64(after)/10)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return cause
	}
	if s.q.Waiting != nil && codeOf(cause) == codeRate {
		s.q.Waiting(t.title)
	}
	return sleep(ctx, d)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fault.As(ctx.Err())
	}
}

// once makes one attempt; visible reports that the consumer has received part of it.
func (s *session) once(ctx context.Context, t target) (visible bool, err error) {
	r := s.r
	circuit := r.circuit(t.name + " " + t.entry.host())
	if err := circuit.enter(time.Now(), t.title); err != nil {
		return false, err
	}
	input := r.ratios.most(t.info.Ref, s.q)
	release, err := r.slot(ctx, t, input, s.q.Waiting)
	if err != nil {
		circuit.leave(time.Now(), false, false)
		return false, err
	}
	var usage Usage
	defer func() { release(usage.Prompt() + usage.Output) }()
	est := Estimate{Provider: t.name, Model: t.model, Purpose: s.q.Purpose, Input: mostTokens(s.q), Output: int64(s.q.MaxOutput)}
	if est.Output == 0 {
		est.Output = int64(t.info.Output)
	}
	est.Micros, est.PriceUnknown = r.cost(t, Usage{Input: est.Input, Output: est.Output})
	if limit := s.role.MaxCostMicrosCall; limit > 0 && est.Micros > limit {
		circuit.leave(time.Now(), false, false)
		return false, fault.Limitf("The call may cost more than the role's limit.").WithDetails(map[string]Micros{"micros": est.Micros, "limit": limit}).WithCause(&ServiceError{Code: codeQuota})
	}
	hold, err := r.o.Meter.Reserve(ctx, est)
	if err != nil {
		circuit.leave(time.Now(), false, false)
		return false, err
	}
	s.attempt++
	var received, runes int // bytes and characters of output
	answered := false
	outcome := "stopped"
	defer func() {
		usage = settled(usage, outcome == "done", answered || mayHaveRun(err), input, received)
		cost, _ := r.cost(t, usage)
		hold.Settle(usage, max(cost, usage.ReportedMicros), outcome)
		circuit.leave(time.Now(), err != nil && breaks(err), err == nil && !s.stopped)
		if err == nil && !s.stopped {
			r.succeeded(t.name)
		} else if err != nil && breaks(err) {
			r.mu.Lock()
			r.failed[t.name] = fault.As(err).Message
			r.mu.Unlock()
		}
	}()
	if s.void.Type != "" {
		if !s.yield(s.void, nil) {
			s.stopped = true
			return false, nil
		}
		s.void = Event{}
	}
	if !s.yield(Event{Type: EventAttempt, Attempt: s.attempt, ID: uuid.NewString(), Provider: t.name, Model: t.model}, nil) {
		s.stopped = true
		return false, nil
	}
	for e, eventErr := range r.call(ctx, t, s.q) {
		if eventErr != nil {
			outcome = "failed"
			return visible, eventErr
		}
		answered = true
		switch e.Type {
		case EventUsage:
			usage = *e.Usage
			r.ratios.learn(t.info.Ref, s.q, usage)
		case EventFinish:
			outcome = "done"
		case EventText, EventReasoning, EventToolStart, EventToolDelta:
			visible = true
			received += len(e.Delta)
			runes += utf8.RuneCountInString(e.Delta)
		}
		e.Attempt = s.attempt
		if !s.yield(e, nil) {
			s.stopped = true
			return visible, nil
		}
		// Characters count as the fewest tokens that they may be, and a report only when text follows
		// it, so that no answer within the limit is canceled, nor one that is already whole.
		if n := max(usage.Output, int64(float64(runes)/mostRatio)); n > est.Output && e.Delta != "" {
			outcome = "failed"
			return visible, fault.Limitf("%s sent more than the %d tokens that it was asked for. The call was canceled.", t.title, est.Output).
				WithDetails(map[string]int64{"tokens": n, "limit": est.Output}).WithCause(&ServiceError{Code: codeOverrun})
		}
	}
	return visible, nil
}

func (r *Router) succeeded(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, name)
}

func (r *Router) lastError(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed[name]
}
