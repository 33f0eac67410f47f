package synthesis

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
)

const (
	maxTexts         = 10_000
	maxConversations = 1000
	maxConversation  = 256 << 10 // bytes
	defaultLimit     = 100
	defaultThreshold = 0.7
	defaultWait      = 500 * time.Millisecond
	maxWait          = 10 * time.Second
	maxHidden        = 100
	maxThemes        = 100
	leastTexts       = 3 // fewer texts yield no pattern
)

// work is a job of this process that has not ended.
type work struct {
	id, user uuid.UUID
	ctx      context.Context // has the caller's identity; ended by the service or by cancel
	cancel   context.CancelFunc
	p        SynthesizeParams
	hash     string
	done     chan struct{}
	began    time.Time
	result   SynthesizeResult // valid after done
	shown    Progress         // guarded by Service.mu
	told     time.Time
}

var errCanceled = &fault.Error{Kind: fault.Canceled, Message: "The synthesis was canceled. Nothing was stored."}

// check sets defaults and validates the request.
func (p *SynthesizeParams) check() (err error) {
	if p.SynthesisType, err = parseType("synthesisType", p.SynthesisType); err != nil {
		return err
	}
	if p.Limit == 0 {
		p.Limit = defaultLimit
	}
	if p.Limit < 1 || p.Limit > maxTexts {
		return fault.InvalidField("limit", fault.CodeRange, "limit is %d; it must be 1 to %d.", p.Limit, maxTexts)
	}
	if p.Confidence == nil {
		c := defaultThreshold
		p.Confidence = &c
	}
	if c := *p.Confidence; math.IsNaN(c) || c < 0 || c > 1 {
		return fault.InvalidField("confidence", fault.CodeRange, "confidence must be between 0 and 1.")
	}
	if p.WaitMs != nil && (*p.WaitMs < 0 || *p.WaitMs > int(maxWait.Milliseconds())) {
		return fault.InvalidField("waitMs", fault.CodeRange, "waitMs is %d; it must be 0 to %d.", *p.WaitMs, maxWait.Milliseconds())
	}
	if r := p.TimeRange; r != nil && r.Start != nil && r.End != nil && !r.Start.Before(*r.End) {
		return fault.InvalidField("timeRange", fault.CodeInvalid, "The start of the time range must be before its end.")
	}
	if len(p.Conversations) > maxConversations {
		return fault.InvalidField("conversations", fault.CodeRange, "You can analyze at most 1,000 conversations at a time.")
	}
	if p.Themes != 0 && (p.Themes < 2 || p.Themes > maxThemes) {
		return fault.InvalidField("themes", fault.CodeRange, "themes is %d; it must be 2 to %d.", p.Themes, maxThemes)
	}
	seen := map[string]bool{}
	for i, c := range p.Conversations {
		field := fmt.Sprintf("conversations/%d", i)
		switch {
		case c.ID == "":
			return fault.InvalidField(field+"/id", fault.CodeInvalid, "Conversation %d doesn't have an ID.", i)
		case seen[c.ID]:
			return fault.InvalidField(field+"/id", fault.CodeInvalid, "Conversation %d has the same ID as another one.", i)
		case len(c.Text) > maxConversation:
			return fault.InvalidField(field+"/text", fault.CodeRange, "Conversation %d is longer than 256 KiB.", i)
		case c.Timestamp.IsZero() || c.Timestamp.Year() < 1900 || c.Timestamp.Year() > 2200:
			return fault.InvalidField(field+"/timestamp", fault.CodeInvalid, "Conversation %d doesn't have a valid timestamp.", i)
		}
		seen[c.ID] = true
	}
	switch p.Engine {
	case "", "local":
		p.Engine = "local"
	case "llm":
		if p.Samples != 0 && p.Samples != 1 && p.Samples != 3 {
			return fault.InvalidField("samples", fault.CodeRange, "samples must be 1 or 3, not %d.", p.Samples)
		}
		if len(p.HideNames) > maxHidden {
			return fault.InvalidField("hideNames", fault.CodeRange, "You can hide at most %d names.", maxHidden)
		}
	default:
		return fault.InvalidField("engine", fault.CodeInvalid, "The engine must be local or llm, not %q.", p.Engine)
	}
	return nil
}

