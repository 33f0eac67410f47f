package memory

import (
	"time"

	"github.com/google/uuid"
)

// ImportParams is the request of memory.import_preview and memory.import.
type ImportParams struct {
	Path      string   `json:"path,omitempty"`
	BlobID    string   `json:"blobId,omitempty"`
	Name      string   `json:"name,omitempty"`   // name of the file that blobId or path is a copy of
	Format    string   `json:"format,omitempty"` // auto (default), chatgpt, claude, markdown, text, jsonl, locomo
	Tags      []string `json:"tags,omitempty"`
	Layer     int      `json:"layer,omitempty"`
	Type      string   `json:"type,omitempty"`
	Untrusted *bool    `json:"untrusted,omitempty"` // default true
	DryRun    bool     `json:"dryRun,omitempty"`

	// AllowLarge permits an archive that decompresses to far more than its size. Without it such an
	// archive is rejected with a limit error whose details have the code large_archive and both
	// sizes, and nothing is read.
	AllowLarge bool `json:"allowLarge,omitempty"`
}

// PreviewResult describes what an import would add.
type PreviewResult struct {
	Format        string         `json:"format"`
	Conversations int64          `json:"conversations"`
	Items         int64          `json:"items"`
	DateRange     *DateRange     `json:"dateRange,omitempty"`
	Samples       []ImportSample `json:"samples"` // at most 5
	Warnings      []string       `json:"warnings"`
	Duplicates    int64          `json:"duplicates"`
	Folder        bool           `json:"folder,omitempty"`  // a folder, which memory.watch_add accepts too
	Partial       bool           `json:"partial,omitempty"` // only the beginning was read, because the source is very large
}

// DateRange is a first and a last time.
type DateRange struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// ImportSample is one record that an import would add.
type ImportSample struct {
	Kind       string     `json:"kind"`
	Title      string     `json:"title,omitempty"`
	Speaker    string     `json:"speaker,omitempty"`
	Text       string     `json:"text"`
	OccurredAt *time.Time `json:"occurredAt,omitempty"`
}

// JobParams identifies an import.
type JobParams struct {
	JobID uuid.UUID `json:"jobId"`
}

// JobResult is the result of memory.import.
type JobResult struct {
	JobID uuid.UUID `json:"jobId"`
}

// ImportStatus is the status of an import.
type ImportStatus struct {
	JobID      uuid.UUID     `json:"jobId"`
	Format     string        `json:"format"`
	Path       string        `json:"path"`
	Status     string        `json:"status"`   // pending, running, completed, failed, cancelled
	Progress   float64       `json:"progress"` // 0 to 1
	Read       int64         `json:"read"`
	Added      int64         `json:"added"`
	Updated    int64         `json:"updated"`
	Skipped    int64         `json:"skipped"`
	Failed     int64         `json:"failed"`
	Vanished   []string      `json:"vanished,omitempty"` // files of an earlier import of this folder that no longer exist
	Errors     []ImportError `json:"errors"`             // at most 100
	Message    string        `json:"message,omitempty"`  // why it failed or is waiting, or additional information
	DryRun     bool          `json:"dryRun,omitempty"`
	WatchID    *uuid.UUID    `json:"watchId,omitempty"` // the watched folder that it belongs to
	StartedAt  *time.Time    `json:"startedAt,omitempty"`
	FinishedAt *time.Time    `json:"finishedAt,omitempty"`
}

// ImportError is one record that could not be imported.
type ImportError struct {
	Line    int64  `json:"line,omitempty"`
	File    string `json:"file,omitempty"`
	Message string `json:"message"`
}

// ImportsResult lists imports, newest first.
type ImportsResult struct {
	Jobs  []ImportStatus `json:"jobs"`
	Total int64          `json:"total"`
}
