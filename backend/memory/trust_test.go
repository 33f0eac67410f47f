package memory

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// caller returns the context of the local user's call with a kind of client and scopes.
func (b *bundle) caller(client identity.Client, scopes identity.Scope) context.Context {
	return identity.With(context.Background(), identity.Identity{User: b.db.LocalUser().ID, Session: uuid.New(), Scopes: scopes.Closed(), Client: client})
}

// TestOnlyAPersonTrusts tries every way of marking a text as trusted or critical as a program.
func TestOnlyAPersonTrusts(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	for name, ctx := range map[string]context.Context{
		"program": b.caller(identity.ClientProgram, identity.Admin), "token": b.caller(identity.ClientToken, identity.Write), "browser without the right": b.caller(identity.ClientBrowser, identity.Write),
	} {
		m := *must(b.Add(b.ctx, AddParams{Content: "foreign text for " + name, Untrusted: ptr(true)}))(t).Item
		d := must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "web:" + name}, Text: ptr("a page of " + name)}))(t)
		for what, call := range map[string]func() error{
			"adds tool output": func() error {
				_, err := b.Add(ctx, AddParams{Content: "tool output of " + name, Source: "tool", Untrusted: ptr(false)})
				return err
			},
			"edits": func() error {
				_, err := b.Update(ctx, UpdateParams{ID: m.ID.String(), Version: m.Version, Untrusted: ptr(false)})
				return err
			},
			"stores a document": func() error {
				_, err := b.UpsertChunks(ctx, UpsertParams{Source: UpsertSource{URI: "web:" + name}, Text: ptr("a page of " + name), Untrusted: ptr(false)})
				return err
			},
			"clears a source": func() error { _, err := b.SetUntrusted(ctx, TrustParams{Source: "document"}); return err },
			"adds critical": func() error {
				_, err := b.Add(ctx, AddParams{Content: "critical of " + name, SalienceTier: "critical"})
				return err
			},
			"sets critical": func() error {
				_, err := b.SetSalience(ctx, SalienceParams{ID: m.ID.String(), Tier: "critical"})
				return err
			},
		} {
			if err := call(); !fault.Is(err, fault.Denied) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
		if got := b.get(t, m.ID); !got.Untrusted || got.SalienceTier != "medium" {
			t.Errorf("%s: the memory is %+v", name, got)
		}
		if v := must(b.Document(b.ctx, DocumentViewParams{ID: d.DocumentID}))(t); !v.Document.Untrusted {
			t.Errorf("%s: the document is trusted", name)
		}
		// Anyone may mark a text as untrusted, or repeat the current value.
		if _, err := b.Update(ctx, UpdateParams{ID: m.ID.String(), Version: m.Version, Untrusted: ptr(true), Tags: &[]string{name}}); err != nil {
			t.Errorf("%s marks: %v", name, err)
		}
	}
	// The browser has the scope to approve and is used by a person.
	m := must(b.Add(b.ctx, AddParams{Content: "foreign", Untrusted: ptr(true)}))(t).Item
	if r := must(b.Update(b.caller(identity.ClientBrowser, identity.Write|identity.Approve), UpdateParams{ID: m.ID.String(), Version: 1, Untrusted: ptr(false)}))(t); r.Untrusted {
		t.Error("a person cannot clear the mark")
	}
}
