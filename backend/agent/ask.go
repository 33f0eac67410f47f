package agent

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/providers"
)

// AskParams is a question to a model whose answer is JSON.
type AskParams struct {
	Role        providers.Role
	Pin         *providers.Pin // the only model to use; nil: any model of the role
	Purpose     string         // how the ledger labels the call
	Rules, Text string
	Schema      json.RawMessage // every object must list all of its members as required
}

// AskResult is the answer and its cost. The cost is set even when there is no answer.
type AskResult struct {
	Value      json.RawMessage
	Usage      providers.Usage
	CostMicros providers.Micros
}

// Ask calls a model once, without tools, charged to the user in ctx. The answer matches the schema: a
// model that breaks it is asked again, at most twice.
func (s *Service) Ask(ctx context.Context, p AskParams) (out AskResult, err error) {
	account := &callInfo{turn: uuid.New(), purpose: p.Purpose}
	defer s.o.Ledger.forget(identity.UserID(ctx), account.turn)
	q := providers.Request{Role: p.Role, Pin: p.Pin, Purpose: p.Purpose, System: []providers.Part{providers.TextPart(p.Rules)}, Messages: []providers.Message{{Role: providers.User, Parts: []providers.Part{providers.TextPart(p.Text)}}}}
	value, report, err := providers.Structured(withCall(ctx, account), s.o.Models, q, p.Schema, true, nil)
	return AskResult{value, report.Usage, s.o.Ledger.spentBy(identity.UserID(ctx), account.turn)}, err
}
