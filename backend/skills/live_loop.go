package skills

import (
	"context"
	"slices"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
)

// loop executes the run until it ends, is unloaded, or Helix stops. A panic ends only this run,
// which is recorded as failed.
func (r *live) loop() {
	defer r.leave()
	err := fault.Catch(func() error {
		for {
			todo, ok := r.advance()
			if !ok || r.st.Finished() != nil {
				return nil
			}
			r.start(todo)
			if !r.wait(todo) {
				return nil
			}
		}
	})
	if err == nil {
		return
	}
	r.s.log.Error("a run failed inside Helix", "run", r.row.id, "error", err)
	if r.onRecord() {
		return // the failure came after its end
	}
	again := fault.Catch(func() error {
		if _, ok := r.broken(); !ok {
			return errGone
		}
		return nil
	})
	if again != nil && !r.onRecord() { // its state is unusable
		r.s.broken(r.ctx, r.row.id, err)
		if r.row.parent != nil {
			r.s.wakeParent(*r.row.parent)
		}
	}
}

// onRecord reports whether the end of the run is recorded.
func (r *live) onRecord() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return final(r.recorded)
}

// leave unloads the run.
func (r *live) leave() {
	r.cancel(errParked)
	r.s.mu.Lock()
	if r.s.live[r.row.id] == r {
		delete(r.s.live, r.row.id)
	}
	r.s.mu.Unlock()
	close(r.gone)
	if r.queued {
		if !r.s.leaveQueue(r.row.user, r.row.id) {
			r.slot = true // it was given a slot in the meantime
		}
	}
	if r.slot {
		r.s.freeSlot(r.row.user)
	}
	select {
	case r.first <- errGone:
	default:
	}
	r.s.notifyWatchers(r.row.id)
	switch status, _ := r.st.Status(); {
	case status == machine.Running && !r.onRecord():
		r.s.leftRunning.Store(true)
	case status == machine.Waiting && !r.onRecord():
		r.clearOnUnload()
		r.s.wake() // Run is now responsible for its timer
		err := fault.Catch(func() error {
			if !r.childrenWait(r.next()) {
				r.s.wakeParent(r.row.id) // one changed at this moment
			}
			return nil
		})
		if err != nil {
			r.s.log.Error("look whether the nested runs of a run wait", "run", r.row.id, "error", err)
		}
	}
}

// childrenWait reports whether all runs that carry out steps of this one are waiting.
func (r *live) childrenWait(todo machine.Todo) bool {
	for _, c := range todo.Paused {
		status, _, err := r.s.runStatus(context.WithoutCancel(r.ctx), childID(r.row.id, c))
		if err != nil || status != machine.Waiting {
			return false
		}
	}
	return true
}

// advance applies all events that are due and commits them. It returns false if the run has
// to be unloaded.
func (r *live) advance() (machine.Todo, bool) {
	for {
		if r.lost.Load() {
			return machine.Todo{}, false
		}
		if r.st.Finished() != nil {
			return machine.Todo{}, r.commit()
		}
		todo := r.next()
		if done, ok := r.ends(todo); done {
			return machine.Todo{}, ok
		}
		if r.quiet() {
			return todo, r.commit()
		}
		now := r.s.now()
		if w := overdue(todo, now); w != nil {
			if !r.apply(machine.Answer(*w, machine.AnswerData{Decision: machine.TimeOver}), now) {
				return r.broken()
			}
			continue
		}
		if c := r.unknown(todo); c != nil {
			delete(r.crashed, callKey(c))
			if !r.apply(machine.Unknown(c), now) {
				return r.broken()
			}
			continue
		}
		if !r.slot && r.row.parent == nil && needsSlot(todo) {
			r.queue()
			return machine.Todo{Waits: todo.Waits}, r.commit()
		}
		e, more := r.decide(todo, now)
		if !more {
			if !r.commit() {
				return todo, false
			}
			if status, _ := r.st.Status(); status == machine.Waiting && r.slot {
				r.slot = false
				r.s.freeSlot(r.row.user)
			}
			return todo, true
		}
		if !r.apply(e, now) {
			return r.broken()
		}
		// Record that the run has started or resumed before evaluating anything, so that the run
		// counts as interrupted if the process dies.
		begins := !r.fresh && (e.Type == machine.RunStarted || e.Type == machine.RunResumed)
		if (begins || len(r.batch) >= maxGroup || r.st.Finished() != nil) && !r.commit() {
			return todo, false
		}
		if r.st.Finished() != nil {
			return machine.Todo{}, true
		}
	}
}

