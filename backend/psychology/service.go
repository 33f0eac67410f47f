package psychology

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
	"helix/backend/synthesis"
)

const (
	defaultRate  = 0.95
	defaultFloor = 0.1
	batchSize    = 1000
	batchesHeld  = 20   // maximum number of batches per transaction
	leastChange  = 0.01 // smaller changes of a memory are not stored
	longest      = 2 * 366 * 24 * time.Hour
	keptHistory  = 180 * 24 * time.Hour
	keptTrash    = 30 * 24 * time.Hour
)

// Memory provides access to memories.
type Memory interface {
	DecayingTx(ctx context.Context, tx *storage.Tx, after uuid.UUID, limit int, ids ...uuid.UUID) ([]memory.Decaying, error)
	RetainTx(ctx context.Context, tx *storage.Tx, list []memory.Retained) (int, error)
	TextsTx(ctx context.Context, tx *storage.Tx, ids []uuid.UUID) (map[uuid.UUID]string, error)
	Reinforce(ctx context.Context, ids []uuid.UUID, gain float64, hourly bool) (memory.ItemsResult, error)
	Pin(ctx context.Context, p memory.PinParams) (memory.ItemsResult, error)
	SetSalience(ctx context.Context, p memory.SalienceParams) (memory.ItemsResult, error)
	RebaseTx(ctx context.Context, tx *storage.Tx, list []memory.Retained) error
	TrashTx(ctx context.Context, tx *storage.Tx, ids []uuid.UUID) ([]uuid.UUID, error)
	Restore(ctx context.Context, p memory.IDsParams) (memory.CountResult, error)
	Undo(ctx context.Context, p memory.UndoParams) (memory.CountResult, error)
}

// Patterns provides access to the patterns found by synthesis.
type Patterns interface {
	Pattern(ctx context.Context, p synthesis.PatternParams) (synthesis.Pattern, error)
	Feedback(ctx context.Context, p synthesis.FeedbackParams) (synthesis.FeedbackResult, error)
	Undo(ctx context.Context, p memory.UndoParams) (memory.CountResult, error)
}

// Options configure a Service.
type Options struct {
	Logger   *slog.Logger
	Patterns Patterns                         // nil: there are no proposals
	Dir      string                           // folder of the person's own files
	Owner    func() uuid.UUID                 // owner of that folder; nil: every user
	NextRun  func(context.Context) *time.Time // when decay runs next; nil: unknown
}

// Service manages the psychology of all users of this device.
type Service struct {
	db     *storage.DB
	memory Memory
	o      Options
	kinds  func() []Kind

	mu      sync.Mutex
	running map[uuid.UUID]bool
}

// New returns a Service on db.
func New(db *storage.DB, m Memory, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Service{db: db, memory: m, o: o, kinds: sync.OnceValue(readKinds), running: map[uuid.UUID]bool{}}
}

// Retention returns the retention policies of runs, crossings and deleted entries.
func Retention() []storage.Retention {
	return []storage.Retention{
		{Table: "memory_decay_history", Time: "at", Age: keptHistory},
		{Table: "decay_runs", Time: "started_at", Age: keptHistory},
		{Table: "psychology_entries", Time: "deleted_at", Age: keptTrash, Only: "deleted_at IS NOT NULL"},
		{Table: "planned_reviews", Time: "deleted_at", Age: keptTrash, Only: "deleted_at IS NOT NULL"},
	}
}

func defaults() Settings {
	s := Settings{Enabled: true, DecayEnabled: true, Layers: map[string]bool{}, Mode: "soft", Rate: defaultRate, MinimumIntensity: defaultFloor, PreserveHighSalience: true, HardGraceDays: 30, AgentMayRead: true, Proposals: true}
	for l := 1; l <= 7; l++ {
		s.Layers[strconv.Itoa(l)] = true
	}
	return s
}

// on reports whether a layer decays. Memories without a layer count as layer 1.
func (s Settings) on(layer int) bool {
	on, known := s.Layers[strconv.Itoa(cmp.Or(layer, 1))]
	return on || !known
}

func settings(tx *storage.Tx, user uuid.UUID) (Settings, error) {
	s := defaults()
	var p SettingsParams
	var off []int
	err := tx.QueryRow(`SELECT s.enabled, decay_enabled, mode, rate, minimum_intensity, trust_decay, preserve_high_salience, hard_grace_days, agent_may_read, proposals,
		(SELECT json_group_array(layer_number) FROM psychology_layers WHERE user_id = ?1 AND NOT enabled AND deleted_at IS NULL) FROM (SELECT 1) LEFT JOIN psychology_settings s ON s.user_id = ?1`, user).
		Scan(&p.Enabled, &p.DecayEnabled, &p.Mode, &p.Rate, &p.MinimumIntensity, &p.TrustDecay, &p.PreserveHighSalience, &p.HardGraceDays, &p.AgentMayRead, &p.Proposals, storage.JSON(&off))
	s.change(p)
	for _, n := range off {
		s.Layers[strconv.Itoa(n)] = false
	}
	return s, err
}