// pin excludes texts newer than now from a request to a model, so that a later approval is still
// about the same texts.
func (p *SynthesizeParams) pin(now time.Time) {
	if p.Engine != "llm" || p.TimeRange != nil && p.TimeRange.End != nil {
		return
	}
	r := TimeRange{End: &now}
	if p.TimeRange != nil {
		r.Start = p.TimeRange.Start
	}
	p.TimeRange = &r
}

// key returns a key that is equal for equal requests.
func (p SynthesizeParams) key() string {
	p.WaitMs = nil
	sum := sha256.Sum256([]byte(compactJSON(p)))
	return hex.EncodeToString(sum[:])
}

// Synthesize starts a job that finds patterns, and waits up to waitMs for its end. If an equal
// request is running, it returns that job.
func (s *Service) Synthesize(ctx context.Context, p SynthesizeParams) (SynthesizeResult, error) {
	w, err := s.enqueue(ctx, p)
	if err != nil {
		return SynthesizeResult{}, err
	}
	wait := defaultWait
	if p.WaitMs != nil {
		wait = duration.Of(int64(*p.WaitMs), time.Millisecond)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.result, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	job, err := s.Status(context.WithoutCancel(ctx), JobParams{w.id})
	if err == nil && (job.Status == "completed" || job.Status == "failed") { // at this moment
		<-w.done
		return w.result, nil
	}
	return SynthesizeResult{JobID: w.id, Status: job.Status}, err
}

// enqueue passes a request to the worker of its user; an equal one that has not ended is joined.
func (s *Service) enqueue(ctx context.Context, p SynthesizeParams) (*work, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if who, _ := identity.From(ctx); p.Approved != "" && !who.Scopes.Has(identity.Approve) {
		return nil, fault.Deniedf("Only you can approve sending texts from this computer.")
	}
	if err := s.ready(ctx, p.Engine); err != nil {
		return nil, err
	}
	p.pin(time.Now())
	user, key := identity.UserID(ctx), p.key()
	s.mu.Lock()
	var w *work
	for _, other := range s.work {
		if other.user == user && other.hash == key {
			w = other
		}
	}
	s.mu.Unlock()
	if w == nil {
		id := storage.NewID()
		err := s.db.Write(ctx, func(tx *storage.Tx) error {
			return s.insertJob(tx, user, id, key, p)
		})
		if err != nil {
			return nil, err
		}
		w = s.begin(ctx, user, id, key, p)
	}
	return w, nil
}

// ready returns an error if an engine cannot be used.
func (s *Service) ready(ctx context.Context, name string) error {
	if name != "llm" {
		return nil
	}
	if s.o.Model == nil {
		return fault.Unavailablef("Set up a model provider first.")
	}
	_, err := s.o.Model.Destination(ctx)
	return err
}

func (s *Service) engine(name string) Engine {
	if name == "llm" {
		return llm{s.o.Model}
	}
	return s.o.Engine
}

func (s *Service) insertJob(tx *storage.Tx, user, id uuid.UUID, key string, p SynthesizeParams) error {
	stored := p
	stored.Conversations = nil // texts in the request are not stored
	var from, to *time.Time
	if p.TimeRange != nil {
		from, to = p.TimeRange.Start, p.TimeRange.End
	}
	row := s.texts("memory_synthesis_jobs", id)
	params := row.sealJSON("params", stored)
	if row.err != nil {
		return row.err
	}
	_, err := tx.Exec(`INSERT INTO memory_synthesis_jobs (id, user_id, synthesis_type, time_range_start, time_range_end, status, engine, params, input_hash, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?)`, id, user, p.SynthesisType, from, to, p.Engine, params, key, tx.Now, tx.Now)
	return err
}

// begin passes a stored job to the worker of its user.
func (s *Service) begin(ctx context.Context, user, id uuid.UUID, key string, p SynthesizeParams) *work {
	who, _ := identity.From(ctx)
	jctx, cancel := context.WithCancel(identity.With(s.life, who))
	w := &work{id: id, user: user, ctx: jctx, cancel: cancel, p: p, hash: key, done: make(chan struct{})}
	w.shown = Progress{JobID: id}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work[id] = w
	if !s.running[user] && !s.closed {
		s.running[user] = true
		s.wg.Go(func() { s.serve(user) })
	}
	return w
}

// serve runs the jobs of a user one after another until none is left.
func (s *Service) serve(user uuid.UUID) {
	for {
		s.mu.Lock()
		var next *work
		for _, w := range s.work {
			if w.user == user && (next == nil || w.id.String() < next.id.String()) { // ids are in chronological order
				next = w
			}
		}
		if next == nil || s.closed {
			delete(s.running, user)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.run(next)
	}
}

// run runs one job and stores the result.
func (s *Service) run(w *work) {
	defer w.cancel()
	w.began = time.Now()
	var ins Insights
	var analysis *Analysis
	err := fault.Catch(func() (err error) {
		if err = s.start(w); err != nil {
			return err
		}
		analysis, ins, err = s.carryOut(w)
		return err
	})
	if err != nil {
		if p, asks := fault.As(err).Details.(notApproved); asks {
			ins.ApprovalID, err = s.ask(w, p.Preview, err)
		}
	}
	if s.life.Err() == nil {
		job, endErr := s.finish(w, ins, err)
		if endErr != nil {
			s.log.Error("the end of a synthesis is not stored", "job", w.id, "err", endErr)
		}
		w.result = SynthesizeResult{JobID: w.id, Status: job.Status, SynthesisType: w.p.SynthesisType, Engine: w.p.Engine, Cost: ins.CostUSD, Model: ins.Model,
			ExecutionTimeMs: time.Since(w.began).Milliseconds(), ConversationCount: ins.Texts}
		if err == nil {
			w.result.Analysis = analysis
		}
	}
	s.mu.Lock()
	delete(s.work, w.id)
	s.mu.Unlock()
	close(w.done)
}

func (s *Service) start(w *work) error {
	return s.db.Write(w.ctx, func(tx *storage.Tx) error {
		res, err := tx.Exec(`UPDATE memory_synthesis_jobs SET status = 'running', stage = 'load', started_at = ?, updated_at = ? WHERE id = ? AND status = 'pending'`, tx.Now, tx.Now, w.id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errCanceled)
		}
		return nil
	})
}

// carryOut loads the texts, analyzes them and stores the patterns.
func (s *Service) carryOut(w *work) (*Analysis, Insights, error) {
	ins := Insights{DryRun: w.p.DryRun}
	in := Input{Type: w.p.SynthesisType, Zone: s.zone(), Threshold: *w.p.Confidence, Themes: w.p.Themes, Approved: w.p.Approved, Hide: w.p.HideNames, Samples: w.p.Samples}
	var err error
	if in.Texts, in.Model, err = s.load(w.ctx, w.p); err != nil {
		return nil, ins, err
	}
	if err := s.db.Read(w.ctx, func(tx *storage.Tx) error {
		in.Names, err = s.corrections(tx, w.user)
		return err
	}); err != nil {
		return nil, ins, err
	}
	ins.Texts = len(in.Texts)
	a, err := s.engine(w.p.Engine).Analyze(w.ctx, in, func(stage string, p float64) { s.progress(w, stage, p) })
	ins.Model, ins.InputTokens, ins.OutputTokens, ins.CostUSD = a.Model, a.Spent.InputTokens, a.Spent.OutputTokens, a.Spent.CostUSD
	if err == nil {
		err = w.ctx.Err()
	}
	if err != nil {
		return nil, ins, err
	}
	ins.Summary, ins.Warnings = a.Summary, a.Warnings
	if w.p.DryRun {
		ins.Patterns, ins.Found = len(a.Patterns), a.Patterns
		return &a, ins, nil
	}
	s.progress(w, "write", 0.95)
	if err := s.store(w, &a, &ins, in); err != nil {
		return nil, ins, err
	}
	ins.Patterns = len(a.Patterns)
	return &a, ins, nil
}

// load returns the texts of a request.
func (s *Service) load(ctx context.Context, p SynthesizeParams) (texts []Text, model string, err error) {
	f := memory.CorpusFilter{Limit: p.Limit}
	if p.TimeRange != nil {
		f.From, f.To = p.TimeRange.Start, p.TimeRange.End
	}
	if len(p.Conversations) > 0 {
		return s.given(ctx, p, f)
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		var list []memory.Passage
		model, list, err = s.memory.CorpusTx(ctx, tx, f)
		for _, m := range list {
			t := Text{ID: m.ID.String(), Kind: m.Kind, Speaker: m.Speaker, Body: m.Text, At: m.At, Valence: m.Valence, Salience: m.Salience / 100, Vector: m.Vector}
			if m.Parent != uuid.Nil {
				t.Parent = m.Parent.String()
			}
			texts = append(texts, t)
		}
		return err
	})
	return texts, model, err
}

