package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	defaultDay     = providers.Micros(5_000_000)
	defaultWarning = 0.8
	scopeTurn      = "turn" // internal: not one of the scopes on the wire
	ledgerAge      = 400 * 24 * time.Hour
)

// The states of a model call in the ledger.
const (
	stateReserved = "reserved"
	stateSettled  = "settled"
	stateReleased = "released"
	stateLost     = "lost"
)

// callInfo says who is charged for a model call. It travels in the context.
type callInfo struct {
	session, turn  uuid.UUID
	agent, purpose string
	limits         []limit   // of the turn, the session and their ancestors
	above          []account // ancestors charged for a subagent
	// reserved and settled are called for each attempt of a turn, so that the ledger's row and the
	// turn's event are written in one transaction.
	reserved func(ctx context.Context, id uuid.UUID, e providers.Estimate, write func(*storage.Tx) error) error
	settled  func(s settlement)
}

// limit bounds the spending under one key.
type limit struct {
	key    spentKey
	micros providers.Micros // 0: no limit
	tokens int64            // 0: no limit
	warn   float64          // fraction of the limit at which the person is warned; 0: never
}

// settlement is the actual use and cost of an attempt.
type settlement struct {
	id      uuid.UUID
	micros  providers.Micros
	usage   providers.Usage
	outcome string
}

type callKey struct{}

func withCall(ctx context.Context, c *callInfo) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// Ledger records the cost of model calls and refuses calls that would exceed a budget. It implements
// providers.Meter. Sums are cached in memory, which is safe because no other process writes them.
type Ledger struct {
	db  *storage.DB
	bus *bus.Bus
	now func() time.Time

	began time.Time

	mu    sync.Mutex
	spent map[spentKey]*sums
	warns map[spentKey]bool
}

// spentKey identifies a sum: a scope of a user, its key, and the period it covers.
type spentKey struct {
	user       uuid.UUID
	scope, key string
	from       int64 // microseconds; 0: all time
}

type sums struct {
	micros providers.Micros
	tokens int64
}

// NewLedger returns the ledger of db.
func NewLedger(db *storage.DB, b *bus.Bus) *Ledger {
	return &Ledger{db: db, bus: b, now: time.Now, began: time.Now(), spent: map[spentKey]*sums{}, warns: map[spentKey]bool{}}
}

// Retention returns how long records of model calls are kept.
func Retention() storage.Retention {
	return storage.Retention{Table: "agent_ledger", Time: "at", Age: ledgerAge, Only: "state <> 'reserved'"}
}

