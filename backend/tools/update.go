package tools

import (
	"encoding/json"

	"github.com/google/uuid"
)

// UpdateParams change a tool. BaseVersion is the version that the caller edited; when the
// tool has moved on since, the answer is a conflict whose details hold the current tool.
type UpdateParams struct {
	ToolID      uuid.UUID `json:"toolId"`
	BaseVersion string    `json:"baseVersion"`
	Patch       Patch     `json:"patch"`
	Note        string    `json:"note,omitempty"` // why; kept with the new version
}

// Patch names the fields to change. An absent field is left as it is; null or "" clears it
// to its default. name and code cannot be cleared.
type Patch struct {
	Name           *string         `json:"name,omitempty"`
	Description    *string         `json:"description,omitempty"`
	Code           *string         `json:"code,omitempty"`
	Language       *Language       `json:"language,omitempty"`
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	Capabilities   *[]string       `json:"capabilities,omitempty"`
	SandboxProfile *Profile        `json:"sandboxProfile,omitempty"`
	Limits         *Limits         `json:"limits,omitempty"`
	Samples        *[]Sample       `json:"samples,omitempty"`
	Tags           *[]string       `json:"tags,omitempty"`
	Icon           *string         `json:"icon,omitempty"`
	Visibility     *Visibility     `json:"visibility,omitempty"`
	Author         *string         `json:"author,omitempty"`
	SyncState      *bool           `json:"syncState,omitempty"`
	Version        *string         `json:"version,omitempty"` // label of the new version; default: patch raised by one

	cleared map[string]bool // fields given as null
}

// UpdateResult holds the changed tool, what the analysis said, and the grants that the
// change put out of force until the new definition is approved.
type UpdateResult struct {
	Tool            Tool        `json:"tool"`
	Validation      Validation  `json:"validation"`
	SuspendedGrants []uuid.UUID `json:"suspendedGrants"`
}

// SetEnabledParams switch a tool on or off.
type SetEnabledParams struct {
	ToolID  uuid.UUID `json:"toolId"`
	Enabled bool      `json:"enabled"`
}

// DeleteResult says until when the tool can be restored with everything it had.
type DeleteResult struct {
	UndoUntil string `json:"undoUntil"` // RFC 3339
}

// CloneParams copy a tool of one's own or a public one.
type CloneParams struct {
	ToolID uuid.UUID `json:"toolId"`
	Name   string    `json:"name,omitempty"` // default: the name with " (Clone)"
}
