package tools

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// VersionsParams ask for the history of a tool, newest first.
type VersionsParams struct {
	ToolID uuid.UUID  `json:"toolId"`
	Limit  int        `json:"limit,omitempty"`  // 1..100, default 50
	Before *time.Time `json:"before,omitempty"` // createdAt of the last one seen
}

// VersionInfo is one version of a tool.
type VersionInfo struct {
	Version        string    `json:"version"`
	DefinitionHash string    `json:"definitionHash"`
	Note           string    `json:"note"`
	Author         string    `json:"author"`
	CreatedAt      time.Time `json:"createdAt"`
	Current        bool      `json:"current"`
}

// VersionsResult is one page of the history; Total counts all versions.
type VersionsResult struct {
	Versions []VersionInfo `json:"versions"`
	Total    int           `json:"total"`
}

// DiffParams name two versions of a tool.
type DiffParams struct {
	ToolID uuid.UUID `json:"toolId"`
	From   string    `json:"from"`
	To     string    `json:"to"`
}

// FieldChange is one definition field that differs.
type FieldChange struct {
	Name string          `json:"name"`
	From json.RawMessage `json:"from"`
	To   json.RawMessage `json:"to"`
}

// CapabilityChange lists capabilities that came and went.
type CapabilityChange struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
}

// DiffResult is the difference of two versions; Code is a unified diff, "" when equal.
type DiffResult struct {
	Fields       []FieldChange    `json:"fields"`
	Code         string           `json:"code"`
	Capabilities CapabilityChange `json:"capabilities"`
}

// RollbackParams name the version whose definition becomes the newest one again.
type RollbackParams struct {
	ToolID  uuid.UUID `json:"toolId"`
	Version string    `json:"version"`
}

// RollbackResult holds the tool at its new version and the grants that were suspended.
type RollbackResult struct {
	Tool            Tool        `json:"tool"`
	SuspendedGrants []uuid.UUID `json:"suspendedGrants"`
}
