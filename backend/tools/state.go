package tools

import (
	"time"

	"github.com/google/uuid"
)

// StateEntry is one thing a tool stored.
type StateEntry struct {
	Key       string    `json:"key"` // for a file: "file:" and its path in the tool's folder
	SizeBytes int64     `json:"sizeBytes"`
	UpdatedAt time.Time `json:"updatedAt"`
	Preview   string    `json:"preview"` // the first 200 characters
}

// StateResult is what a tool stored and how much room it has.
type StateResult struct {
	Entries    []StateEntry `json:"entries"`
	UsedBytes  int64        `json:"usedBytes"`
	QuotaBytes int64        `json:"quotaBytes"`
}

// StateClearParams name the tool and, when Key is set, the one entry to clear.
type StateClearParams struct {
	ToolID uuid.UUID `json:"toolId"`
	Key    string    `json:"key,omitempty"`
}

// StateClearResult holds the token that puts the cleared state back within a minute.
type StateClearResult struct {
	Cleared   int    `json:"cleared"`
	UndoToken string `json:"undoToken"`
}

// StateRestoreParams undo a clearing.
type StateRestoreParams struct {
	UndoToken string `json:"undoToken"`
}
