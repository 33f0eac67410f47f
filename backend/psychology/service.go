package psychology

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
)

const (
	defaultRate  = 0.95
	defaultFloor = 0.1
	batchSize    = 1000
	leastChange  = 0.01 // smaller changes of a memory are not written
	longest      = 2 * 366 * 24 * time.Hour
	keptHistory  = 180 * 24 * time.Hour
)

// Memory is what decay reads and writes.
type Memory interface {
	DecayingTx(ctx context.Context, tx *storage.Tx, after uuid.UUID, limit int, ids ...uuid.UUID) ([]memory.Decaying, error)
	RateTx(ctx context.Context, tx *storage.Tx, ratings ...memory.Rating) (int, error)
}

// Service evaluates decay for all users of this device.
type Service struct {
	db     *storage.DB
	memory Memory
	log    *slog.Logger

	mu      sync.Mutex
	running map[uuid.UUID]bool
}

// New makes the service.
func New(db *storage.DB, m Memory, log *slog.Logger) *Service {
	if log == nil {
		log = slog.Default()
	}
	return &Service{db: db, memory: m, log: log, running: map[uuid.UUID]bool{}}
}

// Retention says how long runs and crossings are kept.
func Retention() []storage.Retention {
	return []storage.Retention{{Table: "memory_decay_history", Time: "at", Age: keptHistory}, {Table: "decay_runs", Time: "started_at", Age: keptHistory}}
}

func defaults() Settings {
	s := Settings{DecayEnabled: true, Layers: map[string]bool{}, Rate: defaultRate, MinimumIntensity: defaultFloor, PreserveHighSalience: true}
	for l := 1; l <= 7; l++ {
		s.Layers[strconv.Itoa(l)] = true
	}
	return s
}

// on reports whether a layer fades; memories without one count as layer 1.
func (s Settings) on(layer int) bool {
	on, known := s.Layers[strconv.Itoa(cmp.Or(layer, 1))]
	return on || !known
}

func settings(tx *storage.Tx, user uuid.UUID) (Settings, error) {
	s := defaults()
	var layers map[string]bool
	err := tx.QueryRow(`SELECT decay_enabled, layers, rate, minimum_intensity, preserve_high FROM psychology_settings WHERE user_id = ?`, user).
		Scan(&s.DecayEnabled, storage.JSON(&layers), &s.Rate, &s.MinimumIntensity, &s.PreserveHighSalience)
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	for l, on := range layers {
		s.Layers[l] = on
	}
	return s, err
}

// Settings returns the caller's settings.
func (s *Service) Settings(ctx context.Context, _ struct{}) (out Settings, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		out, err = settings(tx, identity.UserID(ctx))
		return err
	})
	return out, err
}

