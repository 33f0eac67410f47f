package synthesis

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// SynthesizeParams is the request of memory.synthesize and memory.synthesis_preview.
type SynthesizeParams struct {
	SynthesisType string         `json:"synthesisType"`           // see Types; relational_dynamics and narrative_themes are aliases
	Conversations []Conversation `json:"conversations,omitempty"` // at most 1,000; absent: stored texts
	TimeRange     *TimeRange     `json:"timeRange,omitempty"`
	Limit         int            `json:"limit,omitempty"`      // the newest texts, 1 to 10,000; default 100
	Confidence    *float64       `json:"confidence,omitempty"` // minimum confidence of stored patterns, 0 to 1; default 0.7
	Engine        string         `json:"engine,omitempty"`     // local (default) or llm
	WaitMs        *int           `json:"waitMs,omitempty"`     // how long to wait for the end, 0 to 10,000; default 500
	Themes        int            `json:"themes,omitempty"`     // local: divide all texts into this many topics, 2 to 100
	DryRun        bool           `json:"dryRun,omitempty"`     // store nothing, and return patterns of every confidence
	Approved      string         `json:"approved,omitempty"`   // llm: the hash of the approved preview; needs the scope approve
	HideNames     []string       `json:"hideNames,omitempty"`  // llm: names to mask before texts are sent, at most 100
	Samples       int            `json:"samples,omitempty"`    // llm: how often the model is asked, 1 (default) or 3
}

// Conversation is a text to analyze that is not stored.
type Conversation struct {
	ID        string    `json:"id"`
	Text      string    `json:"text"` // at most 256 KiB
	Timestamp time.Time `json:"timestamp"`
}

// TimeRange limits the texts that are read. Start is inclusive, End exclusive.
type TimeRange struct {
	Start *time.Time `json:"start,omitempty"`
	End   *time.Time `json:"end,omitempty"`
}

// SynthesizeResult identifies the job. The other fields are present if the job ended within waitMs.
type SynthesizeResult struct {
	JobID             uuid.UUID `json:"jobId"`
	Status            string    `json:"status"`
	SynthesisType     string    `json:"synthesisType,omitempty"`
	Analysis          *Analysis `json:"analysis,omitempty"`
	ExecutionTimeMs   int64     `json:"executionTimeMs,omitempty"`
	ConversationCount int       `json:"conversationCount,omitempty"`
	Engine            string    `json:"engine,omitempty"`
	Cost              float64   `json:"cost"` // US dollars; 0 for local
	Model             string    `json:"model,omitempty"`
}

// Analysis is the result of a job.
type Analysis struct {
	Patterns        []Pattern        `json:"patterns"`
	Summary         string           `json:"summary,omitempty"`
	Recommendations []Recommendation `json:"recommendations,omitempty"`
	Warnings        []string         `json:"warnings,omitempty"`

	EmotionalProfile   *EmotionalProfile   `json:"emotionalProfile,omitempty"`
	ProspectiveSelf    *ProspectiveSelf    `json:"prospectiveSelf,omitempty"`
	RelationalDynamics *RelationalDynamics `json:"relationalDynamics,omitempty"`
	NarrativeThemes    []string            `json:"narrativeThemes,omitempty"`
	IdentityCoherence  float64             `json:"identityCoherence,omitempty"` // share of texts that belong to themes
	LastUpdated        *time.Time          `json:"lastUpdated,omitempty"`

	Model string `json:"-"`
	Spent Spent  `json:"-"`
}

// EmotionalProfile describes the moods of the texts. Valences are -1 to 1.
type EmotionalProfile struct {
	DominantEmotions   []string   `json:"dominantEmotions"` // positive, neutral, negative, most frequent first
	EmotionalRange     [2]float64 `json:"emotionalRange"`   // 10th and 90th percentile
	EmotionalTriggers  []string   `json:"emotionalTriggers"`
	EmotionalStability float64    `json:"emotionalStability"` // 1 − standard deviation
}

// ProspectiveSelf lists statements about the future.
type ProspectiveSelf struct {
	Aspirations    []string `json:"aspirations"`
	Fears          []string `json:"fears"`
	IdentityThemes []string `json:"identityThemes"`
	GoalAlignment  float64  `json:"goalAlignment"` // share of goals that moved or were reached
	GrowthAreas    []string `json:"growthAreas"`
}

// RelationalDynamics lists the people in the texts.
type RelationalDynamics struct {
	KeyRelationships   []string           `json:"keyRelationships"`
	AttachmentPatterns []string           `json:"attachmentPatterns"`
	TrustLevels        map[string]float64 `json:"trustLevels"` // share of support among the cues of support and conflict
}