// given converts the conversations in the request to texts.
func (s *Service) given(ctx context.Context, p SynthesizeParams, f memory.CorpusFilter) (texts []Text, model string, err error) {
	for _, c := range p.Conversations {
		if f.From != nil && c.Timestamp.Before(*f.From) || f.To != nil && !c.Timestamp.Before(*f.To) {
			continue
		}
		texts = append(texts, Text{ID: c.ID, Kind: "conversation", Body: c.Text, At: c.Timestamp, Salience: 0.5})
	}
	sortTexts(texts)
	if len(texts) > p.Limit {
		texts = texts[len(texts)-p.Limit:]
	}
	if s.o.Embedder == nil {
		return texts, "", nil
	}
	const batch = 16
	for i := 0; i < len(texts); i += batch {
		part := texts[i:min(i+batch, len(texts))]
		bodies := make([]string, len(part))
		for k := range part {
			bodies[k] = part[k].Body
		}
		vectors, err := s.o.Embedder.Embed(ctx, bodies)
		if err != nil {
			return nil, "", err
		}
		for k := range part {
			part[k].Vector = vectors[k]
		}
	}
	return texts, s.o.Embedder.ModelID(), nil
}

// progress records the progress of a job, and publishes it at most four times a second.
func (s *Service) progress(w *work, stage string, p float64) {
	s.mu.Lock()
	now := time.Now()
	tell := stage != w.shown.Stage || now.Sub(w.told) >= 250*time.Millisecond
	w.shown.Stage, w.shown.Progress = stage, max(w.shown.Progress, min(p, 1))
	e := w.shown
	if tell {
		w.told = now
	}
	s.mu.Unlock()
	if tell {
		bus.Publish(s.db.Bus(), w.user, e)
	}
}

