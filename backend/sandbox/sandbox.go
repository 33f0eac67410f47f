// Package sandbox runs code nobody trusts: TypeScript and JavaScript tools on quickjs-ng
// under wazero, inside this process. A run can compute and can ask its Host through one
// function; it can do nothing else, it sees nothing of other runs, and it always ends.
//
// It is an engine: no tables, no settings, no network. backend/tools may import it; it
// imports only fault.
package sandbox

import (
	"context"
	"sync"

	"helix/backend/fault"
)

// Engine runs programs. It is safe for use by many goroutines.
type Engine struct {
	o    Options
	once sync.Once
}

// Program is compiled JavaScript, ready to run any number of times.
type Program struct{}

func (*Program) runnable() {}

// Status is what the engine can say about itself.
type Status struct{}

type run struct{}

func (r *run) remaining() Limits { return Limits{} }
func (r *run) charge(Usage)      {}

// Open loads the engine.
func Open(ctx context.Context, o Options) (*Engine, error) {
	return &Engine{o: o}, fault.Unavailablef("engine artefacts missing, run make engines")
}

// Close stops.
func (e *Engine) Close() error { return nil }

// Run does background work until ctx ends.
func (e *Engine) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// CompileJS compiles a source.
func (e *Engine) CompileJS(ctx context.Context, s Source) (*Program, error) {
	return nil, failf(ClassUnavailable, "engine artefacts missing, run make engines")
}

// Execute runs r.
func (e *Engine) Execute(ctx context.Context, r Runnable, c Call) (Result, error) {
	return Result{}, failf(ClassUnavailable, "engine artefacts missing, run make engines")
}

// Status says how the engine is.
func (e *Engine) Status() Status { return Status{} }
