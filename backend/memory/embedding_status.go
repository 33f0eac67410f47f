package memory

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	pausedKey    = "memory_embedding_paused" // in meta
	recountEvery = 2 * time.Second
	statusFor    = time.Second // maximum age of an answer
	requeueRows  = 1000
	forgetRows   = 500
)

// progress is the number of vectors of a user that are done, for the model being prepared if there
// is one, else for the active one.
type progress struct {
	ready, queued, failed int64
	model                 string
	counted               time.Time
	told                  time.Time
	news                  bool

	stale   int64
	staleAt time.Time
}

type progressState struct {
	mu    sync.Mutex
	users map[uuid.UUID]*progress
	rate  float64 // vectors per second, of all workers
	last  time.Time
}

func (p *progressState) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.users)
}

// vectorsMade counts a finished batch.
func (s *Service) vectorsMade(jobs []*job, took time.Duration) {
	e := &s.embedding
	p := &e.progress
	p.mu.Lock()
	rate := float64(len(jobs)*e.workers) / max(took.Seconds(), 1e-6)
	if p.rate == 0 || time.Since(p.last) > 10*time.Second {
		p.rate = rate
	}
	p.rate += 0.2 * (rate - p.rate)
	p.last = time.Now()
	for _, j := range jobs {
		u := p.users[j.user]
		if u == nil {
			u = &progress{}
			p.users[j.user] = u
		}
		u.news = true
		if u.model == j.model && u.queued > 0 {
			u.queued--
			if j.err == nil && !j.gone {
				u.ready++
			}
		}
	}
	p.mu.Unlock()
	if !e.running.Load() {
		s.publishProgress()
	} else if e.keep != nil {
		select {
		case e.keep <- struct{}{}:
		default:
		}
	}
}

// publishProgress publishes the progress of embedding, at most four times a second per user. It
// reports whether some progress is still unpublished.
func (s *Service) publishProgress() (more bool) {
	e := &s.embedding
	p := &e.progress
	type news struct {
		user uuid.UUID
		e    EmbeddingProgress
	}
	var out []news
	p.mu.Lock()
	var due []uuid.UUID
	for user, u := range p.users {
		if u.news {
			if time.Since(u.told) < vectorNewsEvery {
				more = true
				continue
			}
			due = append(due, user)
		}
	}
	p.mu.Unlock()
	for _, user := range due {
		c, err := s.countVectors(user, recountEvery)
		if err != nil {
			continue
		}
		p.mu.Lock()
		if u := p.users[user]; u != nil {
			u.news, u.told = false, time.Now()
		}
		out = append(out, news{user, EmbeddingProgress{Ready: c.ready, Queued: c.queued, RatePerSec: roundRate(p.rate)}})
		p.mu.Unlock()
	}
	for _, n := range out {
		bus.Publish(s.db.Bus(), n.user, n.e)
	}
	return more
}

func roundRate(r float64) float64 { return math.Round(r*10) / 10 }

// countVectors counts the items of a user by embedding state. The counts may be as old as age, as
// long as only finished jobs have changed them since. An item with a queued job is not ready, even
// if an older vector of its text is still in use.
func (s *Service) countVectors(user uuid.UUID, age time.Duration) (progress, error) {
	e := &s.embedding
	p := &e.progress
	epoch := e.epoch.Load()
	p.mu.Lock()
	known := progress{}
	if u := p.users[user]; u != nil {
		known = *u
	}
	p.mu.Unlock()
	if time.Since(known.counted) < age && known.queued > 0 {
		return known, nil
	}
	var c progress
	err := s.db.Read(s.life, func(tx *storage.Tx) error {
		pl, err := s.currentPlan(tx)
		if err != nil {
			return err
		}
		c.model = pl.models()[len(pl.models())-1]
		return tx.QueryRow(`SELECT (SELECT count(*) FROM search_items WHERE user_id = ?1), count(*) FILTER (WHERE error IS NULL), count(*) FILTER (WHERE error IS NOT NULL)
			FROM embedding_jobs WHERE user_id = ?1 AND model_id = ?2`, user, c.model).Scan(&c.ready, &c.queued, &c.failed)
	})
	if err != nil {
		return c, err
	}
	c.ready = max(0, c.ready-c.queued-c.failed)
	c.counted = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[user]
	if u == nil {
		u = &progress{}
		p.users[user] = u
	}
	if e.epoch.Load() == epoch {
		u.ready, u.queued, u.failed, u.model, u.counted = c.ready, c.queued, c.failed, c.model, c.counted
	}
	return c, nil
}

