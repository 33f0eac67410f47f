package psychology

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Settings control how memories and entries decay, and what psychology may do.
type Settings struct {
	Enabled              bool            `json:"enabled"`              // default true; off: nothing decays, no proposals, the agent reads nothing
	DecayEnabled         bool            `json:"decayEnabled"`         // default true
	Layers               map[string]bool `json:"layers"`               // which layers, 1 to 7, decay; default all
	Mode                 string          `json:"mode"`                 // soft (default): faded items rank lower; hard: they are moved to the trash
	Rate                 float64         `json:"rate"`                 // 0.80 to 0.99, default 0.95; lower values decay faster
	MinimumIntensity     float64         `json:"minimumIntensity"`     // 0 to 0.5, default 0.1: minimum retention
	TrustDecay           bool            `json:"trustDecay"`           // default false
	PreserveHighSalience bool            `json:"preserveHighSalience"` // default true: high items keep half of their strength
	HardGraceDays        int             `json:"hardGraceDays"`        // 1 to 365, default 30: days at the floor before hard mode moves an item to the trash
	AgentMayRead         bool            `json:"agentMayRead"`         // default true
	Proposals            bool            `json:"proposals"`            // default true: patterns are proposed as entries
}

// SettingsParams changes settings; absent fields are not changed.
type SettingsParams struct {
	Enabled              *bool           `json:"enabled,omitempty"`
	DecayEnabled         *bool           `json:"decayEnabled,omitempty"`
	Layers               map[string]bool `json:"layers,omitempty"`
	Mode                 *string         `json:"mode,omitempty"`
	Rate                 *float64        `json:"rate,omitempty"`
	MinimumIntensity     *float64        `json:"minimumIntensity,omitempty"`
	TrustDecay           *bool           `json:"trustDecay,omitempty"`
	PreserveHighSalience *bool           `json:"preserveHighSalience,omitempty"`
	HardGraceDays        *int            `json:"hardGraceDays,omitempty"`
	AgentMayRead         *bool           `json:"agentMayRead,omitempty"`
	Proposals            *bool           `json:"proposals,omitempty"`
}

// RunParams is the request of psychology.decay_run.
type RunParams struct {
	DryRun bool `json:"dryRun,omitempty"` // only count what would change
}

// RunResult is the result of a run.
type RunResult struct {
	RunID   uuid.UUID   `json:"runId"`
	Layers  int         `json:"layers"`
	Items   int         `json:"items"` // number of memories and entries
	Changed int         `json:"changed"`
	Fading  int         `json:"fading"` // now below 0.3
	Skipped []Skipped   `json:"skipped"`
	Trashed []uuid.UUID `json:"trashed"` // in mode hard
	TookMs  int64       `json:"tookMs"`
}

// Skipped is an item whose retention could not be computed.
type Skipped struct {
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"`
}

// HistoryParams filters threshold crossings, newest first.
type HistoryParams struct {
	ID     *uuid.UUID `json:"id,omitempty"`
	Limit  int        `json:"limit,omitempty"` // 1 to 100, default 50
	Offset int        `json:"offset,omitempty"`
}

// HistoryResult is a page of crossings, and the last runs.
type HistoryResult struct {
	Crossings []Crossing `json:"crossings"`
	Total     int64      `json:"total"`
	Runs      []Run      `json:"runs"` // the last 20
}

// Crossing is a threshold that the retention of an item fell below or rose above.
type Crossing struct {
	ID        uuid.UUID `json:"id"` // of the item
	Layer     int       `json:"layer"`
	Previous  float64   `json:"previous"`
	Retention float64   `json:"retention"`
	Threshold float64   `json:"threshold"`
	At        time.Time `json:"at"`
	RunID     uuid.UUID `json:"runId"`
}

