package tools

import (
	"time"

	"github.com/google/uuid"
)

// reviewTime is how long a reviewed import can be committed.
const reviewTime = time.Hour

// reviewKey names a source that a user has reviewed.
type reviewKey struct {
	user   uuid.UUID
	source string // url:…, share:… or bundle
}

// review is the result of a dry run: only this may be committed.
type review struct {
	items []string // one digest per tool, in order
	until time.Time
}
