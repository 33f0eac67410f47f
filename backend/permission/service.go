package permission

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Defaults of the questions and grants.
const (
	WaitForAnswer  = 120 * time.Second    // how long an interactive call waits for a person
	PendingFor     = 7 * 24 * time.Hour   // a question expires
	OnceFor        = time.Hour            // an unused once grant, or a run grant without a run
	SessionFor     = 24 * time.Hour       // a session grant, at the most
	MaxPending     = 200                  // open questions per user
	UndoFor        = 10 * time.Second     // a revocation can be undone
	maxDecisions   = 8192                 // cached decisions per user
	sweepEvery     = 30 * time.Second     // interval of Sweep
	keepDecided    = 400 * 24 * time.Hour // how long answered questions stay in the history
	maxListedDeny  = 1000
	maxPromptRunes = 300
)

// Options configure New. The zero value grants no files, because no path variable has a value.
type Options struct {
	Logger    *slog.Logger
	Home      string // value of $HOME and ~
	Workspace string // value of $WORKSPACE; "": none
	// StateDir returns the folder of a subject's own files ($STATE); "" or a nil func: none.
	StateDir func(Subject) string
	// Own lists Helix's own folders (data, config, state, cache, runtime). Nothing in them can be
	// granted except a subject's own StateDir.
	Own []string
	// OwnPort reports whether a port belongs to Helix; nil: none does.
	OwnPort func(port int) bool
	// Audit reports whether audit entries can be written; nil: they can. While they cannot, calls
	// above ReadOnly are refused.
	Audit *audit.Service
	// Wait is how long an interactive call waits; 0: 120 s.
	Wait time.Duration
	// Asked is called in the transaction that opens a question; nil: clients alone show it.
	Asked func(tx *storage.Tx, user, approval uuid.UUID) error
	// Now is the clock, for tests; nil: time.Now.
	Now func() time.Time
}

// Service decides permissions. There is one per database; it is safe for concurrent use. Run
// expires questions and grants.
type Service struct {
	db  *storage.DB
	bus *bus.Bus
	o   Options
	log *slog.Logger
	own []string

	began time.Time // start of this service; earlier sessions have ended

	mu      sync.RWMutex
	kinds   map[string]kind
	caches  map[uuid.UUID]*userCache
	gens    map[uuid.UUID]uint64
	runs    map[uuid.UUID][]*Authority // by run id
	waiting map[uuid.UUID][]chan answer
	reserve map[uuid.UUID]bool // questions whose run grants are reserved for their rerun
	undo    map[string]undo
	lastUse map[uuid.UUID]time.Time // grants used since the last flush

	nextNo atomic.Uint64
}

// kind is a registered kind of subject.
type kind struct {
	src    Source
	rerun  Rerun
	answer Answerer // for questions that are not about capabilities; nil: there are none
}

// userCache caches the data of one user. Any change drops it.
type userCache struct {
	gen     uint64
	shelves map[string]*subjectGrants
	seen    map[decisionKey]cached
}

type decisionKey struct {
	kind, id, resource string
	cap                Capability
	hash               [32]byte
	caller             uint64
	run, session       uuid.UUID
}

type cached struct {
	d     Decision
	until int64 // microseconds; 0: no end
	gen   uint64
}

// New returns a Service on db that publishes its events to b.
func New(db *storage.DB, b *bus.Bus, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == 0 {
		o.Wait = WaitForAnswer
	}
	s := &Service{
		db: db, bus: b, o: o, log: o.Logger, began: time.Now(), kinds: map[string]kind{}, caches: map[uuid.UUID]*userCache{}, gens: map[uuid.UUID]uint64{}, runs: map[uuid.UUID][]*Authority{},
		waiting: map[uuid.UUID][]chan answer{}, reserve: map[uuid.UUID]bool{}, undo: map[string]undo{}, lastUse: map[uuid.UUID]time.Time{},
	}
	for _, p := range o.Own {
		if r, err := resolve(filepath.ToSlash(p)); err == nil {
			s.own = append(s.own, r)
		}
		s.own = append(s.own, filepath.Clean(p))
	}
	if b != nil {
		bus.Subscribe(b, func(uuid.UUID, storage.Replaced) { s.forgetAll() })
	}
	return s
}

