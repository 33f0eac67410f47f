package skills

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// live is a run that is loaded in memory. It is owned by its loop; mu guards the fields that others read.
type live struct {
	s    *Service
	prog *program
	made created
	ctx  context.Context // context of its calls

	authority *permission.Authority // of its caller; nil: the user
	budget    callable.Budget
	cancel    context.CancelCauseFunc
	inbox     chan message
	gone      chan struct{}          // closed when it has been unloaded
	granted   chan struct{}          // it has been given a slot again
	first     chan error             // of a new run: the result of recording its start
	stop      atomic.Pointer[string] // the reason given by the person who canceled it
	lost      atomic.Bool            // its database has been replaced

	mu       sync.Mutex
	row      runRow
	st       *machine.State
	news     chan struct{}        // closed and replaced when the status changes
	recorded Status               // the status on record
	bytes    int64                // size of the events
	unsure   map[string]bool      // at the end: steps whose outcome is unknown
	asked    map[string]time.Time // time of each open request, by place
	startAt  time.Time            // of run.started
	waited   time.Duration        // time spent waiting, up to now or to waitAt
	waitAt   time.Time            // when it began to wait; zero: it does not
	lastAt   time.Time            // when it began to wait; zero: it is not waiting

	// The fields below are used only by the loop.
	fresh   bool            // the row is not in the database yet
	suspect bool            // the process died during the run, which has made no progress since
	slot    bool            // holds one of the user's slots
	queued  bool            // waits for a slot
	batch   []machine.Event // applied, but not committed
	stored  rowState        // the state in the row
	calls   map[string]*attempt
	halted  map[string]*attempt // calls stopped with the run, without an outcome
	crashed map[string]bool     // calls in progress when the process died
	parkAt  time.Time           // when a waiting run is unloaded
}

// rowState is the part of the row that changes during a run.
type rowState struct {
	status         Status
	reason         string
	deadline, wake time.Time
}

// attempt is a call in progress.
type attempt struct {
	call   *machine.Call
	cancel context.CancelCauseFunc
}

// message is a message to the loop of a run.
type message struct {
	key      string         // identifies the call
	outcome  *machine.Event // outcome of the call, or a question instead of it
	known    bool           // false if the outcome only says that the call was stopped
	progress *machine.Event
	answer   *answer
}

var (
	errShutdown = errors.New("helix stops")
	errParked   = errors.New("the run left memory")
	errCanceled = errors.New("the run was canceled")
	errOver     = errors.New("the run is out of time")
)

func place(path, iteration string) string { return path + "\x00" + iteration }

// newLive creates a live run from a row without starting it. events is its journal; empty for a new run.
func (s *Service) newLive(row runRow, prog *program, made created, events []machine.Event) (*live, error) {
	r := &live{
		s: s, prog: prog, made: made, row: row, inbox: make(chan message, 64), gone: make(chan struct{}), granted: make(chan struct{}, 1),
		first: make(chan error, 1), news: make(chan struct{}), asked: map[string]time.Time{}, calls: map[string]*attempt{}, halted: map[string]*attempt{}, crashed: map[string]bool{},
	}
	at := s.now()
	if len(events) > 0 {
		at = events[0].At
	}
	var err error
	if r.st, err = machine.New(made.start(s, row.id, at, row.input, prog)); err != nil {
		return nil, err
	}
	for _, e := range events {
		if err := r.st.Apply(e); err != nil {
			return nil, err
		}
		r.note(e)
	}
	r.recorded, r.suspect = row.status, row.interrupted
	r.stored = rowState{status: row.status, reason: row.reason}
	if row.deadline != nil {
		r.stored.deadline = *row.deadline
	}
	if row.wake != nil {
		r.stored.wake = *row.wake
	}
	r.ctx, r.cancel = context.WithCancelCause(identity.With(s.life, identity.Identity{User: row.user, Scopes: identity.Read | identity.Write, Client: identity.ClientProgram, Pipe: "skills"}))
	if len(events) == 0 {
		e := machine.Created(made)
		r.apply(e, at)
	} else {
		for _, c := range r.st.Pending() {
			r.crashed[callKey(c)] = true
		}
		if status, _ := r.st.Status(); status == machine.Running {
			if now := s.now(); now.Sub(r.lastAt) >= time.Millisecond {
				r.apply(machine.Stopped(now.Sub(r.lastAt)), now)
			}
		}
	}
	return r, nil
}

func callKey(c *machine.Call) string { return place(c.Path, c.Iteration) }

// eventBytes is the approximate size of an event without its data.
const eventBytes = 64

// now returns the current time with the precision of event times.
func (s *Service) now() time.Time { return s.o.Now().UTC().Truncate(time.Microsecond) }

// note tracks waiting times, which the state machine does not.
func (r *live) note(e machine.Event) {
	r.lastAt = e.At
	r.bytes += int64(len(e.Data) + len(e.StepPath) + eventBytes)
	switch e.Type {
	case machine.RunStarted:
		r.startAt = e.At
	case machine.RunWaiting:
		r.waitAt = e.At
	case machine.RunResumed:
		r.waited += e.At.Sub(r.waitAt)
		r.waitAt = time.Time{}
	case machine.StepProgress:
		var d machine.ProgressData
		if e.StepPath == "" && json.Unmarshal(e.Data, &d) == nil {
			r.waited += duration.Of(d.StoppedMs, time.Millisecond)
		}
	case machine.ApprovalRequested:
		r.asked[place(e.StepPath, e.Iteration)] = e.At
	case machine.ApprovalAnswered:
		delete(r.asked, place(e.StepPath, e.Iteration))
	}
}

