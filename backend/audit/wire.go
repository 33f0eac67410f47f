package audit

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// WireEntry is an entry in the audit log of a run's result.
type WireEntry struct {
	Timestamp time.Time       `json:"timestamp"`
	TS        int64           `json:"ts"` // milliseconds since 1970
	Action    string          `json:"action"`
	Details   json.RawMessage `json:"details"` // null if there are none or they were erased
}

// WireActor is who performed the action.
type WireActor struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // of a token: its name when it was created

	Client string `json:"client,omitempty"` // of a user: window, browser or terminal, if known
}

// WireSubject is what the action was performed on, or what performed it on the user's behalf.
type WireSubject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // current name, if it still exists
}

// LogEntry is an entry as shown in Activity.
type LogEntry struct {
	Seq       int64           `json:"seq"`
	ID        uuid.UUID       `json:"id"`
	Timestamp time.Time       `json:"timestamp"`
	TS        int64           `json:"ts"` // milliseconds since 1970
	Action    string          `json:"action"`
	Actor     WireActor       `json:"actor"`
	Subject   WireSubject     `json:"subject"`
	Outcome   string          `json:"outcome"`
	RunID     *uuid.UUID      `json:"runId,omitempty"`
	Details   json.RawMessage `json:"details"` // null if there are none or they were erased
	Hash      string          `json:"hash"`    // hexadecimal
	Signed    bool            `json:"signed"`  // included in a signed segment
}

// ListParams filters entries. Times are inclusive.
type ListParams struct {
	From      *time.Time `json:"from,omitempty"`
	To        *time.Time `json:"to,omitempty"`
	Actions   []string   `json:"actions,omitempty"`
	SubjectID string     `json:"subjectId,omitempty"`
	RunID     *uuid.UUID `json:"runId,omitempty"`
	Outcome   string     `json:"outcome,omitempty"`
	Text      string     `json:"text,omitempty"`   // substring of an action, id or detail, ignoring case
	Limit     int        `json:"limit,omitempty"`  // 1..100, default 50
	Before    int64      `json:"before,omitempty"` // only entries with a smaller seq
}

// ListResult is one page, newest first.
type ListResult struct {
	Entries []LogEntry `json:"entries"`
	// Next is the value of before for the next page. It may be set even if the page is not full or
	// empty, because the search for a page is limited to 20 ms.
	Next *int64 `json:"next,omitempty"`
}

// GetParams identifies an entry.
type GetParams struct {
	Seq int64 `json:"seq"`
}

// Segment is a signed part of the log.
type Segment struct {
	No        int64     `json:"no"`
	FirstSeq  int64     `json:"firstSeq"`
	LastSeq   int64     `json:"lastSeq"`
	Root      string    `json:"root"` // RFC 6962 tree head, hexadecimal
	PublicKey string    `json:"publicKey"`
	SignedAt  time.Time `json:"signedAt"`
}

// GetResult is an entry with its position in the chain.
type GetResult struct {
	LogEntry
	PrevHash    string   `json:"prevHash"`
	DetailsHash string   `json:"detailsHash"`
	Erased      bool     `json:"erased"` // the details were erased
	Previous    *int64   `json:"previous,omitempty"`
	Following   *int64   `json:"following,omitempty"`
	Segment     *Segment `json:"segment,omitempty"`
}

// VerifyParams limits a verification to the segments that overlap a period; absent: everything.
type VerifyParams struct {
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
}

// ExportParams sets the destination and the content of an export.
type ExportParams struct {
	Path string     `json:"path"` // absolute; must not exist
	From *time.Time `json:"from,omitempty"`
	To   *time.Time `json:"to,omitempty"`
}

// ExportResult describes the written file.
type ExportResult struct {
	Path     string `json:"path"`
	Entries  int64  `json:"entries"`
	Segments int64  `json:"segments"`
}

