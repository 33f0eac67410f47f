package tools

import (
	"encoding/json"

	"github.com/google/uuid"
)

// ListParams choose from the caller's own tools.
type ListParams struct {
	Query      string     `json:"query,omitempty"` // part of name or description; every character is literal
	Visibility Visibility `json:"visibility,omitempty"`
	Enabled    *bool      `json:"enabled,omitempty"`
	Tags       []string   `json:"tags,omitempty"`  // tools that carry all of these
	Sort       ListSort   `json:"sort,omitempty"`  // default recent
	Limit      int        `json:"limit,omitempty"` // 1..100, default 50
	Offset     int        `json:"offset,omitempty"`
}

// ListSort is the order of a list.
type ListSort string

// The orders: last used or changed first, by name, most used first.
const (
	SortRecent ListSort = "recent"
	SortName   ListSort = "name"
	SortUsage  ListSort = "usage"
)

// Enum lists the values for the generated client.
func (ListSort) Enum() []string { return []string{"recent", "name", "usage"} }

// ListResult is one page; Total counts all matches.
type ListResult struct {
	Tools  []Summary `json:"tools"`
	Total  int       `json:"total"`
	Limit  int       `json:"limit"`
	Offset int       `json:"offset"`
}

// GetParams name a tool and, when Version is set, one of its former definitions.
type GetParams struct {
	ToolID  uuid.UUID `json:"toolId"`
	Version string    `json:"version,omitempty"`
}

// Metadata is what a caller needs to run a tool.
type Metadata struct {
	ID          uuid.UUID       `json:"id"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Version     string          `json:"version"`
	UsageCount  int64           `json:"usageCount"`
	IsEnabled   bool            `json:"isEnabled"`
}

// SearchParams look through the public tools on this device.
type SearchParams struct {
	Query  string   `json:"query"` // part of name, description or a tag; "" finds all
	Tags   []string `json:"tags,omitempty"`
	Limit  int      `json:"limit,omitempty"` // 1..100, default 20
	Offset int      `json:"offset,omitempty"`
}

// SearchResult is one page of public tools, the most used first.
type SearchResult struct {
	Tools []Summary `json:"tools"`
	Total int       `json:"total"`
	Hub   bool      `json:"hub"` // false: no hub is connected, so only tools of this device are listed
}