// apply adds an event to the state and to the next commit. It returns false if the state
// rejects the event.
func (r *live) apply(e machine.Event, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Before(r.lastAt) {
		at = r.lastAt // the clock was set back
	}
	e.Seq, e.At = r.st.Seq()+1, at
	if err := r.st.Apply(e); err != nil {
		r.s.log.Error("a run cannot continue", "run", r.row.id, "error", err)
		return false
	}
	r.note(e)
	r.batch = append(r.batch, e)
	return true
}

// next returns what the state requires next. It may parse and evaluate expressions, so no one else
// may access the state meanwhile.
func (r *live) next() machine.Todo {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.s.evaluating != nil && !r.startAt.IsZero() {
		r.s.evaluating(r.row.id)
	}
	return r.st.Next()
}

// deadline returns when the time limit of the run expires; zero while it waits or has not started.
func (r *live) deadline() time.Time {
	if r.startAt.IsZero() || !r.waitAt.IsZero() {
		return time.Time{}
	}
	return r.startAt.Add(duration.Of(r.made.TimeoutMs, time.Millisecond) + r.waited)
}

// watch returns the status of a run, its reason for waiting, and a channel that is closed when the
// status changes.
func (r *live) watch() (Status, string, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, reason := r.st.Status()
	return r.recorded, reason, r.news
}

// send passes a message to the loop. It returns false if the run has been unloaded.
func (r *live) send(m message) bool {
	select {
	case r.inbox <- m:
		return true
	case <-r.gone:
		return false
	}
}

// commit writes the applied events and publishes them. It returns false if the run has to be unloaded.
func (r *live) commit() bool {
	events := r.batch
	want := r.rowState()
	if len(events) == 0 && want == r.stored && !r.fresh {
		return true
	}
	fin := r.st.Finished()
	var steps []stepRow
	if fin != nil {
		steps = r.project(fin)
	}
	changed, clear := want != r.stored, r.suspect && (fin != nil || progressed(events))
	var waits []machine.Wait
	if fin == nil && slices.ContainsFunc(events, func(e machine.Event) bool { return e.Type == machine.ApprovalRequested }) {
		waits = r.next().Waits
	}
	r.mu.Lock()
	row, asking := r.row, len(r.asked) > 0
	r.mu.Unlock()
	write := func(tx *storage.Tx) error {
		if r.fresh {
			begun := row
			if fin != nil {
				begun.status = machine.Running
			}
			if err := begun.insert(tx); err != nil {
				return err
			}
		}
		if err := insertEvents(tx, row.id, events); err != nil {
			return err
		}
		if err := r.s.updateQuestions(tx, &row, events, waits, fin != nil && asking); err != nil {
			return err
		}
		switch {
		case fin != nil:
			if err := r.s.finish(tx, &row, steps); err != nil {
				return err
			}
		case changed && !r.fresh:
			if err := row.update(tx); err != nil {
				return err
			}
		}
		if clear {
			return clearInterruptions(tx, row.id)
		}
		return nil
	}
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		err := r.s.writes.Write(context.WithoutCancel(r.ctx), len(events), write)
		if err == nil {
			break
		}
		if r.fresh {
			r.first <- err
			return false
		}
		if errors.Is(err, errGone) || r.s.missing(row.id) {
			return false
		}
		r.s.log.Error("a run waits because its journal cannot be written", "run", row.id, "error", err)
		select {
		case <-time.After(delay):
		case <-r.s.life.Done():
			return false
		}
	}
	if r.fresh {
		r.fresh = false
		r.first <- nil
	}
	r.batch, r.stored, r.suspect = nil, want, r.suspect && !clear
	r.mu.Lock()
	changed = r.recorded != want.status
	if r.recorded = want.status; changed {
		close(r.news)
		r.news = make(chan struct{})
	}
	r.mu.Unlock()
	if changed {
		r.s.notifyWatchers(row.id)
		if row.parent != nil && want.status != machine.Running {
			r.s.wakeParent(*row.parent)
		}
	}
	for _, e := range events {
		bus.Publish(r.s.db.Bus(), row.user, wireEvent(row.id, e))
	}
	return true
}

// missing reports whether a run is no longer in the database.
func (s *Service) missing(id uuid.UUID) bool {
	err := s.db.Read(context.Background(), func(tx *storage.Tx) error {
		_, err := anyRun(tx, id)
		return err
	})
	return fault.Is(err, fault.NotFound)
}

// rowState returns the state that the row should have.
func (r *live) rowState() rowState {
	r.mu.Lock()
	defer r.mu.Unlock()
	status, reason := r.st.Status()
	out := rowState{status: status, reason: reason, deadline: r.deadline()}
	if status == machine.Waiting {
		todo := r.st.Next()
		if needsSlot(todo) { // it was answered and needs a slot
			out.wake = r.lastAt
		}
		for _, w := range todo.Waits {
			if !w.Until.IsZero() && (out.wake.IsZero() || w.Until.Before(out.wake)) {
				out.wake = w.Until
			}
		}
	}
	ptr := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	r.row.status, r.row.reason, r.row.deadline, r.row.wake, r.row.started = status, reason, ptr(out.deadline), ptr(out.wake), ptr(r.startAt)
	return out
}
