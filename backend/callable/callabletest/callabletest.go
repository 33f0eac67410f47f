// Package callabletest is the conformance test suite for callable.Provider. The tests of every
// provider run it; only tests import it.
package callabletest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
)

// Case is one callable with an input.
type Case struct {
	ID    string
	Input string // JSON
}

// Harness is a provider under test. If a provider cannot have something, such as a callable that
// needs a permission, the field is not set and that part of the suite is skipped.
type Harness struct {
	Ctx      context.Context
	Registry *callable.Registry
	Kind     callable.Kind
	Good     Case   // succeeds without any permission
	Bad      string // an input of Good that violates its schema; "": every input is valid
	Acts     *Case  // has an effect that Effects counts, and is permitted to
	Effects  func() int
	Audited  func() int // number of entries in the audit log
	Needs    *Case      // has an effect that needs a permission which is granted
	Outside  *Case      // returns text from outside
	Slow     *Case      // runs until it is canceled; Begun reports that it has started
	Begun    <-chan struct{}
	// Nothing is the authority of a caller without any permission.
	Nothing    *permission.Authority
	Permission *permission.Service // revokes what Needs needs; nil: that part is skipped
}

func (h *Harness) info(t *testing.T, c Case) callable.Info {
	t.Helper()
	i, err := h.Registry.One(h.Ctx, h.Kind, c.ID, "")
	if err != nil {
		t.Fatalf("%s is not found: %v", c.ID, err)
	}
	return i
}

func (h *Harness) call(ctx context.Context, c Case, change func(*callable.Request)) (callable.Result, error) {
	r := callable.Request{Input: json.RawMessage(c.Input), Caller: callable.Caller{Kind: "skill", Label: "Conformance", Step: "s"}}
	if change != nil {
		change(&r)
	}
	return h.Registry.Call(ctx, callable.Ref{Kind: h.Kind, ID: c.ID}, r)
}

// unchanged checks that fn is refused with a reason and has no effect.
func (h *Harness) unchanged(t *testing.T, kind fault.Kind, reason callable.Reason, fn func() error) {
	t.Helper()
	before := 0
	if h.Effects != nil {
		before = h.Effects()
	}
	err := fn()
	if r, ok := callable.RefusalOf(err); !fault.Is(err, kind) || !ok || r.Reason != reason {
		t.Errorf("got %v with %+v, want a refusal of kind %s with the reason %s", err, r, kind, reason)
	}
	if h.Effects != nil && h.Effects() != before {
		t.Error("the refused call had an effect")
	}
}