// Pattern is one finding with its evidence.
type Pattern struct {
	ID               uuid.UUID          `json:"id,omitzero"`
	Type             string             `json:"type"`        // such as goal or semantic_cluster
	PatternType      string             `json:"patternType"` // with its detector, such as prospective_goal
	Layer            int                `json:"layer"`
	Description      string             `json:"description"`
	Evidence         []string           `json:"evidence"`                 // ids of the texts
	EvidenceDetail   []EvidenceDetail   `json:"evidenceDetail,omitempty"` // the strongest ones
	Confidence       float64            `json:"confidence"`
	ConfidenceParts  map[string]float64 `json:"confidenceParts"` // values from which the confidence was computed
	Salience         float64            `json:"salience"`        // 0 to 1
	Subjects         []string           `json:"subjects"`
	Recommendations  []string           `json:"recommendations"`
	FirstEvidence    time.Time          `json:"firstEvidence,omitzero"` // time of the first text; with type, subjects and parts, a client can build the description in any language
	LastEvidence     time.Time          `json:"lastEvidence,omitzero"`
	FirstDetected    time.Time          `json:"firstDetected,omitzero"`
	LastObserved     time.Time          `json:"lastObserved,omitzero"`
	ObservationCount int64              `json:"observationCount,omitempty"`
	Status           string             `json:"status"`
	SupersededBy     *uuid.UUID         `json:"supersededBy,omitempty"`
	UserConfirmed    *bool              `json:"userConfirmed,omitempty"`
	UserNotes        string             `json:"userNotes,omitempty"`
	Engine           string             `json:"engine"`
	Fingerprint      string             `json:"fingerprint"`
	Series           []Point            `json:"series,omitempty"` // its chart; in memory.get_pattern only

	subject, core string // what its fingerprint is made of
}

// EvidenceDetail is one text that a pattern is based on.
type EvidenceDetail struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"` // memory, turn, conversation
	ParentID   string    `json:"parentId,omitempty"`
	Quote      string    `json:"quote"` // empty: the text no longer exists
	OccurredAt time.Time `json:"occurredAt"`
	Weight     float64   `json:"weight"` // 0 to 1
}

// Point is one value of a chart.
type Point struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

// JobParams identifies a job.
type JobParams struct {
	JobID uuid.UUID `json:"jobId"`
}

// Job is the status of a job.
type Job struct {
	JobID         uuid.UUID  `json:"jobId"`
	SynthesisType string     `json:"synthesisType"`
	Status        string     `json:"status"` // pending, running, completed, failed, cancelled
	Progress      float64    `json:"progress"`
	Stage         string     `json:"stage,omitempty"` // load, model, valence, temporal, semantic, emotional, relational, prospective, narrative, write
	Insights      Insights   `json:"insights"`
	Engine        string     `json:"engine"`
	CreatedAt     time.Time  `json:"createdAt"`
	StartedAt     *time.Time `json:"startedAt,omitempty"`
	CompletedAt   *time.Time `json:"completedAt,omitempty"`
	Error         string     `json:"error,omitempty"`
}

// Insights counts what a job did.
type Insights struct {
	Texts     int       `json:"texts"`
	Patterns  int       `json:"patterns"`
	Created   int       `json:"created"`
	Updated   int       `json:"updated"`
	Unchanged int       `json:"unchanged"`
	Summary   string    `json:"summary,omitempty"`
	Warnings  []string  `json:"warnings,omitempty"`
	DryRun    bool      `json:"dryRun,omitempty"`
	Found     []Pattern `json:"found,omitempty"` // of a dry run

	// ApprovalID is the question in Approvals that must be answered before texts are sent.
	ApprovalID   *uuid.UUID `json:"approvalId,omitempty"`
	InputTokens  int64      `json:"inputTokens,omitempty"`
	OutputTokens int64      `json:"outputTokens,omitempty"`
	CostUSD      float64    `json:"costUsd,omitempty"`
	Model        string     `json:"model,omitempty"`
}

// HistoryParams filters jobs, newest first.
type HistoryParams struct {
	Limit  int    `json:"limit,omitempty"` // 1 to 100; default 50
	Offset int    `json:"offset,omitempty"`
	Type   string `json:"type,omitempty"`
	Status string `json:"status,omitempty"`
}

// HistoryResult is a page of jobs.
type HistoryResult struct {
	Jobs  []Job `json:"jobs"`
	Total int64 `json:"total"`
}

// PatternsParams filters patterns.
type PatternsParams struct {
	Layer         int     `json:"layer,omitempty"`       // 1 to 7
	PatternType   string  `json:"patternType,omitempty"` // with or without its detector; older names are accepted
	Query         string  `json:"query,omitempty"`       // words in the description
	Status        string  `json:"status,omitempty"`      // default: active and stale
	MinConfidence float64 `json:"minConfidence,omitempty"`
	Sort          string  `json:"sort,omitempty"`  // confidence (default), variety, salience, recent
	Limit         int     `json:"limit,omitempty"` // 1 to 100; default 50
	Offset        int     `json:"offset,omitempty"`
}

// PatternsResult is a page of patterns.
type PatternsResult struct {
	Patterns []Pattern `json:"patterns"`
	Total    int64     `json:"total"`
	Limit    int       `json:"limit"`
	Offset   int       `json:"offset"`
}

// PatternParams identifies a pattern.
type PatternParams struct {
	ID uuid.UUID `json:"id"`
}

