package backend

import (
	"context"
	"os"

	"helix/backend/agent"
	"helix/backend/audit"
	"helix/backend/providers"
	"helix/backend/safehttp"
)

// openProviders creates the access to language models. It makes no calls by itself.
func (b *Backend) openProviders() (err error) {
	client := safehttp.New(safehttp.Options{
		AllowLoopback: func(int) bool { return true }, DenyPorts: b.ownPort, // model servers of this computer
		MaxRequest: 64 << 20, MaxRedirects: -1,
	})
	b.closing("connections to providers", func() error { client.Close(); return nil })
	b.Ledger = agent.NewLedger(b.DB, b.Bus)
	b.Providers, err = providers.New(b.DB, providers.ServiceOptions{
		HTTP: client, Meter: callRecord{b}, Env: b.variable, CacheDir: b.Config.Paths().Cache, Logger: b.log,
		File: func() map[string]any { return b.Config.Section("providers") },
	})
	return err
}

// variable returns an environment variable that a provider names, even if Helix itself does not
// know it.
func (b *Backend) variable(name string) (string, bool) {
	if v, _ := b.Config.Env(name); v != "" {
		return v, true
	}
	if b.o.Environ != nil { // only what the caller of Open passed
		return "", false
	}
	return os.LookupEnv(name)
}

// callRecord charges each model call to the budgets, and records it with its cost.
type callRecord struct{ b *Backend }

// Reserve implements providers.Meter.
func (c callRecord) Reserve(ctx context.Context, e providers.Estimate) (providers.Hold, error) {
	h, err := c.b.Ledger.Reserve(ctx, e)
	if err != nil {
		return nil, err
	}
	return recordedCall{h, c.b, context.WithoutCancel(ctx), e}, nil
}

type recordedCall struct {
	providers.Hold
	b   *Backend
	ctx context.Context
	e   providers.Estimate
}

// Settle implements providers.Hold.
func (c recordedCall) Settle(u providers.Usage, cost providers.Micros, outcome string) {
	c.Hold.Settle(u, cost, outcome)
	err := c.b.Audit.Record(c.ctx, audit.Entry{Action: "providers.called", SubjectKind: "provider", SubjectID: c.e.Provider, Details: map[string]any{
		"model": c.e.Model, "purpose": c.e.Purpose, "usage": u, "costMicros": cost, "outcome": outcome,
	}})
	if err != nil {
		c.b.log.Warn("record the call of a model", "err", err)
	}
}
