package memory

import (
	"time"

	"github.com/google/uuid"
)

// WatchAddParams is the request of memory.watch_add. Fields other than path are those of
// memory.import.
type WatchAddParams struct {
	Path      string   `json:"path"`
	Format    string   `json:"format,omitempty"` // auto (default), markdown, text
	Tags      []string `json:"tags,omitempty"`
	Layer     int      `json:"layer,omitempty"`
	Type      string   `json:"type,omitempty"`
	Untrusted *bool    `json:"untrusted,omitempty"` // default true
}

// WatchParams identifies a watched folder.
type WatchParams struct {
	WatchID uuid.UUID `json:"watchId"`
}

// WatchedFolder is a folder of notes that is imported again when it changes.
type WatchedFolder struct {
	WatchID    uuid.UUID     `json:"watchId"`
	Path       string        `json:"path"`
	Format     string        `json:"format"`            // markdown, text
	State      string        `json:"state"`             // watching, importing, paused, missing, failed
	Message    string        `json:"message,omitempty"` // why it is missing, failed or paused
	Files      int64         `json:"files"`             // imported notes that still exist
	Trashed    int64         `json:"trashed"`           // notes whose documents the last change moved to the trash
	Tags       []string      `json:"tags"`
	Untrusted  bool          `json:"untrusted"`
	LastImport *ImportStatus `json:"lastImport,omitempty"`
	ScannedAt  *time.Time    `json:"scannedAt,omitempty"` // time of the last scan since Helix started
	CreatedAt  time.Time     `json:"createdAt"`
}

// WatchListResult lists watched folders by their paths.
type WatchListResult struct {
	Folders []WatchedFolder `json:"folders"`
}

// WatchChanged is the event memory.watch_changed: the state of a watched folder changed, or the
// folder was removed.
type WatchChanged struct {
	WatchID uuid.UUID `json:"watchId"`
}
