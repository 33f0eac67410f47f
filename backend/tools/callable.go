package tools

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
	"helix/backend/wasmtools"
)

// provider provides one kind of callable that this package runs. The queries select the columns
// that callables scans, for the user ?1 and the id or name ?2.
type provider struct {
	s                          *Service
	kind                       callable.Kind
	noun                       string // in messages
	byID, byName, public, list string
	run                        func(ctx context.Context, c Caller, id uuid.UUID, r callable.Request) (runResult, error)
}

// runResult is the result of a run.
type runResult struct {
	ok             bool
	output         json.RawMessage
	class, message string
	notes          []string
}

// toolProvider also exports, imports and creates tools for share files and examples.
type toolProvider struct{ provider }

// Callables returns a provider of the user's tools.
func (s *Service) Callables() callable.Provider {
	const columns = `SELECT id, name, description, definition_hash, parameters, capabilities, is_enabled, user_id = ?1 FROM custom_tools WHERE deleted_at IS NULL AND `
	return &toolProvider{provider{
		s: s, kind: callable.Tool, noun: "tool",
		byID:   columns + `id = ?2 AND (user_id = ?1 OR visibility = 'public')`,
		byName: columns + `user_id = ?1 AND lower(name) = lower(?2) AND name = ?2`,
		public: columns + `user_id <> ?1 AND visibility = 'public' AND name = ?2 ORDER BY id LIMIT 3`,
		list:   columns + `user_id = ?1 ORDER BY lower(name), id`,
		// The key of the request must not become the idempotency key of the tool run, because then
		// every retry would return the stored failure.
		run: func(ctx context.Context, c Caller, id uuid.UUID, r callable.Request) (runResult, error) {
			res, err := s.ExecuteFor(ctx, c, ExecuteParams{ToolID: &id, Version: r.Version, Params: r.Input, TimeoutMs: millis(r.Timeout), Interactive: c.Kind == "" && r.Caller.Attended})
			return runResult{res.Success, res.Output, res.ErrorClass, res.Error, res.Warnings}, err
		},
	}}
}

// WasmCallables returns a provider of the user's WASM tools.
func (s *Service) WasmCallables() callable.Provider {
	const columns = `SELECT id, name, description, definition_hash, input_schema, capabilities, is_enabled, 1 FROM skills WHERE user_id = ?1 AND deleted_at IS NULL AND `
	return &provider{
		s: s, kind: callable.WASM, noun: "WASM tool",
		byID: columns + `id = ?2`, byName: columns + `lower(name) = lower(?2) AND name = ?2`, list: columns + `1 ORDER BY lower(name), id`,
		run: func(ctx context.Context, c Caller, id uuid.UUID, r callable.Request) (runResult, error) {
			res, err := s.ExecuteSkillFor(ctx, c, ExecuteSkillParams{SkillID: id, Input: r.Input, TimeoutMs: millis(r.Timeout), Interactive: c.Kind == "" && r.Caller.Attended})
			return runResult{res.Success, res.Output, res.ErrorClass, res.Error, res.Warnings}, err
		},
	}
}

// Kind implements callable.Provider.
func (p *provider) Kind() callable.Kind { return p.kind }

// Find implements callable.Provider. Public tools are returned only if the user has none with the name.
func (p *provider) Find(ctx context.Context, id, name string) (out []callable.Info, err error) {
	user := identity.UserID(ctx)
	err = p.s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if id != "" {
			key, perr := uuid.Parse(id)
			if perr != nil || key == uuid.Nil {
				return nil
			}
			out, err = p.scan(tx, p.byID, user, key)
			return err
		}
		if out, err = p.scan(tx, p.byName, user, name); err != nil || len(out) > 0 || p.public == "" {
			return err
		}
		out, err = p.scan(tx, p.public, user, name)
		return err
	})
	return out, err
}

// List implements callable.Provider.
func (p *provider) List(ctx context.Context) (out []callable.Info, err error) {
	return storage.Result(ctx, p.s.db.Read, func(tx *storage.Tx) ([]callable.Info, error) { return p.scan(tx, p.list, identity.UserID(ctx)) })
}

func (p *provider) scan(tx *storage.Tx, query string, args ...any) ([]callable.Info, error) {
	out := []callable.Info{}
	err := tx.Select(query, args...).Each(func(row storage.Row) error {
		i := callable.Info{}
		var parameters string
		var raw []byte
		var id uuid.UUID
		var enabled, mine bool
		if err := row.Scan(&id, &i.Name, &i.Description, &raw, &parameters, storage.JSON(&i.Capabilities), &enabled, &mine); err != nil {
			return err
		}
		var hash [32]byte
		copy(hash[:], raw)
		i.Ref, i.Hash, i.Input = callable.Ref{Kind: p.kind, ID: id.String()}, hashText(hash), json.RawMessage(parameters)
		i.Effects = effects(i.Capabilities)
		i.Untrusted = i.Effects.OpenWorld
		switch {
		case !mine:
			i.Blocked = callable.ReasonForeign
		case !enabled:
			i.Blocked = callable.ReasonDisabled
		}
		out = append(out, i)
		return nil
	})
	return out, err
}