// countStale counts items whose only vector is that of an older text.
func (s *Service) countStale(user uuid.UUID, model string) (n int64, err error) {
	p := &s.embedding.progress
	p.mu.Lock()
	u := p.users[user]
	if u != nil && time.Since(u.staleAt) < statusFor {
		defer p.mu.Unlock()
		return u.stale, nil
	}
	p.mu.Unlock()
	err = s.db.Read(s.life, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM embedding_jobs j JOIN search_items i ON i.item = j.item
			JOIN item_vectors v ON v.item_kind = i.kind AND v.item_id = i.item_id AND v.model_id = j.model_id
			WHERE j.user_id = ? AND j.model_id = ? AND v.text_hash <> i.text_hash`, user, model).Scan(&n)
	})
	if err == nil && u != nil {
		p.mu.Lock()
		u.stale, u.staleAt = n, time.Now()
		p.mu.Unlock()
	}
	return n, err
}

// EmbeddingStatus returns the state of semantic search. While another model is being prepared, the
// counts are those of that model.
func (s *Service) EmbeddingStatus(ctx context.Context, _ struct{}) (EmbeddingStatus, error) {
	e := &s.embedding
	out := EmbeddingStatus{Models: []string{}}
	if len(e.models) == 0 {
		out.Reason = fault.As(meaning{s}.unavailable()).Message
		return out, nil
	}
	out.Models = s.modelIDs()
	user := identity.UserID(ctx)
	s.readPaused(ctx)
	out.Paused = e.paused.Load()
	c, err := s.countVectors(user, 0)
	if err != nil {
		return out, err
	}
	if out.Stale, err = s.countStale(user, c.model); err != nil {
		return out, err
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		p, err := s.currentPlan(tx)
		if err == nil {
			out.ModelID, out.BuildingModel, out.Dims = p.active, p.building, e.models[p.active].Dims()
		}
		return err
	})
	if err != nil {
		return out, err
	}
	out.Ready, out.Queued, out.Failed, out.Available = c.ready, c.queued, c.failed, true
	if c.queued > 0 && !out.Paused {
		e.progress.mu.Lock()
		rate := e.progress.rate
		e.progress.mu.Unlock()
		if out.RatePerSec = roundRate(rate); rate > 0 {
			out.ETASeconds = math.Ceil(float64(c.queued) / rate)
		}
		if why := e.trouble.Load(); why != nil {
			out.Reason = *why
		}
	}
	return out, nil
}

// Reembed recomputes the caller's vectors, retries those that failed, pauses or resumes the work,
// or prepares another model, which becomes active once it is ready. Naming the active model cancels
// the preparation of another.
func (s *Service) Reembed(ctx context.Context, p ReembedParams) (EmbeddingStatus, error) {
	e := &s.embedding
	if len(e.models) == 0 {
		return EmbeddingStatus{}, meaning{s}.unavailable()
	}
	if p.Pause != nil && (p.Failed || p.ModelID != "") || p.Failed && p.ModelID != "" {
		return EmbeddingStatus{}, fault.Invalidf("Give one of modelId, pause and failed.")
	}
	var now plan
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		c, err := s.currentPlan(tx)
		if err == nil {
			now = *c
		}
		return err
	})
	if err != nil {
		return EmbeddingStatus{}, err
	}
	switch {
	case p.Pause != nil:
		err = s.pauseEmbedding(ctx, *p.Pause)
	case p.Failed:
		err = s.retryFailed(ctx)
	case p.ModelID != "" && (p.ModelID != now.active || now.building != ""):
		if err = s.prepare(ctx, p.ModelID); err == nil && !e.running.Load() {
			err = s.openIndexes(s.life)
		}
	default:
		err = s.requeueAll(ctx, now.active)
	}
	if err != nil {
		return EmbeddingStatus{}, err
	}
	s.lagChanged()
	e.kick()
	return s.EmbeddingStatus(ctx, struct{}{})
}

// retryFailed queues failed items again.
func (s *Service) retryFailed(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE embedding_jobs SET attempts = 0, error = NULL, queued_at = ? WHERE user_id = ? AND error IS NOT NULL`, tx.Now, identity.UserID(ctx))
		return err
	})
}