// UpdateSettings changes settings. Nothing is computed until the next run.
func (s *Service) UpdateSettings(ctx context.Context, p SettingsParams) (out Settings, err error) {
	for l := range p.Layers {
		if _, known := defaults().Layers[l]; !known {
			return out, fault.InvalidField("layers", fault.CodeRange, "Layers are 1 to 7.")
		}
	}
	if r := p.Rate; r != nil && !(*r >= 0.8 && *r <= 0.99) {
		return out, fault.InvalidField("rate", fault.CodeRange, "rate must be between 0.80 and 0.99.")
	}
	if m := p.MinimumIntensity; m != nil && !(*m >= 0 && *m <= 0.5) {
		return out, fault.InvalidField("minimumIntensity", fault.CodeRange, "minimumIntensity must be between 0 and 0.5.")
	}
	return out, s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if out, err = settings(tx, user); err != nil {
			return err
		}
		set(&out.DecayEnabled, p.DecayEnabled)
		set(&out.Rate, p.Rate)
		set(&out.MinimumIntensity, p.MinimumIntensity)
		set(&out.PreserveHighSalience, p.PreserveHighSalience)
		for l, on := range p.Layers {
			out.Layers[l] = on
		}
		layers, err := json.Marshal(out.Layers)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO psychology_settings (id, user_id, decay_enabled, layers, rate, minimum_intensity, preserve_high, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
			ON CONFLICT (user_id) DO UPDATE SET decay_enabled = excluded.decay_enabled, layers = excluded.layers, rate = excluded.rate, minimum_intensity = excluded.minimum_intensity,
				preserve_high = excluded.preserve_high, updated_at = excluded.updated_at`,
			uuid.NewSHA1(s.db.IDSpace(user), []byte("psychology settings")), user, out.DecayEnabled, string(layers), out.Rate, out.MinimumIntensity, out.PreserveHighSalience, tx.Now)
		return err
	})
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// layerOf is the layer by whose law a memory fades.
func layerOf(d memory.Decaying) int { return cmp.Or(d.Layer, 1) }

func itemOf(d memory.Decaying) item {
	return item{layer: layerOf(d), strength: d.Strength, tier: d.Tier, pinned: d.Pinned, anchor: d.Anchor, stored: d.Retention}
}

// DecayRun evaluates the retention of all memories of the caller. Evaluating again changes
// nothing: only the time since the last reinforcement counts.
func (s *Service) DecayRun(ctx context.Context, p RunParams) (RunResult, error) {
	user := identity.UserID(ctx)
	s.mu.Lock()
	if s.running[user] {
		s.mu.Unlock()
		return RunResult{}, fault.Conflictf("A decay run is already under way.")
	}
	s.running[user] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.running, user)
		s.mu.Unlock()
	}()
	begin := time.Now()
	out := RunResult{RunID: storage.NewID(), Skipped: []Skipped{}}
	var conf Settings
	access := s.db.Write
	if p.DryRun {
		access = s.db.Read
	}
	err := access(ctx, func(tx *storage.Tx) (err error) {
		if conf, err = settings(tx, user); err != nil || p.DryRun {
			return err
		}
		_, err = tx.Exec(`INSERT INTO decay_runs (id, user_id, started_at) VALUES (?, ?, ?)`, out.RunID, user, tx.Now)
		return err
	})
	for after, more := uuid.Nil, true; more && err == nil; {
		err = access(ctx, func(tx *storage.Tx) error {
			after, more, err = s.batch(ctx, tx, conf, after, p.DryRun, &out)
			return err
		})
	}
	out.TookMs = time.Since(begin).Milliseconds()
	if err != nil || p.DryRun {
		return out, err
	}
	return out, s.db.Write(ctx, func(tx *storage.Tx) error {
		skipped, err := json.Marshal(out.Skipped[:min(100, len(out.Skipped))])
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE decay_runs SET finished_at = ?, items = ?, changed = ?, skipped = ? WHERE id = ?`, tx.Now, out.Items, out.Changed, string(skipped), out.RunID); err != nil {
			return err
		}
		tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, Done{out.RunID, out.Changed}) })
		return nil
	})
}

