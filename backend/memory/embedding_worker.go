package memory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/vector"
)

// job is an item that needs a vector.
type job struct {
	item     int64
	model    string
	kind     string
	id       uuid.UUID
	user     uuid.UUID
	attempts int
	hash     [32]byte // of text
	text     string
	gone     bool // the text no longer exists

	vec []float32
	err error
	bad bool // the model returned an invalid vector, so a retry is useless
}

type jobKey struct {
	item  int64
	model string
}

// claims holds the jobs that a worker of this process has claimed.
type claims struct {
	mu    sync.Mutex
	items map[jobKey]bool
}

// runEmbedding computes vectors in the background and maintains the indexes until ctx ends.
func (s *Service) runEmbedding(ctx context.Context) error {
	e := &s.embedding
	e.running.Store(true)
	defer e.running.Store(false)
	s.readPaused(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return fault.Catch(func() error { s.keepIndexes(ctx); return nil }) })
	for range e.workers {
		g.Go(func() error { s.embedAlways(ctx); return nil })
	}
	return g.Wait()
}

// embedAlways processes jobs until ctx ends.
func (s *Service) embedAlways(ctx context.Context) {
	e := &s.embedding
	failures := 0
	var end func(context.Context) // ends the long work in progress
	defer func() {
		if end != nil {
			end(ctx)
		}
	}()
	for ctx.Err() == nil {
		n, err := 0, error(nil)
		if end == nil {
			end = s.beginLongWork()
		}
		if !e.paused.Load() && !s.o.Pause.Active() && !s.db.ReadOnly() {
			err = fault.Catch(func() (err error) {
				n, err = s.embedSome(ctx)
				return err
			})
		}
		wait := 30 * time.Second // a failed text may be due, or jobs may have come from another device
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			wait = min(time.Second<<min(failures-1, 6), time.Minute)
			s.embeddingTrouble(err)
		case n > 0:
			failures = 0
			e.trouble.Store(nil)
			continue
		}
		end(ctx)
		end = nil
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.wake:
		}
		timer.Stop()
	}
}

func (s *Service) embeddingTrouble(err error) {
	message := fault.As(err).Message
	if old := s.embedding.trouble.Swap(&message); old == nil || *old != message {
		s.log.Warn("vectors wait", "err", err)
	}
}

