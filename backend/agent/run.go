package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	parallelCalls  = 8
	maxCalls       = 16 // of one step
	partialEach    = time.Second
	partialBytes   = 4 << 10
	toolPatience   = 250 * time.Millisecond // after a cancel
	toolTimeout    = time.Minute            // of a callable without its own
	leastOutput    = 256
	noticeLoop     = "loop"
	laneChat       = "chat"
	laneBackground = "background"
)

// errCanceled is the cause of a context that a person ended.
var errCanceled = errors.New("canceled by the user")

// live is a session in memory. The goroutine that runs its turn alone changes what belongs to the
// turn; everything is changed under mu.
type live struct {
	s        *Service
	id, user uuid.UUID
	remember bool

	mu       sync.Mutex
	state    *State
	since    int // events since the last snapshot
	running  bool
	again    bool // something came in while the runner was ending
	cancel   context.CancelCauseFunc
	canceled map[uuid.UUID]bool // turns that a person canceled
	partial  Partial            // of the call that streams
	used     time.Time
	toolList []tool // of the turn
}

func (l *live) mode() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Mode
}

// append writes events and folds them once they are committed. Also is written with them.
func (l *live) append(ctx context.Context, turn uuid.UUID, also func(*storage.Tx) error, bodies ...payload) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendLocked(ctx, turn, also, bodies...)
}

func (l *live) appendLocked(ctx context.Context, turn uuid.UUID, also func(*storage.Tx) error, bodies ...payload) error {
	var events []Event
	err := l.s.db.Write(l.s.asUser(context.WithoutCancel(ctx), l.user), func(tx *storage.Tx) (err error) {
		if events, err = l.s.appendTx(tx.Context(), tx, l, turn, bodies...); err != nil || also == nil {
			return err
		}
		return also(tx)
	})
	if err != nil {
		return err
	}
	for _, e := range events {
		l.state.apply(e)
		l.s.publish(l, e)
	}
	l.since += len(events)
	l.used = time.Now()
	return nil
}

// wake makes sure that the session's work is done: a runner goes on until nothing is left or a
// question holds the turn.
func (s *Service) wake(l *live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		l.again = true
		return
	}
	if s.life.Err() != nil {
		return
	}
	l.running = true
	s.wg.Go(func() { s.runSession(l) })
}

// runSession carries out what the state asks for, one effect after another.
func (s *Service) runSession(l *live) {
	ctx := s.asUser(s.life, l.user)
	for {
		err := fault.Catch(func() error { return s.work(ctx, l) })
		if err != nil && s.life.Err() == nil {
			s.log.Error("a turn ended with an error inside Helix", "session", l.id, "err", err)
			if ferr := s.fail(ctx, l, err); ferr != nil {
				s.log.Error("the end of a turn can't be stored", "session", l.id, "err", ferr)
				l.mu.Lock()
				l.running = false
				l.mu.Unlock()
				return
			}
			continue
		}
		l.mu.Lock()
		if l.again && s.life.Err() == nil {
			l.again = false
			l.mu.Unlock()
			continue
		}
		l.running = false
		snap := l.since >= snapshotEach && l.state.Turn == nil
		if snap {
			l.since = 0
		}
		l.mu.Unlock()
		if snap {
			l.mu.Lock()
			err := s.snapshot(context.WithoutCancel(ctx), l.id, l.user, l.state)
			l.mu.Unlock()
			if err != nil {
				s.log.Warn("store the snapshot of a session", "session", l.id, "err", err)
			}
		}
		return
	}
}