// Run checks that a provider does what callers rely on.
func Run(t *testing.T, h Harness) {
	t.Run("found by id and by name", func(t *testing.T) {
		i := h.info(t, h.Good)
		list, err := h.Registry.Find(h.Ctx, h.Kind, "", i.Name)
		if err != nil || len(list) != 1 || list[0].Ref != i.Ref || list[0].Hash != i.Hash {
			t.Errorf("by name: %+v, %v", list, err)
		}
		if i.Kind != h.Kind || i.Hash == "" || i.Blocked != "" || len(i.Input) > 0 && !json.Valid(i.Input) {
			t.Errorf("%+v", i)
		}
		all, err := h.Registry.Provider(h.Kind).List(h.Ctx)
		there := false
		for _, x := range all {
			there = there || x.Ref == i.Ref
		}
		if err != nil || !there {
			t.Errorf("it is not in the list: %v", err)
		}
	})
	t.Run("unknown is gone", func(t *testing.T) {
		for _, id := range []string{"nothing", "018f0000-0000-7000-8000-000000000000"} {
			if list, err := h.Registry.Find(h.Ctx, h.Kind, id, ""); err != nil || len(list) != 0 {
				t.Errorf("%+v, %v", list, err)
			}
			h.unchanged(t, fault.NotFound, callable.ReasonGone, func() error { _, err := h.call(h.Ctx, Case{id, `{}`}, nil); return err })
		}
	})
	t.Run("schema refuses", func(t *testing.T) {
		if h.Bad == "" {
			t.Skip("it takes any input")
		}
		h.unchanged(t, fault.Invalid, callable.ReasonInput, func() error { _, err := h.call(h.Ctx, Case{h.Good.ID, h.Bad}, nil); return err })
	})
	t.Run("hash is pinned", func(t *testing.T) {
		hash := h.info(t, h.Good).Hash
		if out, err := h.call(h.Ctx, h.Good, func(r *callable.Request) { r.Hash = hash }); err != nil || len(out.Output) > 0 && !json.Valid(out.Output) {
			t.Errorf("with its hash: %s, %v", out.Output, err)
		}
		h.unchanged(t, fault.Denied, callable.ReasonChanged, func() error {
			_, err := h.call(h.Ctx, h.Good, func(r *callable.Request) { r.Hash = strings.Repeat("0", 64) })
			return err
		})
	})
	t.Run("authority narrows", func(t *testing.T) {
		if h.Needs == nil {
			t.Skip("this callable needs no permission")
		}
		before := h.Effects()
		if _, err := h.call(h.Ctx, *h.Needs, nil); err != nil || h.Effects() == before {
			t.Fatalf("for the user: %v", err)
		}
		before = h.Effects()
		_, err := h.call(h.Ctx, *h.Needs, func(r *callable.Request) { r.Caller.Authority = h.Nothing })
		if !fault.Is(err, fault.Denied) || h.Effects() != before {
			t.Errorf("for a caller that holds nothing: %v, %d effects", err, h.Effects()-before)
		}
	})
	t.Run("revoking stops the next call", func(t *testing.T) {
		if h.Needs == nil || h.Permission == nil {
			t.Skip("this callable needs no permission")
		}
		for range 2 { // the second with cached grants
			if _, err := h.call(h.Ctx, *h.Needs, nil); err != nil {
				t.Fatal(err)
			}
		}
		before := h.Effects()
		done, err := h.Permission.Revoke(h.Ctx, permission.RevokeParams{All: true})
		if err != nil || done.Revoked == 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		if _, err := h.call(h.Ctx, *h.Needs, nil); !fault.Is(err, fault.Denied) || h.Effects() != before {
			t.Errorf("%v, %d effects", err, h.Effects()-before)
		}
		if _, err := h.Permission.Revoke(h.Ctx, permission.RevokeParams{UndoToken: done.UndoToken}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.call(h.Ctx, *h.Needs, nil); err != nil {
			t.Errorf("after Undo: %v", err)
		}
	})
	t.Run("key is one call", func(t *testing.T) {
		if h.Acts == nil {
			t.Skip("it has no effects")
		}
		before, once := h.Effects(), h.info(t, *h.Acts).Effects.Idempotent
		for range 2 {
			if _, err := h.call(h.Ctx, *h.Acts, func(r *callable.Request) { r.Key = "one-call" }); err != nil {
				t.Fatal(err)
			}
		}
		if n := h.Effects() - before; once && n != 1 || !once && n != 2 {
			t.Errorf("two calls with one key had %d effects; idempotent: %v", n, once)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(h.Ctx)
		c := h.Good
		if h.Slow != nil {
			c = *h.Slow
			go func() {
				<-h.Begun
				cancel()
			}()
		} else {
			cancel()
		}
		defer cancel()
		if _, err := h.call(ctx, c, nil); !fault.Is(err, fault.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	})
	t.Run("untrusted is marked", func(t *testing.T) {
		if h.Outside == nil {
			t.Skip("nothing of it comes from outside")
		}
		out, err := h.call(h.Ctx, *h.Outside, nil)
		if err != nil || !out.Untrusted || !h.info(t, *h.Outside).Untrusted {
			t.Errorf("%+v, %v", out, err)
		}
	})
	t.Run("audit", func(t *testing.T) {
		if h.Acts == nil || h.Audited == nil {
			t.Skip("it has no effects")
		}
		before := h.Audited()
		if _, err := h.call(h.Ctx, *h.Acts, nil); err != nil || h.Audited() == before {
			t.Errorf("the call left no entry: %v", err)
		}
	})
	t.Run("rights are told", func(t *testing.T) {
		p, err := h.Registry.Rights(h.Ctx, h.info(t, h.Good), json.RawMessage(h.Good.Input))
		if err != nil || p.Steps == nil || p.Union == nil || p.Stops == nil {
			t.Errorf("%+v, %v", p, err)
		}
		if h.Needs != nil {
			if p, err = h.Registry.Rights(h.Ctx, h.info(t, *h.Needs), json.RawMessage(h.Needs.Input)); err != nil || len(p.Union) == 0 || p.Union[0].State != "granted" {
				t.Errorf("of what needs one: %+v, %v", p, err)
			}
		}
	})
}
