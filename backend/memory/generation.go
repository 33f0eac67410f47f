package memory

import (
	"context"
	"sync/atomic"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/vector"
)

// generation is a model and the index of its vectors.
type generation struct {
	id    string // of the model
	model Embedder
	dims  int
	index *vector.Index
	dir   string

	ready   atomic.Bool // compared with the present database
	dirty   atomic.Bool // has changes to flush
	retired time.Time

	lag lag
}

// plan holds the model that answers queries and the one that is being prepared to replace it.
type plan struct {
	active   string
	building string // "": none
}

// models lists the models that need the vectors of new texts, the active one first.
func (p *plan) models() []string {
	switch {
	case p.active == "":
		return nil
	case p.building == "":
		return []string{p.active}
	}
	return []string{p.active, p.building}
}

// currentPlan returns the plan, which is read once per database.
func (s *Service) currentPlan(tx *storage.Tx) (*plan, error) {
	if p := s.embedding.plan.Load(); p != nil {
		return p, nil
	}
	epoch := s.embedding.epoch.Load()
	p, _, err := s.readPlan(tx)
	if err == nil && s.embedding.epoch.Load() == epoch {
		s.embedding.plan.Store(p)
	}
	return p, err
}

// readPlan derives from the rows of vector_meta which models are in use. same reports that the
// stored states match the result.
//
// The model in Options is the default. If it has no row, this version of Helix introduced it and it
// is prepared to take over; if its row is "old", a person has chosen another model. A model that is
// not available cannot be active: then the one that is being prepared is used, or the default.
func (s *Service) readPlan(tx *storage.Tx) (_ *plan, same bool, err error) {
	e := &s.embedding
	var p, was plan
	known := map[string]bool{}
	err = tx.Select(`SELECT model_id, dims, state FROM vector_meta`).Each(func(row storage.Row) error {
		var id, state string
		var dims int
		if err := row.Scan(&id, &dims, &state); err != nil {
			return err
		}
		known[id] = true
		there := e.models[id] != nil && e.models[id].Dims() == dims
		switch state {
		case "active":
			if was.active = id; there {
				p.active = id
			}
		case "building":
			if was.building = id; there {
				p.building = id
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	standard := s.defaultModel()
	if !known[standard] && p.active != "" && p.active != standard {
		p.building = standard
	}
	if p.active == "" {
		p.active, p.building = p.building, ""
	}
	if p.active == "" {
		p.active = standard
	}
	return &p, p == was, nil
}

func (s *Service) defaultModel() string {
	if s.o.Embedder != nil {
		return s.o.Embedder.ModelID()
	}
	return s.modelIDs()[0]
}

// setPlan stores a plan. Models that are not in it become old.
func (s *Service) setPlan(tx *storage.Tx, p plan) error {
	if _, err := tx.Exec(`UPDATE vector_meta SET state = 'old' WHERE model_id NOT IN (?, ?)`, p.active, p.building); err != nil {
		return err
	}
	for _, id := range p.models() {
		state := "active"
		if id == p.building {
			state = "building"
		}
		if _, err := tx.Exec(`INSERT INTO vector_meta (model_id, dims, state, generation, created_at)
			VALUES (?, ?, ?, 1 + coalesce((SELECT max(generation) FROM vector_meta), 0), ?)
			ON CONFLICT (model_id) DO UPDATE SET dims = excluded.dims, state = excluded.state`, id, s.embedding.models[id].Dims(), state, tx.Now); err != nil {
			return err
		}
	}
	return nil
}

// ensurePlan reads the plan and stores it if the rows differ.
func (s *Service) ensurePlan(ctx context.Context) (*plan, error) {
	e := &s.embedding
	epoch := e.epoch.Load()
	var p *plan
	var same bool
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		p, same, err = s.readPlan(tx)
		return err
	})
	if err == nil && !same {
		err = s.db.Write(ctx, func(tx *storage.Tx) error {
			if p, same, err = s.readPlan(tx); err != nil || same {
				return err
			}
			return s.setPlan(tx, *p)
		})
	}
	if err != nil {
		return nil, err
	}
	if e.epoch.Load() == epoch {
		e.plan.Store(p)
	}
	return p, nil
}

// prepare starts the preparation of another model, which takes over once it is ready. Naming the
// active model cancels the preparation in progress.
func (s *Service) prepare(ctx context.Context, model string) error {
	e := &s.embedding
	if e.models[model] == nil {
		return fault.Invalidf("Model %q is not available here.", clipID(model))
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		p, _, err := s.readPlan(tx)
		if err != nil {
			return err
		}
		next := plan{active: p.active, building: model}
		if model == p.active {
			next.building = ""
		}
		if err := s.setPlan(tx, next); err != nil {
			return err
		}
		tx.AfterCommit(func() { e.plan.Store(&next) })
		return nil
	})
	if err != nil {
		return err
	}
	e.kick()
	return nil
}

func clipID(id string) string { return cutRunes(id, 64) }

// switchWhenReady makes the model that is being prepared active, in one transaction, once it has vectors
// for 99 % of the items, or has processed all items and has at least as many vectors as the active one.
func (s *Service) switchWhenReady(ctx context.Context) error {
	e := &s.embedding
	p := e.plan.Load()
	if p == nil || p.building == "" {
		return nil
	}
	e.mu.Lock()
	old, next := e.gens[p.active], e.gens[p.building]
	e.mu.Unlock()
	if next == nil || !next.ready.Load() {
		return nil
	}
	switched := false
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		now, same, err := s.readPlan(tx)
		if err != nil || !same || *now != *p {
			return err
		}
		var items, queued int
		if err := tx.QueryRow(`SELECT count(*) FROM search_items`).Scan(&items); err != nil {
			return err
		}
		have := next.index.Len()
		if have*100 < items*99 {
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM embedding_jobs WHERE model_id = ? AND error IS NULL)`, p.building).Scan(&queued); err != nil {
				return err
			}
			if queued > 0 || old == nil || have < old.index.Len() {
				return nil
			}
		}
		switched = true
		return s.setPlan(tx, plan{active: p.building})
	})
	if err != nil || !switched {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !next.ready.Load() || e.closed {
		return nil // the database was replaced meanwhile
	}
	e.plan.Store(&plan{active: next.id})
	e.serving.Store(next)
	s.log.Info("search by meaning uses another model", "model", next.id, "before", p.active)
	s.retireLocked(old)
	return nil
}

// retireLocked takes a generation out of use. It is closed later, when the queries that
// hold it have ended.
func (s *Service) retireLocked(g *generation) {
	if g == nil {
		return
	}
	delete(s.embedding.gens, g.id)
	g.retired = time.Now()
	s.embedding.retired = append(s.embedding.retired, g)
}
