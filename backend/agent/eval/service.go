package eval

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	resultAge   = 90 * 24 * time.Hour
	maxExtra    = 50
	maxScenario = 256 << 10
	longestWait = 2 * time.Minute
)

// Retention returns how long results are kept.
func Retention() storage.Retention {
	return storage.Retention{Table: "eval_runs", Time: "at", Age: resultAge}
}

// Service runs evaluations and stores their results. It is safe for concurrent use.
type Service struct {
	db    *storage.DB
	live  agent.Models
	build string
	life  context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	running map[uuid.UUID]*evaluation
}

// evaluation is a running evaluation.
type evaluation struct {
	user  uuid.UUID
	total int
	done  chan struct{}
	err   error
}

// New returns the service. live answers when a live run is requested.
func New(db *storage.DB, live agent.Models, build string) *Service {
	s := &Service{db: db, live: live, build: build, running: map[uuid.UUID]*evaluation{}}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// Close stops the running evaluations.
func (s *Service) Close() error {
	s.stop()
	s.wg.Wait()
	return nil
}

// Info describes a scenario.
type Info struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Inputs      int    `json:"inputs"`
}

// ListResult holds the scenarios included in the program.
type ListResult struct {
	Scenarios []Info `json:"scenarios"`
}

// List returns the scenarios included in the program.
func (s *Service) List(context.Context, struct{}) (ListResult, error) {
	out := ListResult{Scenarios: []Info{}}
	all, err := Shipped()
	for _, x := range all {
		out.Scenarios = append(out.Scenarios, Info{x.Name, x.Description, len(x.Inputs)})
	}
	return out, err
}

// Live selects a real model.
type Live struct {
	Role providers.Role `json:"role"`
	// MaxCostMicros bounds the cost of all scenarios together.
	MaxCostMicros providers.Micros `json:"maxCostMicros"`
}

// RunParams selects scenarios.
type RunParams struct {
	// Filter must occur in the name; empty: all.
	Filter string `json:"filter,omitempty"`
	// Scenarios are other scenarios, as YAML; they replace those of the program.
	Scenarios []string `json:"scenarios,omitempty"`
	// Live needs a role and a limit of money. Without it the scripts answer, and no service is
	// called.
	Live *Live `json:"live,omitempty"`
}

// RunResult names an evaluation.
type RunResult struct {
	EvalID uuid.UUID `json:"evalId"`
	Total  int       `json:"total"`
}

// Run starts an evaluation.
func (s *Service) Run(ctx context.Context, p RunParams) (RunResult, error) {
	list, err := p.choose()
	if err != nil {
		return RunResult{}, err
	}
	if p.Live != nil && (p.Live.Role == "" || p.Live.MaxCostMicros <= 0) {
		return RunResult{}, fault.InvalidField("live", fault.CodeMissing, "A live run needs a role and a cost limit.")
	}
	e := &evaluation{user: identity.UserID(ctx), total: len(list), done: make(chan struct{})}
	id := storage.NewID()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return RunResult{}, fault.Unavailablef("Helix is stopping.")
	}
	for _, other := range s.running {
		if other.user == e.user {
			return RunResult{}, fault.Conflictf("An evaluation is running. Wait until it ends.")
		}
	}
	s.running[id] = e
	who, _ := identity.From(ctx)
	work := identity.With(s.life, who)
	s.wg.Go(func() {
		err := fault.Catch(func() error { return s.work(work, id, list, p.Live) })
		s.mu.Lock()
		defer s.mu.Unlock()
		e.err = err
		close(e.done)
		delete(s.running, id)
	})
	return RunResult{id, len(list)}, nil
}

