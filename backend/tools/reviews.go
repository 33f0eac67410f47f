package tools

import (
	"time"

	"github.com/google/uuid"
)

// reviewTime is how long a dry run can be committed.
const reviewTime = time.Hour

// reviewKey names a source that a user has reviewed.
type reviewKey struct {
	user   uuid.UUID
	source string // url:…, share:… or bundle
}

// review is what a dry run showed: exactly this may be committed.
type review struct {
	items []string // one digest a tool, in order
	until time.Time
}
