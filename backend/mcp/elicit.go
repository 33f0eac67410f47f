package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/schema"
	"helix/backend/storage"
)

// The answers to a question of a server, as the protocol names them.
const (
	elicitAccept  = "accept"
	elicitDecline = "decline"
	elicitCancel  = "cancel"
	maxElicitForm = 32 << 10
	maxQuestions  = 4 // open questions of a call
)

// callKey is the context key of the call in progress.
type callKey struct{}

// asking is a question of a server that waits for a person.
type asking struct {
	form   json.RawMessage
	answer chan *sdk.ElicitResult
}

// askKey names a question: the call and the reference within it.
type askKey struct {
	call uuid.UUID
	ref  string
}

// elicit shows the question of a server to the person whose call is in progress, in Approvals, and waits
// for the answer as long as the call may last. Without such a person, and for questions that want a
// web page opened, the answer is no.
func (l *link) elicit(ctx context.Context, p *sdk.ElicitParams, gone <-chan struct{}) (*sdk.ElicitResult, error) {
	no := &sdk.ElicitResult{Action: elicitDecline}
	call := l.callOf(ctx)
	if call == nil || !call.attended || p.Mode != "" && p.Mode != "form" {
		return no, nil
	}
	form, err := json.Marshal(p.RequestedSchema)
	if err != nil || len(form) > maxElicitForm {
		l.log.add("rpc", "A question was declined: its form can't be shown.")
		return no, nil
	}
	if p.RequestedSchema == nil {
		form = nil
	} else if _, err := schema.Compile(form); err != nil {
		l.log.add("rpc", "A question was declined: the schema of its form isn't valid.")
		return no, nil
	}
	key, a := askKey{call.id, uuid.NewString()}, &asking{form: form, answer: make(chan *sdk.ElicitResult, 1)}
	l.s.mu.Lock()
	open := 0
	for k := range l.s.asking {
		if k.call == call.id {
			open++
		}
	}
	if open < maxQuestions {
		l.s.asking[key] = a
	}
	l.s.mu.Unlock()
	if open >= maxQuestions {
		l.log.add("rpc", "A question was declined: others of this call wait for an answer.")
		return no, nil
	}
	defer func() {
		l.s.mu.Lock()
		delete(l.s.asking, key)
		l.s.mu.Unlock()
	}()
	defer call.clock.hold()() // the limit is for the server, not for the person
	as := l.s.as(l.user)
	if err := l.s.db.Write(as, func(tx *storage.Tx) error {
		return l.s.perm.AskTx(tx, permission.QuestionRequest{
			User: l.user, Subject: permission.Subject{Kind: string(Kind), ID: call.tool}, SubjectName: call.tool, Run: key.call, RunKind: string(Kind), Ref: key.ref, Tier: permission.SideEffecting,
			Question: permission.Question{
				Text: fmt.Sprintf("%s asks for information.", l.name), Message: "The server says: " + visible(p.Message, 4000), Form: form,
				Choices: []permission.Choice{
					{ID: elicitDecline, Label: "Decline", Help: "The server gets no information. The call may fail."},
					{ID: elicitAccept, Label: "Send", Help: "The server gets what you enter.", Approves: true},
				},
			},
		})
	}); err != nil {
		return nil, err
	}
	select {
	case r := <-a.answer:
		return r, nil
	case <-ctx.Done():
	case <-call.done:
	case <-gone: // the server was stopped, or has ended
	}
	if err := l.s.db.Write(as, func(tx *storage.Tx) error { return l.s.perm.CloseTx(tx, key.call, key.ref, "", uuid.Nil) }); err != nil {
		l.s.log.Error("close the question of an MCP server", "server", l.name, "err", err)
	}
	return &sdk.ElicitResult{Action: elicitCancel}, nil
}

// callOf returns the call that a question belongs to. The older protocols don't say which one it is; if
// several are in progress it is the last one that a person can see.
func (l *link) callOf(ctx context.Context) *runningCall {
	if c, ok := ctx.Value(callKey{}).(*runningCall); ok {
		return c
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	var found *runningCall
	for _, c := range l.s.running {
		if c.server == l.id && c.attended && (found == nil || c.began.After(found.began)) {
			found = c
		}
	}
	return found
}

// AnswerApproval implements permission.Answerer: it passes an answer from Approvals to the server.
func (s *Service) AnswerApproval(ctx context.Context, a permission.Answered) error {
	key := askKey{a.Run, a.Ref}
	s.mu.Lock()
	q := s.asking[key]
	s.mu.Unlock()
	out := &sdk.ElicitResult{Action: a.Choice}
	if q != nil && a.Choice == elicitAccept {
		out.Content = map[string]any{}
		if len(a.Data) > 0 {
			if err := json.Unmarshal(a.Data, &out.Content); err != nil {
				return fault.InvalidField("data", fault.CodeType, "The answer must be an object.")
			}
		}
		if q.form != nil {
			data, err := json.Marshal(out.Content)
			if err != nil {
				return err
			}
			found, err := schema.CheckJSON(ctx, q.form, data)
			if err != nil {
				return err
			}
			if len(found) > 0 {
				return fault.InvalidField("data"+found[0].Path, fault.CodeInvalid, "The answer isn't valid: %s.", found[0].Message).WithDetails(callable.Refusal{Reason: callable.ReasonInput, Problems: found})
			}
		}
	}
	choice := a.Choice
	if q == nil {
		choice = ""
	}
	if err := s.db.Write(ctx, func(tx *storage.Tx) error { return s.perm.CloseTx(tx, a.Run, a.Ref, choice, uuid.Nil) }); err != nil {
		return err
	}
	if q == nil {
		return fault.Conflictf("The call that asked has ended. Nothing was sent.")
	}
	select {
	case q.answer <- out:
	default: // it was answered at the same time
	}
	return nil
}