// decide returns the next event that the state or the clock requires.
func (r *live) decide(todo machine.Todo, now time.Time) (machine.Event, bool) {
	if len(todo.Records) > 0 {
		return todo.Records[0], true
	}
	for _, l := range todo.Later {
		if !now.Before(l.NotBefore) {
			return l.Event, true
		}
	}
	for _, c := range todo.Calls {
		if r.calls[callKey(c)] != nil {
			continue
		}
		if e, ok := r.without(c); ok {
			return e, true
		}
	}
	return machine.Event{}, false
}

// needsSlot reports whether a run has work that requires a slot.
func needsSlot(todo machine.Todo) bool {
	waits := len(todo.Records) == 1 && todo.Records[0].Type == machine.RunWaiting
	return len(todo.Records) > 0 && !waits || len(todo.Calls)+len(todo.Later) > 0
}

// unknown returns a call that a crash interrupted and that must not be repeated, or nil.
func (r *live) unknown(todo machine.Todo) *machine.Call {
	for _, c := range todo.Calls {
		t := r.made.Tools[c.Step.StepID]
		timer := t.Kind == definition.Builtin && t.Name == waitName
		if r.crashed[callKey(c)] && !canRepeat(c.Tool) && t.Missing == nil && !timer {
			return c
		}
	}
	return nil
}

func overdue(todo machine.Todo, now time.Time) *machine.Wait {
	for i, w := range todo.Waits {
		if !w.Until.IsZero() && !now.Before(w.Until) {
			return &todo.Waits[i]
		}
	}
	return nil
}

// queue requests a slot.
func (r *live) queue() {
	if r.queued {
		return
	}
	r.queued = true
	r.s.queueUp(r.row.user, queuedRun{r.row.id, func() { r.granted <- struct{}{} }}, true)
}

// quiet reports whether Helix is stopping, so that nothing new may start.
func (r *live) quiet() bool {
	select {
	case <-r.s.quiet:
		return true
	default:
		return false
	}
}

// ends ends and records a run that was canceled or has exceeded its time limit. done is false if
// the run continues.
func (r *live) ends(todo machine.Todo) (done, ok bool) {
	why, status := (*machine.Failure)(nil), machine.Cancelled
	if reason := r.stop.Load(); reason != nil {
		why = &machine.Failure{Kind: "canceled", Message: "the run was canceled"}
		if *reason != "" {
			why.Message += ": " + *reason
		}
		r.cancel(errCanceled)
	} else if d := r.deadline(); !d.IsZero() && !r.s.now().Before(d) {
		limit := duration.Of(r.made.TimeoutMs, time.Millisecond)
		why, status = &machine.Failure{Kind: "timeout", Message: "the run took longer than " + limit.String()}, machine.Failed
		r.cancel(errOver)
	} else {
		return false, true
	}
	r.drain(r.s.limits.CancelPatience)
	if !r.apply(machine.End(status, why), r.s.now()) {
		return true, false
	}
	ok = r.commit()
	for _, c := range slices.Concat(todo.Calls, todo.Paused) {
		if r.made.Tools[c.Step.StepID].Kind == definition.SkillCall {
			r.s.abortLater(childID(r.row.id, c), parentEnded)
		}
	}
	return true, ok
}

// drain collects the outcomes of the calls in progress for at most patience, so that their
// effects are recorded.
func (r *live) drain(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for len(r.calls) > 0 {
		select {
		case m := <-r.inbox:
			if m.answer != nil {
				m.answer.reply <- errNotAsked()
			}
			if m.outcome == nil && m.progress == nil {
				delete(r.calls, m.key)
			}
			if m.outcome == nil {
				continue
			}
			if !m.known {
				r.halted[m.key] = r.calls[m.key]
			}
			delete(r.calls, m.key)
			if m.known {
				r.apply(*m.outcome, r.s.now())
			}
		case <-timer.C:
			return
		}
	}
}