func (p RunParams) choose() ([]Scenario, error) {
	if len(p.Scenarios) > maxExtra {
		return nil, fault.InvalidField("scenarios", fault.CodeRange, "Run at most %d scenarios at once.", maxExtra)
	}
	var list []Scenario
	for i, text := range p.Scenarios {
		if len(text) > maxScenario {
			return nil, fault.InvalidField(fmt.Sprintf("scenarios.%d", i), fault.CodeRange, "A scenario has at most %d bytes.", maxScenario)
		}
		x, err := Parse([]byte(text))
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	if len(list) == 0 {
		var err error
		if list, err = Shipped(); err != nil {
			return nil, err
		}
	}
	list = slices.DeleteFunc(list, func(x Scenario) bool { return !strings.Contains(x.Name, p.Filter) })
	if len(list) == 0 {
		return nil, fault.NotFoundf("No scenario matches %q.", p.Filter)
	}
	return list, nil
}

// work runs scenarios one after another and stores the outcome of each.
func (s *Service) work(ctx context.Context, id uuid.UUID, list []Scenario, live *Live) error {
	var models agent.Models
	if live != nil {
		models = &limited{Models: s.live, ctx: ctx, role: live.Role, left: live.MaxCostMicros}
	}
	for _, x := range list {
		out, err := Run(ctx, x, models)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			out.Problems = []string{fault.As(err).Message}
		}
		problems, err := json.Marshal(out.Problems)
		if err != nil {
			return err
		}
		metrics, err := json.Marshal(out.Metrics)
		if err != nil {
			return err
		}
		err = s.db.Write(ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`INSERT INTO eval_runs (id, user_id, eval_id, scenario, live, passed, problems, metrics, build, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				storage.NewID(), identity.UserID(ctx), id, x.Name, live != nil, out.Passed, string(problems), string(metrics), s.build, tx.Now)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ResultParams names an evaluation. WaitMs is the longest time to wait for its end, at most 120,000.
type ResultParams struct {
	EvalID uuid.UUID `json:"evalId"`
	WaitMs int64     `json:"waitMs,omitempty"`
}

// Result is the state of an evaluation and its results so far.
type Result struct {
	EvalID uuid.UUID `json:"evalId"`
	State  string    `json:"state"` // running, done or failed
	Total  int       `json:"total,omitempty"`
	Passed int       `json:"passed"`
	// Results are in the order of the scenarios. Baseline holds the latest earlier result of each
	// scenario.
	Results  []Outcome `json:"results"`
	Baseline []Outcome `json:"baseline"`
	// Worse describes, in sentences, what was better in the baseline.
	Worse []string `json:"worse"`
	Error string   `json:"error,omitempty"`
}

// Result returns the results so far, and how they differ from earlier ones.
func (s *Service) Result(ctx context.Context, p ResultParams) (Result, error) {
	user := identity.UserID(ctx)
	out := Result{EvalID: p.EvalID, State: "done", Baseline: []Outcome{}, Worse: []string{}}
	s.mu.Lock()
	e := s.running[p.EvalID]
	s.mu.Unlock()
	if e != nil && e.user == user {
		timer := time.NewTimer(min(duration.Of(p.WaitMs, time.Millisecond), longestWait))
		defer timer.Stop()
		select {
		case <-e.done:
			if e.err != nil {
				out.State, out.Error = "failed", fault.As(e.err).Message
			}
		case <-timer.C:
			out.State = "running"
		case <-ctx.Done():
			return out, fault.As(ctx.Err())
		}
		out.Total = e.total
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if out.Results, err = storage.Collect(tx.Select(`SELECT scenario, passed, problems, metrics FROM eval_runs WHERE eval_id = ? AND user_id = ? ORDER BY at, id`, p.EvalID, user), scanOutcome); err != nil {
			return err
		}
		for _, r := range out.Results {
			old, err := storage.Collect(tx.Select(`SELECT o.scenario, o.passed, o.problems, o.metrics FROM eval_runs n JOIN eval_runs o ON o.user_id = n.user_id AND o.scenario = n.scenario AND o.live = n.live AND o.at < n.at AND o.eval_id <> n.eval_id
				WHERE n.eval_id = ? AND n.user_id = ? AND n.scenario = ? ORDER BY o.at DESC LIMIT 1`, p.EvalID, user, r.Scenario), scanOutcome)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			out.Baseline = append(out.Baseline, old...)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if e == nil && len(out.Results) == 0 {
		return out, fault.NotFoundf("Evaluation not found.")
	}
	for _, r := range out.Results {
		if r.Passed {
			out.Passed++
		}
	}
	out.Worse = Compare(out.Baseline, out.Results)
	return out, nil
}

func scanOutcome(row storage.Row) (o Outcome, err error) {
	var problems, metrics []byte
	if err = row.Scan(&o.Scenario, &o.Passed, &problems, &metrics); err == nil {
		if err = json.Unmarshal(problems, &o.Problems); err == nil {
			err = json.Unmarshal(metrics, &o.Metrics)
		}
	}
	return o, err
}

// Compare describes what was better in the baseline: a scenario passed, cost over a tenth less, or
// took fewer steps.
func Compare(baseline, results []Outcome) []string {
	worse := []string{}
	for _, r := range results {
		n := slices.IndexFunc(baseline, func(o Outcome) bool { return o.Scenario == r.Scenario })
		if n < 0 {
			continue
		}
		old := baseline[n]
		switch {
		case old.Passed && !r.Passed:
			worse = append(worse, r.Scenario+" passed before")
		case old.Metrics.CostMicros > 0 && r.Metrics.CostMicros*10 > old.Metrics.CostMicros*11:
			worse = append(worse, fmt.Sprintf("%s cost %d micros before and costs %d", r.Scenario, old.Metrics.CostMicros, r.Metrics.CostMicros))
		case old.Metrics.Steps > 0 && r.Metrics.Steps > old.Metrics.Steps:
			worse = append(worse, fmt.Sprintf("%s took %d steps before and takes %d", r.Scenario, old.Metrics.Steps, r.Metrics.Steps))
		}
	}
	return worse
}
