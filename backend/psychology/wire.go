package psychology

import (
	"time"

	"github.com/google/uuid"
)

// Settings say how memories fade.
type Settings struct {
	DecayEnabled         bool            `json:"decayEnabled"`         // default true
	Layers               map[string]bool `json:"layers"`               // which layers, 1 to 7, fade; default all
	Rate                 float64         `json:"rate"`                 // 0.80 to 0.99, default 0.95; lower fades faster
	MinimumIntensity     float64         `json:"minimumIntensity"`     // 0 to 0.5, default 0.1: what always stays
	PreserveHighSalience bool            `json:"preserveHighSalience"` // default true: high items keep half of their strength
}

// SettingsParams change settings; absent fields stay as they are.
type SettingsParams struct {
	DecayEnabled         *bool           `json:"decayEnabled,omitempty"`
	Layers               map[string]bool `json:"layers,omitempty"`
	Rate                 *float64        `json:"rate,omitempty"`
	MinimumIntensity     *float64        `json:"minimumIntensity,omitempty"`
	PreserveHighSalience *bool           `json:"preserveHighSalience,omitempty"`
}

// RunParams is the request of psychology.decay_run.
type RunParams struct {
	DryRun bool `json:"dryRun,omitempty"` // count what would change
}

// RunResult is what a run did.
type RunResult struct {
	RunID   uuid.UUID `json:"runId"`
	Items   int       `json:"items"`
	Changed int       `json:"changed"`
	Fading  int       `json:"fading"` // now under 0.3
	Skipped []Skipped `json:"skipped"`
	TookMs  int64     `json:"tookMs"`
}

// Skipped is an item that could not be computed.
type Skipped struct {
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"`
}

// HistoryParams select threshold crossings, newest first.
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

// Crossing is a threshold that the retention of an item fell below, or rose above.
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
}

// ForecastParams is the request of psychology.forecast.
type ForecastParams struct {
	ID     uuid.UUID  `json:"id"`
	From   *time.Time `json:"from,omitempty"`   // default now
	To     *time.Time `json:"to,omitempty"`     // default 90 days later; at most two years after from
	Points int        `json:"points,omitempty"` // 2 to 500, default 60
	WhatIf *WhatIf    `json:"whatIf,omitempty"`
}

// WhatIf changes an item in a forecast alone.
type WhatIf struct {
	Pinned      *bool       `json:"pinned,omitempty"`
	Tier        string      `json:"tier,omitempty"` // critical, high, medium, low
	ReinforceAt []time.Time `json:"reinforceAt,omitempty"`
}

// ForecastResult is how an item will fade.
type ForecastResult struct {
	Law
	Points    []Point  `json:"points"`
	Crossings []Fading `json:"crossings"`
	Floor     float64  `json:"floor"`
	Reason    string   `json:"reason"`
}

// Point is the retention at a time.
type Point struct {
	At        time.Time `json:"at"`
	Retention float64   `json:"retention"`
}

// Fading is when a threshold is reached.
type Fading struct {
	Threshold float64   `json:"threshold"`
	At        time.Time `json:"at"`
}

// FadingParams select memories that will fall below 0.3.
type FadingParams struct {
	WithinDays int `json:"withinDays,omitempty"` // 1 to 365, default 30
	Limit      int `json:"limit,omitempty"`      // 1 to 100, default 50
	Offset     int `json:"offset,omitempty"`
}

// FadingResult lists them, soonest first.
type FadingResult struct {
	Items []FadingItem `json:"items"`
	Total int64        `json:"total"`
}

// FadingItem is a memory that fades soon.
type FadingItem struct {
	ID        uuid.UUID `json:"id"`
	Retention float64   `json:"retention"`
	At        time.Time `json:"at"` // when it falls below 0.3
	Reason    string    `json:"reason"`
}

// Done is the event of a run that has ended.
type Done struct {
	RunID   uuid.UUID `json:"runId"`
	Changed int       `json:"changed"`
}
