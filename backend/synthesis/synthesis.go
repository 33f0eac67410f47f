// Package synthesis finds patterns in a person's memories and conversations: clusters in time and
// topic, moods, people, plans and themes. Each pattern lists the texts it is based on and has a
// confidence computed from them. The engine local is deterministic and uses no network.
package synthesis

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/lru"
	"helix/backend/memory"
	"helix/backend/permission"
	"helix/backend/storage"
)

// The kinds of synthesis.
const (
	Emotional   = "emotional_patterns"
	Prospective = "prospective_self"
	Relational  = "relational_memory"
	Narrative   = "narrative_coherence"
	Full        = "full_synthesis"
)

// Types lists the kinds of synthesis.
func Types() []string { return []string{Full, Emotional, Relational, Prospective, Narrative} }

// typeAliases maps names used by other programs.
var typeAliases = map[string]string{"relational_dynamics": Relational, "narrative_themes": Narrative}

// patternKind is the category of a type of pattern.
type patternKind struct {
	detector string
	layer    int
}

var patternKinds = map[string]patternKind{
	"temporal_cluster": {"temporal", 5}, "semantic_cluster": {"semantic", 1},
	"emotional_positive": {"emotional", 2}, "emotional_negative": {"emotional", 2}, "emotional_trigger": {"emotional", 2},
	"emotional_regulation": {"emotional", 2}, "intensity_pattern": {"emotional", 2}, "topic_connection": {"emotional", 2},
	"goal": {"prospective", 4}, "aspiration": {"prospective", 4}, "fear": {"prospective", 4}, "possible_self": {"prospective", 4}, "value": {"prospective", 4},
	"relationship": {"relational", 3}, "attachment": {"relational", 3}, "trust": {"relational", 3}, "conflict": {"relational", 3}, "support": {"relational", 3},
	"narrative_theme": {"narrative", 1}, "sense_making": {"narrative", 1}, "identity_development": {"narrative", 1}, "growth_theme": {"narrative", 1},
}

// patternAliases maps former names of pattern types.
var patternAliases = map[string]string{
	"goal_theme": "goal", "relationship_dynamic": "relationship", "relational_pattern": "relationship", "behavioral_pattern": "intensity_pattern",
	"value_conflict": "value", "growth_area": "growth_theme", "prospective_fear": "fear", "prospective_possibility": "possible_self",
	"transformation_trajectory": "identity_development", "purpose_alignment": "value",
}

// patternName returns a type with its detector, as stored in memory_synthesis.
func patternName(typ string) string { return patternKinds[typ].detector + "_" + typ }

// parsePatternType parses the name of a pattern type, with or without its detector.
func parsePatternType(name string) (string, error) {
	if to, ok := patternAliases[name]; ok {
		return to, nil
	}
	if _, ok := patternKinds[name]; ok {
		return name, nil
	}
	for typ := range patternKinds {
		if patternName(typ) == name {
			return typ, nil
		}
	}
	return "", fault.InvalidField("patternType", fault.CodeInvalid, "%q isn't a pattern type.", name)
}

func parseType(field, name string) (string, error) {
	if to, ok := typeAliases[name]; ok {
		return to, nil
	}
	if slices.Contains(Types(), name) {
		return name, nil
	}
	return "", fault.InvalidField(field, fault.CodeInvalid, "The synthesis type must be one of %v, not %q.", Types(), name)
}

// Memory is the source of texts.
type Memory interface {
	CorpusTx(ctx context.Context, tx *storage.Tx, f memory.CorpusFilter) (model string, list []memory.Passage, err error)
	DeletedTx(ctx context.Context, tx *storage.Tx, ids []uuid.UUID) ([]uuid.UUID, error)
}

// Embedder embeds texts that are not stored.
type Embedder interface {
	ModelID() string
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Gate shows questions in Approvals.
type Gate interface {
	AskTx(tx *storage.Tx, q permission.QuestionRequest) error
	CloseTx(tx *storage.Tx, run uuid.UUID, ref, choice string, token uuid.UUID) error
}

// Scheduler creates or changes the schedule of a synthesis.
type Scheduler func(ctx context.Context, p ScheduleParams) (ScheduleResult, error)

// Options configure a Service.
type Options struct {
	Logger   *slog.Logger
	Embedder Embedder      // nil: texts that are not stored have no vectors
	Zone     func() string // of days and hours in descriptions; nil is UTC
	Engine   Engine        // replaces the local engine in tests; nil otherwise
	Model    Model         // of the engine llm; nil: it is unavailable
	Private  bool          // texts of memories are encrypted in the database
	Gate     Gate          // asks the person whether texts may be sent; nil: nobody is asked
	Schedule Scheduler     // nil: synthesis_schedule is unavailable
}

// Service runs the jobs and manages the patterns of all users of this device.
type Service struct {
	db     *storage.DB
	memory Memory
	o      Options
	log    *slog.Logger

	mu      sync.Mutex
	maps    *lru.Cache[[sha256.Size]byte, MapResult]
	work    map[uuid.UUID]*work // jobs that have not ended
	running map[uuid.UUID]bool  // users with a worker
	closed  bool
	wg      sync.WaitGroup
	life    context.Context
	end     context.CancelFunc
}

// New returns a Service on db. Run ends what a previous process left unfinished. Close it.
func New(db *storage.DB, m Memory, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Engine == nil {
		o.Engine = Local{}
	}
	s := &Service{db: db, memory: m, o: o, log: o.Logger, maps: lru.New[[sha256.Size]byte, MapResult](keptMaps, 0, nil), work: map[uuid.UUID]*work{}, running: map[uuid.UUID]bool{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Close cancels the running jobs and waits for them. They are not marked as ended in the database;
// the next start marks them as interrupted.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.wg.Wait()
	return nil
}

// Busy reports whether a job is running.
func (s *Service) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running) > 0
}

func (s *Service) zone() *time.Location {
	if s.o.Zone == nil {
		return time.UTC
	}
	loc, err := time.LoadLocation(s.o.Zone())
	if err != nil {
		return time.UTC
	}
	return loc
}

// Retention returns the retention policy of jobs.
func Retention() storage.Retention {
	return storage.Retention{Table: "memory_synthesis_jobs", Time: "created_at", Only: "status NOT IN ('pending', 'running')"}
}
