package callable

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

// Job is a Provider of one housekeeping task, and a Starter of its runs. The task can be repeated
// at any time, so an interrupted run simply starts again.
type Job struct {
	info  Info
	do    func(ctx context.Context) (any, error)
	ended func(run uuid.UUID)

	mu   sync.Mutex
	runs map[uuid.UUID]*jobRun
	wg   sync.WaitGroup
	life context.Context
	stop context.CancelFunc
}

type jobRun struct {
	state  State
	cancel context.CancelFunc
}

// rememberedRuns is the number of finished runs of a job whose state is kept.
const rememberedRuns = 100

// NewJob returns the job with a kind. do performs it and returns its output; ended is called at the
// end of each run.
func NewJob(kind Kind, title string, do func(ctx context.Context) (any, error), ended func(run uuid.UUID)) *Job {
	j := &Job{
		info: Info{Ref: Ref{kind, string(kind)}, Name: title, Title: title, Effects: Effects{Idempotent: true}, Input: json.RawMessage(`{"type":"object","maxProperties":0}`)},
		do:   do, ended: ended, runs: map[uuid.UUID]*jobRun{},
	}
	j.life, j.stop = context.WithCancel(context.Background())
	return j
}

// Close ends the runs and waits for them.
func (j *Job) Close() {
	j.stop()
	j.wg.Wait()
}

// Kind implements Provider.
func (j *Job) Kind() Kind { return j.info.Kind }

// Find implements Provider. There is one job of each kind, so the name is ignored.
func (j *Job) Find(_ context.Context, id, name string) ([]Info, error) {
	if id != "" && id != j.info.ID || id == "" && name != "" && name != j.info.Name && name != j.info.ID {
		return nil, nil
	}
	return []Info{j.info}, nil
}

// List implements Provider.
func (j *Job) List(context.Context) ([]Info, error) { return []Info{j.info}, nil }

// Call implements Provider.
func (j *Job) Call(ctx context.Context, _ Ref, r Request) (Result, error) {
	if r.Hash != "" && r.Hash != j.info.Hash {
		return Result{}, Changed(j.info)
	}
	done, err := j.do(ctx)
	if err != nil {
		return Result{}, err
	}
	out, err := json.Marshal(done)
	return Result{Output: out}, err
}

// Rights implements Provider.
func (j *Job) Rights(context.Context, Info, json.RawMessage) (permission.PreviewResult, error) {
	return Needs(j.info), nil
}

// Enqueue implements Starter.
func (j *Job) Enqueue(*storage.Tx, Ref, Request) (uuid.UUID, error) { return storage.NewID(), nil }

// Start implements Starter.
func (j *Job) Start(run uuid.UUID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.runs[run] != nil || j.life.Err() != nil {
		return
	}
	if len(j.runs) >= rememberedRuns {
		maps.DeleteFunc(j.runs, func(_ uuid.UUID, x *jobRun) bool { return !x.state.FinishedAt.IsZero() })
	}
	ctx, cancel := context.WithCancel(j.life)
	x := &jobRun{cancel: cancel, state: State{Status: "running", StartedAt: time.Now()}}
	j.runs[run] = x
	j.wg.Go(func() {
		defer cancel()
		out, err := j.Call(ctx, j.info.Ref, Request{})
		j.mu.Lock()
		x.state.FinishedAt, x.state.Output, x.state.Status = time.Now(), out.Output, "success"
		switch f := fault.As(err); {
		case err == nil:
		case f.Kind == fault.Canceled:
			x.state.Status = "cancelled"
		default:
			x.state.Status, x.state.ErrorKind, x.state.Error = "failed", string(f.Kind), f.Message
		}
		j.mu.Unlock()
		j.ended(run)
	})
}

// State implements Starter.
func (j *Job) State(_ context.Context, run uuid.UUID) (State, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	x := j.runs[run]
	if x == nil {
		return State{}, fault.NotFoundf("Run not found.")
	}
	return x.state, nil
}

// Cancel implements Starter.
func (j *Job) Cancel(_ context.Context, run uuid.UUID, _ string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if x := j.runs[run]; x != nil {
		x.cancel()
	}
	return nil
}