// work does everything that can be done now. It returns when the session is idle, or waits.
func (s *Service) work(ctx context.Context, l *live) error {
	var release func()
	defer func() {
		if release != nil {
			release()
		}
	}()
	var turn context.Context
	for ctx.Err() == nil {
		l.mu.Lock()
		next := l.state.todo()
		canceled := l.state.Turn != nil && l.canceled[l.state.Turn.ID]
		background := len(l.state.Queue) > 0 && !l.state.Queue[0].Attended
		if t := l.state.Turn; t != nil {
			background = !t.Input.Attended
		}
		l.mu.Unlock()
		if canceled && next.kind != effectFinish {
			next = effect{kind: effectFinish, end: turnFinished{State: Canceled, Reason: StopCanceled}}
		}
		if next.kind == effectNone {
			return nil
		}
		if release == nil && next.kind != effectFinish {
			var err error
			if release, err = s.lane(ctx, l.user, background); err != nil {
				return nil // the program ends
			}
		}
		var err error
		switch next.kind {
		case effectStart:
			turn, err = nil, s.startTurn(ctx, l)
		case effectFinish:
			turn, err = nil, s.finishTurn(ctx, l, next.end)
			if release != nil { // the next turn waits in line again
				release()
				release = nil
			}
		default:
			if turn == nil {
				if turn, err = s.beginTurn(ctx, l); err != nil {
					break
				}
			}
			switch {
			case overtime(l.state.Turn, time.Now()):
				err = s.finishTurn(ctx, l, turnFinished{State: Failed, Reason: StopTimeout, Error: &TurnError{Kind: "timeout", Message: "The turn took longer than it may."}})
				turn = nil
			case next.kind == effectCall:
				err = s.callModel(turn, l)
			default:
				var waits bool
				if waits, err = s.callTools(turn, l); waits && err == nil {
					return nil
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// overtime says that a turn has run longer than its limit. What a person took to answer counts too:
// a turn does not wait for ever in the middle.
func overtime(t *turnState, now time.Time) bool {
	return t.Limits.MaxWallMs > 0 && len(t.waitsFor()) == 0 && now.Sub(t.StartedAt) > duration.Of(t.Limits.MaxWallMs, time.Millisecond)
}

// lane waits for a place among the turns of a user.
func (s *Service) lane(ctx context.Context, user uuid.UUID, background bool) (func(), error) {
	s.mu.Lock()
	key := laneKey{user, background}
	places := s.lanes[key]
	if places == nil {
		n := chatLane
		if background {
			n = backgroundLane
		}
		places = make(chan struct{}, n)
		s.lanes[key] = places
	}
	s.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// startTurn begins the turn of the first input, with those that are joined with it.
func (s *Service) startTurn(ctx context.Context, l *live) error {
	l.mu.Lock()
	w := l.state.Queue[0]
	if l.canceled[w.Turn] {
		defer l.mu.Unlock()
		return l.appendLocked(ctx, w.Turn, nil, &withdrawn{StopCanceled})
	}
	started := turnStarted{Limits: w.Budget, Window: assumedWindow}
	for _, o := range l.state.Queue[1:] {
		if o.QueueMode == QueueCollect && w.QueueMode == QueueCollect && o.Origin == w.Origin {
			started.Joined = append(started.Joined, o.Turn)
		}
	}
	started.Ref = w.Model
	if started.Ref == "" {
		started.Ref = l.state.Model
	}
	st := *l.state
	l.mu.Unlock()

	info, err := s.o.Models.Describe(ctx, providers.Request{Role: providers.RoleChat, Model: started.Ref})
	if err == nil {
		started.Window, started.Output = info.Window, min(info.Output, info.Window/4)
	}
	limits := &started.Limits
	session := st.Created.Budget
	limits.MaxTurns = least(firstOf(limits.MaxTurns, defaultSteps), session.MaxTurns)
	limits.MaxWallMs = least(firstOf(limits.MaxWallMs, defaultWall.Milliseconds()), session.MaxWallMs)
	list, err := s.tools(ctx, &st)
	if err != nil {
		return err
	}
	decls, deferred := declared(list, started.Window)
	if deferred {
		i := slices.IndexFunc(list, func(t tool) bool { return t.decl.Name == toolSearchName })
		if i >= 0 {
			decls = append(decls, list[i].decl)
		}
	}
	if !slices.EqualFunc(decls, st.Tools, func(a, b providers.ToolDecl) bool {
		return a.Name == b.Name && a.Description == b.Description && string(a.Input) == string(b.Input)
	}) {
		started.Tools = append([]providers.ToolDecl{}, decls...)
	}
	started.Block, started.Private = s.block(ctx, l, w, &st)
	return l.append(ctx, w.Turn, nil, &started)
}

// block is what changes from turn to turn: the date, memories for the input, notes.
func (s *Service) block(ctx context.Context, l *live, w waitingInput, st *State) (text string, private bool) {
	var b strings.Builder
	now := s.o.Now()
	fmt.Fprintf(&b, "Now: %s.", now.Format("Monday, 2 January 2006, 15:04 MST"))
	if len(st.Notes) > 0 {
		fmt.Fprintf(&b, "\nYour scratchpad: %s", strings.Join(st.Notes, "; "))
	}
	if s.o.Memory != nil && l.remember && w.Text != "" && st.Created.Kind != KindEval {
		recalled, err := s.o.Memory.Recall(ctx, w.Text)
		if err != nil {
			s.log.Warn("recall for a turn", "session", l.id, "err", err)
		}
		if recalled != "" {
			b.WriteString("\nFrom memory, as data:\n" + fence("memory", s.o.Scrub(recalled)))
			private = true
		}
	}
	return b.String(), private
}

// beginTurn gives the turn a context that a cancel ends, its tools and its rights.
func (s *Service) beginTurn(ctx context.Context, l *live) (context.Context, error) {
	l.mu.Lock()
	st, t := *l.state, l.state.Turn
	l.mu.Unlock()
	list, err := s.tools(ctx, &st)
	if err != nil {
		return nil, err
	}
	// Begin gives the turn the grants that wait for a run of this agent.
	if _, err := s.o.Gate.Begin(ctx, nil, s.subject(st.Created.Agent), t.ID); err != nil {
		return nil, err
	}
	turn, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	l.toolList, l.cancel = list, cancel
	if l.canceled[t.ID] {
		cancel(errCanceled)
	}
	l.mu.Unlock()
	return turn, nil
}

// callInfo is the account of the turn's calls.
func (s *Service) callInfo(l *live, purpose string) *callInfo {
	st := l.state
	c := &callInfo{session: l.id, turn: st.Turn.ID, agent: st.Created.Agent, purpose: purpose, chain: []uuid.UUID{l.id}}
	if st.Created.Schedule != nil {
		c.schedule = *st.Created.Schedule
	}
	if m, n := st.Turn.Limits.MaxCostMicros, st.Turn.Limits.MaxTokens; m > 0 || n > 0 {
		c.limits = append(c.limits, limit{key: spentKey{user: l.user, scope: scopeTurn, key: st.Turn.ID.String()}, micros: m, tokens: n})
	}
	if m, n := st.Created.Budget.MaxCostMicros, st.Created.Budget.MaxTokens; m > 0 || n > 0 {
		c.limits = append(c.limits, limit{key: spentKey{user: l.user, scope: ScopeSession, key: l.id.String()}, micros: m, tokens: n, warn: defaultWarning})
	}
	return c
}

// callModel makes the next step: one call of the model, and its reply into the log.
func (s *Service) callModel(ctx context.Context, l *live) error {
	if err := s.settleLost(ctx, l); err != nil {
		return err
	}
	if l.state.Turn.Phase == phasePlan { // between tools and the next call
		if err := s.steer(ctx, l); err != nil {
			return err
		}
		if n := l.state.Turn.loop(); n >= loopNotice && len(l.state.Turn.Acts) > l.state.Turn.Warned {
			if err := l.append(ctx, l.state.Turn.ID, nil, &noticed{Kind: noticeLoop, Text: "You repeat the same call with the same result. Do something else, or answer with what you have.", Model: true}); err != nil {
				return err
			}
		}
		if l.state.full() {
			if err := s.compact(ctx, l); err != nil {
				return err
			}
		}
	}
	return s.callOnce(ctx, l, true)
}

// settleLost charges the attempts that a crash interrupted, in full.
func (s *Service) settleLost(ctx context.Context, l *live) error {
	t := l.state.Turn
	for _, h := range slices.Clone(t.Holds) {
		x := &callSettled{Ledger: h.Ledger, Outcome: stateLost, Micros: h.Micros, Usage: providers.Usage{Estimated: true}}
		if err := l.append(ctx, t.ID, nil, x); err != nil {
			return err
		}
	}
	return nil
}

// steer puts inputs that came during the turn into it, when they ask for that and are of the same
// sender.
func (s *Service) steer(ctx context.Context, l *live) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.state.Turn
	var ids []uuid.UUID
	for _, w := range l.state.Queue {
		if w.QueueMode == QueueSteer && w.Origin == t.Input.Origin && w.Attended == t.Input.Attended && !l.canceled[w.Turn] {
			ids = append(ids, w.Turn)
		}
	}
	if len(ids) == 0 || t.Steps == 0 {
		return nil
	}
	return l.appendLocked(ctx, t.ID, nil, &steered{ids})
}

func (s *Service) callOnce(ctx context.Context, l *live, mayCompact bool) error {
	q, _ := l.state.plan()
	hash, err := requestHash(q)
	if err != nil {
		return err
	}
	t := l.state.Turn
	step := t.Steps + 1
	if t.Phase == phaseCall {
		step = t.Steps // again, after a crash
	}
	q.Key = l.id.String()
	if q.Messages, err = s.withFiles(q.Messages); err != nil {
		return err
	}
	bus.Publish(s.bus, l.user, TurnProgress{l.id, t.ID, "provider_call", "", step, t.Limits.MaxTurns})

	var open []settlement
	account := s.callInfo(l, q.Purpose)
	started := false
	account.reserved = func(ctx context.Context, id uuid.UUID, e providers.Estimate, write func(*storage.Tx) error) error {
		events := []payload{}
		if !started {
			events = append(events, &callStarted{Step: step, Hash: hash})
		}
		done := open
		for _, x := range done {
			events = append(events, x.event())
		}
		n := 1
		if len(l.state.Turn.Holds) > 0 {
			n += len(l.state.Turn.Holds)
		}
		events = append(events, &callReserved{Ledger: id, Provider: e.Provider, Model: e.Model, Attempt: n, Micros: e.Micros})
		err := l.append(ctx, t.ID, func(tx *storage.Tx) error {
			for _, x := range done {
				if err := x.writeTx(tx); err != nil {
					return err
				}
			}
			return write(tx)
		}, events...)
		if err == nil {
			started, open = true, nil
		}
		return err
	}
	account.settled = func(x settlement) { open = append(open, x) }

	var reply providers.Reply
	for {
		reply, err = s.stream(withCall(ctx, account), l, q)
		if !overBudget(err) || q.MaxOutput/2 < leastOutput {
			break
		}
		q.MaxOutput /= 2 // a shorter answer may fit the budget
	}
	return s.replied(ctx, l, t.ID, reply, err, open, mayCompact)
}

// overBudget says that a call was refused because of what it may cost.
func overBudget(err error) bool {
	if err == nil {
		return false
	}
	_, ok := fault.As(err).Details.(OverBudget)
	return ok
}

func (x settlement) event() *callSettled {
	return &callSettled{Ledger: x.id, Outcome: x.outcome, Micros: x.micros, Usage: x.usage}
}

// stream reads the answer, shows it as it comes and keeps what was seen now and then.
func (s *Service) stream(ctx context.Context, l *live, q providers.Request) (providers.Reply, error) {
	turn := l.state.Turn.ID
	attempt, saved, at := 0, 0, time.Now()
	var text strings.Builder
	defer func() {
		l.mu.Lock()
		l.partial = Partial{}
		l.mu.Unlock()
	}()
	return providers.Fold(func(yield func(providers.Event, error) bool) {
		for e, err := range s.o.Models.Stream(ctx, q) {
			switch {
			case err != nil:
			case e.Type == providers.EventAttempt:
				attempt, saved = e.Attempt, 0
				text.Reset()
			case e.Type == providers.EventDiscard:
				bus.Publish(s.bus, l.user, AttemptDiscarded{l.id, turn, e.Attempt})
				text.Reset()
				saved = 0
			case e.Type == providers.EventText:
				bus.Publish(s.bus, l.user, AssistantDelta{l.id, turn, attempt, text.Len(), e.Delta})
				text.WriteString(e.Delta)
				l.mu.Lock()
				l.partial = Partial{turn, attempt, text.String()}
				l.mu.Unlock()
				if text.Len()-saved >= partialBytes || text.Len() > saved && time.Since(at) >= partialEach && saved > 0 || saved == 0 && time.Since(at) >= partialEach {
					saved, at = text.Len(), time.Now()
					if perr := l.append(ctx, turn, nil, &partial{attempt, text.String()}); perr != nil {
						yield(providers.Event{}, perr)
						return
					}
				}
			case e.Type == providers.EventReasoning:
				bus.Publish(s.bus, l.user, ReasoningDelta{l.id, turn, attempt, 0, e.Delta})
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	})
}

// replied stores the answer with what it cost. It is stored before anything can stop the turn.
func (s *Service) replied(ctx context.Context, l *live, turn uuid.UUID, reply providers.Reply, err error, open []settlement, mayCompact bool) error {
	var events []payload
	settle := func(tx *storage.Tx) error {
		for _, x := range open {
			if err := x.writeTx(tx); err != nil {
				return err
			}
		}
		return nil
	}
	for _, x := range open {
		events = append(events, x.event())
	}
	canceled := errors.Is(context.Cause(ctx), errCanceled)
	if err != nil && !canceled && ctx.Err() != nil { // the program ends: the next start goes on
		return l.append(ctx, turn, settle, events...)
	}
	b := &replied{Provider: reply.Provider, Model: reply.Model, Parts: reply.Parts, Sources: reply.Sources, Reason: reply.Reason, Usage: reply.Usage, BadArgs: reply.BadArgs}
	if calls := reply.Calls(); len(calls) > maxCalls {
		kept := 0
		b.Parts = slices.DeleteFunc(slices.Clone(b.Parts), func(p providers.Part) bool {
			if p.Kind == providers.PartToolCall {
				kept++
			}
			return p.Kind == providers.PartToolCall && kept > maxCalls
		})
	}
	b.Parts, b.BadArgs = l.state.uniqueCalls(b.Parts, b.BadArgs)
	switch {
	case err == nil:
		return l.append(ctx, turn, settle, append(events, b)...)
	case canceled:
		if reply.Text() != "" {
			b.Failure = &TurnError{Kind: "canceled", Message: "Canceled."}
			b.Parts = slices.DeleteFunc(b.Parts, func(p providers.Part) bool { return p.Kind == providers.PartToolCall })
			events = append(events, b)
		}
		return l.append(ctx, turn, settle, append(events, &turnFinished{State: Canceled, Reason: StopCanceled})...)
	case providers.TooLong(err) && mayCompact && len(l.state.Exchanges) > 1:
		if err := l.append(ctx, turn, settle, events...); err != nil {
			return err
		}
		if err := s.compact(ctx, l); err != nil {
			return err
		}
		return s.callOnce(ctx, l, false)
	}
	f := fault.As(err)
	end := turnFinished{State: Failed, Reason: StopError, Error: &TurnError{Kind: string(f.Kind), Message: f.Message}}
	if d, ok := f.Details.(OverBudget); ok {
		end.Reason = StopBudget
		bus.Publish(s.bus, l.user, BudgetEvent{l.id, d.Scope, d.SpentMicros, d.LimitMicros, "stop"})
	}
	if len(b.Parts) > 0 {
		b.Failure = end.Error
		b.Parts = slices.DeleteFunc(b.Parts, func(p providers.Part) bool { return p.Kind == providers.PartToolCall })
		events = append(events, b)
	}
	return l.append(ctx, turn, settle, append(events, &end)...)
}

// uniqueCalls gives each call of a reply an id that no other call of the session has: services have
// sent the same twice, or none.
func (s *State) uniqueCalls(parts []providers.Part, bad []string) ([]providers.Part, []string) {
	seen := map[string]bool{"": true}
	for _, x := range s.Exchanges {
		for _, m := range x.Messages {
			for _, p := range m.Parts {
				if p.Kind == providers.PartToolCall {
					seen[p.ID] = true
				}
			}
		}
	}
	out := slices.Clone(parts)
	for i, p := range out {
		if p.Kind != providers.PartToolCall {
			continue
		}
		if seen[p.ID] {
			out[i].ID = fmt.Sprintf("call_%d_%d", s.Seq, i)
			if slices.Contains(bad, p.ID) {
				bad = append(slices.Clone(bad), out[i].ID)
			}
		}
		seen[out[i].ID] = true
	}
	return out, bad
}

// withFiles reads the bytes of attachments into a request.
func (s *Service) withFiles(list []providers.Message) ([]providers.Message, error) {
	out := slices.Clone(list)
	for i, m := range out {
		for j, p := range m.Parts {
			if p.Kind != providers.PartImage && p.Kind != providers.PartFile || p.ID == "" {
				continue
			}
			raw, err := s.readBlob(p.ID)
			if err != nil {
				return nil, err
			}
			m.Parts = slices.Clone(m.Parts)
			p.Data, p.ID = raw, ""
			if strings.HasPrefix(p.MediaType, "text/") || p.MediaType == "application/json" {
				p = providers.TextPart(fence("the file "+p.Name, strings.ToValidUTF8(string(raw), "�")))
			}
			m.Parts[j] = p
		}
		out[i] = m
	}
	return out, nil
}

// compact makes room: the list that needs no model is stored first, then one summary may replace it.
func (s *Service) compact(ctx context.Context, l *live) error {
	t := l.state.Turn
	upto, text := l.state.compaction()
	if upto == 0 {
		return nil
	}
	old, leaving := l.state.Summary, slices.Clone(l.state.Exchanges[:upto])
	epoch := l.state.Epoch + 1
	if err := l.append(ctx, t.ID, nil, &compactionSaved{Epoch: epoch, Upto: upto, Text: text}); err != nil {
		return err
	}
	bus.Publish(s.bus, l.user, TurnProgress{l.id, t.ID, "rolling_summary", "", t.Steps, t.Limits.MaxTurns})
	reply, err := s.o.Models.Complete(withCall(ctx, s.callInfo(l, "summary")), summaryRequest(old, leaving))
	summary := strings.TrimSpace(reply.Text())
	if err != nil || summary == "" {
		if ctx.Err() != nil {
			return nil
		}
		return l.append(ctx, t.ID, nil, &noticed{Kind: "summary", Text: "The summary of earlier messages couldn't be written. A list of what you said is used instead; every message is still there."})
	}
	summary, _ = clip(s.o.Scrub(summary), int(summaryTokens*bytesPerToken))
	return l.append(ctx, t.ID, nil, &summarized{Epoch: epoch, Text: summary})
}

// callTools goes on with the calls of the reply. It reports whether the turn now waits for a person.
func (s *Service) callTools(ctx context.Context, l *live) (waits bool, err error) {
	for {
		t := l.state.Turn
		if t == nil || t.Phase != phaseTools || ctx.Err() != nil {
			return false, nil
		}
		from := slices.IndexFunc(t.Calls, func(c callState) bool { return c.Outcome == nil })
		if from < 0 {
			return false, nil
		}
		group := []int{from}
		if s.readsOnly(ctx, l, from) {
			for i := from + 1; i < len(t.Calls) && len(group) < parallelCalls && s.readsOnly(ctx, l, i); i++ {
				group = append(group, i)
			}
		}
		waiting, err := s.callGroup(ctx, l, group)
		if err != nil || waiting {
			return waiting, err
		}
	}
}

// readsOnly says that a call can be made beside others.
func (s *Service) readsOnly(ctx context.Context, l *live, i int) bool {
	c := l.state.Turn.Calls[i]
	if c.Outcome != nil || c.Asked != nil || c.Refused || c.Intent != nil {
		return false
	}
	t, problem := s.resolve(ctx, l, &c)
	return problem == "" && l.state.tierFor(t) == permission.ReadOnly
}

// callGroup makes calls beside each other and stores what they came to, in the order of the calls.
func (s *Service) callGroup(ctx context.Context, l *live, group []int) (waits bool, err error) {
	turn := l.state.Turn.ID
	results := make([][]payload, len(group))
	errs := make([]error, len(group))
	var wg sync.WaitGroup
	for n, i := range group {
		c := l.state.Turn.Calls[i]
		work := func() {
			errs[n] = fault.Catch(func() (err error) {
				results[n], err = s.callTool(ctx, l, c)
				return err
			})
		}
		if len(group) == 1 {
			work()
		} else {
			wg.Go(work)
		}
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return false, err
	}
	var events []payload
	var blobs []*toolOutcome
	for _, list := range results {
		for _, p := range list {
			events = append(events, p)
			switch b := p.(type) {
			case *approvalAsked:
				waits = true
				s.mu.Lock()
				s.asked[b.Approval] = l
				s.mu.Unlock()
			case *toolOutcome:
				if b.Blob != "" {
					blobs = append(blobs, b)
				}
			}
		}
	}
	if len(events) == 0 { // a question is still open
		return l.state.Turn != nil && len(l.state.Turn.waitsFor()) > 0, nil
	}
	err = l.append(ctx, turn, func(tx *storage.Tx) error {
		for _, b := range blobs {
			if err := s.keepBlob(tx, l, b.Blob, "result", "text/plain", b.Bytes, "out"); err != nil {
				return err
			}
		}
		return nil
	}, events...)
	if waits && err == nil {
		// The answer may have come before the turn was known to wait.
		for _, id := range l.state.Turn.waitsFor() {
			if st, serr := s.o.Gate.ApprovalStatus(ctx, id); serr == nil && st != "pending" {
				return false, nil
			}
		}
	}
	return waits, err
}

// callTool decides about one call and makes it. What it returns is written in one transaction; an
// intent that must stand before the effect is written at once.
func (s *Service) callTool(ctx context.Context, l *live, c callState) ([]payload, error) {
	st := l.state.Turn
	outcome := func(o toolOutcome) []payload {
		o.CallID = c.ID
		return []payload{&o}
	}
	t, problem := s.resolve(ctx, l, &c)
	if problem != "" {
		return outcome(toolOutcome{Status: statusFailed, Kind: "invalid", Text: problem, Unusable: true}), nil
	}
	switch {
	case c.Choice == choiceHappened:
		return outcome(toolOutcome{Status: statusDone, Text: "The person says that this happened before Helix was interrupted. " + c.Note}), nil
	case c.Choice == choiceStop:
		return outcome(toolOutcome{Status: statusSkipped, Text: "The person stopped the turn here."}), nil
	case c.Refused:
		text := "The person did not allow this call."
		if c.Note != "" {
			text += " They say: " + c.Note
		}
		return outcome(toolOutcome{Status: statusDenied, Kind: "denied", Text: text}), nil
	case c.Asked != nil && c.Asked.Unknown:
		return nil, nil // answered through Answer alone
	case c.Asked != nil:
		status, err := s.o.Gate.ApprovalStatus(ctx, c.Asked.Approval)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		switch status {
		case "pending":
			return nil, nil
		case "approved":
			return []payload{&approvalAnswered{CallID: c.ID, Approved: true}}, nil
		}
		return []payload{&approvalAnswered{CallID: c.ID}}, nil
	case c.Intent != nil && !c.Intent.Repeatable && c.Choice != choiceAgain && c.Approved == 0:
		return s.unknownOutcome(ctx, l, t, c)
	}
	tier := l.state.tierFor(t)
	if c.Intent == nil || c.Intent.Ref.Kind == "" {
		d, err := s.gate(ctx, l, t, &c, tier, st.Input.Attended)
		if err != nil {
			return outcome(s.failure(err)), nil
		}
		switch {
		case d.pending != uuid.Nil && d.denied == "":
			return []payload{&approvalAsked{CallID: c.ID, Approval: d.pending}}, nil
		case !d.allowed:
			o := toolOutcome{Status: statusDenied, Kind: "denied", Text: d.denied}
			if d.pending != uuid.Nil {
				o.Approval = &d.pending
			}
			return outcome(o), nil
		}
	}
	args := []byte(c.Args)
	intent := &toolIntent{CallID: c.ID, Tool: c.Name, Ref: t.info.Ref, Hash: t.info.Hash, ArgsHash: hashOf(args), Key: callKeyOf(st.ID, st.Steps, c.ID), Tier: tier.String(), Repeatable: t.repeatable()}
	var events []payload
	if c.Intent == nil {
		if t.repeatable() {
			events = append(events, intent) // with the outcome: making it again does no harm
		} else if err := l.append(ctx, st.ID, nil, intent); err != nil {
			return nil, err
		}
	} else {
		intent = c.Intent
	}
	begun := time.Now()
	o, also, pending := s.perform(ctx, l, t, intent, args, st.Input.Attended)
	if errors.Is(context.Cause(ctx), errCanceled) || ctx.Err() == nil {
		o.TookMs = time.Since(begun).Milliseconds()
	} else {
		return nil, nil // the program ends: the next start goes on
	}
	if pending != uuid.Nil {
		return append(events, &approvalAsked{CallID: c.ID, Approval: pending}), nil
	}
	return append(append(events, also...), outcome(o)...), nil
}

// perform makes a call and presents its result. Pending is the question that would lift a refusal.
func (s *Service) perform(ctx context.Context, l *live, t *tool, intent *toolIntent, args json.RawMessage, attended bool) (o toolOutcome, also []payload, pending uuid.UUID) {
	bus.Publish(s.bus, l.user, TurnProgress{l.id, l.state.Turn.ID, "tool_execution", t.decl.Name, l.state.Turn.Steps, l.state.Turn.Limits.MaxTurns})
	var out callable.Result
	var err error
	if t.own != nil {
		var r ownResult
		if r, err = t.own(ctx, l, args); err == nil {
			also = r.also
			out.Output, err = json.Marshal(r.value)
		}
	} else {
		out, err = s.callPatiently(ctx, t.info.Ref, callable.Request{
			Input: args, Key: intent.Key, Attempt: 1, Hash: intent.Hash, Timeout: toolTimeout,
			Caller: callable.Caller{Kind: string(Kind), ID: l.state.Created.Agent, Label: agentTitle(l.state.Created.Agent), Run: l.state.Turn.ID, Step: intent.Tool},
		})
	}
	if err != nil {
		if r, ok := callable.RefusalOf(err); ok && r.PendingApprovalID != uuid.Nil {
			if attended {
				return o, nil, r.PendingApprovalID
			}
			o = s.failure(err)
			o.Approval = &r.PendingApprovalID
			return o, nil, uuid.Nil
		}
		return s.failure(err), also, uuid.Nil
	}
	if o, err = s.present(ctx, t, out.Output, out.Untrusted || t.info.Untrusted); err != nil {
		return s.failure(err), also, uuid.Nil
	}
	if len(out.Notes) > 0 {
		o.Text += "\n" + s.o.Scrub(strings.Join(out.Notes, "\n"))
	}
	if !t.info.Effects.ReadOnly && t.own == nil {
		if err := s.o.Record(ctx, audit.Entry{ActorKind: string(Kind), ActorID: l.state.Turn.ID.String(), Action: "agent.tool", SubjectKind: string(t.info.Kind), SubjectID: t.info.ID, Outcome: audit.OK, RunID: l.state.Turn.ID,
			Details: map[string]any{"session": l.id, "tool": t.decl.Name, "argsHash": intent.ArgsHash}}); err != nil {
			s.log.Warn("record a call of a tool", "tool", t.decl.Name, "err", err)
		}
	}
	return o, also, uuid.Nil
}

// callPatiently makes a call. After a cancel the callable has a moment to end by itself.
func (s *Service) callPatiently(ctx context.Context, ref callable.Ref, r callable.Request) (callable.Result, error) {
	type answer struct {
		out callable.Result
		err error
	}
	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	done := make(chan answer, 1)
	s.wg.Go(func() {
		out, err := s.o.Callables.Call(limited, ref, r)
		done <- answer{out, err}
	})
	select {
	case a := <-done:
		return a.out, a.err
	case <-limited.Done():
	}
	timer := time.NewTimer(toolPatience)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.out, a.err
	case <-timer.C:
	}
	if ctx.Err() == nil {
		return callable.Result{}, fault.New(fault.Timeout, "It took longer than %s. It may still have happened.", r.Timeout)
	}
	return callable.Result{}, fault.New(fault.Canceled, "Canceled. It may still have happened.")
}

// unknownOutcome asks what became of a call that a crash interrupted. Without a person the turn says
// that nobody knows.
func (s *Service) unknownOutcome(ctx context.Context, l *live, t *tool, c callState) ([]payload, error) {
	if !l.state.Turn.Input.Attended {
		return []payload{&toolOutcome{CallID: c.ID, Status: statusFailed, Kind: "unknown", Text: "Helix was interrupted during this call. It is not known whether it happened, so it was not repeated."}}, nil
	}
	asked := &approvalAsked{CallID: c.ID, Approval: storage.NewID(), Unknown: true}
	args := json.RawMessage(c.Args)
	err := l.append(ctx, l.state.Turn.ID, func(tx *storage.Tx) error {
		return s.o.Gate.AskTx(tx, permission.QuestionRequest{
			ID: asked.Approval, User: l.user, Subject: s.subject(l.state.Created.Agent), SubjectName: agentTitle(l.state.Created.Agent), Run: l.state.Turn.ID, RunKind: string(Kind), Ref: c.ID, Tier: permission.SideEffecting,
			Question: permission.Question{
				Text: fmt.Sprintf("Helix was interrupted while it called %s. Did it happen?", t.decl.Name), Details: args, Step: t.decl.Name,
				Choices: []permission.Choice{
					{ID: choiceHappened, Label: "It happened", Help: "The chat continues as if the call was made.", Approves: true},
					{ID: choiceAgain, Label: "Run again", Help: "The call is made once more.", Approves: true},
					{ID: choiceStop, Label: "Stop", Help: "The turn ends here."},
				},
			},
		})
	}, asked)
	return nil, err
}

// Answer takes a person's answer to a question about an unknown outcome.
func (s *Service) Answer(ctx context.Context, a permission.Answered) error {
	l, err := s.sessionOfTurn(ctx, a.Run)
	if err != nil {
		return err
	}
	err = l.append(ctx, a.Run, func(tx *storage.Tx) error { return s.o.Gate.CloseTx(tx, a.Run, a.Ref, a.Choice, uuid.Nil) },
		&approvalAnswered{CallID: a.Ref, Approved: a.Choice != choiceStop, Choice: a.Choice, Note: a.Note})
	if err == nil {
		s.wake(l)
	}
	return err
}

// finishTurn ends the turn and what it held.
func (s *Service) finishTurn(ctx context.Context, l *live, end turnFinished) error {
	t := l.state.Turn
	if err := s.settleLost(ctx, l); err != nil {
		return err
	}
	if err := l.append(ctx, t.ID, func(tx *storage.Tx) error { return s.o.Gate.CloseTx(tx, t.ID, "", "", uuid.Nil) }, &end); err != nil {
		return err
	}
	s.ended(ctx, l, t.ID)
	return nil
}

// ended tells who waits for a turn that it is over.
func (s *Service) ended(ctx context.Context, l *live, turn uuid.UUID) {
	if err := s.o.Gate.EndRun(ctx, turn); err != nil {
		s.log.Warn("end the grants of a turn", "turn", turn, "err", err)
	}
	s.o.Ledger.forget(l.user, turn)
	l.mu.Lock()
	delete(l.canceled, turn)
	l.cancel = nil
	text := l.state.answer()
	l.mu.Unlock()
	got, err := s.turn(ctx, l.user, turn)
	if err != nil {
		s.log.Warn("read a turn that has ended", "turn", turn, "err", err)
		return
	}
	switch got.State {
	case Completed:
		bus.Publish(s.bus, l.user, TurnCompleted{l.id, got, text})
	case Canceled:
		bus.Publish(s.bus, l.user, TurnCanceled{l.id, got, text})
	default:
		bus.Publish(s.bus, l.user, TurnFailed{l.id, got, text})
	}
	bus.Publish(s.bus, l.user, SessionChanged{SessionID: l.id})
	s.mu.Lock()
	for _, ch := range s.waits[turn] {
		close(ch)
	}
	delete(s.waits, turn)
	s.mu.Unlock()
	if s.o.Ended != nil {
		s.o.Ended(turn)
	}
}

// fail ends a turn that an error inside Helix stopped.
func (s *Service) fail(ctx context.Context, l *live, cause error) error {
	l.mu.Lock()
	t := l.state.Turn
	var first *waitingInput
	if t == nil && len(l.state.Queue) > 0 {
		first = &l.state.Queue[0]
	}
	l.mu.Unlock()
	f := fault.As(cause)
	switch {
	case t != nil:
		return s.finishTurn(ctx, l, turnFinished{State: Failed, Reason: StopError, Error: &TurnError{Kind: string(f.Kind), Message: f.Message}})
	case first != nil:
		if err := l.append(ctx, first.Turn, nil, &withdrawn{StopError}); err != nil {
			return err
		}
		s.ended(ctx, l, first.Turn)
	}
	return nil
}