// requeueAll queues all items of the caller in small batches, so that others can write. The
// existing vectors are used until the new ones are ready.
func (s *Service) requeueAll(ctx context.Context, model string) error {
	for from := int64(0); ; {
		more := false
		err := s.db.Write(ctx, func(tx *storage.Tx) error {
			var to sql.NullInt64
			if err := tx.QueryRow(`SELECT max(item) FROM (SELECT item FROM search_items WHERE item > ? ORDER BY item LIMIT ?)`, from, requeueRows).Scan(&to); err != nil || !to.Valid {
				return err
			}
			more = true
			// Newest first: they have the highest numbers.
			_, err := tx.Exec(`INSERT INTO embedding_jobs (item, model_id, user_id, queued_at)
				SELECT item, ?, user_id, ? + item - (SELECT max(item) FROM search_items) FROM search_items WHERE item > ? AND item <= ? AND user_id = ?
				ON CONFLICT (item, model_id) DO UPDATE SET attempts = 0, error = NULL, queued_at = excluded.queued_at`, model, tx.Now, from, to.Int64, identity.UserID(ctx))
			from = to.Int64
			return err
		})
		if err != nil || !more {
			return err
		}
	}
}

// pauseEmbedding pauses or resumes the work. The setting persists across restarts.
func (s *Service) pauseEmbedding(ctx context.Context, on bool) error {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if on {
			_, err := tx.Exec(`INSERT OR REPLACE INTO meta (key, value) VALUES (?, '1')`, pausedKey)
			return err
		}
		_, err := tx.Exec(`DELETE FROM meta WHERE key = ?`, pausedKey)
		return err
	})
	if err == nil {
		s.embedding.paused.Store(on)
	}
	return err
}

// readPaused reads whether the work is paused.
func (s *Service) readPaused(ctx context.Context) {
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var v string
		err := tx.QueryRow(`SELECT value FROM meta WHERE key = ?`, pausedKey).Scan(&v)
		if err == nil || errors.Is(err, sql.ErrNoRows) {
			s.embedding.paused.Store(err == nil)
			return nil
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("whether vectors are paused is not known", "err", err)
	}
}

// forgetFormer deletes jobs and vectors of models that are no longer in use, in small batches.
func (s *Service) forgetFormer(ctx context.Context) error {
	p := s.embedding.plan.Load()
	if p == nil || s.embedding.serving.Load() == nil {
		return errors.New("no model serves")
	}
	var former []string
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT model_id FROM vector_meta WHERE state = 'old'`).Each(func(row storage.Row) error {
			var id string
			if err := row.Scan(&id); err != nil {
				return err
			}
			if !slices.Contains(p.models(), id) {
				former = append(former, id)
			}
			return nil
		})
	})
	for _, model := range former {
		for more := true; more && err == nil; {
			err = s.db.Write(ctx, func(tx *storage.Tx) error {
				now, _, err := s.readPlan(tx)
				if err != nil || slices.Contains(now.models(), model) {
					more = false // the model is in use again
					return err
				}
				jobs, err := tx.Exec(`DELETE FROM embedding_jobs WHERE model_id = ?1 AND item IN (SELECT item FROM embedding_jobs WHERE model_id = ?1 LIMIT ?2)`, model, forgetRows)
				if err != nil {
					return err
				}
				vecs, err := tx.Exec(`DELETE FROM item_vectors WHERE model_id = ?1 AND (item_kind, item_id) IN
					(SELECT item_kind, item_id FROM item_vectors WHERE model_id = ?1 LIMIT ?2)`, model, forgetRows)
				if err != nil {
					return err
				}
				a, _ := jobs.RowsAffected()
				b, _ := vecs.RowsAffected()
				more = a+b > 0
				return nil
			})
		}
	}
	return err
}
