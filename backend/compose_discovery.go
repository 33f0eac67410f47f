package backend

import (
	"context"

	"helix/backend/discovery"
	"helix/backend/providers"
)

// openDiscovery creates the tools from API descriptions, and registers their operations as callables.
func (b *Backend) openDiscovery() {
	b.Discovery = discovery.New(b.DB, discovery.Options{
		Logger: b.log, Permission: b.Permission, Audit: b.Audit, Secrets: b.Secrets, OAuth: b.oauth, Embedder: b.embedder, DenyPort: b.ownPort, Online: func() bool { return b.Config.Current().DiscoveryOnline },
		Tokens: func(ctx context.Context, text string) int64 {
			n, err := b.Providers.CountTokens(ctx, providers.CountParams{Model: newerVocabulary, Text: text})
			if err != nil {
				b.log.Warn("count the tokens of an operation", "err", err)
			}
			return n.Tokens
		},
		Scrub: func(ctx context.Context, text string) string { return b.scrub(ctx, text) },
	})
	b.Permission.Register(string(discovery.Kind), b.Discovery, nil)
	b.Permission.RegisterAnswerer(string(discovery.Kind), b.Discovery.AnswerApproval)
	b.Callables.Add(b.Discovery.Callables())
	b.closing("discovery", b.Discovery.Close)
}

// newerVocabulary stands for the models with the public vocabulary o200k.
const newerVocabulary providers.ModelRef = "openai/gpt-"

// recoverDiscovery ends the runs in the log that were in progress when the last process ended, and then
// works on the requests for capabilities.
func (b *Backend) recoverDiscovery(ctx context.Context) error {
	if err := b.Discovery.Recover(ctx); err != nil {
		return err
	}
	return b.Discovery.WorkQueue(ctx)
}