// EraseParams selects the details to erase. Exactly one field is set.
type EraseParams struct {
	SubjectID string     `json:"subjectId,omitempty"`
	Before    *time.Time `json:"before,omitempty"`
}

// EraseResult counts what was erased.
type EraseResult struct {
	Erased int64 `json:"erased"`
}

// AcceptParams names the problem of a Report that came from an alarm or from the head file.
type AcceptParams struct {
	Problem string `json:"problem"`
}

// AcceptResult names the newest accepted alarm.
type AcceptResult struct {
	Seq int64 `json:"seq"`
}

// The problems of a Report.
const (
	ProblemHash           = "hash"            // something was changed
	ProblemGap            = "gap"             // an entry or a segment is missing
	ProblemOrder          = "order"           // entries are not in order
	ProblemDuplicate      = "duplicate"       // an entry occurs twice
	ProblemSignature      = "signature"       // a segment does not match its signature
	ProblemTruncated      = "truncated"       // the end was removed
	ProblemUnknownKey     = "unknown_key"     // signed by a key that is not trusted; the chain was checked
	ProblemDetails        = "details"         // details are missing without a record that they were erased
	ProblemExtra          = "extra"           // rows that belong to no entry
	ProblemHeadMissing    = "head_missing"    // the head file is missing
	ProblemHeadEmpty      = "head_empty"      // it is empty
	ProblemHeadUnreadable = "head_unreadable" // it is malformed, or cannot be read
	ProblemHeadForeign    = "head_foreign"    // it belongs to another device
	ProblemHeadOld        = "head_old"        // it is an older copy
)

// sentences describe the problems.
var sentences = map[string]string{
	ProblemHash:           "The content of an entry, its details or the file is not what was recorded.",
	ProblemGap:            "Entries or signed segments are missing, and no entry records their removal.",
	ProblemOrder:          "Entries are not in the order in which they were written.",
	ProblemDuplicate:      "An entry appears twice.",
	ProblemSignature:      "A signature does not match what it signs.",
	ProblemTruncated:      "The end of the log is missing: it was longer before.",
	ProblemUnknownKey:     "A segment is signed by an unknown key.",
	ProblemDetails:        "Details of an entry are missing, and no entry records their erasure.",
	ProblemExtra:          "The database has rows that belong to no log entry.",
	ProblemHeadMissing:    "The file audit-head, which records where the log ends, is missing. Entries at the end may be missing, too.",
	ProblemHeadEmpty:      "The file audit-head, which records where the log ends, is empty. Entries at the end may be missing.",
	ProblemHeadUnreadable: "The file audit-head, which records where the log ends, is damaged or cannot be read. Entries at the end may be missing.",
	ProblemHeadForeign:    "The file audit-head belongs to another installation or another database.",
	ProblemHeadOld:        "The file audit-head is an older copy: it ends before the log does.",
}

// Report is the result of a verification. Nothing is ever repaired.
type Report struct {
	OK            bool      `json:"ok"`
	Entries       int64     `json:"entries"`
	Segments      int64     `json:"segments"`
	FirstSeq      int64     `json:"firstSeq"`
	LastSeq       int64     `json:"lastSeq"`
	SignedThrough int64     `json:"signedThrough"` // the last entry in a signed segment
	Unsigned      int64     `json:"unsigned"`      // number of entries after it
	Erased        int64     `json:"erased"`        // entries whose details were erased
	PrunedThrough int64     `json:"prunedThrough"` // entries up to here were pruned
	Problem       string    `json:"problem,omitempty"`
	Message       string    `json:"message,omitempty"` // description of the problem
	Alarm         bool      `json:"alarm,omitempty"`   // found earlier, or about the head file; audit.accept acknowledges it
	FirstBadSeq   *int64    `json:"firstBadSeq,omitempty"`
	Expected      string    `json:"expected,omitempty"`
	Found         string    `json:"found,omitempty"`
	CheckedAt     time.Time `json:"checkedAt"`
}
