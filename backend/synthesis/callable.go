package synthesis

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Kind is the kind of this package's callables.
const Kind callable.Kind = "synthesis"

// runKey is the prefix of the input hash of jobs that another run waits for.
const runKey = "run "

// offered lists the callables for schedules and steps.
var offered = []struct {
	name, title, typ string
	days             int // number of days back from now; 0: all
}{
	{"consolidation", "Looks for patterns in everything that is stored.", Full, 0},
	{"synthesis", "Looks for patterns in the last day.", Full, 1},
	{"weekly", "Looks for patterns in the last week.", Full, 7},
	{"monthly", "Looks for patterns in the last month.", Full, 31},
	{Full, "Looks for patterns of all kinds.", Full, 0},
	{Emotional, "Looks for patterns in moods.", Emotional, 0},
	{Relational, "Looks for patterns with people.", Relational, 0},
	{Prospective, "Looks for goals, wishes and fears.", Prospective, 0},
	{Narrative, "Looks for themes and turning points.", Narrative, 0},
}

const callableInput = `{"type":"object","additionalProperties":false,"properties":{
	"limit":{"type":"integer","minimum":1,"maximum":10000,"description":"How many of the newest texts are read. Default: 10000."},
	"confidence":{"type":"number","minimum":0,"maximum":1,"description":"Least confidence of a pattern. Default: 0.7."},
	"engine":{"enum":["local","llm"],"description":"llm asks a language model, once you have approved the text. Default: local."},
	"days":{"type":"integer","minimum":1,"maximum":36500,"description":"Only texts of the last days."}}}`

// Provider provides synthesis as callables, for steps, schedules and helix call.
type Provider struct {
	*callable.Set
	s     *Service
	ended func(run uuid.UUID)
}

// Provider returns the provider. ended is called at the end of each run that Start started.
func (s *Service) Provider(record func(context.Context, ...audit.Entry) error, ended func(run uuid.UUID)) *Provider {
	set := callable.NewSet(Kind, record)
	for _, o := range offered {
		set.Add(callable.Func{
			Info: callable.Info{Name: o.name, Title: o.title, Effects: callable.Effects{Idempotent: true}, Input: json.RawMessage(callableInput)},
			Run: func(ctx context.Context, r callable.Request) (any, error) {
				p, err := offeredParams(o.name, r.Input, time.Now())
				if err != nil {
					return nil, err
				}
				id := storage.NewID()
				if err := s.db.Write(ctx, func(tx *storage.Tx) error { return s.insertJob(tx, identity.UserID(ctx), id, p.key(), p) }); err != nil {
					return nil, err
				}
				w := s.begin(ctx, identity.UserID(ctx), id, p.key(), p)
				select {
				case <-w.done:
				case <-ctx.Done():
					w.cancel()
					<-w.done
					return nil, ctx.Err()
				}
				job, err := s.Status(ctx, JobParams{id})
				if err == nil && job.Status == "failed" {
					err = fault.New(job.errorKind(), "%s", job.Error)
				}
				return job.Insights, err
			},
		})
	}
	return &Provider{set, s, ended}
}

// offeredParams returns the request for a callable from its name and input.
func offeredParams(name string, input json.RawMessage, now time.Time) (p SynthesizeParams, err error) {
	i := slices.IndexFunc(offered, func(o struct {
		name, title, typ string
		days             int
	}) bool {
		return o.name == name
	})
	if i < 0 {
		return p, fault.NotFoundf("No such synthesis.")
	}
	in := struct {
		Limit      int
		Confidence *float64
		Engine     string
		Days       int
	}{Limit: maxTexts, Days: offered[i].days}
	if len(input) > 0 {
		if err := json.Unmarshal(input, &in); err != nil {
			return p, fault.Invalidf("The input of a synthesis cannot be read.").WithCause(err)
		}
	}
	p = SynthesizeParams{SynthesisType: offered[i].typ, Limit: in.Limit, Confidence: in.Confidence, Engine: in.Engine}
	if in.Days > 0 {
		start := now.AddDate(0, 0, -in.Days)
		p.TimeRange = &TimeRange{Start: &start}
	}
	err = p.check()
	p.pin(now)
	return p, err
}

// Enqueue implements callable.Starter.
func (v *Provider) Enqueue(tx *storage.Tx, ref callable.Ref, r callable.Request) (uuid.UUID, error) {
	p, err := offeredParams(ref.ID, r.Input, tx.Now)
	if err != nil {
		return uuid.Nil, err
	}
	id := storage.NewID()
	return id, v.s.insertJob(tx, identity.UserID(tx.Context()), id, runKey+r.Key, p)
}

// Start implements callable.Starter. A job from a previous process is loaded again.
func (v *Provider) Start(run uuid.UUID) {
	var p SynthesizeParams
	var user uuid.UUID
	var key, status string
	err := v.s.db.Read(v.s.life, func(tx *storage.Tx) error {
		var params []byte
		if err := tx.QueryRow(`SELECT user_id, params, input_hash, status FROM memory_synthesis_jobs WHERE id = ?`, run).Scan(&user, &params, &key, &status); err != nil {
			return err
		}
		row := v.s.texts("memory_synthesis_jobs", run)
		row.openJSON("params", params, &p)
		return row.err
	})
	v.s.mu.Lock()
	begun := v.s.work[run] != nil
	v.s.mu.Unlock()
	if err != nil || status != "pending" || begun {
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			v.s.log.Warn("a synthesis cannot begin", "job", run, "err", err)
		}
		v.ended(run)
		return
	}
	ctx := identity.With(v.s.life, identity.Identity{User: user, Scopes: identity.Write.Closed(), Client: identity.ClientProgram, Label: "scheduler", Pipe: "schedule"})
	w := v.s.begin(ctx, user, run, key, p)
	go func() {
		<-w.done
		v.ended(run)
	}()
}

// errorKind returns the kind of error that a caller gets for a failed job.
func (j Job) errorKind() fault.Kind {
	if j.Insights.ApprovalID != nil {
		return fault.Denied
	}
	return fault.Unavailable
}

// State implements callable.Starter.
func (v *Provider) State(ctx context.Context, run uuid.UUID) (callable.State, error) {
	j, err := v.s.Status(ctx, JobParams{run})
	if err != nil {
		return callable.State{}, err
	}
	out := callable.State{Status: j.Status, Error: j.Error}
	switch j.Status {
	case "pending":
		out.Status = "queued"
	case "completed":
		out.Status, out.Output = "success", json.RawMessage(compactJSON(j.Insights))
	case "failed":
		out.ErrorKind = string(j.errorKind())
	}
	if j.StartedAt != nil {
		out.StartedAt = *j.StartedAt
	}
	if j.CompletedAt != nil {
		out.FinishedAt = *j.CompletedAt
	}
	return out, nil
}

// Cancel implements callable.Starter.
func (v *Provider) Cancel(_ context.Context, run uuid.UUID, _ string) error {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if w := v.s.work[run]; w != nil {
		w.cancel()
	}
	return nil
}
