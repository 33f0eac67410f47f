package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	noticeLoop     = "loop"
	laneChat       = "chat"
	laneBackground = "background"
)

// errCanceled is the cause of a context that a person canceled.
var errCanceled = errors.New("canceled by the user")

// live is a session in memory. Only the goroutine that runs its turn changes the fields of the turn;
// all fields are guarded by mu.
type live struct {
	s        *Service
	id, user uuid.UUID
	remember bool

	mu       sync.Mutex
	state    *State
	used     atomic.Int64 // time of the last use, in nanoseconds
	since    int          // events since the last snapshot
	running  bool
	again    bool // new work arrived while the runner was ending
	cancel   context.CancelCauseFunc
	canceled map[uuid.UUID]bool     // turns that a person canceled
	partial  Partial                // of the streaming call
	begun    time.Time              // when the turn last started or continued
	toolList []tool                 // of the turn
	caller   *permission.Authority  // permissions of the turn's caller; nil: the person's
	release  func()                 // releases the turn's place in its lane; nil: it has none
	children map[uuid.UUID]struct{} // turns of subagents that the turn waits for
}

func (l *live) mode() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Mode
}

// append writes events and folds them once they are committed. also runs in the same transaction; it
// may be nil.
func (l *live) append(ctx context.Context, turn uuid.UUID, also func(*storage.Tx) error, bodies ...payload) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendLocked(ctx, turn, also, bodies...)
}

func (l *live) appendLocked(ctx context.Context, turn uuid.UUID, also func(*storage.Tx) error, bodies ...payload) error {
	return l.appendAfter(ctx, turn, nil, also, bodies...)
}

