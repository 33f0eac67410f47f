// Package importer reads the exports of other programs as a stream of conversations,
// documents and memories. It knows no database, keeps at most a few records in memory
// whatever the size of the file, and can go on where an earlier reader stopped.
package importer

import (
	"encoding/json"
	"fmt"
	"time"
)

// The formats that Open reads.
const (
	Auto     = "auto" // found out from the content
	ChatGPT  = "chatgpt"
	Claude   = "claude"
	Markdown = "markdown"
	Text     = "text"
	JSONL    = "jsonl"
	LoCoMo   = "locomo"
)

// Formats lists the formats that can be asked for by name.
var Formats = []string{ChatGPT, Claude, Markdown, Text, JSONL, LoCoMo}

// Limits of what is read.
const (
	MaxRecord   = 8 << 20 // bytes of one record
	MaxFile     = 4 << 30 // bytes of one file
	MaxEntries  = 100_000 // entries of an archive or files of a folder
	MaxInflated = 8 << 30 // bytes of all entries of an archive together

	// Above these an archive is read only with Options.AllowLarge. Text packs about ten to one.
	askBytes = 1 << 30  // of what would be read of it
	askRatio = 50       // of that to the size of the archive …
	askFrom  = 64 << 20 // … from here on
)

// CodeLarge is the code of Large.
const CodeLarge = "large_archive"

// Large is in the details of the Limit error about an archive that is read only with
// Options.AllowLarge.
type Large struct {
	Code          string `json:"code"` // CodeLarge
	PackedBytes   int64  `json:"packedBytes"`
	UnpackedBytes int64  `json:"unpackedBytes"` // at least
	Files         int    `json:"files"`
}

// Record is one thing that was read: one of Conversation, Document, Memory and Problem is
// set.
type Record struct {
	Conversation *Conversation
	Document     *Document
	Memory       *Memory
	Problem      *Problem
	After        Position // where a reader goes on that has this record already
}

// Position is a place between two records.
type Position struct {
	File   string `json:"file,omitempty"`   // the entry of an archive or folder, "" in a single file
	Offset int64  `json:"offset,omitempty"` // bytes from its beginning
	Line   int64  `json:"line,omitempty"`   // lines before it
	Part   int    `json:"part,omitempty"`   // parts of a divided text before it; 1 behind the only record of a file
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

	// Of an export of Helix's own. What is there already is newer and stays as it is.
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
	Model      string // that wrote it, "" when unknown
	Session    int    // of a dialogue in several sessions, from 1
}

// Document is a note or a text.
type Document struct {
	Source  string // markdown, text
	Path    string // in its folder, with slashes; its file name when there is no folder
	Part    int    // of a long text that is divided, from 0
	Last    bool   // no part comes behind it
	Title   string
	Mime    string
	Tags    []string
	Aliases []string
	Links   []string // the notes it names, without doubles
	Date    *time.Time
	Text    string

	// Of an export of Helix's own, which has the parts in place of the text. What is there
	// already is newer and stays as it is.
	Exported bool
	URI      string
	Parts    []Part
	Layer    int
	Type     string
}

// Part is a part of a document as it was stored. Start and End are its place in the document.
type Part struct {
	Heading    string
	Text       string
	Start, End *int64
	Metadata   json.RawMessage
}

// Memory is one entry of a list of memories. Empty fields were not given. Like that of a
// conversation, an id that other records of the source have too has a number behind it.
type Memory struct {
	ExternalID string
	Local      bool // the id is too short to say something outside of its file
	Content    string
	Type       string
	Tags       []string
	Layer      int
	At         *time.Time

	// Of an export of Helix's own.
	Tier     string // high, medium, low
	Pinned   bool
	Metadata json.RawMessage // an object
}

// Problem is one record that could not be taken. The reader goes on behind it.
type Problem struct {
	File    string
	Line    int64
	Message string
}

// BrokenError says where a file stops making sense. Nothing after that place can be read.
type BrokenError struct {
	File   string
	Offset int64
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s ends unexpectedly at byte %d", e.File, e.Offset)
}

// Metadata is what is kept of the turn besides its text, nil when there is nothing.
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