// Recover charges the reservations that were open when the last process ended, in full, because the
// money may have been spent.
func (l *Ledger) Recover(ctx context.Context) error {
	return l.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE agent_ledger SET state = 'lost', settled_at = ?, estimated = 1, outcome = 'lost' WHERE state = 'reserved' AND at < ?`, tx.Now, l.began)
		return err
	})
}

// period returns the start of the current period of a scope, in microseconds; 0 means all time.
func period(scope string, now time.Time) int64 {
	now = now.Local()
	switch scope {
	case ScopeDay:
		return time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.Local).UnixMicro()
	case ScopeMonth, ScopeProvider, ScopeAgent:
		return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.Local).UnixMicro()
	}
	return 0
}

// sum returns the amount spent under a key. The caller holds l.mu.
func (l *Ledger) sum(tx *storage.Tx, k spentKey) (*sums, error) {
	if s := l.spent[k]; s != nil {
		return s, nil
	}
	where, args := `user_id = ? AND at >= ?`, []any{k.user, k.from}
	switch id, _ := uuid.Parse(k.key); k.scope {
	case ScopeSession:
		where, args = `session_id IN (`+sessionsBelow+` SELECT id FROM below)`, []any{id}
	case scopeTurn:
		where, args = `turn_id IN (`+turnsBelow+` SELECT id FROM below)`, []any{id}
	case ScopeProvider:
		where, args = where+` AND provider = ?`, append(args, k.key)
	case ScopeAgent:
		where, args = where+` AND agent_name = ?`, append(args, k.key)
	}
	s := &sums{}
	err := tx.QueryRow(`SELECT coalesce(sum(cost_micros), 0), coalesce(sum(CASE state WHEN 'reserved' THEN reserved_tokens ELSE input + cache_read + cache_write + output END), 0)
		FROM agent_ledger WHERE `+where+` AND state <> 'released'`, args...).Scan(&s.micros, &s.tokens)
	if err == nil {
		l.spent[k] = s
	}
	return s, err
}

// limitsFor returns the limits that apply to a call: those that people set, and the default limit per
// day. The caller holds l.mu.
func (l *Ledger) limitsFor(tx *storage.Tx, user uuid.UUID, c *callInfo, provider string) ([]limit, error) {
	now := l.now()
	set := []limit{}
	err := tx.Select(`SELECT scope, key, max_cost_micros, max_tokens, warn_at FROM agent_budgets WHERE user_id = ?`, user).Each(func(row storage.Row) error {
		var x limit
		x.key.user = user
		if err := row.Scan(&x.key.scope, &x.key.key, &x.micros, &x.tokens, &x.warn); err != nil {
			return err
		}
		x.key.from = period(x.key.scope, now)
		set = append(set, x)
		return nil
	})
	if err != nil {
		return nil, err
	}
	day := limit{key: spentKey{user, ScopeDay, "", period(ScopeDay, now)}, micros: defaultDay, warn: defaultWarning}
	out := []limit{}
	for _, x := range set {
		switch x.key.scope {
		case ScopeDay:
			day = x
			continue
		case ScopeProvider:
			if x.key.key != provider {
				continue
			}
		case ScopeAgent:
			if c == nil || x.key.key != c.agent {
				continue
			}
		case ScopeSession:
			if c == nil || x.key.key != c.session.String() && !slices.ContainsFunc(c.above, func(a account) bool { return x.key.key == a.Session.String() }) {
				continue
			}
		}
		out = append(out, x)
	}
	out = append(out, day)
	if c != nil {
		out = append(out, c.limits...)
	}
	return out, nil
}

// keysOf returns the keys of the sums that a call is added to.
func (l *Ledger) keysOf(user uuid.UUID, c *callInfo, provider string) []spentKey {
	now := l.now()
	out := []spentKey{{user, ScopeDay, "", period(ScopeDay, now)}, {user, ScopeMonth, "", period(ScopeMonth, now)}, {user, ScopeProvider, provider, period(ScopeProvider, now)}}
	if c == nil {
		return out
	}
	out = append(out, spentKey{user: user, scope: scopeTurn, key: c.turn.String()})
	if c.session != uuid.Nil { // steps of skills have no session
		out = append(out, spentKey{user: user, scope: ScopeSession, key: c.session.String()})
	}
	for _, a := range c.above {
		out = append(out, spentKey{user: user, scope: scopeTurn, key: a.Turn.String()}, spentKey{user: user, scope: ScopeSession, key: a.Session.String()})
	}
	return append(out, spentKey{user, ScopeAgent, c.agent, period(ScopeAgent, now)})
}

// OverBudget is the detail of the Limit error for a call that would exceed a budget.
type OverBudget struct {
	Scope       string           `json:"scope"`
	Key         string           `json:"key,omitempty"`
	SpentMicros providers.Micros `json:"spentMicros"`
	LimitMicros providers.Micros `json:"limitMicros"`
	NeedMicros  providers.Micros `json:"needMicros"`
	Tokens      bool             `json:"tokens,omitempty"` // the limit is one of tokens
}

// Reserve implements providers.Meter. It reserves the most that the call may cost in every budget
// that applies, in one transaction, or refuses the call with a Limit error.
func (l *Ledger) Reserve(ctx context.Context, e providers.Estimate) (providers.Hold, error) {
	user := identity.UserID(ctx)
	c, _ := ctx.Value(callKey{}).(*callInfo)
	h := &hold{l: l, ctx: context.WithoutCancel(ctx), c: c, id: storage.NewID(), e: e}
	tokens := e.Input + e.Output
	l.mu.Lock()
	defer l.mu.Unlock()
	write := func(tx *storage.Tx) error {
		limits, err := l.limitsFor(tx, user, c, e.Provider)
		if err != nil {
			return err
		}
		for _, x := range limits {
			s, err := l.sum(tx, x.key)
			if err != nil {
				return err
			}
			if x.micros > 0 && s.micros+e.Micros > x.micros || x.tokens > 0 && s.tokens+tokens > x.tokens {
				d := OverBudget{Scope: x.key.scope, Key: x.key.key, SpentMicros: s.micros, LimitMicros: x.micros, NeedMicros: e.Micros, Tokens: x.micros == 0 || s.micros+e.Micros <= x.micros}
				if d.Tokens {
					return fault.Limitf("The budget of the %s is spent: %d of %d tokens, and this call may take %d.", x.key.scope, s.tokens, x.tokens, tokens).WithDetails(d)
				}
				return fault.Limitf("The budget of the %s is spent: %s of %s, and this call may cost %s.", x.key.scope, dollars(s.micros), dollars(x.micros), dollars(e.Micros)).WithDetails(d)
			}
			if at := providers.Micros(x.warn * float64(x.micros)); x.micros > 0 && at > 0 && s.micros+e.Micros >= at && !l.warns[x.key] {
				l.warns[x.key] = true
				ev := BudgetEvent{Scope: x.key.scope, SpentMicros: s.micros, LimitMicros: x.micros, Level: "warn"}
				if c != nil {
					ev.SessionID = c.session
				}
				tx.AfterCommit(func() { bus.Publish(l.bus, user, ev) })
			}
		}
		for _, k := range l.keysOf(user, c, e.Provider) {
			s, err := l.sum(tx, k)
			if err != nil {
				return err
			}
			h.sums = append(h.sums, s)
		}
		var info callInfo
		if c != nil {
			info = *c
		}
		null := func(id uuid.UUID) any {
			if id == uuid.Nil {
				return nil
			}
			return id
		}
		var above uuid.UUID
		if len(info.above) > 0 {
			above = info.above[0].Session
		}
		_, err = tx.Exec(`INSERT INTO agent_ledger (id, user_id, session_id, turn_id, parent_id, agent_name, purpose, provider, model, state, reserved_micros, reserved_tokens, cost_micros, estimated, at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved', ?, ?, ?, 1, ?)`,
			h.id, user, null(info.session), null(info.turn), null(above), info.agent, cmp.Or(info.purpose, e.Purpose, "chat"), e.Provider, e.Model, e.Micros, tokens, e.Micros, l.now())
		return err
	}
	var err error
	if c != nil && c.reserved != nil {
		err = c.reserved(ctx, h.id, e, write)
	} else {
		err = l.db.Write(ctx, write)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range h.sums {
		s.micros += e.Micros
		s.tokens += tokens
	}
	return h, nil
}

