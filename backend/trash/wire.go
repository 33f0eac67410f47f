package trash

import (
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// Ref identifies an item in the trash.
type Ref struct {
	Kind string    `json:"kind"` // tool, wasm, skill, schedule, memory, conversation, document or chat
	ID   uuid.UUID `json:"id"`
}

// Item is one item in the trash.
type Item struct {
	Ref
	Name      string    `json:"name"`
	Text      string    `json:"text"` // its description or the beginning of its text
	DeletedAt time.Time `json:"deletedAt"`
	PurgeAt   time.Time `json:"purgeAt"`      // it is deleted permanently soon after
	By        string    `json:"by,omitempty"` // who deleted it: window, browser, terminal, token, agent, skill, schedule or program; absent: unknown
}

// ListParams filters the trash.
type ListParams struct {
	Kinds  []string `json:"kinds,omitempty"` // empty: all
	Query  string   `json:"query,omitempty"` // substring of the name or the text
	Limit  int      `json:"limit,omitempty"` // 1..200, default 50
	Offset int      `json:"offset,omitempty"`
}

// Count is the number of items of a kind.
type Count struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// ListResult is one page, latest first. Total counts all matches, Counts the whole trash.
type ListResult struct {
	Items  []Item  `json:"items"`
	Total  int     `json:"total"`
	Limit  int     `json:"limit"`
	Offset int     `json:"offset"`
	Counts []Count `json:"counts"`
}

// ItemsParams identifies up to 1,000 items in the trash.
type ItemsParams struct {
	Items []Ref `json:"items"`
}

// Failure is an item that remained in the trash, and why.
type Failure struct {
	Ref
	Reason  fault.Kind `json:"reason"` // not_found, conflict, limit …
	Message string     `json:"message"`
}

// RestoreResult lists the restored items.
type RestoreResult struct {
	Restored []Ref     `json:"restored"`
	Failed   []Failure `json:"failed"`
}

// EmptyParams selects what is deleted.
type EmptyParams struct {
	Kinds []string `json:"kinds,omitempty"` // empty: everything
}

// PurgeResult counts what was deleted.
type PurgeResult struct {
	Count  int       `json:"count"`
	Counts []Count   `json:"counts"`
	Failed []Failure `json:"failed"`
}

// Changed is the event trash.changed: items were permanently deleted. Moving an item to the trash
// or restoring it is published by its own domain.
type Changed struct{}
