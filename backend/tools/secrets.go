package tools

import (
	"time"

	"github.com/google/uuid"
)

// SecretSetParams store a secret for tools. The value goes only into requests to Hosts.
type SecretSetParams struct {
	Name    string      `json:"name"`    // 1..64 letters, digits, "_", "-" or "."
	Value   string      `json:"value"`   // at most 8 KiB
	Hosts   []string    `json:"hosts"`   // exact hosts or *.example.com
	ToolIDs []uuid.UUID `json:"toolIds"` // tools that may name it
}

// SecretName names a secret.
type SecretName struct {
	Name string `json:"name"`
}

// SecretInfo is a secret without its value, which is never returned.
type SecretInfo struct {
	Name      string      `json:"name"`
	Hosts     []string    `json:"hosts"`
	ToolIDs   []uuid.UUID `json:"toolIds"`
	UpdatedAt time.Time   `json:"updatedAt"`
}

// SecretsResult lists the secrets by name.
type SecretsResult struct {
	Secrets []SecretInfo `json:"secrets"`
}
