package gateway

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
)

// Scope is the permission that a method requires; see identity.Scope for their order.
type Scope = identity.Scope

// The scopes, repeated here so that method tables need not import identity.
const (
	None    = identity.None
	Read    = identity.Read
	Write   = identity.Write
	Approve = identity.Approve
	Admin   = identity.Admin
)

// API is the table of all methods that clients can call and all events that they can receive. Fill
// it with Handle, Alias and Forward before the server runs; it is read-only from then on.
type API struct {
	methods map[string]*method
	events  map[string]*event
	types   *types
}

// NewAPI returns an empty table.
func NewAPI() *API {
	a := &API{methods: map[string]*method{}, events: map[string]*event{}, types: newTypes()}
	a.own("events.gap", reflect.TypeFor[EventsGap]())
	a.own("system.stopping", reflect.TypeFor[SystemStopping]())
	return a
}

// own declares an event that the gateway itself sends.
func (a *API) own(name string, t reflect.Type) {
	a.types.plan(t)
	a.events[name] = &event{name: name, typ: t}
}

// method is one entry of the table.
type method struct {
	name      string
	aliasOf   string
	scope     Scope
	costly    bool
	lenient   bool
	secret    bool
	everyone  bool
	transient bool
	deadline  time.Duration
	preset    map[string]string
	params    reflect.Type
	result    reflect.Type
	fn        any // the registered function; its comment becomes the documentation
	docFn     any // the function with the comment; nil: fn
	pace      *pace

	decode func(raw []byte) (any, error)
	invoke func(ctx context.Context, params any) (any, error)
}

// event is one bus event type that clients receive under a name.
type event struct {
	name      string
	typ       reflect.Type
	everyone  bool
	transient bool
	attach    func(b *bus.Bus, fn func(user uuid.UUID, data any)) (cancel func())
}

// Option changes one entry of the table.
type Option func(*method)

// Costly applies the rate limit for expensive work to the method: 20 calls per second and user.
func Costly() Option { return func(m *method) { m.costly = true } }

// Deadline replaces the default of 60 s. The caller may shorten it, never lengthen it.
func Deadline(d time.Duration) Option { return func(m *method) { m.deadline = d } }

// Secret reports that the result contains a secret, so that it is never stored for repeated calls.
func Secret() Option { return func(m *method) { m.secret = true } }

// Everyone sends events that belong to no user (published for uuid.Nil) to each user. Without it no
// one receives them. It is for events about the program itself.
func Everyone() Option { return func(m *method) { m.everyone = true } }

// Transient keeps an event out of the numbered stream: it has the seq 0, is not replayed, and is
// dropped without notice when a client is too slow. It is for events that the next one makes
// obsolete, such as progress and levels, which would push others out of the replay buffer.
func Transient() Option { return func(m *method) { m.transient = true } }

// DocumentedBy takes the method's comment from fn instead of the registered function, which may be
// a wrapper.
func DocumentedBy(fn any) Option { return func(m *method) { m.docFn = fn } }

// Preset fixes one text field of an alias: the field becomes optional, and any other value is
// refused.
func Preset(field, value string) Option {
	return func(m *method) {
		if m.preset == nil {
			m.preset = map[string]string{}
		}
		m.preset[field] = value
	}
}

var (
	methodName = regexp.MustCompile(`^[a-z][a-z0-9]*([._][a-z0-9]+)*$`)
	eventName  = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)
)

// Handle makes fn callable as name for sessions that hold scope. P is a struct; its fields
// are decoded strictly: unknown, missing and mistyped ones are refused before fn runs.
// It panics if the name is taken or a type cannot be represented on the wire, so that a mistake in
// the table shows at the first start.
func Handle[P, R any](a *API, name string, scope Scope, fn func(context.Context, P) (R, error), opts ...Option) {
	m := &method{name: name, scope: scope, params: reflect.TypeFor[P](), result: reflect.TypeFor[R](), fn: fn, pace: &pace{}}
	for _, o := range opts {
		o(m)
	}
	if m.params.Kind() != reflect.Struct {
		panic(fmt.Sprintf("gateway: %s: params must be a struct, not %s", name, m.params))
	}
	// connect is the only request whose unknown fields are ignored, because a newer client may send
	// it to an older server.
	m.lenient = m.lenient || name == "connect"
	plan := a.types.plan(m.params)
	m.decode = func(raw []byte) (any, error) {
		var p P
		err := decodeParams(raw, plan, m.lenient, &p)
		return p, err
	}
	m.invoke = func(ctx context.Context, p any) (any, error) { return fn(ctx, p.(P)) }
	a.types.plan(m.result)
	a.add(m)
}

