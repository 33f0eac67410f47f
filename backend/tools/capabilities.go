package tools

import "time"

// CapabilityGrant is a right that a tool holds.
type CapabilityGrant struct {
	Capability string     `json:"capability"`
	Resource   string     `json:"resource"`
	Scope      string     `json:"scope"` // once, run, session or always
	ExpiresAt  *time.Time `json:"expiresAt,omitempty"`
	Origin     string     `json:"origin"`
	LastUsed   *time.Time `json:"lastUsed,omitempty"`
	Suspended  bool       `json:"suspended"`
}

// CapabilityDenial is a right that the user refused for good.
type CapabilityDenial struct {
	Capability string `json:"capability"`
	Resource   string `json:"resource"`
	Reason     string `json:"reason"`
}

// CapabilitiesResult sets what a tool asks for beside what it has.
type CapabilitiesResult struct {
	Requested []string           `json:"requested"`
	Grants    []CapabilityGrant  `json:"grants"`
	Denied    []CapabilityDenial `json:"denied"`
}
