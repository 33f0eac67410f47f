package voice

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Risk tiers.
const (
	RiskLow    = "low"    // runs at once
	RiskMedium = "medium" // runs at once; clients offer to undo it
	RiskHigh   = "high"   // runs only after a confirmation
)

// Actions of commands.
const (
	ActionTool       = "tool"
	ActionSkill      = "skill"
	ActionNavigation = "navigation"
	ActionSystem     = "system"
)

// Decisions about a text.
const (
	DecideRun       = "run"
	DecideConfirm   = "confirm"
	DecideAmbiguous = "ambiguous"
	DecideNone      = "none"
)

// Slot is a variable part of a phrase.
type Slot struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`             // text, number, date, time, duration or enum
	Values []string `json:"values,omitempty"` // of an enum
}

// Command is a phrase that starts something when it is said.
type Command struct {
	ID                uuid.UUID       `json:"id"`
	Name              string          `json:"name"`
	TriggerPhrase     string          `json:"triggerPhrase"` // such as: remind me to {what:text} at {when:time}
	TriggerConfidence float64         `json:"triggerConfidence"`
	Slots             []Slot          `json:"slots"`
	ActionType        string          `json:"actionType"`       // tool, skill, navigation or system
	ToolID            string          `json:"toolId,omitempty"` // kind:id of a callable, such as tool:018f…
	SkillID           string          `json:"skillId,omitempty"`
	NavigationTarget  string          `json:"navigationTarget,omitempty"` // a screen
	SystemAction      string          `json:"systemAction,omitempty"`     // stop, pause, new_memo, undo or read_last
	ActionParams      json.RawMessage `json:"actionParams"`               // input; "{slot}" in it stands for the value of a slot
	RiskTier          string          `json:"riskTier"`                   // the higher one of the user's choice and that of the target
	Enabled           bool            `json:"enabled"`
	UsageCount        int             `json:"usageCount"`
	LastUsed          *time.Time      `json:"lastUsed,omitempty"`
	Problem           string          `json:"problem,omitempty"` // why the command can't run
	UpdatedAt         time.Time       `json:"updatedAt"`
}

// CommandList lists the caller's commands by name.
type CommandList struct {
	Commands          []Command `json:"commands"`
	NavigationTargets []string  `json:"navigationTargets"`
	SystemActions     []string  `json:"systemActions"`
}

// CreateCommandParams describe a new command.
type CreateCommandParams struct {
	Name              string          `json:"name"`
	TriggerPhrase     string          `json:"triggerPhrase"`
	TriggerConfidence *float64        `json:"triggerConfidence,omitempty"` // 0.5 to 1; default 0.8
	ActionType        string          `json:"actionType"`
	ToolID            string          `json:"toolId,omitempty"`
	SkillID           string          `json:"skillId,omitempty"`
	NavigationTarget  string          `json:"navigationTarget,omitempty"`
	SystemAction      string          `json:"systemAction,omitempty"`
	ActionParams      json.RawMessage `json:"actionParams,omitempty"`
	RiskTier          string          `json:"riskTier,omitempty"` // default: that of the target
	Enabled           *bool           `json:"enabled,omitempty"`  // default true
}

// UpdateCommandParams change a command. Omitted fields stay unchanged. Saving a command accepts the
// current definition of its target.
type UpdateCommandParams struct {
	CommandID         uuid.UUID       `json:"commandId"`
	Name              *string         `json:"name,omitempty"`
	TriggerPhrase     *string         `json:"triggerPhrase,omitempty"`
	TriggerConfidence *float64        `json:"triggerConfidence,omitempty"`
	ActionType        *string         `json:"actionType,omitempty"`
	ToolID            *string         `json:"toolId,omitempty"`
	SkillID           *string         `json:"skillId,omitempty"`
	NavigationTarget  *string         `json:"navigationTarget,omitempty"`
	SystemAction      *string         `json:"systemAction,omitempty"`
	ActionParams      json.RawMessage `json:"actionParams,omitempty"`
	RiskTier          *string         `json:"riskTier,omitempty"`
	Enabled           *bool           `json:"enabled,omitempty"`
}

// CommandParams identify a command.
type CommandParams struct {
	CommandID uuid.UUID `json:"commandId"`
}

// TestCommandParams contain a text as if it had been said.
type TestCommandParams struct {
	Text string `json:"text"`
}

// Candidate is a command that is similar to a text.
type Candidate struct {
	CommandID uuid.UUID      `json:"commandId"`
	Name      string         `json:"name"`
	Score     float64        `json:"score"` // 0 to 1
	Slots     map[string]any `json:"slots"`
	RiskTier  string         `json:"riskTier"`
	Problem   string         `json:"problem,omitempty"` // why it can't run with this text
}

// MatchResult is what would happen if a text were said.
type MatchResult struct {
	Best       *Candidate  `json:"best,omitempty"`
	Candidates []Candidate `json:"candidates"` // best first, at most 5
	Decision   string      `json:"decision"`   // run, confirm, ambiguous or none
	WouldAsk   bool        `json:"wouldAsk"`   // the permission for its target is missing
}

// ConfirmParams answer a pending command. CommandID selects one of several candidates.
type ConfirmParams struct {
	PendingID uuid.UUID  `json:"pendingId"`
	Accept    bool       `json:"accept"`
	CommandID *uuid.UUID `json:"commandId,omitempty"`
}

// ConfirmResult tells what happened.
type ConfirmResult struct {
	Status string     `json:"status"` // started, done, declined, confirm if the chosen command needs a confirmation, or failed
	RunID  *uuid.UUID `json:"runId,omitempty"`
	Error  string     `json:"error,omitempty"`
}

// CommandHeard is published when a recording of the mode command was transcribed, and when a pending
// command is answered or expires.
type CommandHeard struct {
	// SessionID is the window or browser page in which the command was said or answered; it alone opens
	// NavigationTarget. Without one, every page does.
	SessionID        *uuid.UUID     `json:"sessionId,omitempty"`
	RecordingID      *uuid.UUID     `json:"recordingId,omitempty"`
	PendingID        *uuid.UUID     `json:"pendingId,omitempty"` // to be answered with voice.confirm
	ExpiresAt        *time.Time     `json:"expiresAt,omitempty"`
	Text             string         `json:"text"`
	CommandID        *uuid.UUID     `json:"commandId,omitempty"`
	Name             string         `json:"name,omitempty"`
	Score            float64        `json:"score"`
	Slots            map[string]any `json:"slots"`
	RiskTier         string         `json:"riskTier,omitempty"`
	Decision         string         `json:"decision"`         // run, confirm, ambiguous or none
	Status           string         `json:"status,omitempty"` // started, done, declined, expired or failed
	Candidates       []Candidate    `json:"candidates,omitempty"`
	NavigationTarget string         `json:"navigationTarget,omitempty"`
	SystemAction     string         `json:"systemAction,omitempty"`
	RunID            *uuid.UUID     `json:"runId,omitempty"`
	Error            string         `json:"error,omitempty"`
}