// batch evaluates the memories after an id, and gives the last one's.
func (s *Service) batch(ctx context.Context, tx *storage.Tx, conf Settings, after uuid.UUID, dry bool, out *RunResult) (last uuid.UUID, more bool, err error) {
	list, err := s.memory.DecayingTx(ctx, tx, after, batchSize)
	if err != nil || len(list) == 0 {
		return after, false, err
	}
	var ratings []memory.Rating
	for _, d := range list {
		out.Items++
		x := itemOf(d)
		if x.anchor.After(tx.Now.Add(time.Minute)) {
			out.Skipped = append(out.Skipped, Skipped{d.ID, "its date is in the future"})
			continue
		}
		now := conf.retention(x, tx.Now)
		if math.IsNaN(now) {
			out.Skipped = append(out.Skipped, Skipped{d.ID, "its strength is not between 0 and 1"})
			continue
		}
		if now < fadingLine {
			out.Fading++
		}
		was := x.strength
		if x.stored != nil {
			was = *x.stored
		}
		crossed := crossing(was, now, conf.floor(x))
		if math.Abs(now-was) <= leastChange && crossed == 0 {
			continue
		}
		out.Changed++
		if dry {
			continue
		}
		ratings = append(ratings, memory.Rating{ID: d.ID, Version: d.Version, Retention: &now})
		if crossed > 0 {
			if _, err := tx.Exec(`INSERT INTO memory_decay_history (id, user_id, item_id, layer_number, previous_retention, new_retention, threshold, at, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				storage.NewID(), identity.UserID(ctx), d.ID, x.layer, was, now, crossed, tx.Now, out.RunID); err != nil {
				return after, false, err
			}
		}
	}
	if len(ratings) > 0 {
		if _, err := s.memory.RateTx(ctx, tx, ratings...); err != nil {
			return after, false, err
		}
	}
	return list[len(list)-1].ID, len(list) == batchSize, nil
}

// crossing is the lowest threshold between two retentions, the floor among them; 0: none.
func crossing(was, now, floor float64) (crossed float64) {
	low, high := min(was, now), max(was, now)
	for _, t := range append(slices.Clone(thresholds), floor) {
		if low <= t && t < high && t > 0 && (crossed == 0 || t < crossed) {
			crossed = t
		}
	}
	return crossed
}

// DecayHistory lists threshold crossings and the last runs.
func (s *Service) DecayHistory(ctx context.Context, p HistoryParams) (HistoryResult, error) {
	out := HistoryResult{}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	where, args := "user_id = ?", []any{identity.UserID(ctx)}
	if p.ID != nil {
		where, args = where+" AND item_id = ?", append(args, *p.ID)
	}
	return out, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if err = tx.QueryRow(`SELECT count(*) FROM memory_decay_history WHERE `+where, args...).Scan(&out.Total); err != nil {
			return err
		}
		if out.Crossings, err = storage.Collect(tx.Select(`SELECT item_id, layer_number, previous_retention, new_retention, threshold, at, run_id FROM memory_decay_history WHERE `+where+` ORDER BY at DESC, id DESC LIMIT ? OFFSET ?`,
			append(args, p.Limit, p.Offset)...), func(r storage.Row) (c Crossing, err error) {
			err = r.Scan(&c.ID, &c.Layer, &c.Previous, &c.Retention, &c.Threshold, storage.Time(&c.At), &c.RunID)
			return c, err
		}); err != nil {
			return err
		}
		out.Runs, err = storage.Collect(tx.Select(`SELECT id, started_at, finished_at, items, changed FROM decay_runs WHERE user_id = ? ORDER BY started_at DESC, id DESC LIMIT 20`, identity.UserID(ctx)), func(r storage.Row) (x Run, err error) {
			err = r.Scan(&x.RunID, storage.Time(&x.StartedAt), storage.TimePtr(&x.FinishedAt), &x.Items, &x.Changed)
			return x, err
		})
		return err
	})
}

// Forecast shows how a memory will fade, and what pinning, another tier or reviews would change.
// Its value for now is what a run would store.
func (s *Service) Forecast(ctx context.Context, p ForecastParams) (out ForecastResult, err error) {
	if p.Points == 0 {
		p.Points = 60
	}
	if p.Points < 2 || p.Points > 500 {
		return out, fault.Limitf("A forecast has 2 to 500 points.")
	}
	return out, s.db.Read(ctx, func(tx *storage.Tx) error {
		from := tx.Now
		set(&from, p.From)
		to := from.AddDate(0, 0, 90)
		set(&to, p.To)
		if !from.Before(to) {
			return fault.InvalidField("to", fault.CodeInvalid, "The end of a forecast must be after its start.")
		}
		if to.Sub(from) > longest {
			return fault.Limitf("A forecast covers at most two years.")
		}
		conf, err := settings(tx, identity.UserID(ctx))
		if err != nil {
			return err
		}
		found, err := s.memory.DecayingTx(ctx, tx, uuid.Nil, 1, p.ID)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fault.NotFoundf("Memory not found.")
		}
		x := itemOf(found[0])
		var reviews []time.Time
		if w := p.WhatIf; w != nil {
			set(&x.pinned, w.Pinned)
			if w.Tier != "" {
				if _, ok := tierPace[w.Tier]; !ok {
					return fault.InvalidField("whatIf/tier", fault.CodeInvalid, "The tier is critical, high, medium or low, not %q.", w.Tier)
				}
				x.tier = w.Tier
			}
			reviews = slices.SortedFunc(slices.Values(w.ReinforceAt), time.Time.Compare)
		}
		if x.pinned && !found[0].Pinned { // it keeps what it has at the moment of pinning
			now := conf.retention(itemOf(found[0]), tx.Now)
			x.stored = &now
		} else if !x.pinned {
			x.stored = found[0].Retention
		}
		out = ForecastResult{Law: LawOf(x.layer), Floor: conf.floor(x), Points: []Point{}, Crossings: []Fading{}, Reason: reason(conf, x, tx.Now)}
		step := to.Sub(from) / time.Duration(p.Points-1)
		for i := range p.Points {
			at := from.Add(time.Duration(i) * step)
			for len(reviews) > 0 && !reviews[0].After(at) {
				x = reviewed(conf, x, reviews[0])
				reviews = reviews[1:]
			}
			out.Points = append(out.Points, Point{at, conf.retention(x, at)})
		}
		for _, t := range append(slices.Clone(thresholds), out.Floor) {
			if at, ok := conf.crosses(x, t); ok && t > 0 && !at.Before(from) && !at.After(to) {
				out.Crossings = append(out.Crossings, Fading{t, at})
			}
		}
		slices.SortStableFunc(out.Crossings, func(a, b Fading) int { return a.At.Compare(b.At) })
		return nil
	})
}

// reviewGain is how much of what was lost a review brings back.
const reviewGain = 0.3

// reviewed is x after a review.
func reviewed(conf Settings, x item, at time.Time) item {
	r := conf.retention(x, at)
	x.strength, x.anchor = min(1, r+reviewGain*(1-r)), at
	if x.stored != nil {
		x.stored = &x.strength
	}
	return x
}

// reason says in a sentence why x has the retention that it has.
func reason(conf Settings, x item, now time.Time) string {
	days := int(now.Sub(x.anchor).Hours() / 24)
	since := "Used today"
	switch {
	case days == 1:
		since = "Not used for 1 day"
	case days > 1:
		since = fmt.Sprintf("Not used for %d days", days)
	}
	switch {
	case !conf.DecayEnabled:
		return "Decay is off: nothing fades."
	case x.pinned:
		return "Pinned: it doesn't fade."
	case !conf.on(x.layer):
		return fmt.Sprintf("Layer %d doesn't fade.", x.layer)
	case x.tier == "critical":
		return "Critical: it doesn't fade."
	}
	half := LawOf(x.layer).after(1, 0.5, 0) / pace(x.tier, conf.Rate) / 24
	unit := fmt.Sprintf("%.0f days", half)
	if half < 2 {
		unit = fmt.Sprintf("%.0f hours", 24*half)
	}
	return fmt.Sprintf("%s; memories of layer %d with %s salience halve in about %s.", since, x.layer, x.tier, unit)
}

// Fading lists memories that fall below 0.3 soon, soonest first.
func (s *Service) Fading(ctx context.Context, p FadingParams) (FadingResult, error) {
	out := FadingResult{Items: []FadingItem{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	if p.WithinDays == 0 {
		p.WithinDays = 30
	}
	if p.WithinDays < 1 || p.WithinDays > 365 {
		return out, fault.InvalidField("withinDays", fault.CodeRange, "withinDays is %d; it must be 1 to 365.", p.WithinDays)
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		conf, err := settings(tx, identity.UserID(ctx))
		if err != nil {
			return err
		}
		end := tx.Now.AddDate(0, 0, p.WithinDays)
		for after := uuid.Nil; ; {
			list, err := s.memory.DecayingTx(ctx, tx, after, batchSize)
			if err != nil || len(list) == 0 {
				return err
			}
			for _, d := range list {
				x := itemOf(d)
				if at, ok := conf.crosses(x, fadingLine); ok && at.After(tx.Now) && at.Before(end) {
					out.Items = append(out.Items, FadingItem{d.ID, conf.retention(x, tx.Now), at, reason(conf, x, tx.Now)})
				}
			}
			after = list[len(list)-1].ID
		}
	})
	slices.SortStableFunc(out.Items, func(a, b FadingItem) int { return a.At.Compare(b.At) })
	out.Total = int64(len(out.Items))
	out.Items = out.Items[min(p.Offset, len(out.Items)):min(p.Offset+p.Limit, len(out.Items))]
	return out, err
}