// hold is one reservation.
type hold struct {
	l    *Ledger
	ctx  context.Context
	c    *callInfo
	id   uuid.UUID
	e    providers.Estimate
	sums []*sums
}

// Settle implements providers.Hold: it replaces the reservation with the actual figures.
func (h *hold) Settle(u providers.Usage, cost providers.Micros, outcome string) {
	tokens := u.Prompt() + u.Output
	h.l.mu.Lock()
	for _, s := range h.sums {
		s.micros += cost - h.e.Micros
		s.tokens += tokens - h.e.Input - h.e.Output
	}
	h.l.mu.Unlock()
	x := settlement{h.id, cost, u, outcome}
	if h.c != nil && h.c.settled != nil {
		h.c.settled(x)
		return
	}
	if err := h.l.db.Write(h.ctx, x.writeTx); err != nil {
		// The row stays reserved and is charged in full at the next start.
		return
	}
}

// writeTx stores the actual figures in the row of the call. It sets them rather than adding, so that
// it can be repeated.
func (x settlement) writeTx(tx *storage.Tx) error {
	state := stateSettled
	if x.usage.Requests == 0 && x.micros == 0 && x.outcome != "done" {
		state = stateReleased
	}
	_, err := tx.Exec(`UPDATE agent_ledger SET state = ?, cost_micros = ?, reported_micros = ?, input = ?, cache_read = ?, cache_write = ?, output = ?, reasoning = ?, estimated = ?, outcome = ?, settled_at = ?
		WHERE id = ? AND state = 'reserved'`,
		state, x.micros, x.usage.ReportedMicros, x.usage.Input, x.usage.CacheRead, x.usage.CacheWrite+x.usage.CacheWrite1h, x.usage.Output, x.usage.Reasoning, x.usage.ReportedMicros == 0, x.outcome, tx.Now, x.id)
	return err
}

