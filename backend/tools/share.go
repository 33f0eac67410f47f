package tools

import (
	"time"

	"github.com/google/uuid"
)

// Access says who can open a share.
type Access string

// The kinds of access.
const (
	AccessLink   Access = "link"   // anyone who has the link
	AccessPublic Access = "public" // also listed in search
)

// Enum lists the values for the generated client.
func (Access) Enum() []string { return []string{"link", "public"} }

// ShareParams share one version of a tool.
type ShareParams struct {
	ToolID    uuid.UUID  `json:"toolId"`
	Access    Access     `json:"access"`
	Version   string     `json:"version,omitempty"` // default: the current one; later edits do not change the share
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// ShareResult holds the link. Hub is false when no hub is connected: then the link opens on
// this device only, and an exported file is the way to other people.
type ShareResult struct {
	ShareID uuid.UUID `json:"shareId"`
	URL     string    `json:"url"` // helix://tools/shared/<id>
	Version string    `json:"version"`
	Hub     bool      `json:"hub"`
	Note    string    `json:"note,omitempty"`
}

// UnshareParams name a share.
type UnshareParams struct {
	ShareID uuid.UUID `json:"shareId"`
}

// SharesParams choose shares of one tool, or of all.
type SharesParams struct {
	ToolID *uuid.UUID `json:"toolId,omitempty"`
}

// Share is one share of a tool.
type Share struct {
	ShareID        uuid.UUID  `json:"shareId"`
	ToolID         uuid.UUID  `json:"toolId"`
	URL            string     `json:"url"`
	Access         Access     `json:"access"`
	Version        string     `json:"version"`
	DefinitionHash string     `json:"definitionHash"`
	Opens          int64      `json:"opens"`
	CreatedAt      time.Time  `json:"createdAt"`
	ExpiresAt      *time.Time `json:"expiresAt,omitempty"`
	RevokedAt      *time.Time `json:"revokedAt,omitempty"`
	State          string     `json:"state"` // active, expired or revoked
}

// SharesResult lists shares, newest first.
type SharesResult struct {
	Shares []Share `json:"shares"`
	Hub    bool    `json:"hub"`
}

// ResolveShareParams give a share by its id or its link.
type ResolveShareParams struct {
	ShareID *uuid.UUID `json:"shareId,omitempty"`
	URL     string     `json:"url,omitempty"`
}

// ResolveShareResult is the review of the shared tool, as a dry run of an import gives it.
type ResolveShareResult struct {
	ShareID uuid.UUID    `json:"shareId"`
	Preview ImportResult `json:"preview"`
}
