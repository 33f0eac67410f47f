package tools

import "encoding/json"

// Template is a finished small tool to start from.
type Template struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	Icon           string          `json:"icon"`
	Language       Language        `json:"language"`
	Code           string          `json:"code"`
	Parameters     json.RawMessage `json:"parameters"`
	Capabilities   []string        `json:"capabilities"`
	SandboxProfile Profile         `json:"sandboxProfile"`
	SampleParams   json.RawMessage `json:"sampleParams"`
	ExpectedOutput json.RawMessage `json:"expectedOutput"`
}

// TemplatesResult lists the templates that Helix ships.
type TemplatesResult struct {
	Templates []Template `json:"templates"`
}