// change applies p, except for the layers.
func (s *Settings) change(p SettingsParams) {
	set(&s.Enabled, p.Enabled)
	set(&s.DecayEnabled, p.DecayEnabled)
	set(&s.Mode, p.Mode)
	set(&s.Rate, p.Rate)
	set(&s.MinimumIntensity, p.MinimumIntensity)
	set(&s.TrustDecay, p.TrustDecay)
	set(&s.PreserveHighSalience, p.PreserveHighSalience)
	set(&s.HardGraceDays, p.HardGraceDays)
	set(&s.AgentMayRead, p.AgentMayRead)
	set(&s.Proposals, p.Proposals)
}

// RetentionOf returns a function that computes the retention of a user's memories, with the same
// result as all methods of this package.
func RetentionOf(tx *storage.Tx, user uuid.UUID) (func(memory.Decaying) float64, error) {
	conf, err := settings(tx, user)
	return func(d memory.Decaying) float64 { return conf.retention(itemOf(d), tx.Now) }, err
}

// Settings returns the caller's settings.
func (s *Service) Settings(ctx context.Context, _ struct{}) (out Settings, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Settings, error) { return settings(tx, identity.UserID(ctx)) })
}

// UpdateSettings changes settings. Retentions are not recomputed before the next run.
func (s *Service) UpdateSettings(ctx context.Context, p SettingsParams) (out Settings, err error) {
	for l := range p.Layers {
		if n, err := strconv.Atoi(l); err != nil || checkLayer(n) != nil {
			return out, fault.InvalidField("layers", fault.CodeRange, "Layers must be 1 to 7.")
		}
	}
	if r := p.Rate; r != nil && !(*r >= 0.8 && *r <= 0.99) {
		return out, fault.InvalidField("rate", fault.CodeRange, "rate must be between 0.80 and 0.99.")
	}
	if m := p.MinimumIntensity; m != nil && !(*m >= 0 && *m <= 0.5) {
		return out, fault.InvalidField("minimumIntensity", fault.CodeRange, "minimumIntensity must be between 0 and 0.5.")
	}
	if d := p.HardGraceDays; d != nil && (*d < 1 || *d > 365) {
		return out, fault.InvalidField("hardGraceDays", fault.CodeRange, "hardGraceDays must be between 1 and 365.")
	}
	if m := p.Mode; m != nil && *m != "soft" && *m != "hard" {
		return out, fault.InvalidField("mode", fault.CodeInvalid, "The mode must be soft or hard, not %q.", *m)
	}
	return out, s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if out, err = settings(tx, user); err != nil {
			return err
		}
		was := out
		out.change(p)
		if err := s.switchLayers(tx, user, p.Layers); err != nil {
			return err
		}
		if on := out.Enabled && out.DecayEnabled; on != (was.Enabled && was.DecayEnabled) {
			if err := s.rebase(tx, was, on, map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true}); err != nil {
				return err
			}
		}
		for l, on := range p.Layers {
			out.Layers[l] = on
		}
		_, err := tx.Exec(`INSERT INTO psychology_settings (id, user_id, enabled, decay_enabled, mode, rate, minimum_intensity, trust_decay, preserve_high_salience, hard_grace_days, agent_may_read, proposals, created_at, updated_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13)
			ON CONFLICT (user_id) DO UPDATE SET enabled = excluded.enabled, decay_enabled = excluded.decay_enabled, mode = excluded.mode, rate = excluded.rate, minimum_intensity = excluded.minimum_intensity, trust_decay = excluded.trust_decay,
				preserve_high_salience = excluded.preserve_high_salience, hard_grace_days = excluded.hard_grace_days, agent_may_read = excluded.agent_may_read, proposals = excluded.proposals, updated_at = excluded.updated_at`,
			uuid.NewSHA1(s.db.IDSpace(user), []byte("psychology settings")), user, out.Enabled, out.DecayEnabled, out.Mode, out.Rate, out.MinimumIntensity, out.TrustDecay, out.PreserveHighSalience, out.HardGraceDays, out.AgentMayRead, out.Proposals, tx.Now)
		s.changed(tx, user, nil)
		return err
	})
}

// switchLayers switches the decay of layers on or off.
func (s *Service) switchLayers(tx *storage.Tx, user uuid.UUID, on map[string]bool) error {
	if len(on) == 0 {
		return nil
	}
	if err := s.ensureLayers(tx, user); err != nil {
		return err
	}
	rows, err := layerRows(tx, user)
	if err != nil {
		return err
	}
	conf, err := settings(tx, user)
	if err != nil {
		return err
	}
	for _, want := range []bool{false, true} {
		in := map[int]bool{}
		for n := 1; n <= 7; n++ {
			if w, asked := on[strconv.Itoa(n)]; asked && w == want && rows[n].enabled != want {
				in[n] = true
			}
		}
		if len(in) == 0 {
			continue
		}
		if err := s.rebase(tx, conf, want, in); err != nil {
			return err
		}
		for n := range in {
			if _, err := tx.Exec(`UPDATE psychology_layers SET enabled = ?1, last_updated = ?2, updated_at = ?2, version = version + 1 WHERE id = ?3`, want, tx.Now, rows[n].id); err != nil {
				return err
			}
		}
	}
	return nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// layerOf returns the layer whose law applies to a memory.
func layerOf(d memory.Decaying) int { return cmp.Or(d.Layer, 1) }

func itemOf(d memory.Decaying) item {
	return item{layer: layerOf(d), strength: d.Strength, tier: d.Tier, pinned: d.Pinned, anchor: d.Anchor, stored: d.Retention}
}