// appendAfter is appendLocked that runs check first; if check fails, nothing changes.
func (l *live) appendAfter(ctx context.Context, turn uuid.UUID, check, also func(*storage.Tx) error, bodies ...payload) error {
	l.s.crashPoint()
	var events []Event
	err := l.s.db.Write(l.s.asUser(context.WithoutCancel(ctx), l.user), func(tx *storage.Tx) (err error) {
		if check != nil {
			if err := check(tx); err != nil {
				return err
			}
		}
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
		l.s.o.Telemetry.observe(l.id, l.state, e, l.scrubber())
	}
	l.since += len(events)
	l.s.crashPoint()
	return nil
}

// wake starts the session's runner unless it is running. The runner works until nothing is left to do
// or the turn waits for an answer.
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

// runSession carries out the effects that the state calls for, one after another.
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

// work does everything that can be done now. It returns when the session is idle or waiting.
func (s *Service) work(ctx context.Context, l *live) error {
	defer l.giveUpPlace()
	var turn context.Context
	for ctx.Err() == nil {
		l.mu.Lock()
		next := l.state.todo()
		canceled := l.state.Turn != nil && l.canceled[l.state.Turn.ID]
		lanes, placed := l.lanes(), l.release != nil
		l.mu.Unlock()
		if canceled && next.kind != effectFinish {
			next = effect{kind: effectFinish, end: turnFinished{State: Canceled, Reason: StopCanceled}}
		}
		if next.kind == effectNone {
			return nil
		}
		if !placed && next.kind != effectFinish {
			release, err := s.lane(ctx, lanes)
			if err != nil {
				return nil // shutting down
			}
			l.mu.Lock()
			l.release = release
			l.mu.Unlock()
		}
		var err error
		switch next.kind {
		case effectStart:
			turn, err = nil, s.startTurn(ctx, l)
		case effectFinish:
			turn, err = nil, s.finishTurn(ctx, l, next.end)
			l.giveUpPlace() // the next turn waits in line again
		default:
			if turn == nil {
				if turn, err = s.beginTurn(ctx, l); err != nil {
					break
				}
			}
			switch {
			case l.overtime(time.Now()):
				err = s.finishTurn(ctx, l, turnFinished{State: Failed, Reason: StopTimeout, Error: &TurnError{Kind: "timeout", Message: "The turn took longer than it may."}})
				turn = nil
			case next.kind == effectCall:
				err = s.callModel(turn, l)
			default:
				var waits bool
				if waits, err = s.callTools(turn, l); waits && err == nil {
					s.wakeWaiters(l.state.Turn.ID)
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

// overtime reports whether the turn has worked longer than its limit. Time spent waiting for an
// answer, or while Helix is closed, does not count.
func (l *live) overtime(now time.Time) bool {
	limit := l.state.Turn.Limits.MaxWallMs
	return limit > 0 && now.Sub(l.begun) > duration.Of(limit, time.Millisecond)
}

// lanes returns the lanes in which the running turn, or the next one, needs a place. The caller holds
// l.mu.
func (l *live) lanes() []laneKey {
	p := l.state.Created.Parent
	switch {
	case p != nil && p.Detached:
		return []laneKey{{user: l.user, background: true}, {user: l.user, tree: p.Root}}
	case p != nil:
		return []laneKey{{user: l.user, tree: p.Root}}
	}
	background := len(l.state.Queue) > 0 && !l.state.Queue[0].Attended
	if t := l.state.Turn; t != nil {
		background = !t.Input.Attended
	}
	return []laneKey{{user: l.user, background: background}}
}

// giveUpPlace releases the turn's places for other turns: at its end, and while it waits for
// subagents, which need places in the same lane. The turn takes a new place before its next step.
func (l *live) giveUpPlace() {
	l.mu.Lock()
	release := l.release
	l.release = nil
	l.mu.Unlock()
	if release != nil {
		release()
	}
}

// lane waits for a place in each of the lanes, in their order.
func (s *Service) lane(ctx context.Context, keys []laneKey) (release func(), err error) {
	var taken []laneKey
	release = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, k := range taken {
			<-s.lanes[k].places
			s.leave(k)
		}
	}
	for _, k := range keys {
		s.mu.Lock()
		ln := s.lanes[k]
		if ln == nil {
			ln = &laneState{places: make(chan struct{}, k.size())}
			s.lanes[k] = ln
		}
		ln.users++
		s.mu.Unlock()
		select {
		case ln.places <- struct{}{}:
			taken = append(taken, k)
		case <-ctx.Done():
			release()
			s.mu.Lock()
			s.leave(k)
			s.mu.Unlock()
			return nil, ctx.Err()
		}
	}
	return release, nil
}

// leave drops a lane that is no longer used. The caller holds s.mu.
func (s *Service) leave(k laneKey) {
	if s.lanes[k].users--; s.lanes[k].users == 0 {
		delete(s.lanes, k)
	}
}

// startTurn begins the turn of the first input and the inputs joined with it.
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

	info, err := s.o.Models.Prepare(ctx, providers.Request{Role: st.role(), Model: started.Ref})
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
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := func(id uuid.UUID) bool {
		return slices.ContainsFunc(l.state.Queue, func(w waitingInput) bool { return w.Turn == id })
	}
	if !waits(w.Turn) { // it was canceled meanwhile
		return nil
	}
	started.Joined = slices.DeleteFunc(started.Joined, func(id uuid.UUID) bool { return !waits(id) })
	return l.appendLocked(ctx, w.Turn, nil, &started)
}

// block returns the part of the prompt that changes between turns: the date, memories for the input,
// notes.
func (s *Service) block(ctx context.Context, l *live, w waitingInput, st *State) (text string, private bool) {
	var b strings.Builder
	now := s.o.Now()
	fmt.Fprintf(&b, "Now: %s.", now.Format("Monday, 2 January 2006, 15:04 MST"))
	if len(st.Notes) > 0 {
		fmt.Fprintf(&b, "\nYour scratchpad: %s", strings.Join(st.Notes, "; "))
	}
	if s.o.Memory != nil && l.remember && w.Text != "" && st.Created.Kind != KindEval {
		recalled, err := s.o.Memory.Recall(ctx, l.id, w.Text)
		if err != nil {
			s.log.Warn("recall for a turn", "session", l.id, "err", err)
		}
		if recalled != "" {
			b.WriteString("\nFrom memory, as data:\n" + fence("memory", s.o.Scrub(ctx, recalled)))
			private = true
		}
	}
	return b.String(), private
}

// beginTurn sets the turn's context, which a cancel ends, its tools and its permissions.
func (s *Service) beginTurn(ctx context.Context, l *live) (context.Context, error) {
	l.mu.Lock()
	st, t := *l.state, l.state.Turn
	l.mu.Unlock()
	list, err := s.tools(ctx, &st)
	if err != nil {
		return nil, err
	}
	// Begin gives the turn the grants that are waiting for a run of this agent.
	s.mu.Lock()
	caller := s.callers[t.ID]
	s.mu.Unlock()
	if _, err := s.o.Gate.Begin(ctx, caller, s.subject(st.Created.Agent), t.ID); err != nil {
		return nil, err
	}
	turn, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	l.endContext()
	l.toolList, l.cancel, l.begun, l.caller = list, cancel, time.Now(), caller
	if l.canceled[t.ID] {
		cancel(errCanceled)
	}
	l.mu.Unlock()
	return turn, nil
}

// finishTurn ends the turn and releases what it held.
func (s *Service) finishTurn(ctx context.Context, l *live, end turnFinished) error {
	ctx = context.WithoutCancel(ctx) // the turn may end because its context was canceled
	t := l.state.Turn
	if err := s.settleLost(ctx, l); err != nil {
		return err
	}
	asked := t.waitsFor()
	also := func(tx *storage.Tx) error {
		if err := s.o.Gate.CloseTx(tx, t.ID, "", "", uuid.Nil); err != nil || !t.Input.Attended {
			return err // the questions of an unattended turn wait for a person
		}
		return s.o.Gate.WithdrawTx(tx, l.user, s.subject(l.state.Created.Agent), asked)
	}
	if err := l.append(ctx, t.ID, also, &end); err != nil {
		return err
	}
	s.ended(ctx, l, t.ID)
	return nil
}

// endContext cancels the context of a turn, which otherwise stays registered until the service ends.
// The caller holds l.mu.
func (l *live) endContext() {
	if l.cancel != nil {
		l.cancel(nil)
		l.cancel = nil
	}
}

// ended announces the end of a turn.
func (s *Service) ended(ctx context.Context, l *live, turn uuid.UUID) {
	if err := s.o.Gate.EndRun(ctx, turn); err != nil {
		s.log.Warn("end the grants of a turn", "turn", turn, "err", err)
	}
	s.o.Ledger.forget(l.user, turn)
	s.mu.Lock()
	delete(s.callers, turn)
	s.mu.Unlock()
	l.mu.Lock()
	delete(l.canceled, turn)
	if l.state.Turn == nil { // else a queued turn ended while another is working
		l.endContext()
	}
	text := l.state.answer()
	l.mu.Unlock()
	defer s.wakeWaiters(turn)
	got, err := s.turn(ctx, l.user, turn)
	if err != nil {
		s.log.Warn("read a turn that has ended", "turn", turn, "err", err)
		return
	}
	if p := l.state.Created.Parent; p != nil && p.Detached {
		if err := s.report(ctx, l, got); err != nil && s.life.Err() == nil {
			s.log.Error("the report of a subagent can't be delivered before the next start", "turn", turn, "err", err)
		}
	}
	s.tellAbove(l)
	switch got.State {
	case Completed:
		bus.Publish(s.bus, l.user, TurnCompleted{l.id, got, text})
	case Canceled:
		bus.Publish(s.bus, l.user, TurnCanceled{l.id, got, text})
	default:
		bus.Publish(s.bus, l.user, TurnFailed{l.id, got, text})
	}
	bus.Publish(s.bus, l.user, SessionChanged{SessionID: l.id})
}

// wakeWaiters wakes the calls of Wait for a turn.
func (s *Service) wakeWaiters(turn uuid.UUID) {
	s.mu.Lock()
	for _, ch := range s.waits[turn] {
		close(ch)
	}
	delete(s.waits, turn)
	s.mu.Unlock()
	s.o.Ended(turn)
}

// fail ends a turn after an internal error.
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