// Alias makes target callable under another name with the same types and scope. An alias always
// does the same as its target; Preset may fix one of its fields.
func Alias(a *API, alias, target string, opts ...Option) {
	t, ok := a.methods[target]
	if !ok {
		panic(fmt.Sprintf("gateway: alias %s: no method %s", alias, target))
	}
	m := *t
	m.name, m.aliasOf, m.preset = alias, target, nil
	for _, o := range opts {
		o(&m)
	}
	if len(m.preset) > 0 {
		m.decode = func(raw []byte) (any, error) {
			raw, err := applyPreset(raw, m.preset)
			if err != nil {
				return nil, err
			}
			return t.decode(raw)
		}
	}
	a.add(&m)
}

func (a *API) add(m *method) {
	if !methodName.MatchString(m.name) {
		panic(fmt.Sprintf("gateway: %q is not a method name", m.name))
	}
	if a.methods[m.name] != nil {
		panic(fmt.Sprintf("gateway: method %s is registered twice", m.name))
	}
	a.methods[m.name] = m
}

// Forward sends each bus event of type E to the user it was published for, under name.
// Publish after the transaction that made the change has committed.
func Forward[E any](a *API, name string, opts ...Option) {
	if !eventName.MatchString(name) {
		panic(fmt.Sprintf("gateway: %q is not an event name", name))
	}
	if a.events[name] != nil {
		panic(fmt.Sprintf("gateway: event %s is registered twice", name))
	}
	var m method
	for _, o := range opts {
		o(&m)
	}
	a.types.plan(reflect.TypeFor[E]())
	a.events[name] = &event{name: name, typ: reflect.TypeFor[E](), everyone: m.everyone, transient: m.transient,
		attach: func(b *bus.Bus, fn func(uuid.UUID, any)) func() {
			return bus.Subscribe(b, func(user uuid.UUID, e E) { fn(user, e) })
		}}
}

// MethodInfo describes one registered method to generators, tests and help texts.
type MethodInfo struct {
	Name     string
	AliasOf  string // empty: not an alias
	Scope    Scope
	Costly   bool
	Deadline time.Duration // zero: the default
	Params   reflect.Type
	Result   reflect.Type
	Fn       any               // the function whose comment documents it
	Preset   map[string]string // fields that the alias fixes
}

// EventInfo describes one forwarded event.
type EventInfo struct {
	Name      string
	Type      reflect.Type
	Transient bool // has no seq and is not replayed
}

// Methods lists all methods, aliases included, by name.
func (a *API) Methods() []MethodInfo {
	out := make([]MethodInfo, 0, len(a.methods))
	for _, m := range a.methods {
		fn := m.fn
		if m.docFn != nil {
			fn = m.docFn
		}
		out = append(out, MethodInfo{Name: m.name, AliasOf: m.aliasOf, Scope: m.scope, Costly: m.costly,
			Deadline: m.deadline, Params: m.params, Result: m.result, Fn: fn, Preset: m.preset})
	}
	slices.SortFunc(out, func(x, y MethodInfo) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// Events lists the forwarded events by name.
func (a *API) Events() []EventInfo {
	out := make([]EventInfo, 0, len(a.events))
	for _, e := range a.events {
		out = append(out, EventInfo{Name: e.name, Type: e.typ, Transient: e.transient})
	}
	slices.SortFunc(out, func(x, y EventInfo) int { return strings.Compare(x.Name, y.Name) })
	return out
}