// EmbedPending computes all outstanding vectors and lets a model that is being prepared take over.
// It is for a process that does not call Run, such as a command.
func (s *Service) EmbedPending(ctx context.Context) error {
	if len(s.embedding.models) == 0 {
		return meaning{s}.unavailable()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	if err := s.openIndexes(ctx); err != nil {
		return err
	}
	defer s.beginLongWork()(ctx)
	for {
		n, err := s.embedSome(ctx)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		if err := s.switchWhenReady(ctx); err != nil {
			return err
		}
		s.flushIndexes()
		return nil
	}
}

// keepIndexes opens the indexes, flushes them, publishes progress, switches to a model once it is
// ready and deletes the data of the previous one.
func (s *Service) keepIndexes(ctx context.Context) {
	e := &s.embedding
	flushed := time.Now()
	tidy := true // vectors of former models may exist
	for ctx.Err() == nil {
		wait := flushEvery
		e.mu.Lock()
		ready := e.plan.Load() != nil
		if p := e.plan.Load(); p != nil {
			for _, id := range p.models() {
				g := e.gens[id]
				ready = ready && g != nil && g.ready.Load()
			}
			ready = ready && e.serving.Load() != nil
		}
		e.mu.Unlock()
		if !ready {
			if err := s.openIndexes(ctx); err != nil && ctx.Err() == nil {
				s.embeddingTrouble(err)
			}
			if e.serving.Load() == nil {
				wait = reopenAfter
			}
		}
		before := e.plan.Load()
		if err := s.switchWhenReady(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the other model does not take over", "err", err)
		}
		tidy = tidy || before != e.plan.Load()
		if more := s.publishProgress(); more {
			wait = vectorNewsEvery
		}
		if time.Since(flushed) >= flushEvery {
			s.flushIndexes()
			flushed = time.Now()
			if tidy {
				tidy = s.forgetFormer(ctx) != nil
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.keep:
		}
		timer.Stop()
	}
	s.flushIndexes()
}

// embedSome processes a batch of jobs, newest first, and returns their number. 0 means that none is due.
func (s *Service) embedSome(ctx context.Context) (int, error) {
	p, err := storage.Result(ctx, s.db.Read, s.currentPlan)
	if err != nil {
		return 0, err
	}
	for _, model := range p.models() {
		jobs, err := s.takeJobs(ctx, model)
		if err != nil {
			return 0, err
		}
		if len(jobs) == 0 {
			continue
		}
		began := time.Now()
		err = func() error {
			defer s.embedding.claims.release(jobs)
			if err := s.embedJobs(ctx, s.embedding.models[model], jobs); err != nil {
				return err
			}
			return s.storeJobs(ctx, jobs)
		}()
		if err != nil {
			return 0, err
		}
		if len(jobs) < embedBatch { // that was the last batch
			s.lagChanged()
		}
		s.vectorsMade(jobs, time.Since(began))
		return len(jobs), nil
	}
	s.lagChanged()
	return 0, nil
}

func (c *claims) release(jobs []*job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range jobs {
		delete(c.items, jobKey{j.item, j.model})
	}
}

// takeJobs claims the newest jobs that are due and reads their texts.
func (s *Service) takeJobs(ctx context.Context, model string) ([]*job, error) {
	c := &s.embedding.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	var jobs []*job
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT j.item, j.attempts, i.kind, i.item_id, i.user_id, i.text_hash FROM embedding_jobs j JOIN search_items i ON i.item = j.item
			WHERE j.model_id = ? AND j.error IS NULL AND j.queued_at <= ? ORDER BY j.queued_at DESC, j.item DESC LIMIT ?`, model, tx.Now, embedBatch+len(c.items))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() && len(jobs) < embedBatch {
			j := &job{model: model}
			var hash []byte
			if err := rows.Scan(&j.item, &j.attempts, &j.kind, &j.id, &j.user, &hash); err != nil {
				return err
			}
			copy(j.hash[:], hash)
			if !c.items[jobKey{j.item, model}] {
				jobs = append(jobs, j)
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows.Close()
		for _, j := range jobs {
			if err := s.readText(tx, j); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		c.items[jobKey{j.item, model}] = true
	}
	return jobs, nil
}

// textOf names the table and column of the text of each kind.
var textOf = map[string]string{KindMemory: "memories", KindTurn: "conversation_turns", KindChunk: "chunks"}

// readText reads the text of a job. It marks the job as gone if the text no longer exists or is not
// the text that search has indexed.
func (s *Service) readText(tx *storage.Tx, j *job) error {
	table := textOf[j.kind]
	who := "''"
	if j.kind == KindTurn {
		who = "speaker"
	}
	var stored []byte
	var speaker string
	err := tx.QueryRow(`SELECT content, `+who+` FROM `+table+` WHERE id = ? AND content_hash = ?`, j.id, j.hash).Scan(&stored, &speaker)
	if errors.Is(err, sql.ErrNoRows) {
		j.gone = true
		return nil
	}
	if err != nil {
		return err
	}
	text, err := s.open(table, "content", j.id, stored)
	if fault.Is(err, fault.Unavailable) {
		return err // the keys are locked; the text is not at fault
	}
	j.text, j.err = spoken(speaker, text), err
	return nil
}

// embedJobs computes the vectors of jobs in small pieces. Between two pieces it yields to queries
// and checks whether ctx has ended. The returned error is one of the model as a whole; an error
// with a single text is set on its job.
func (s *Service) embedJobs(ctx context.Context, model Embedder, jobs []*job) error {
	var todo []*job
	for _, j := range jobs {
		if !j.gone && j.err == nil {
			todo = append(todo, j)
		}
	}
	for len(todo) > 0 {
		n, size := 1, len(todo[0].text)
		for n < min(embedPiece, len(todo)) && size+len(todo[n].text) <= embedPieceBytes {
			size += len(todo[n].text)
			n++
		}
		part := todo[:n]
		todo = todo[n:]
		s.embedding.front.yield(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		err := embedTexts(ctx, model, part)
		for i := 0; err != nil && i < len(part); i++ {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Limit) || fault.Is(err, fault.Timeout) {
				return err
			}
			if len(part) == 1 {
				part[0].err = err
				break
			}
			// One of them is at fault, so embed each alone.
			part[i].err = embedTexts(ctx, model, part[i:i+1])
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// embedTexts computes the vectors of a few jobs.
func embedTexts(ctx context.Context, model Embedder, jobs []*job) error {
	texts := make([]string, len(jobs))
	for i, j := range jobs {
		texts[i] = j.text
	}
	var vecs [][]float32
	err := fault.Catch(func() (err error) { // one bad text must not fail the others
		vecs, err = model.Embed(ctx, texts)
		return err
	})
	if err != nil {
		return err
	}
	if len(vecs) != len(jobs) {
		return fmt.Errorf("%d vectors for %d texts", len(vecs), len(jobs))
	}
	for i, j := range jobs {
		j.vec, j.err = vecs[i], vector.Check(vecs[i], model.Dims())
		j.bad = j.err != nil
	}
	return nil
}

// storeJobs stores the vectors of texts that still exist, and the errors of the jobs that failed.
func (s *Service) storeJobs(ctx context.Context, jobs []*job) error {
	failed := map[string]int{}
	err := s.longWrite(ctx, func(tx *storage.Tx) error {
		clear(failed)
		for _, j := range jobs {
			var same bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM search_items WHERE item = ? AND kind = ? AND item_id = ? AND text_hash = ?)`,
				j.item, j.kind, j.id, j.hash).Scan(&same); err != nil {
				return err
			}
			if !same {
				continue // edited or deleted meanwhile: its new job, if any, remains
			}
			if j.err != nil {
				failed[j.err.Error()]++
				if err := s.storeFailure(tx, j); err != nil {
					return err
				}
				continue
			}
			if !j.gone {
				if err := storeVector(tx, j.kind, j.id, j.user, j.model, j.hash, j.vec); err != nil {
					return err
				}
				s.follow(tx, true, j.item)
			}
			if _, err := tx.Exec(`DELETE FROM embedding_jobs WHERE item = ? AND model_id = ?`, j.item, j.model); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, message := range slices.Sorted(maps.Keys(failed)) {
		s.log.Warn("texts have no vector", "texts", failed[message], "model", jobs[0].model, "err", message)
	}
	return nil
}

// storeFailure records a failed attempt. After the last attempt, or an invalid vector, the failure
// is final until the person requests a retry.
func (s *Service) storeFailure(tx *storage.Tx, j *job) error {
	var final any
	if j.attempts++; j.bad || j.attempts >= embedAttempts {
		final = failureMessage(j.err)
	}
	_, err := tx.Exec(`UPDATE embedding_jobs SET attempts = ?, error = ?, queued_at = ? WHERE item = ? AND model_id = ?`,
		j.attempts, final, tx.Now.Add(s.embedding.retry(j.attempts)), j.item, j.model)
	return err
}

func failureMessage(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	return cutRunes(err.Error(), 300)
}

// spoken returns the text of a turn as it is embedded: with its speaker, who is part of the meaning.
func spoken(speaker, text string) string {
	if speaker == "" {
		return text
	}
	return speaker + ": " + text
}
