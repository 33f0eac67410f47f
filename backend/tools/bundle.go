package tools

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Bundle is a file of tools. It never holds secrets, state, usage, grants or a user id.
type Bundle struct {
	Format        string       `json:"format"` // helix-tools
	FormatVersion int          `json:"formatVersion"`
	ExportedAt    time.Time    `json:"exportedAt"`
	Tools         []BundleTool `json:"tools"`
}

// BundleTool is one tool in a bundle.
type BundleTool struct {
	Definition BundleDefinition `json:"definition"`
	Version    string           `json:"version"`
	Author     string           `json:"author"`
	Tags       []string         `json:"tags"`
	Icon       string           `json:"icon"`
	Samples    []Sample         `json:"samples,omitempty"`
	Signature  *BundleSignature `json:"signature,omitempty"`
	History    []BundleVersion  `json:"history,omitempty"`
}

// BundleDefinition is what a tool is: its name and the fields under the definition hash.
type BundleDefinition struct {
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	Language       Language        `json:"language"`
	Code           string          `json:"code"`
	Parameters     json.RawMessage `json:"parameters"`
	Capabilities   []string        `json:"capabilities"`
	SandboxProfile Profile         `json:"sandboxProfile"`
	Limits         *Limits         `json:"limits,omitempty"`
}

// BundleVersion is a former version of a tool in a bundle.
type BundleVersion struct {
	Version    string           `json:"version"`
	Note       string           `json:"note"`
	Author     string           `json:"author"`
	CreatedAt  time.Time        `json:"createdAt"`
	Definition BundleDefinition `json:"definition"`
}

// ExportParams name the tools of a bundle.
type ExportParams struct {
	ToolIDs        []uuid.UUID `json:"toolIds"` // 1..100
	IncludeHistory bool        `json:"includeHistory,omitempty"`
	Sign           *bool       `json:"sign,omitempty"` // default true: sign what carries no signature with this device's key
}

// ExportResult holds the bundle; write it to a file as it is.
type ExportResult struct {
	Bundle Bundle `json:"bundle"`
}