// finish stores the end of a job.
func (s *Service) finish(w *work, ins Insights, err error) (job Job, _ error) {
	status, message := "completed", ""
	switch {
	case err == nil:
	case w.ctx.Err() != nil, fault.Is(err, fault.Canceled):
		status = "cancelled"
	default:
		status, message = "failed", fault.As(err).Message
		s.log.Warn("synthesis", "job", w.id, "err", err)
	}
	ctx := context.WithoutCancel(w.ctx)
	return job, s.db.Write(ctx, func(tx *storage.Tx) error {
		row := s.texts("memory_synthesis_jobs", w.id)
		insights := row.sealJSON("insights", ins)
		if row.err != nil {
			return row.err
		}
		_, err := tx.Exec(`UPDATE memory_synthesis_jobs SET status = ?, progress = CASE WHEN ?1 = 'completed' THEN 1 ELSE progress END, error_message = nullif(?, ''), insights = ?, memories_analyzed = ?,
			patterns_detected = ?, model = ?, input_tokens = ?, output_tokens = ?, cost_usd = ?, completed_at = ?, updated_at = ? WHERE id = ? AND status IN ('pending', 'running')`, status, message, insights, ins.Texts, ins.Patterns, ins.Model, ins.InputTokens, ins.OutputTokens, ins.CostUSD, tx.Now, tx.Now, w.id)
		if err != nil {
			return err
		}
		if job, err = s.readJob(tx, w.user, w.id); err != nil {
			return err
		}
		tx.AfterCommit(func() { bus.Publish(tx.Bus(), w.user, Done{job}) })
		return nil
	})
}

// Run ends the jobs that a previous process left unfinished, and waits for ctx.
func (s *Service) Run(ctx context.Context) error {
	if err := s.recover(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("interrupted jobs are not ended", "err", err)
	}
	<-ctx.Done()
	return nil
}

// recover ends the unfinished jobs of a previous process, except those that a schedule has enqueued
// and will start again.
func (s *Service) recover(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		s.mu.Lock()
		mine := make([]any, 0, len(s.work))
		for id := range s.work {
			mine = append(mine, id)
		}
		s.mu.Unlock()
		marks := ""
		for range mine {
			marks += ", ?"
		}
		_, err := tx.Exec(`UPDATE memory_synthesis_jobs SET status = 'failed', error_message = 'The job was interrupted. Nothing was stored. Run it again.', completed_at = ?, updated_at = ?
			WHERE (status = 'running' OR status = 'pending' AND input_hash NOT LIKE '`+runKey+`%') AND is_recurring = 0 AND id NOT IN (X''`+marks+`)`, append([]any{tx.Now, tx.Now}, mine...)...)
		return err
	})
}

