package permission

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Item is one capability in a question, an answer or a grant.
type Item struct {
	Capability Capability `json:"capability"`
	Resource   string     `json:"resource"`
	Why        string     `json:"why,omitempty"` // the subject's words, made safe to show
}

// ItemAnswer allows or refuses one item of a question.
type ItemAnswer struct {
	Capability Capability `json:"capability"`
	Resource   string     `json:"resource"`
	Allow      bool       `json:"allow"`
}

// SubjectRef is a subject on the wire.
type SubjectRef struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // made safe to show
}

// RunRef is the run that a question came from.
type RunRef struct {
	Kind    string     `json:"kind"`
	ID      *uuid.UUID `json:"id,omitempty"`
	Waiting bool       `json:"waiting"` // the run is stopped at this question and goes on with the answer
	Rerun   bool       `json:"rerun"`   // the same run can be started again
}

// Approval is a question to the user.
type Approval struct {
	ID             uuid.UUID       `json:"id"`
	Kind           string          `json:"kind"` // capability, definition, tier or command
	Subject        SubjectRef      `json:"subject"`
	DefinitionHash string          `json:"definitionHash"` // hexadecimal; decide must repeat it
	Tier           string          `json:"tier"`           // read_only, side_effecting or privileged
	Sentence       string          `json:"sentence"`       // what is asked, in one sentence
	Requested      []Item          `json:"requested"`
	Question       *Question       `json:"question,omitempty"` // of kind command
	Run            RunRef          `json:"run"`
	Scopes         []string        `json:"scopes"` // that can be answered: once, run, session, always
	Status         string          `json:"status"` // pending, approved, denied, expired or superseded
	Count          int             `json:"count"`  // identical requests so far
	CreatedAt      time.Time       `json:"createdAt"`
	LastAt         time.Time       `json:"lastAt"`
	ExpiresAt      time.Time       `json:"expiresAt"`
	DecidedAt      *time.Time      `json:"decidedAt,omitempty"`
	DecidedBy      string          `json:"decidedBy,omitempty"`
	Decision       json.RawMessage `json:"decision,omitempty"`

	ref string // what the domain calls the question
}

// ListApprovalsParams select questions.
type ListApprovalsParams struct {
	Status    string `json:"status,omitempty"` // default pending; all for every status
	SubjectID string `json:"subjectId,omitempty"`
	Limit     int    `json:"limit,omitempty"` // 1..100, default 50
	Offset    int    `json:"offset,omitempty"`
}

// ListApprovalsResult is one page, newest first.
type ListApprovalsResult struct {
	Approvals    []Approval `json:"approvals"`
	Total        int        `json:"total"`
	PendingCount int        `json:"pendingCount"`
}

// GetApprovalParams name a question.
type GetApprovalParams struct {
	ID uuid.UUID `json:"id"`
}

// GetApprovalResult is a question with what helps to answer it.
type GetApprovalResult struct {
	Approval
	Diff    *DiffResult    `json:"diff,omitempty"` // what changed since the definition that was approved
	History []Approval     `json:"history"`        // former decisions about this subject, newest first
	Preview *PreviewResult `json:"preview,omitempty"`
}

// AnswerParams answer a question.
type AnswerParams struct {
	ID             uuid.UUID    `json:"id"`
	Decision       string       `json:"decision"`            // approve or deny
	DefinitionHash string       `json:"definitionHash"`      // the hash that was shown
	Scope          string       `json:"scope,omitempty"`     // once (default), run, session or always
	ExpiresAt      *time.Time   `json:"expiresAt,omitempty"` // for always
	Items          []ItemAnswer `json:"items,omitempty"`     // absent: everything that was asked
	Remember       bool         `json:"remember,omitempty"`  // with deny: never ask again
	Rerun          bool         `json:"rerun,omitempty"`     // with approve: start the same run again
	Note           string       `json:"note,omitempty"`      // kept with the decision

	// Choice is one of the question's choices; absent: the only one that fits the decision.
	Choice string          `json:"choice,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"` // for the question's form
}

// AnswerResult is what the answer did.
type AnswerResult struct {
	Status string     `json:"status"`
	Grants []Grant    `json:"grants"`
	RunID  *uuid.UUID `json:"runId,omitempty"` // of the run that was started again
	// RerunError says why the run was not started again; the answer itself stands.
	RerunError string `json:"rerunError,omitempty"`
}

// Grant is a right as it is listed.
type Grant struct {
	ID             uuid.UUID  `json:"id"`
	Subject        SubjectRef `json:"subject"`
	DefinitionHash string     `json:"definitionHash"`
	Capability     Capability `json:"capability"`
	Resource       string     `json:"resource"`
	Sentence       string     `json:"sentence"`
	Scope          string     `json:"scope"`
	RunID          *uuid.UUID `json:"runId,omitempty"`
	UsesLeft       *int64     `json:"usesLeft,omitempty"`
	Origin         string     `json:"origin"` // user, preset or policy
	State          string     `json:"state"`  // active, suspended, revoked or expired
	CreatedAt      time.Time  `json:"createdAt"`
	ExpiresAt      *time.Time `json:"expiresAt,omitempty"`
	LastUsedAt     *time.Time `json:"lastUsedAt,omitempty"`
	RevokedAt      *time.Time `json:"revokedAt,omitempty"`
	RevokeReason   string     `json:"revokeReason,omitempty"`
	SuspendedAt    *time.Time `json:"suspendedAt,omitempty"`
}

