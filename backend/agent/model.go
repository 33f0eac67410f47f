package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	maxCalls     = 16 // in one step
	partialEach  = time.Second
	partialBytes = 4 << 10
	leastOutput  = 256
)

// callInfo returns the accounting information for the turn's calls.
func (s *Service) callInfo(l *live, purpose string) *callInfo {
	st := l.state
	c := &callInfo{session: l.id, turn: st.Turn.ID, agent: st.Created.Agent, purpose: purpose}
	c.limits = account{l.id, st.Turn.ID, st.Turn.Limits, st.Created.Budget}.limits(l.user)
	if p := st.Created.Parent; p != nil {
		c.above = p.Above
		if purpose == "chat" {
			c.purpose = "subagent"
		}
		for _, a := range p.Above {
			c.limits = append(c.limits, a.limits(l.user)...)
		}
	}
	return c
}

// callModel makes the next step: it calls the model once and logs the reply.
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

// steer adds inputs that arrived during the turn to it, if the queue mode says so and they have the
// same author.
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
		step = t.Steps // repeated after a crash
	}
	q.Key = l.id.String()
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
		events = append(events, &callReserved{Ledger: id, Provider: e.Provider, Model: e.Model, Micros: e.Micros})
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

	files := s.withFiles(q)
	var reply providers.Reply
	for {
		files.MaxOutput = q.MaxOutput
		reply, err = s.stream(withCall(ctx, account), l, files, step)
		if !overBudget(err) || q.MaxOutput/2 < leastOutput {
			break
		}
		q.MaxOutput /= 2 // a shorter answer may fit the budget
	}
	return s.replied(ctx, l, t.ID, reply, err, open, mayCompact)
}

// overBudget reports whether a call was refused because of its possible cost.
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

// stream reads the answer, shows it as it arrives, and regularly stores the part received so far.
func (s *Service) stream(ctx context.Context, l *live, q providers.Request, step int) (providers.Reply, error) {
	turn, limit := l.state.Turn.ID, l.state.Turn.Limits.MaxTurns
	attempt, saved, at := 0, 0, time.Now()
	waits := false
	q.Waiting = func(service string) {
		waits = true
		bus.Publish(s.bus, l.user, TurnProgress{l.id, turn, "waiting_rate", service, step, limit})
	}
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
				if waits {
					waits = false
					bus.Publish(s.bus, l.user, TurnProgress{l.id, turn, "waiting_rate", "", step, limit})
				}
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
				if text.Len()-saved >= partialBytes || time.Since(at) >= partialEach {
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

// replied stores the answer with its cost. It is stored before anything can stop the turn.
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
	if err != nil && !canceled && ctx.Err() != nil { // shutting down: the next start continues
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
	l.mu.Lock()
	b.Parts, b.BadArgs = l.state.uniqueCalls(b.Parts, b.BadArgs)
	l.mu.Unlock()
	switch {
	case err == nil:
		return l.append(ctx, turn, settle, append(events, b)...)
	case canceled:
		if reply.Text() != "" {
			b.Failure = &TurnError{Kind: "canceled", Message: "Canceled."}
			b.Parts = slices.DeleteFunc(b.Parts, func(p providers.Part) bool { return p.Kind == providers.PartToolCall })
			events = append(events, b)
		}
		if err := l.append(ctx, turn, settle, events...); err != nil {
			return err
		}
		return s.finishTurn(ctx, l, turnFinished{State: Canceled, Reason: StopCanceled})
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
	if providers.Overrun(err) {
		end.Reason = StopBudget
	}
	if len(b.Parts) > 0 {
		b.Failure = end.Error
		b.Parts = slices.DeleteFunc(b.Parts, func(p providers.Part) bool { return p.Kind == providers.PartToolCall })
		events = append(events, b)
	}
	if err := l.append(ctx, turn, settle, events...); err != nil {
		return err
	}
	return s.finishTurn(ctx, l, end)
}

// uniqueCalls gives each call of a reply an id that is unique in the session, because some services
// repeat ids or leave them out.
func (s *State) uniqueCalls(parts []providers.Part, bad []string) ([]providers.Part, []string) {
	if !slices.ContainsFunc(parts, func(p providers.Part) bool { return p.Kind == providers.PartToolCall }) {
		return parts, bad
	}
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

const tooLongSummary = "That is too long. Write it again in at most 900 words."

// compact makes room in the request. It first stores a list that needs no model, which a summary may
// then replace.
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
	q := summaryRequest(old, leaving)
	reply, err := s.o.Models.Complete(withCall(ctx, s.callInfo(l, "summary")), q)
	summary := strings.TrimSpace(reply.Text())
	if err == nil && len(summary) > summaryBytes {
		written, _ := clip(summary, 4*summaryBytes)
		q.Messages = append(q.Messages, providers.Message{Role: providers.Assistant, Parts: []providers.Part{providers.TextPart(written)}},
			providers.Message{Role: providers.User, Parts: []providers.Part{providers.TextPart(tooLongSummary)}})
		if reply, err := s.o.Models.Complete(withCall(ctx, s.callInfo(l, "summary")), q); err == nil && strings.TrimSpace(reply.Text()) != "" {
			summary = strings.TrimSpace(reply.Text())
		}
	}
	if err != nil || summary == "" {
		if ctx.Err() != nil {
			return nil
		}
		return l.append(ctx, t.ID, nil, &noticed{Kind: "summary", Text: "The summary of earlier messages couldn't be written. A list of what you said is used instead; every message is still there."})
	}
	summary, _ = clip(s.o.Scrub(ctx, summary), summaryBytes)
	return l.append(ctx, t.ID, nil, &summarized{Epoch: epoch, Text: summary})
}