// FeedbackParams is the request of memory.pattern_feedback.
type FeedbackParams struct {
	ID      uuid.UUID `json:"id"`
	Verdict string    `json:"verdict"`        // confirm, reject, clear
	Note    *string   `json:"note,omitempty"` // at most 2,000 characters; absent: unchanged
}

// FeedbackResult is the pattern, and a token to undo the feedback within ten minutes.
type FeedbackResult struct {
	Pattern   Pattern `json:"pattern"`
	UndoToken string  `json:"undoToken"`
}

// Recommendation is a suggestion based on a pattern.
type Recommendation struct {
	ID             uuid.UUID `json:"id,omitzero"`
	PatternID      uuid.UUID `json:"patternId,omitzero"`
	Recommendation string    `json:"recommendation"`
	first          string    // its first wording: a better one later is still the same recommendation
	Category       string    `json:"category"` // psychological, behavioral, relational, growth
	Priority       string    `json:"priority"` // low, medium, high
	Status         string    `json:"status"`   // pending, acknowledged, working_on, completed
	CreatedAt      time.Time `json:"createdAt,omitzero"`
	UpdatedAt      time.Time `json:"updatedAt,omitzero"`
}

// RecommendationsParams filters recommendations, which are sorted by priority, then newest first.
type RecommendationsParams struct {
	Status   string `json:"status,omitempty"`
	Priority string `json:"priority,omitempty"`
	Limit    int    `json:"limit,omitempty"` // 1 to 100; default 50
	Offset   int    `json:"offset,omitempty"`
}

// RecommendationsResult is a page of recommendations.
type RecommendationsResult struct {
	Recommendations []Recommendation `json:"recommendations"`
	Total           int64            `json:"total"`
}

// RecommendationParams changes the status of a recommendation.
type RecommendationParams struct {
	ID     uuid.UUID `json:"id"`
	Status string    `json:"status"`
}

// MapParams is the request of memory.cluster_map.
type MapParams struct {
	Filters *MapFilters `json:"filters,omitempty"`
	Limit   int         `json:"limit,omitempty"` // the newest texts, 1 to 5,000; default 1,000
}

// MapFilters filter the texts of a map.
type MapFilters struct {
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
}

// MapResult places texts on a plane so that similar ones are close to each other.
type MapResult struct {
	Points   []MapPoint   `json:"points"`
	Clusters []MapCluster `json:"clusters"`
	Skipped  int          `json:"skipped"` // texts without a vector
}

// MapPoint is one text. X and Y are -1 to 1.
type MapPoint struct {
	ID       string  `json:"id"`
	Kind     string  `json:"kind"`
	ParentID string  `json:"parentId,omitempty"` // the conversation of a turn
	Label    string  `json:"label"`              // the beginning of the text
	X        float64 `json:"x"`
	Y        float64 `json:"y"`
	Cluster  int     `json:"cluster"` // -1: none
}

// MapCluster is a group of points.
type MapCluster struct {
	ID       int     `json:"id"`
	Label    string  `json:"label"`
	Size     int     `json:"size"`
	Cohesion float64 `json:"cohesion"` // 0 to 1
}

// ScheduleParams is the request of memory.synthesis_schedule.
type ScheduleParams struct {
	SynthesisType string `json:"synthesisType"`
	Cron          string `json:"cron"`
	Zone          string `json:"zone,omitempty"` // IANA name; default: this computer's
	Enabled       bool   `json:"enabled"`
}

// ScheduleResult is the schedule of a synthesis.
type ScheduleResult struct {
	ScheduleID    uuid.UUID  `json:"scheduleId"`
	SynthesisType string     `json:"synthesisType"`
	Cron          string     `json:"cron"`
	Zone          string     `json:"zone"`
	Enabled       bool       `json:"enabled"`
	NextRun       *time.Time `json:"nextRun,omitempty"`
}

// Preview shows what an engine would send, before it is sent.
type Preview struct {
	LeavesMachine     bool      `json:"leavesMachine"`
	Destination       string    `json:"destination,omitempty"`
	ExactText         string    `json:"exactText,omitempty"`
	Removed           []Removed `json:"removed,omitempty"`
	EstimatedTokens   int64     `json:"estimatedTokens,omitempty"`
	EstimatedCostUSD  float64   `json:"estimatedCostUsd,omitempty"` // for one answer of typical length to each part; corrections cost more
	PriceUnknown      bool      `json:"priceUnknown,omitempty"`
	Hash              string    `json:"hash,omitempty"` // the value for approved in memory.synthesize
	ConversationCount int       `json:"conversationCount"`
}

// Removed is a masked part of the text. Offsets are bytes of exactText.
type Removed struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Kind  string `json:"kind"`
}

// The events.

// Progress is sent while a job runs.
type Progress struct {
	JobID    uuid.UUID `json:"jobId"`
	Stage    string    `json:"stage"`
	Progress float64   `json:"progress"`
}

// Done is sent when a job has ended.
type Done struct {
	Job
}

// PatternsChanged lists patterns that were created or changed; empty if there are many.
type PatternsChanged struct {
	IDs []uuid.UUID `json:"ids"`
}

func compactJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail for these types
	}
	return string(b)
}