// effects returns the possible effects of a run with these capabilities. The run is read-only if it
// has none that reaches the network, another tool or the tool's own state.
func effects(capabilities []string) callable.Effects {
	out := callable.Effects{ReadOnly: true}
	for _, w := range permission.ParseWants(capabilities) {
		switch w.Capability {
		case permission.FilesystemRead, permission.Secret:
		case permission.NetworkHTTPS, permission.NetworkLocalhost, permission.MCP:
			out.ReadOnly, out.OpenWorld = false, true
		default:
			out.ReadOnly = false
		}
	}
	return out
}

// Call implements callable.Provider.
func (p *provider) Call(ctx context.Context, ref callable.Ref, r callable.Request) (callable.Result, error) {
	id, err := uuid.Parse(ref.ID)
	if err != nil {
		return callable.Result{}, callable.NotFound(ref)
	}
	caller := Caller{Kind: r.Caller.Kind, Authority: r.Caller.Authority, RunID: r.Caller.Run, Why: r.Caller.Why(), Definition: r.Hash}
	out, err := p.run(ctx, caller, id, r)
	if err != nil {
		return callable.Result{}, p.refused(ctx, ref, err)
	}
	if !out.ok {
		return callable.Result{}, runFailed(ctx, out.class, out.message)
	}
	found, err := p.Find(ctx, ref.ID, "")
	untrusted := err != nil || len(found) == 0 || found[0].Untrusted
	return callable.Result{Output: out.output, Notes: out.notes, Untrusted: untrusted}, nil
}

// Rights implements callable.Provider.
func (p *provider) Rights(ctx context.Context, i callable.Info, _ json.RawMessage) (permission.PreviewResult, error) {
	if i.Blocked == callable.ReasonForeign {
		return permission.PreviewResult{}, fault.Deniedf("%q belongs to someone else. Clone it first, then use your copy.", i.Name).
			WithDetails(callable.Refusal{Reason: callable.ReasonForeign})
	}
	return p.s.perm.Preview(ctx, permission.PreviewParams{Subject: permission.PreviewSubject{Kind: string(p.kind), ID: i.ID}})
}

// millis converts a time limit to milliseconds, at least one.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(1, d.Milliseconds())
}

// refused adds the details of a refused call to the error of a run that did not start.
func (p *provider) refused(ctx context.Context, ref callable.Ref, err error) error {
	out := *fault.As(err)
	switch out.Kind {
	case fault.NotFound:
		return fault.As(callable.NotFound(ref)).WithCause(err)
	case fault.Denied:
		r := callable.Refusal{Reason: permission.ReasonInactive}
		if d, ok := out.Details.(Denial); ok {
			r.Reason = callable.Reason(d.Reason)
			if d.PendingApprovalID != nil {
				r.PendingApprovalID = *d.PendingApprovalID
			}
		}
		if r.Reason == callable.ReasonChanged && r.PendingApprovalID == uuid.Nil {
			out.Message = fmt.Sprintf("The %s has changed since its caller started. Review the change, then start again.", p.noun)
		}
		out.Details = r
	case fault.Canceled:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			out.Kind, out.Message = fault.Unavailable, "It waited in the queue longer than its time limit."
		}
	case fault.Invalid:
		r := callable.Refusal{Reason: callable.ReasonInput} // without the values of parameters
		if d, ok := out.Details.(ParamErrors); ok {
			for _, e := range d.Errors {
				r.Problems = append(r.Problems, callable.Problem(e))
			}
		}
		out.Details = r
	}
	return &out
}

// runFailed converts a failed run to a fault, mapping the error classes of the sandbox to the kinds
// that retries use.
func runFailed(ctx context.Context, class, message string) error {
	kind := fault.Internal
	switch sandbox.Class(class) {
	case sandbox.ClassTimeout, sandbox.ClassCPU:
		kind = fault.Timeout
	case sandbox.ClassMemory, sandbox.ClassOutput:
		kind = fault.Limit
	case sandbox.ClassCompile, sandbox.ClassMissingExport, sandbox.ClassInput:
		kind = fault.Invalid
	case sandbox.ClassHostDenied:
		kind = fault.Denied
	case sandbox.ClassUnavailable:
		kind = fault.Unavailable
	case sandbox.ClassCanceled:
		kind = fault.Canceled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			kind, message = fault.Timeout, "It did not finish within its time limit."
		}
	}
	if message == "" {
		message = class
	}
	return fault.New(kind, "%s", message)
}

// IsWasm reports whether the user has a WASM tool with an id.
func (s *Service) IsWasm(ctx context.Context, id uuid.UUID) (bool, error) {
	found, err := s.WasmCallables().Find(ctx, id.String(), "")
	return len(found) > 0, err
}

// SkillRun returns the status or the result of a run of one of the user's WASM tools.
func (s *Service) SkillRun(ctx context.Context, run uuid.UUID) (status wasmtools.SkillStatus, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT status FROM skill_executions WHERE id = ? AND user_id = ?`, run, identity.UserID(ctx)).Scan(&status)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", fault.NotFoundf("Run not found.")
	}
	return status, err
}