// Register sets the Source of a kind of subject and, if not nil, the function that starts a run
// again. Call it during composition, before Run. src may also be a Stepper.
func (s *Service) Register(kindName string, src Source, rerun func(ctx context.Context, payload json.RawMessage) (uuid.UUID, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[kindName]
	k.src, k.rerun = src, rerun
	s.kinds[kindName] = k
}

func (s *Service) space() *space {
	return &space{home: s.o.Home, workspace: s.o.Workspace, state: s.o.StateDir, own: s.own}
}

func (s *Service) now() time.Time  { return s.o.Now() }
func (s *Service) nowMicro() int64 { return s.o.Now().UnixMicro() }

func (s *Service) kind(name string) kind {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.kinds[name]
}

// lookup returns the domain's information about a subject. For an unknown subject the state is "".
func (s *Service) lookup(ctx context.Context, kindName, id string) (SubjectInfo, error) {
	k := s.kind(kindName)
	if k.src == nil {
		return SubjectInfo{}, nil
	}
	info, err := k.src.Subject(ctx, kindName, id)
	if fault.Is(err, fault.NotFound) {
		return SubjectInfo{}, nil
	}
	return info, err
}

// Decide decides r for the user in ctx. It does not audit an allowed call; the caller does, in the
// transaction of the action. A Deny is a Decision, not an error. An error means that no decision
// was possible: Denied without an identity, Unavailable while the audit log cannot be written,
// Canceled if ctx ended while waiting. Decide must not be called in a write transaction.
func (s *Service) Decide(ctx context.Context, r Request) (Decision, error) {
	id, _ := identity.From(ctx)
	if id.User == uuid.Nil {
		return Decision{}, fault.Deniedf("Nobody is signed in, so nothing is allowed.")
	}
	if r.SessionID == uuid.Nil {
		r.SessionID = id.Session
	}
	if r.Cap == "" {
		r.Cap, r.Resource = Call, r.Tier.String()
	}
	if r.RunKind == "" {
		r.RunKind = r.Subject.Kind
	}
	if r.Caller != nil && r.Caller.run == r.RunID && r.Caller.sub.Kind == r.Subject.Kind && r.Caller.sub.ID == r.Subject.ID {
		r.Caller = r.Caller.parent
	}
	if r.Tier > ReadOnly && s.o.Audit != nil {
		if err := s.o.Audit.Writable(ctx); err != nil {
			return Decision{}, err
		}
	}
	if s.revoked(r.RunID) {
		return Decision{Effect: Deny, Reason: ReasonRevoked}, nil
	}
	key, keyed := s.key(&r)
	if keyed {
		if d, ok := s.cachedDecision(id.User, &key); ok {
			return d, nil
		}
	}
	var wait *time.Timer
	defer func() {
		if wait != nil {
			wait.Stop()
		}
	}()
	for {
		d, g, in, gen, err := s.evaluate(ctx, id.User, &r)
		if err != nil {
			return Decision{}, err
		}
		if d.Effect == Allow {
			if g != nil && g.scope == "once" {
				if ok, err := s.spend(ctx, id.User, g, in); err != nil || !ok {
					if err != nil {
						return Decision{}, err
					}
					continue // another call was first: try again
				}
			}
			if g != nil {
				s.markUsed(r.RunID, g.id)
			}
			d.Path = in.res.path
			// A symbolic link that has changed since the key was computed belongs to another decision.
			if keyed && r.Tier != Privileged && (g == nil || g.scope != "once") && (d.Path == "" || in.res.text == key.resource) {
				s.remember(id.User, &key, d, g, gen)
			}
			return d, nil
		}
		asks := d.Effect == Ask || d.Reason == ReasonDefinitionChanged
		if !asks {
			return d, nil
		}
		pending, ch, err := s.raise(ctx, id.User, &r, d.Reason, r.Interactive)
		if err != nil {
			return Decision{}, err
		}
		d.Effect, d.PendingID = Deny, pending
		if !r.Interactive || ch == nil {
			return d, nil
		}
		if wait == nil {
			wait = time.NewTimer(s.o.Wait)
			if r.Waiting != nil {
				r.Waiting(pending)
			}
		}
		select {
		case a := <-ch:
			switch {
			case a.status == "denied", a.status == "approved" && d.Reason != ReasonDefinitionChanged && !a.allows(r.Cap, in.res.text):
				return Decision{Effect: Deny, Reason: ReasonDeniedByUser}, nil
			case a.status != "approved": // expired or superseded
				return d, nil
			}
		case <-wait.C:
			s.leave(pending, ch)
			return d, nil
		case <-s.runDone(r.RunID):
			s.leave(pending, ch)
			return Decision{Effect: Deny, Reason: ReasonRevoked}, nil
		case <-ctx.Done():
			s.leave(pending, ch)
			return Decision{}, fault.As(ctx.Err())
		}
	}
}

// Locate resolves the resource of a file capability for sub, following every symbolic link, as
// Decide does for Decision.Path. It does not decide anything. The error is Invalid for a malformed
// path and for one in Helix's own folders.
func (s *Service) Locate(sub Subject, c Capability, resource string) (string, error) {
	r, err := s.concretePath(c, resource, sub)
	return r.path, err
}

// key returns the cache key of a decision. Paths are resolved first, because links may have changed.
func (s *Service) key(r *Request) (decisionKey, bool) {
	k := decisionKey{kind: r.Subject.Kind, id: r.Subject.ID, resource: r.Resource, cap: r.Cap, hash: r.Subject.DefinitionHash, run: r.RunID, session: r.SessionID}
	if r.Caller != nil {
		k.caller = r.Caller.no
	}
	if r.Tier == Privileged {
		return k, false
	}
	if r.Cap == FilesystemRead || r.Cap == FilesystemWrite {
		c, err := s.concretePath(r.Cap, r.Resource, r.Subject)
		if err != nil {
			return k, false
		}
		k.resource = c.text
	}
	return k, true
}

func (s *Service) cachedDecision(user uuid.UUID, k *decisionKey) (Decision, bool) {
	s.mu.RLock()
	b := s.caches[user]
	var c cached
	ok := false
	if b != nil {
		c, ok = b.seen[*k]
	}
	s.mu.RUnlock()
	if !ok || c.until != 0 && s.nowMicro() >= c.until {
		return Decision{}, false
	}
	return c.d, true
}

func (s *Service) remember(user uuid.UUID, k *decisionKey, d Decision, g *grant, gen uint64) {
	c := cached{d: d, gen: gen}
	if g != nil {
		c.until = g.expires
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gens[user] != gen {
		return
	}
	b := s.userCacheLocked(user)
	if len(b.seen) >= maxDecisions {
		clear(b.seen)
	}
	b.seen[*k] = c
}

func (s *Service) userCacheLocked(user uuid.UUID) *userCache {
	b := s.caches[user]
	if b == nil {
		b = &userCache{gen: s.gens[user], shelves: map[string]*subjectGrants{}, seen: map[decisionKey]cached{}}
		s.caches[user] = b
	}
	return b
}

// invalidate drops the cache of a user.
func (s *Service) invalidate(user uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gens[user]++
	delete(s.caches, user)
}

// evaluate loads the input of the rules and applies them.
func (s *Service) evaluate(ctx context.Context, user uuid.UUID, r *Request) (Decision, *grant, *input, uint64, error) {
	in := &input{hash: r.Subject.DefinitionHash, tier: r.Tier, run: r.RunID, session: r.SessionID, now: s.nowMicro()}
	in.res, in.malformed = s.concrete(r.Cap, r.Resource, r.Subject)
	if in.malformed != nil {
		in.res.cap = r.Cap
		d, _ := decide(in)
		return d, nil, in, 0, nil
	}
	info, err := s.lookup(ctx, r.Subject.Kind, r.Subject.ID)
	if err != nil {
		return Decision{}, nil, in, 0, err
	}
	sh, gen, err := s.grantsOf(ctx, user, r.Subject, r.Tier == Privileged)
	if err != nil {
		return Decision{}, nil, in, 0, err
	}
	in.state = info.State
	if in.definition = sh.approves(r.Subject.DefinitionHash, &info); !in.definition && in.state == Active && sh.firstIsApproved(r.Subject.DefinitionHash, &info) {
		if err := s.adopt(ctx, user, r.Subject, info.Definition); err != nil {
			return Decision{}, nil, in, 0, err
		}
		in.definition = true
		if sh, gen, err = s.grantsOf(ctx, user, r.Subject, true); err != nil {
			return Decision{}, nil, in, 0, err
		}
	}
	in.denials = sh.denials
	in.grants = sh.grants[r.Cap]
	if r.Cap == FilesystemWrite {
		in.grants = append(slices.Clone(in.grants), sh.grants[State]...)
	}
	sp := s.space()
	for _, w := range info.Declared {
		if implies(w.Capability, r.Cap) {
			in.declared = append(in.declared, compile(w.Capability, w.Resource, sp, r.Subject))
		}
	}
	in.callerLacks = r.Caller != nil && !r.Caller.lends(in.res)
	d, g := decide(in)
	return d, g, in, gen, nil
}

// spend uses up one use of a once grant. ok is false if another call was first.
func (s *Service) spend(ctx context.Context, user uuid.UUID, g *grant, in *input) (ok bool, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		res, err := tx.Exec(`UPDATE capability_grants SET uses_left = uses_left - 1, last_used_at = ? WHERE id = ? AND user_id = ? AND uses_left > 0
			AND revoked_at IS NULL AND suspended_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`, tx.Now, g.id, user, in.now)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		ok = n == 1
		tx.AfterCommit(func() { s.invalidate(user) })
		return err
	})
	return ok, err
}