// wait waits for the next message, timer or slot. It returns false if the run has to be unloaded.
func (r *live) wait(todo machine.Todo) bool {
	now := r.s.now()
	var next time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, l := range todo.Later {
		sooner(l.NotBefore)
	}
	for _, w := range todo.Waits {
		sooner(w.Until)
	}
	sooner(r.deadline())
	if status, _ := r.st.Status(); status == machine.Waiting && !r.queued {
		if r.parkAt.IsZero() {
			r.parkAt = now.Add(r.s.limits.WaitInMemory)
		}
		if !now.Before(r.parkAt) {
			if !r.held() && r.childrenWait(todo) {
				return false
			}
			r.parkAt = now.Add(max(r.s.limits.WaitInMemory, 10*time.Millisecond))
		}
		sooner(r.parkAt)
	} else {
		r.parkAt = time.Time{}
	}
	var alarm <-chan time.Time
	if !next.IsZero() && !r.quiet() {
		timer := time.NewTimer(max(next.Sub(now), time.Millisecond))
		defer timer.Stop()
		alarm = timer.C
	}
	quiet := r.s.quiet
	if r.quiet() {
		if len(r.calls) == 0 {
			return false
		}
		quiet = nil
	}
	select {
	case m := <-r.inbox:
		return r.take(m)
	case <-r.granted:
		r.slot, r.queued = true, false
	case <-alarm:
	case <-quiet:
	case <-r.s.life.Done():
		r.drain(r.s.limits.CancelPatience)
		r.commit()
		return false
	}
	return true
}

// held reports whether a waiting run must stay in memory because its parent is in memory.
func (r *live) held() bool {
	if r.row.parent == nil {
		return false
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.live[*r.row.parent] != nil
}

// take applies a message and the messages queued behind it.
func (r *live) take(m message) bool {
	for {
		switch {
		case m.outcome != nil && !m.known && r.ctx.Err() != nil:
			return r.halt(m)
		case m.outcome != nil:
			delete(r.calls, m.key)
			if !r.apply(*m.outcome, r.s.now()) {
				_, ok := r.broken()
				return ok
			}
		case m.progress != nil:
			if a := r.calls[m.key]; a != nil && !r.apply(*m.progress, r.s.now()) {
				_, ok := r.broken()
				return ok
			}
		case m.key != "":
			delete(r.calls, m.key) // the call is no longer followed
		case m.answer != nil:
			err := r.answer(m.answer)
			ok := err != nil || r.commit()
			if !ok {
				err = errUnwritten()
			}
			m.answer.reply <- err
			if !ok {
				return false
			}
		}
		if len(r.batch) > 0 && !r.settle() {
			return false
		}
		select {
		case m = <-r.inbox:
		default:
			return true
		}
	}
}

// halt handles the end of a call that was stopped together with the run. The outcome of the step is
// unknown, so nothing is recorded: the next start repeats the call or asks a person. It returns
// false if the run has to be unloaded.
func (r *live) halt(m message) bool {
	r.halted[m.key] = r.calls[m.key]
	delete(r.calls, m.key)
	switch {
	case r.lost.Load():
		return false
	case r.s.life.Err() != nil:
		r.drain(r.s.limits.CancelPatience)
		r.commit()
		return false
	}
	return true
}

// settle applies the events that follow immediately, so that they share a commit.
func (r *live) settle() bool {
	if r.quiet() || !r.slot && r.row.parent == nil {
		return true
	}
	for {
		todo := r.next()
		if len(todo.Records) == 0 || len(r.batch) >= maxGroup || todo.Records[0].Type == machine.RunResumed {
			return true
		}
		if !r.apply(todo.Records[0], r.s.now()) {
			_, ok := r.broken()
			return ok
		}
		if r.st.Finished() != nil {
			return r.commit()
		}
	}
}

// broken ends and records a run whose journal is inconsistent, which is a bug in this program.
func (r *live) broken() (machine.Todo, bool) {
	r.cancel(errCanceled)
	why := &machine.Failure{Kind: "internal", Message: brokenMessage}
	return machine.Todo{}, r.apply(machine.End(machine.Failed, why), r.s.now()) && r.commit()
}