// Run is one evaluation of all memories.
type Run struct {
	RunID      uuid.UUID  `json:"runId"`
	StartedAt  time.Time  `json:"startedAt"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
	Items      int        `json:"items"`
	Changed    int        `json:"changed"`
	Trashed    int        `json:"trashed"`
	Error      string     `json:"error,omitempty"`
}

// ForecastParams is the request of psychology.forecast.
type ForecastParams struct {
	ID          *uuid.UUID `json:"id,omitempty"`          // of a memory or an entry
	LayerNumber int        `json:"layerNumber,omitempty"` // alternative to id
	From        *time.Time `json:"from,omitempty"`        // default now
	To          *time.Time `json:"to,omitempty"`          // default 90 days later; at most two years after from
	Points      int        `json:"points,omitempty"`      // 2 to 500, default 60
	WhatIf      *WhatIf    `json:"whatIf,omitempty"`
}

// WhatIf changes an item in a forecast only.
type WhatIf struct {
	Pinned      *bool       `json:"pinned,omitempty"`
	Tier        string      `json:"tier,omitempty"`        // critical, high, medium, low
	ReinforceAt []time.Time `json:"reinforceAt,omitempty"` // replaces the planned reviews
}

// ForecastResult is the forecast of an item.
type ForecastResult struct {
	Law
	Points    []Point  `json:"points"`
	Crossings []Fading `json:"crossings"`
	Floor     float64  `json:"floor"`
	Reason    string   `json:"reason"` // the cause in English
	Cause     Cause    `json:"cause"`
	Item      Item     `json:"item"`

	PlannedReviews []time.Time `json:"plannedReviews,omitempty"` // stored reviews; the points assume that they take place
}

// Cause says why an item has its retention.
type Cause struct {
	Code          string  `json:"code"`                    // decays, off, pinned, layerOff, critical, review
	Days          int     `json:"days,omitempty"`          // decays: since it was revisited
	HalfLifeHours float64 `json:"halfLifeHours,omitempty"` // decays: until half of it has faded
}

// Codes of a Cause.
const (
	CauseDecays   = "decays"
	CauseOff      = "off" // decay is
	CausePinned   = "pinned"
	CauseLayerOff = "layerOff"
	CauseCritical = "critical"
	CauseReview   = "review" // one is planned
)

// Point is the retention at a time.
type Point struct {
	At        time.Time `json:"at"`
	Retention float64   `json:"retention"`
}

// Fading is the time at which a threshold is reached.
type Fading struct {
	Threshold float64   `json:"threshold"`
	At        time.Time `json:"at"`
}

// FadingParams filters memories and entries that will fall below 0.3.
type FadingParams struct {
	WithinDays int `json:"withinDays,omitempty"` // 1 to 365, default 30
	Limit      int `json:"limit,omitempty"`      // 1 to 100, default 50
	Offset     int `json:"offset,omitempty"`
}

// FadingResult lists fading items, soonest first.
type FadingResult struct {
	Items []FadingItem `json:"items"`
	Total int64        `json:"total"`
}

// FadingItem is a memory or an entry that will fade soon.
type FadingItem struct {
	Item
	At     time.Time `json:"at"`     // when it falls below 0.3, or its review is planned
	Reason string    `json:"reason"` // the cause in English
	Cause  Cause     `json:"cause"`
	Review bool      `json:"review,omitempty"` // a review is planned for that time
}

// Done is the event that a run has ended.
type Done struct {
	RunID   uuid.UUID `json:"runId"`
	Changed int       `json:"changed"`
	Trashed int       `json:"trashed"`
}

// FadingSoon is the event that something has faded below 0.3, at most once a day.
type FadingSoon struct {
	Count int `json:"count"`
}

// Changed is the event that entries, layers, the soul or settings have changed.
type Changed struct {
	Layers []int       `json:"layers"`
	IDs    []uuid.UUID `json:"ids"`
}

// Layer is one of the seven layers.
type Layer struct {
	ID               *uuid.UUID      `json:"id,omitempty"` // absent: not stored yet
	LayerNumber      int             `json:"layerNumber"`
	LayerName        string          `json:"layerName"`
	Theory           string          `json:"theory"`
	Data             json.RawMessage `json:"data"`
	DecayModel       Model           `json:"decayModel"`
	DecayRate        float64         `json:"decayRate"` // parameter of the model
	InitialStrength  float64         `json:"initialStrength"`
	Retention        float64         `json:"retention"` // current
	LastUpdated      time.Time       `json:"lastUpdated"`
	LastReinforcedAt *time.Time      `json:"lastReinforcedAt,omitempty"`
	Enabled          bool            `json:"enabled"`
	Version          int64           `json:"version"`
	Entries          []Entry         `json:"entries"`
	Kinds            []Kind          `json:"kinds"`
	Problem          string          `json:"problem,omitempty"` // why its data can't be read
	Raw              string          `json:"raw,omitempty"`     // the undecodable content
}

// Entry is one entry of a layer.
type Entry struct {
	ID                 uuid.UUID       `json:"id"`
	LayerNumber        int             `json:"layerNumber"`
	Kind               string          `json:"kind"`
	Data               json.RawMessage `json:"data"`
	MemoryIDs          []uuid.UUID     `json:"memoryIds"` // the memories that it is based on
	Origin             string          `json:"origin"`    // person, synthesis, import
	PatternID          *uuid.UUID      `json:"patternId,omitempty"`
	InitialStrength    float64         `json:"initialStrength"`
	Retention          float64         `json:"retention"` // current
	LastReinforcedAt   *time.Time      `json:"lastReinforcedAt,omitempty"`
	ReinforcementCount int64           `json:"reinforcementCount"`
	SalienceTier       string          `json:"salienceTier"`
	Pinned             bool            `json:"pinned"`
	Open               bool            `json:"open,omitempty"` // reopened after it had faded: edits preserve the earlier text
	Version            int64           `json:"version"`
	CreatedAt          time.Time       `json:"createdAt"`
	UpdatedAt          time.Time       `json:"updatedAt"`
	Problem            string          `json:"problem,omitempty"`
	Raw                string          `json:"raw,omitempty"`
}

// LayerParams identifies a layer.
type LayerParams struct {
	LayerNumber int `json:"layerNumber"`
}

// LayersResult is the result of psychology.get_all_layers.
type LayersResult struct {
	Layers []Layer `json:"layers"`
}

// UpdateLayerParams changes a layer; absent fields are not changed.
type UpdateLayerParams struct {
	LayerNumber     int             `json:"layerNumber"`
	Version         int64           `json:"version,omitempty"` // as read; a different current version is a conflict
	Data            json.RawMessage `json:"data,omitempty"`
	InitialStrength *float64        `json:"initialStrength,omitempty"`
	Enabled         *bool           `json:"enabled,omitempty"`
}

// StatusParams identifies a layer; 0: all layers.
type StatusParams struct {
	LayerNumber int `json:"layerNumber,omitempty"`
}

// StatusResult is the result of psychology.get_layer_status.
type StatusResult struct {
	Layers []LayerStatus `json:"layers"`
}

// LayerStatus is how complete a layer is.
type LayerStatus struct {
	LayerNumber int        `json:"layerNumber"`
	LayerName   string     `json:"layerName"`
	Status      string     `json:"status"` // healthy: all kinds have entries; warning: some do; inactive: none does, or off; error: an entry can't be read
	Reason      string     `json:"reason,omitempty"`
	Missing     []string   `json:"missing,omitempty"` // kinds without an entry
	ID          *uuid.UUID `json:"id,omitempty"`      // the unreadable entry
}

// Overview summarizes psychology.
type Overview struct {
	Layers       []OverviewLayer `json:"layers"`
	Settings     Settings        `json:"settings"`
	NextDecayAt  *time.Time      `json:"nextDecayAt,omitempty"`
	TrustOverall *float64        `json:"trustOverall,omitempty"` // mean over people with interactions
}

// OverviewLayer is a layer in the overview.
type OverviewLayer struct {
	LayerNumber      int        `json:"layerNumber"`
	LayerName        string     `json:"layerName"`
	Theory           string     `json:"theory"`
	Status           string     `json:"status"`
	Reason           string     `json:"reason,omitempty"`
	Retention        float64    `json:"retention"`
	Entries          int        `json:"entries"`
	Fading           int        `json:"fading"` // number of entries below 0.3
	Enabled          bool       `json:"enabled"`
	LastReinforcedAt *time.Time `json:"lastReinforcedAt,omitempty"`
	Summary          string     `json:"summary"` // its strongest entries
}

// UpsertParams adds an entry or, with an id, replaces its data.
type UpsertParams struct {
	LayerNumber int             `json:"layerNumber"`
	Kind        string          `json:"kind"`
	Data        json.RawMessage `json:"data"`
	MemoryIDs   []uuid.UUID     `json:"memoryIds,omitempty"` // absent in an edit: unchanged
	ID          *uuid.UUID      `json:"id,omitempty"`
	Version     int64           `json:"version,omitempty"` // as read; a different current version is a conflict
}

// IDsParams identifies entries.
type IDsParams struct {
	IDs []uuid.UUID `json:"ids"` // at most 1,000
}

// UndoResult is the number of affected items and a token to undo the action.
type UndoResult struct {
	Count     int    `json:"count"`
	UndoToken string `json:"undoToken,omitempty"`
}

// ReinforceParams reinforces entries or memories.
type ReinforceParams struct {
	IDs      []uuid.UUID `json:"ids"`
	Kind     string      `json:"kind"`               // review, confirm, edit, use
	Strength *float64    `json:"strength,omitempty"` // fraction of the lost retention to restore, 0 to 1; default by kind
}

// PinParams pins or unpins entries or memories.
type PinParams struct {
	IDs []uuid.UUID `json:"ids"`
	On  bool        `json:"on"`
}

// SalienceParams sets the tier of entries or memories.
type SalienceParams struct {
	IDs  []uuid.UUID `json:"ids"`
	Tier string      `json:"tier"` // critical, high, medium, low
}

// ItemsResult lists items after a change.
type ItemsResult struct {
	Items     []Item `json:"items"`
	UndoToken string `json:"undoToken,omitempty"`

	changed int // number of changed entries
}

// Item is a memory, an entry or a layer with its retention.
type Item struct {
	ID           uuid.UUID `json:"id"`
	Kind         string    `json:"kind"` // memory, entry, layer
	LayerNumber  int       `json:"layerNumber"`
	Title        string    `json:"title"`
	Retention    float64   `json:"retention"` // current
	Pinned       bool      `json:"pinned"`
	SalienceTier string    `json:"salienceTier"`
}

// RestoreParams identifies items that decay moved to the trash, or the run that did so.
type RestoreParams struct {
	IDs   []uuid.UUID `json:"ids,omitempty"`
	RunID *uuid.UUID  `json:"runId,omitempty"`
}

// InteractionParams records an interaction with a person.
type InteractionParams struct {
	PersonID     uuid.UUID  `json:"personId"`            // the entry of the person
	At           time.Time  `json:"at,omitzero"`         // default now
	Dimension    string     `json:"dimension,omitempty"` // competence, integrity, benevolence, predictability, vulnerabilitySafety; default all
	Evidence     *float64   `json:"evidence"`            // -1 to 1; null: the outcome is unknown, and trust does not change
	SalienceTier string     `json:"salienceTier"`
	Note         string     `json:"note,omitempty"`
	MemoryID     *uuid.UUID `json:"memoryId,omitempty"`
	Replaces     *uuid.UUID `json:"replaces,omitempty"` // the interaction that this one corrects
}

// InteractionResult is the effect of an interaction.
type InteractionResult struct {
	InteractionID uuid.UUID   `json:"interactionId"`
	Person        Entry       `json:"person"`
	Before        float64     `json:"before"` // overall trust
	After         float64     `json:"after"`
	Stage         string      `json:"stage"`
	Needs         *StageNeeds `json:"needs,omitempty"`
}

// StageNeeds is the requirements of the next stage.
type StageNeeds struct {
	Stage                    string  `json:"stage"`
	Trust                    float64 `json:"trust"`
	Interactions             int     `json:"interactions"`
	HighSalienceInteractions int     `json:"highSalienceInteractions"`
}

// TrustMapParams identifies the person whose interactions are listed.
type TrustMapParams struct {
	PersonID *uuid.UUID `json:"personId,omitempty"`
}

// TrustMapResult lists people, most trusted first.
type TrustMapResult struct {
	People       []TrustedPerson `json:"people"`
	Interactions []Interaction   `json:"interactions"` // of the person, the last 50
}

// TrustedPerson is a person with the current trust.
type TrustedPerson struct {
	Entry Entry       `json:"entry"`
	Trust Trust       `json:"trust"`
	Stage string      `json:"stage"`
	Needs *StageNeeds `json:"needs,omitempty"`
}

// Interaction is an interaction with a person.
type Interaction struct {
	ID           uuid.UUID  `json:"id"`
	PersonID     uuid.UUID  `json:"personId,omitzero"`
	At           time.Time  `json:"at"`
	Dimension    string     `json:"dimension,omitempty"`
	Evidence     *float64   `json:"evidence"`
	SalienceTier string     `json:"salienceTier"`
	Note         string     `json:"note,omitempty"`
	MemoryID     *uuid.UUID `json:"memoryId,omitempty"`
	Before       float64    `json:"before"` // overall trust
	After        float64    `json:"after"`
}

// ViewParams filters entries of a layer.
type ViewParams struct {
	Kind  string     `json:"kind,omitempty"`
	Start *time.Time `json:"start,omitempty"` // of their own time: felt, target, begun, else created
	End   *time.Time `json:"end,omitempty"`
}

// ViewResult lists the entries in the order of their own time.
type ViewResult struct {
	Entries []ViewEntry `json:"entries"`
}

// ViewEntry is an entry with its own time.
type ViewEntry struct {
	Entry
	At      time.Time `json:"at"`
	PastDue bool      `json:"pastDue,omitempty"` // an open goal after its due date
}

// Soul is the text that defines how the assistant should work with the person.
type Soul struct {
	Text      string     `json:"text"`
	Version   int64      `json:"version"` // 0: the template
	UpdatedAt *time.Time `json:"updatedAt,omitempty"`
	Path      string     `json:"path"`  // of the file
	Shown     int        `json:"shown"` // maximum number of characters included in a prompt

	sha string
}

// UpdateSoulParams replaces the soul.
type UpdateSoulParams struct {
	Text    string `json:"text"`
	Version int64  `json:"version"` // as read
}

// PageParams selects a page.
type PageParams struct {
	Limit  int `json:"limit,omitempty"` // 1 to 100, default 20
	Offset int `json:"offset,omitempty"`
}

// SoulHistoryResult lists revisions, newest first.
type SoulHistoryResult struct {
	Revisions []SoulRevision `json:"revisions"`
	Total     int64          `json:"total"`
}

// SoulRevision is an earlier version of the soul.
type SoulRevision struct {
	Version int64     `json:"version"`
	Text    string    `json:"text"`
	At      time.Time `json:"at"`
}

// ProposalParams identifies the pattern that is proposed as an entry.
type ProposalParams struct {
	PatternID uuid.UUID `json:"patternId"`
}

// ExportParams sets the destination of an export.
type ExportParams struct {
	Path string `json:"path,omitempty"` // a folder below that of your own files; default: that folder itself
	Zip  bool   `json:"zip,omitempty"`  // one file to download instead
}

// ExportResult counts the exported items.
type ExportResult struct {
	Counts
	Path   string `json:"path,omitempty"`
	BlobID string `json:"blobId,omitempty"`
}

// ImportParams identifies the export to import.
type ImportParams struct {
	Path   string `json:"path,omitempty"` // a folder below that of your own files, or one that was chosen or uploaded; default: that folder itself
	BlobID string `json:"blobId,omitempty"`
}

// Counts are the counts of an export or import.
type Counts struct {
	Files        int `json:"files"`
	Entries      int `json:"entries"`
	Interactions int `json:"interactions"`
	Skipped      int `json:"skipped"` // unreadable items
}
