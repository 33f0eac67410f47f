package tools

import "encoding/json"

// CreateParams describe a new tool.
type CreateParams struct {
	Name           string          `json:"name"` // 1..64 letters, digits, spaces, "_", "-" or "."
	Code           string          `json:"code"` // at most 256 KiB
	Description    string          `json:"description,omitempty"`
	Language       Language        `json:"language,omitempty"`       // default javascript
	Parameters     json.RawMessage `json:"parameters,omitempty"`     // JSON Schema; default {"type":"object"}
	Capabilities   []string        `json:"capabilities,omitempty"`   // at most 32
	SandboxProfile Profile         `json:"sandboxProfile,omitempty"` // default standard
	Limits         *Limits         `json:"limits,omitempty"`
	Samples        []Sample        `json:"samples,omitempty"`
	Tags           []string        `json:"tags,omitempty"` // at most 16 of 64 characters
	Icon           string          `json:"icon,omitempty"`
	Visibility     Visibility      `json:"visibility,omitempty"` // default private
	Version        string          `json:"version,omitempty"`    // semantic version; default 1.0.0
}

// CreateResult holds the new tool and what the analysis of its code said.
type CreateResult struct {
	Tool       Tool       `json:"tool"`
	Validation Validation `json:"validation"`
}