// Denial is a refusal that is remembered.
type Denial struct {
	ID         uuid.UUID  `json:"id"`
	Subject    SubjectRef `json:"subject"` // id * stands for every subject of the kind
	Capability Capability `json:"capability"`
	Resource   string     `json:"resource"`
	Sentence   string     `json:"sentence"`
	Reason     string     `json:"reason"`
	CreatedAt  time.Time  `json:"createdAt"`
}

// ListParams select grants and denials.
type ListParams struct {
	SubjectID string `json:"subjectId,omitempty"`
	State     string `json:"state,omitempty"` // active, suspended, revoked or expired; absent: all
	Limit     int    `json:"limit,omitempty"` // 1..100, default 50
	Offset    int    `json:"offset,omitempty"`
}

// ListResult is one page of grants, suspended ones first, then newest first; denials are
// listed in full up to 1,000.
type ListResult struct {
	Grants  []Grant  `json:"grants"`
	Denials []Denial `json:"denials"`
	Total   int      `json:"total"` // grants that match
}

// RevokeParams take rights back. Exactly one field is given. UndoToken and DenialID need
// the scope approve, because they give rights.
type RevokeParams struct {
	GrantID   *uuid.UUID `json:"grantId,omitempty"`
	SubjectID string     `json:"subjectId,omitempty"`
	All       bool       `json:"all,omitempty"`
	UndoToken string     `json:"undoToken,omitempty"` // of a revocation at most 10 s ago: puts its grants back
	DenialID  *uuid.UUID `json:"denialId,omitempty"`  // forgets a remembered refusal
}

// RevokeResult is what happened.
type RevokeResult struct {
	Revoked   int    `json:"revoked"`
	Restored  int    `json:"restored,omitempty"`
	UndoToken string `json:"undoToken,omitempty"` // valid for 10 s
}

// PreviewSubject names what to look at.
type PreviewSubject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// PreviewParams ask what a run would need.
type PreviewParams struct {
	Subject PreviewSubject  `json:"subject"`
	Input   json.RawMessage `json:"input,omitempty"`
}

// PreviewCapability is one right that a step needs.
type PreviewCapability struct {
	Capability Capability `json:"capability"`
	Resource   string     `json:"resource"`
	State      string     `json:"state"`        // granted, missing, denied or narrowed
	By         string     `json:"by,omitempty"` // the grant, the rule or what it is narrowed to
}

// PreviewStep is one part of the run.
type PreviewStep struct {
	StepID       string              `json:"stepId"`
	Subject      SubjectRef          `json:"subject"`
	Tier         string              `json:"tier"`
	Capabilities []PreviewCapability `json:"capabilities"`
}

// PreviewResult is what a run would need and whether it would be stopped. Nothing was run.
type PreviewResult struct {
	Steps      []PreviewStep       `json:"steps"`
	Union      []PreviewCapability `json:"union"` // of all steps
	Hosts      []string            `json:"hosts"`
	Secrets    []string            `json:"secrets"`
	Tier       string              `json:"tier"`
	WillAsk    []Item              `json:"willAsk"`
	Unattended string              `json:"unattended"` // ok or will_stop
	Stops      []PreviewStop       `json:"stops"`      // what cannot run at all, and why
	Unresolved []string            `json:"unresolved"` // known only when it runs
}

// PreviewStop is a subject that cannot run as it stands.
type PreviewStop struct {
	Subject SubjectRef `json:"subject"`
	Reason  string     `json:"reason"` // inactive, or definition_changed: its change waits for approval
	Message string     `json:"message"`
}

// DiffParams name two definitions of a subject by their hashes.
type DiffParams struct {
	SubjectKind string `json:"subjectKind"`
	SubjectID   string `json:"subjectId"`
	From        string `json:"from,omitempty"` // default: the one approved last
	To          string `json:"to,omitempty"`   // default: the present one
}

// DiffChange is one place where two definitions differ.
type DiffChange struct {
	Path   string          `json:"path"` // JSON Pointer
	Kind   string          `json:"kind"` // added, removed or changed
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// DiffCapabilities are the declared capabilities that came and went.
type DiffCapabilities struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
}

// DiffResult compares two definitions.
type DiffResult struct {
	From         string           `json:"from"` // hashes; "" none
	To           string           `json:"to"`
	Changes      []DiffChange     `json:"changes"`
	Capabilities DiffCapabilities `json:"capabilities"`
}

// ApprovalChanged is the event approvals.changed.
type ApprovalChanged struct {
	ID           uuid.UUID `json:"id"`
	Status       string    `json:"status"`
	PendingCount int       `json:"pendingCount"`
}

// Changed is the event permissions.changed.
type Changed struct {
	SubjectID string `json:"subjectId"` // * for many
}
