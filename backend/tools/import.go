package tools

import (
	"encoding/json"

	"github.com/google/uuid"
)

// ImportParams give exactly one source. The first call (dry run, the default) returns the
// review; the second, with DryRun false, adds exactly what was reviewed and is a conflict
// when the source has changed since.
type ImportParams struct {
	Bundle     json.RawMessage `json:"bundle,omitempty"` // a bundle, or one tool in the older form; ≤ 5 MiB
	URL        string          `json:"url,omitempty"`    // https address of a bundle
	ShareID    *uuid.UUID      `json:"shareId,omitempty"`
	DryRun     *bool           `json:"dryRun,omitempty"`     // default true
	OnConflict OnConflict      `json:"onConflict,omitempty"` // default rename
}

// OnConflict says what to do with a tool whose name is taken.
type OnConflict string

// The ways out of a taken name.
const (
	Rename  OnConflict = "rename"
	Replace OnConflict = "replace"
	Skip    OnConflict = "skip"
)

// Enum lists the values for the generated client.
func (OnConflict) Enum() []string { return []string{"rename", "replace", "skip"} }

// ImportItem is the review of one tool.
type ImportItem struct {
	Name                  string           `json:"name"`
	Action                string           `json:"action"` // create, rename, replace, skip or blocked
	NewName               string           `json:"newName,omitempty"`
	DefinitionHash        string           `json:"definitionHash"`
	Signature             SignatureInfo    `json:"signature"`
	RequestedCapabilities []string         `json:"requestedCapabilities"`
	Warnings              []string         `json:"warnings"`
	Diff                  *DiffResult      `json:"diff,omitempty"` // replace: what changes in the tool that is here
	Definition            BundleDefinition `json:"definition"`
	Version               string           `json:"version"`
	Author                string           `json:"author"`
}

// ImportResult is the review and, after the second step, the tools that were added; they are
// disabled and private.
type ImportResult struct {
	Items []ImportItem `json:"items"`
	Tools []Tool       `json:"tools"`
}
