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

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

const (
	parallelCalls = 8
	toolPatience  = 250 * time.Millisecond // grace period after a cancel
	toolTimeout   = time.Minute
	heartbeat     = 5 * time.Second // between the events of a tool that runs long
)

// callTools makes those calls of the reply that have no result yet. It reports whether the turn now
// waits for a person.
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

// readsOnly reports whether a call can run in parallel with others.
func (s *Service) readsOnly(ctx context.Context, l *live, i int) bool {
	c := l.state.Turn.Calls[i]
	if c.Outcome != nil || c.Asked != nil || c.Refused || c.Intent != nil {
		return false
	}
	t, problem := s.resolve(ctx, l, &c)
	return problem == "" && l.state.tierFor(t) == permission.ReadOnly
}

// callGroup makes calls in parallel and stores their results in the order of the calls.
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
	if len(events) == 0 { // waiting for an answer
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
		// The answer may have arrived before the turn was registered as waiting.
		for _, id := range l.state.Turn.waitsFor() {
			if st, serr := s.o.Gate.ApprovalStatus(ctx, id); serr == nil && st != "pending" {
				return false, nil
			}
		}
	}
	return waits, err
}

// callTool decides whether a call may be made, and makes it. The returned events are written in one
// transaction; an intent that must be stored before the effect is written at once.
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
		return nil, nil // only Answer resolves this
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
	case c.Intent != nil && !c.Intent.Repeatable: // a crash interrupted it before its outcome was stored
		return s.unknownOutcome(ctx, l, t, c)
	}
	tier := l.state.tierFor(t)
	if !c.Passed {
		d, err := s.gate(ctx, l, t, &c, tier, st.Input.Attended)
		if err != nil {
			return outcome(s.failure(ctx, err)), nil
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
	if t.repeatable() {
		events = append(events, intent) // stored with the outcome, because repeating the call is harmless
	} else if err := l.append(ctx, st.ID, nil, intent); err != nil {
		return nil, err
	}
	begun := time.Now()
	o, also, pending := s.perform(ctx, l, t, intent, args, st.Input.Attended)
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errCanceled) {
		return nil, nil // shutting down: the next start continues
	}
	o.TookMs = time.Since(begun).Milliseconds()
	if pending != uuid.Nil {
		return append(events, &approvalAsked{CallID: c.ID, Approval: pending}), nil
	}
	return append(append(events, also...), outcome(o)...), nil
}

// perform makes a call and presents its result to the model. pending is the question whose answer
// would lift a refusal.
func (s *Service) perform(ctx context.Context, l *live, t *tool, intent *toolIntent, args json.RawMessage, attended bool) (o toolOutcome, also []payload, pending uuid.UUID) {
	progress := TurnProgress{l.id, l.state.Turn.ID, "tool_execution", t.decl.Name, l.state.Turn.Steps, l.state.Turn.Limits.MaxTurns}
	bus.Publish(s.bus, l.user, progress)
	var out callable.Result
	var err error
	private := false
	if t.own != nil {
		var r ownResult
		if r, err = t.own(ctx, l, intent, args); err == nil {
			also, out.Untrusted, private = r.also, r.untrusted, r.private
			out.Output, err = json.Marshal(r.value)
		}
	} else {
		r := l.request(intent)
		r.Input, r.Hash = args, intent.Hash
		out, err = s.callPatiently(s.o.Telemetry.calling(ctx, l.id, intent), t.info.Ref, r, func() {
			progress.Kind = "tool_heartbeat"
			bus.Publish(s.bus, l.user, progress)
		})
	}
	if err != nil {
		if r, ok := callable.RefusalOf(err); ok && r.PendingApprovalID != uuid.Nil {
			if attended {
				return o, nil, r.PendingApprovalID
			}
			o = s.failure(ctx, err)
			o.Approval = &r.PendingApprovalID
			return o, nil, uuid.Nil
		}
		return s.failure(ctx, err), also, uuid.Nil
	}
	if o, err = s.present(ctx, t, out.Output, out.Untrusted || t.info.Untrusted); err != nil {
		return s.failure(ctx, err), also, uuid.Nil
	}
	o.Private = o.Private || private
	if len(out.Notes) > 0 {
		o.Text += "\n" + s.o.Scrub(ctx, strings.Join(out.Notes, "\n"))
	}
	return o, also, uuid.Nil
}

// callPatiently makes a call, and calls beat regularly meanwhile. After a cancel the callable gets a
// short grace period to end by itself.
func (s *Service) callPatiently(ctx context.Context, ref callable.Ref, r callable.Request, beat func()) (callable.Result, error) {
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
	beats := time.NewTicker(s.heartbeat)
	defer beats.Stop()
	for limited.Err() == nil {
		select {
		case a := <-done:
			return a.out, a.err
		case <-beats.C:
			beat()
		case <-limited.Done():
		}
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

// unknownOutcome asks the person what happened to a call that a crash interrupted. In an unattended
// turn, it records the outcome as unknown.
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

// Answer handles a person's answer to a question about an unknown outcome.
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