const jobColumns = `id, synthesis_type, status, progress, stage, insights, engine, created_at, started_at, completed_at, coalesce(error_message, '')`

func (s *Service) scanJob(r storage.Row) (j Job, err error) {
	var insights []byte
	err = r.Scan(&j.JobID, &j.SynthesisType, &j.Status, &j.Progress, &j.Stage, &insights, &j.Engine, storage.Time(&j.CreatedAt), storage.TimePtr(&j.StartedAt), storage.TimePtr(&j.CompletedAt), &j.Error)
	if err != nil {
		return j, err
	}
	row := s.texts("memory_synthesis_jobs", j.JobID)
	row.openJSON("insights", insights, &j.Insights)
	return j, row.err
}

func (s *Service) readJob(tx *storage.Tx, user, id uuid.UUID) (Job, error) {
	j, err := s.scanJob(tx.QueryRow(`SELECT `+jobColumns+` FROM memory_synthesis_jobs WHERE id = ? AND user_id = ? AND is_recurring = 0`, id, user))
	if errors.Is(err, sql.ErrNoRows) {
		return j, fault.NotFoundf("Job not found.")
	}
	return j, err
}

// Status returns the status of a job.
func (s *Service) Status(ctx context.Context, p JobParams) (j Job, err error) {
	j, err = storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Job, error) { return s.readJob(tx, identity.UserID(ctx), p.JobID) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.work[p.JobID]; err == nil && w != nil && j.CompletedAt == nil {
		j.Progress = max(j.Progress, w.shown.Progress)
		if w.shown.Stage != "" {
			j.Stage = w.shown.Stage
		}
	}
	return j, err
}

// Cancel cancels a job and drops its results; earlier patterns are not changed. A job that has
// ended is not changed.
func (s *Service) Cancel(ctx context.Context, p JobParams) (Job, error) {
	j, err := s.Status(ctx, p)
	if err != nil || j.CompletedAt != nil {
		return j, err
	}
	s.mu.Lock()
	w := s.work[p.JobID]
	s.mu.Unlock()
	if w != nil {
		w.cancel()
		select {
		case <-w.done:
		case <-ctx.Done():
			return j, ctx.Err()
		}
	}
	return s.Status(ctx, p)
}

// History lists jobs, newest first.
func (s *Service) History(ctx context.Context, p HistoryParams) (HistoryResult, error) {
	out := HistoryResult{}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	where, args := "user_id = ? AND is_recurring = 0", []any{identity.UserID(ctx)}
	if p.Type != "" {
		typ, err := parseType("type", p.Type)
		if err != nil {
			return out, err
		}
		where, args = where+" AND synthesis_type = ?", append(args, typ)
	}
	if p.Status != "" {
		where, args = where+" AND status = ?", append(args, p.Status)
	}
	return out, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if err = tx.QueryRow(`SELECT count(*) FROM memory_synthesis_jobs WHERE `+where, args...).Scan(&out.Total); err != nil {
			return err
		}
		out.Jobs, err = storage.Collect(tx.Select(`SELECT `+jobColumns+` FROM memory_synthesis_jobs WHERE `+where+` ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...), s.scanJob)
		return err
	})
}

// Preview returns exactly what would leave this computer if a request ran; with the local engine, nothing.
func (s *Service) Preview(ctx context.Context, p SynthesizeParams) (Preview, error) {
	if err := p.check(); err != nil {
		return Preview{}, err
	}
	if err := s.ready(ctx, p.Engine); err != nil {
		return Preview{}, err
	}
	texts, model, err := s.load(ctx, p)
	if err != nil {
		return Preview{}, err
	}
	sortTexts(texts)
	return s.engine(p.Engine).Preview(ctx, Input{Type: p.SynthesisType, Texts: texts, Model: model, Zone: s.zone(), Hide: p.HideNames, Samples: p.Samples})
}

// Schedule schedules a synthesis of everything that is stored. There is one schedule per type; a
// new request changes it.
func (s *Service) Schedule(ctx context.Context, p ScheduleParams) (ScheduleResult, error) {
	typ, err := parseType("synthesisType", p.SynthesisType)
	if err != nil {
		return ScheduleResult{}, err
	}
	if s.o.Schedule == nil {
		return ScheduleResult{}, fault.Unavailablef("Schedules are not available in this build.")
	}
	p.SynthesisType = typ
	return s.o.Schedule(ctx, p)
}