// revoked reports whether the run lost a grant that it was using.
func (s *Service) revoked(run uuid.UUID) bool {
	if run == uuid.Nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, a := range s.runs[run] {
		if a.Err() != nil {
			return true
		}
	}
	return false
}

// runDone returns a channel that is closed when the run ends; nil if the run is unknown.
func (s *Service) runDone(run uuid.UUID) <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if as := s.runs[run]; run != uuid.Nil && len(as) > 0 {
		return as[0].done
	}
	return nil
}

func (s *Service) markUsed(run, g uuid.UUID) {
	s.mu.Lock()
	s.lastUse[g] = s.now()
	as := s.runs[run]
	s.mu.Unlock()
	for _, a := range as {
		a.mark(g)
	}
}

// endRuns ends every run that depends on one of the grants, and its descendants.
func (s *Service) endRuns(grants []uuid.UUID, by string) {
	s.mu.RLock()
	var all []*Authority
	for as := range maps.Values(s.runs) {
		for _, a := range as {
			for ; a != nil; a = a.parent { // a restored caller is in no list
				all = append(all, a)
			}
		}
	}
	s.mu.RUnlock()
	for _, a := range all {
		if slices.ContainsFunc(grants, a.usesGrant) {
			for _, b := range all {
				if b.descends(a) {
					b.end(errRevoked(by))
				}
			}
		}
	}
}