// dollars formats an amount with as many digits as it needs.
func dollars(m providers.Micros) string {
	text := fmt.Sprintf("$%d.%06d", m/1_000_000, m%1_000_000)
	for strings.HasSuffix(text, "0") && len(text)-strings.IndexByte(text, '.') > 3 {
		text = text[:len(text)-1]
	}
	return text
}

// Budgets lists the limits in effect and the amounts spent against them.
func (l *Ledger) Budgets(ctx context.Context, _ struct{}) (out BudgetsResult, err error) {
	user := identity.UserID(ctx)
	out.Limits = []BudgetView{}
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.db.Read(ctx, func(tx *storage.Tx) error {
		now := l.now()
		day := false
		list, err := storage.Collect(tx.Select(`SELECT scope, key, max_cost_micros, max_tokens, warn_at FROM agent_budgets WHERE user_id = ? ORDER BY scope, key`, user), func(row storage.Row) (v BudgetView, err error) {
			err = row.Scan(&v.Scope, &v.Key, &v.MaxCostMicros, &v.MaxTokens, &v.WarnAt)
			day = day || v.Scope == ScopeDay
			return v, err
		})
		if err != nil {
			return err
		}
		if !day {
			list = append([]BudgetView{{Scope: ScopeDay, MaxCostMicros: defaultDay, WarnAt: defaultWarning, Default: true}}, list...)
		}
		for _, v := range list {
			s, err := l.sum(tx, spentKey{user, v.Scope, v.Key, period(v.Scope, now)})
			if err != nil {
				return err
			}
			v.SpentMicros, v.SpentTokens = s.micros, s.tokens
			out.Limits = append(out.Limits, v)
		}
		return nil
	})
	return out, err
}

// SetBudget sets a limit. Without an amount it removes the limit, and the default limit per day
// applies again.
func (l *Ledger) SetBudget(ctx context.Context, p SetBudgetParams) (BudgetsResult, error) {
	user := identity.UserID(ctx)
	needsKey := p.Scope == ScopeProvider || p.Scope == ScopeSession || p.Scope == ScopeAgent
	switch {
	case !needsKey && p.Scope != ScopeDay && p.Scope != ScopeMonth:
		return BudgetsResult{}, fault.Invalidf("scope must be day, month, provider, session or agent.")
	case needsKey != (p.Key != ""):
		return BudgetsResult{}, fault.Invalidf("Give a key for a provider, session or agent, and none for a day or month.")
	case p.MaxCostMicros != nil && *p.MaxCostMicros < 0 || p.MaxTokens != nil && *p.MaxTokens < 0 || p.WarnAt != nil && (*p.WarnAt < 0 || *p.WarnAt > 1):
		return BudgetsResult{}, fault.Invalidf("A limit can't be negative, and warnAt must be 0 to 1.")
	}
	err := l.db.Write(ctx, func(tx *storage.Tx) error {
		if p.MaxCostMicros == nil && p.MaxTokens == nil {
			_, err := tx.Exec(`DELETE FROM agent_budgets WHERE user_id = ? AND scope = ? AND key = ?`, user, p.Scope, p.Key)
			return err
		}
		warn := defaultWarning
		if p.WarnAt != nil {
			warn = *p.WarnAt
		}
		var micros providers.Micros
		var tokens int64
		if p.MaxCostMicros != nil {
			micros = *p.MaxCostMicros
		}
		if p.MaxTokens != nil {
			tokens = *p.MaxTokens
		}
		_, err := tx.Exec(`INSERT INTO agent_budgets (user_id, scope, key, max_cost_micros, max_tokens, warn_at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (user_id, scope, key) DO UPDATE SET max_cost_micros = excluded.max_cost_micros, max_tokens = excluded.max_tokens, warn_at = excluded.warn_at`, user, p.Scope, p.Key, micros, tokens, warn)
		return err
	})
	if err != nil {
		return BudgetsResult{}, err
	}
	l.mu.Lock()
	clear(l.warns)
	l.mu.Unlock()
	bus.Publish(l.bus, user, Changed{"budgets"})
	return l.Budgets(ctx, struct{}{})
}

