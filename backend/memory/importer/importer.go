// Package importer reads the exports of other programs as a stream of conversations, documents and
// memories. It does not depend on a database, keeps at most a few records in memory whatever the
// size of the file, and can continue where an earlier reader stopped.
package importer

import (
	"encoding/json"
	"fmt"
	"time"
)

// The formats that Open reads.
const (
	Auto     = "auto" // detected from the content
	ChatGPT  = "chatgpt"
	Claude   = "claude"
	Markdown = "markdown"
	Text     = "text"
	JSONL    = "jsonl"
	LoCoMo   = "locomo"
)

// Formats lists the formats that a caller can request by name.
var Formats = []string{ChatGPT, Claude, Markdown, Text, JSONL, LoCoMo}

// Limits on the input.
const (
	MaxRecord   = 8 << 20 // bytes of one record
	MaxFile     = 4 << 30 // bytes of one file
	MaxEntries  = 100_000 // entries of an archive or files of a folder
	MaxInflated = 8 << 30 // bytes of all entries of an archive together

	// An archive that exceeds these is read only with Options.AllowLarge. Text compresses
	// about ten to one.
	askBytes = 1 << 30  // bytes to read after decompression
	askRatio = 50       // compression ratio …
	askFrom  = 64 << 20 // … checked from this size on
)

// CodeLarge is the value of Large.Code.
const CodeLarge = "large_archive"

// Large is the detail of the Limit error about an archive that is read only with
// Options.AllowLarge.
type Large struct {
	Code          string `json:"code"` // CodeLarge
	PackedBytes   int64  `json:"packedBytes"`
	UnpackedBytes int64  `json:"unpackedBytes"` // at least
	Files         int    `json:"files"`
}

// Record is one record of the source. Exactly one of Conversation, Document, Memory and Problem is set.
type Record struct {
	Conversation *Conversation
	Document     *Document
	Memory       *Memory
	Problem      *Problem
	After        Position // where to continue after this record
}

// Position is a place between two records.
type Position struct {
	File   string `json:"file,omitempty"`   // name in the archive or folder; "" for a single file
	Offset int64  `json:"offset,omitempty"` // bytes from its beginning
	Line   int64  `json:"line,omitempty"`   // lines before it
	Part   int    `json:"part,omitempty"`   // parts of a divided text before it; 1 after the only record of a file
}

// Conversation is one dialogue. Its turns are in order.
type Conversation struct {
	Source       string // chatgpt, claude, locomo
	ExternalID   string
	Title        string
	Started      *time.Time
	Ended        *time.Time
	Participants []string
	Turns        []Turn

	// Set for an export of Helix. An existing conversation is newer and must not be changed.
	Exported bool
	Tags     []string
	Layer    int
	Type     string
}

// Turn is one message.
type Turn struct {
	ExternalID string
	Role       string // user, assistant
	Speaker    string
	Text       string // never empty
	At         *time.Time
	Model      string // that wrote it; "" if unknown
	Session    int    // number in a dialogue of several sessions, from 1
}

// Document is a note or another text.
type Document struct {
	Source  string // markdown, text
	Path    string // path in its folder, with slashes; the file name if there is no folder
	Part    int    // number in a long text that is divided, from 0
	Last    bool   // the last part
	Title   string
	Mime    string
	Tags    []string
	Aliases []string
	Links   []string // distinct notes that it links to
	Date    *time.Time
	Text    string

	// Set for an export of Helix, which has Parts instead of Text. An existing document is newer
	// and must not be changed.
	Exported bool
	URI      string
	Parts    []Part
	Layer    int
	Type     string
}

// Part is a stored part of a document. Start and End are its offsets in the document.
type Part struct {
	Heading    string
	Text       string
	Start, End *int64
	Metadata   json.RawMessage
}

// Memory is one entry of a list of memories. Fields that the source does not have are empty. Like the id
// of a conversation, ExternalID has a numeric suffix if other records of the source have the same id.
type Memory struct {
	ExternalID string
	Local      bool // the id is so short that it is unique only within its file
	Content    string
	Type       string
	Tags       []string
	Layer      int
	At         *time.Time

	// Only in an export of Helix.
	Tier     string // high, medium, low
	Pinned   bool
	Metadata json.RawMessage // an object
}

// Problem is a record that could not be read. The reader continues after it.
type Problem struct {
	File    string
	Line    int64
	Message string
}

// BrokenError reports the offset from which on a file is unreadable.
type BrokenError struct {
	File   string
	Offset int64
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s ends unexpectedly at byte %d", e.File, e.Offset)
}

// Metadata returns the additional data stored with the turn, or nil if there is none.
func (t *Turn) Metadata() json.RawMessage {
	if t.Model == "" && t.Session == 0 {
		return nil
	}
	b, _ := json.Marshal(struct { // two plain fields: cannot fail
		Model   string `json:"model,omitempty"`
		Session int    `json:"session,omitempty"`
	}{t.Model, t.Session})
	return b
}
