package lifecycle

import (
	"context"
	"regexp"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// Access is who can open a share.
type Access string

// The kinds of access.
const (
	AccessLink   Access = "link"   // anyone who has the link
	AccessPublic Access = "public" // also listed in search
)

// Enum lists the values for the generated client.
func (Access) Enum() []string { return []string{"link", "public"} }

// Hub stores shared items of one kind where other people's devices can open them. Its methods fail
// with fault.Unavailable if the hub can't be reached.
type Hub interface {
	Connected(tx *storage.Tx) (bool, error)
	// PutShare stores a share of an item. Summary is what a search shows.
	PutShare(ctx context.Context, id, item uuid.UUID, public bool, expires *time.Time, summary, body []byte) error
	// GetShare returns the body of a share, or fault.NotFound if it does not exist or has ended.
	GetShare(ctx context.Context, id uuid.UUID) ([]byte, error)
	// RevokeShare ends a share of the caller. Ending an unknown share is not an error.
	RevokeShare(ctx context.Context, id uuid.UUID) error
	// PublicShares returns a page of the summaries of other people's public shares.
	PublicShares(ctx context.Context, query string, tags []string, limit, offset int) (summaries [][]byte, total int, err error)
	// OwnShares returns the caller's shares that have not ended, newest first; of one item, or of all if
	// item is nil.
	OwnShares(ctx context.Context, item *uuid.UUID) ([]HubShare, error)
}

// HubShare is a share of the caller.
type HubShare struct {
	ID, Item  uuid.UUID
	Public    bool
	Summary   []byte
	CreatedAt time.Time
	ExpiresAt *time.Time
}

var shareURL = regexp.MustCompile(`^helix://([a-z]+)/shared/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`)

// ShareURL returns the link to a share in a domain, such as tools.
func ShareURL(domain string, id uuid.UUID) string {
	return "helix://" + domain + "/shared/" + id.String()
}

// ParseShareURL returns the share of a link of a domain. It accepts no other path, query or fragment.
// what names the item in the error.
func ParseShareURL(domain, what, text string) (uuid.UUID, error) {
	m := shareURL.FindStringSubmatch(text)
	if m == nil || m[1] != domain {
		return uuid.Nil, fault.Invalidf("This isn't a link to a shared %s.", what)
	}
	return uuid.Parse(m[2])
}