// List lists model calls, newest first, or sums them by a key.
func (l *Ledger) List(ctx context.Context, p LedgerParams) (out LedgerResult, err error) {
	offset := 0
	if err := storage.CheckPage(&p.Limit, &offset, 100, 1000); err != nil {
		return out, err
	}
	from := time.Unix(0, 0)
	if p.From != nil {
		from = *p.From
	}
	keys := map[string]string{
		"day": `date(at / 1000000, 'unixepoch', 'localtime')`, "model": `provider || '/' || model`, "purpose": `purpose`, "provider": `provider`, "session": `coalesce(lower(hex(session_id)), '')`,
	}
	user := identity.UserID(ctx)
	out.Rows = []LedgerRow{}
	err = l.db.Read(ctx, func(tx *storage.Tx) error {
		if p.GroupBy == "" || p.GroupBy == "call" {
			out.Rows, err = storage.Collect(tx.Select(`SELECT session_id, turn_id, purpose, provider, model, state, cost_micros, estimated, input + cache_read + cache_write, output, at FROM agent_ledger
				WHERE user_id = ? AND at >= ? ORDER BY at DESC LIMIT ?`, user, from, p.Limit), func(row storage.Row) (r LedgerRow, err error) {
				var session, turn uuid.NullUUID
				r.At, r.Calls = &time.Time{}, 1
				err = row.Scan(&session, &turn, &r.Purpose, &r.Provider, &r.Model, &r.State, &r.CostMicros, &r.Estimated, &r.Input, &r.Output, storage.Time(r.At))
				if session.Valid {
					r.SessionID = &session.UUID
				}
				if turn.Valid {
					r.TurnID = &turn.UUID
				}
				return r, err
			})
			return err
		}
		key, ok := keys[p.GroupBy]
		if !ok {
			return fault.Invalidf("groupBy must be call, day, model, purpose, provider or session.")
		}
		out.Rows, err = storage.Collect(tx.Select(`SELECT `+key+` AS k, count(*), sum(cost_micros), max(estimated), sum(input + cache_read + cache_write), sum(output) FROM agent_ledger
			WHERE user_id = ? AND at >= ? AND state <> 'released' GROUP BY k ORDER BY k DESC LIMIT ?`, user, from, p.Limit), func(row storage.Row) (r LedgerRow, err error) {
			err = row.Scan(&r.Key, &r.Calls, &r.CostMicros, &r.Estimated, &r.Input, &r.Output)
			if id, perr := uuid.Parse(r.Key); perr == nil {
				r.Key, r.SessionID = id.String(), &id
			}
			return r, err
		})
		return err
	})
	return out, err
}

// spentBy returns what a turn has spent so far.
func (l *Ledger) spentBy(user, turn uuid.UUID) providers.Micros {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.spent[spentKey{user: user, scope: scopeTurn, key: turn.String()}]; s != nil {
		return s.micros
	}
	return 0
}

// forget drops the sum of a turn that has ended.
func (l *Ledger) forget(user, turn uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.spent, spentKey{user: user, scope: scopeTurn, key: turn.String()})
}
