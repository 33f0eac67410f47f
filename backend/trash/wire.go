package trash

import (
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// Ref names an item in the trash.
type Ref struct {
	Kind string    `json:"kind"` // tool, wasm, skill, schedule, memory, conversation, document, chat or memo
	ID   uuid.UUID `json:"id"`
}

// Item is one thing in the trash.
type Item struct {
	Ref
	Name      string    `json:"name"`
	Text      string    `json:"text"` // its description or how it begins
	DeletedAt time.Time `json:"deletedAt"`
	PurgeAt   time.Time `json:"purgeAt"`      // it is deleted permanently soon after
	By        string    `json:"by,omitempty"` // who deleted it: window, browser, terminal, token, agent, skill, schedule or program; absent: unknown
}

// ListParams choose from the trash.
type ListParams struct {
	Kinds  []string `json:"kinds,omitempty"` // none: all
	Query  string   `json:"query,omitempty"` // part of the name or the text
	Limit  int      `json:"limit,omitempty"` // 1..200, default 50
	Offset int      `json:"offset,omitempty"`
}

// Count is how many items of a kind there are.
type Count struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// ListResult is one page, the latest first. Total counts all matches, Counts the whole trash.
type ListResult struct {
	Items  []Item  `json:"items"`
	Total  int     `json:"total"`
	Limit  int     `json:"limit"`
	Offset int     `json:"offset"`
	Counts []Count `json:"counts"`
}

// ItemsParams name items in the trash, up to 1,000.
type ItemsParams struct {
	Items []Ref `json:"items"`
}

// Failure is an item that stayed in the trash, and why.
type Failure struct {
	Ref
	Reason  fault.Kind `json:"reason"` // not_found, conflict, limit …
	Message string     `json:"message"`
}

// RestoreResult says what came back.
type RestoreResult struct {
	Restored []Ref     `json:"restored"`
	Failed   []Failure `json:"failed"`
}

// EmptyParams choose what is removed.
type EmptyParams struct {
	Kinds []string `json:"kinds,omitempty"` // none: everything
}

// PurgeResult says what was removed.
type PurgeResult struct {
	Count  int       `json:"count"`
	Counts []Count   `json:"counts"`
	Failed []Failure `json:"failed"`
}

// Changed is the event trash.changed: items were removed permanently. What moves to the trash or
// comes back from it is announced by its own domain.
type Changed struct{}
