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
	Why        string     `json:"why,omitempty"` // the subject's explanation, sanitized
}

// ItemAnswer allows or denies one item of a question.
type ItemAnswer struct {
	Capability Capability `json:"capability"`
	Resource   string     `json:"resource"`
	Allow      bool       `json:"allow"`
}

// SubjectRef is a subject on the wire.
type SubjectRef struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // sanitized
}

// RunRef is the run that asked a question.
type RunRef struct {
	Kind    string     `json:"kind"`
	ID      *uuid.UUID `json:"id,omitempty"`
	Waiting bool       `json:"waiting"` // the run is blocked until the answer
	Rerun   bool       `json:"rerun"`   // the same run can be started again
}

// Approval is a question to the user.
type Approval struct {
	ID             uuid.UUID       `json:"id"`
	Kind           string          `json:"kind"` // capability, definition, tier or command
	Subject        SubjectRef      `json:"subject"`
	DefinitionHash string          `json:"definitionHash"` // hexadecimal; must be repeated in approvals.decide
	Tier           string          `json:"tier"`           // read_only, side_effecting or privileged
	Sentence       string          `json:"sentence"`       // what is asked, in one sentence
	Requested      []Item          `json:"requested"`
	Question       *Question       `json:"question,omitempty"` // only of kind command
	Run            RunRef          `json:"run"`
	Scopes         []string        `json:"scopes"` // possible scopes: once, run, session, always
	Status         string          `json:"status"` // pending, approved, denied, expired or superseded
	Count          int             `json:"count"`  // identical requests so far
	CreatedAt      time.Time       `json:"createdAt"`
	LastAt         time.Time       `json:"lastAt"`
	ExpiresAt      time.Time       `json:"expiresAt"`
	DecidedAt      *time.Time      `json:"decidedAt,omitempty"`
	DecidedBy      string          `json:"decidedBy,omitempty"`
	Decision       json.RawMessage `json:"decision,omitempty"`

	ref string // the id that the domain uses
}

// ListApprovalsParams filters questions.
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

// GetApprovalParams identifies a question.
type GetApprovalParams struct {
	ID uuid.UUID `json:"id"`
}

// GetApprovalResult is a question with information that helps to answer it.
type GetApprovalResult struct {
	Approval
	Diff    *DiffResult    `json:"diff,omitempty"` // the changes since the last approved definition
	History []Approval     `json:"history"`        // previous decisions about this subject, newest first
	Preview *PreviewResult `json:"preview,omitempty"`
}

// AnswerParams answers a question.
type AnswerParams struct {
	ID             uuid.UUID    `json:"id"`
	Decision       string       `json:"decision"`            // approve or deny
	DefinitionHash string       `json:"definitionHash"`      // the hash that was shown
	Scope          string       `json:"scope,omitempty"`     // once (default), run, session or always
	ExpiresAt      *time.Time   `json:"expiresAt,omitempty"` // only for always
	Items          []ItemAnswer `json:"items,omitempty"`     // absent: all items of the question
	Remember       bool         `json:"remember,omitempty"`  // with deny: deny this in the future too
	Rerun          bool         `json:"rerun,omitempty"`     // with approve: start the same run again
	Note           string       `json:"note,omitempty"`      // kept with the decision

	// Choice is one of the question's choices; absent: the only one that matches the decision.
	Choice string          `json:"choice,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"` // for the question's form
}

// AnswerResult is the effect of an answer.
type AnswerResult struct {
	Status string     `json:"status"`
	Grants []Grant    `json:"grants"`
	RunID  *uuid.UUID `json:"runId,omitempty"` // of the restarted run
	// RerunError is the reason why the run was not started again. The answer is valid regardless.
	RerunError string `json:"rerunError,omitempty"`
}

// Grant is a granted capability.
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

// Denial is a remembered denial.
type Denial struct {
	ID         uuid.UUID  `json:"id"`
	Subject    SubjectRef `json:"subject"` // id * stands for every subject of the kind
	Capability Capability `json:"capability"`
	Resource   string     `json:"resource"`
	Sentence   string     `json:"sentence"`
	Reason     string     `json:"reason"`
	CreatedAt  time.Time  `json:"createdAt"`
}

// ListParams filters grants and denials.
type ListParams struct {
	SubjectID string `json:"subjectId,omitempty"`
	State     string `json:"state,omitempty"` // active, suspended, revoked or expired; absent: all
	Limit     int    `json:"limit,omitempty"` // 1..100, default 50
	Offset    int    `json:"offset,omitempty"`
}

// ListResult is one page of grants, suspended ones first, then newest first. Up to 1,000 denials
// are listed on every page.
type ListResult struct {
	Grants  []Grant  `json:"grants"`
	Denials []Denial `json:"denials"`
	Total   int      `json:"total"` // number of matching grants
}

// RevokeParams revokes grants or undoes that. Exactly one field is set. UndoToken and DenialID
// require the scope approve, because they extend permissions.
type RevokeParams struct {
	GrantID   *uuid.UUID `json:"grantId,omitempty"`
	SubjectID string     `json:"subjectId,omitempty"`
	All       bool       `json:"all,omitempty"`
	UndoToken string     `json:"undoToken,omitempty"` // of a revocation at most 10 s ago: restores its grants
	DenialID  *uuid.UUID `json:"denialId,omitempty"`  // deletes a remembered denial
}

// RevokeResult is the effect of a revocation.
type RevokeResult struct {
	Revoked   int    `json:"revoked"`
	Restored  int    `json:"restored,omitempty"`
	UndoToken string `json:"undoToken,omitempty"` // valid for 10 s
}

// PreviewSubject identifies the subject of a preview.
type PreviewSubject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// PreviewParams requests what a run would need.
type PreviewParams struct {
	Subject PreviewSubject  `json:"subject"`
	Input   json.RawMessage `json:"input,omitempty"`
}

// PreviewCapability is one capability that a step needs.
type PreviewCapability struct {
	Capability Capability `json:"capability"`
	Resource   string     `json:"resource"`
	State      string     `json:"state"`        // granted, missing, denied or narrowed
	By         string     `json:"by,omitempty"` // the grant, the rule or what it is narrowed to
}

// PreviewStep is one step of the run.
type PreviewStep struct {
	StepID       string              `json:"stepId"`
	Subject      SubjectRef          `json:"subject"`
	Tier         string              `json:"tier"`
	Capabilities []PreviewCapability `json:"capabilities"`
}

// PreviewResult is what a run would need and whether it would stop. Nothing is run.
type PreviewResult struct {
	Steps      []PreviewStep       `json:"steps"`
	Union      []PreviewCapability `json:"union"` // of all steps
	Hosts      []string            `json:"hosts"`
	Secrets    []string            `json:"secrets"`
	Tier       string              `json:"tier"`
	WillAsk    []Item              `json:"willAsk"`
	Unattended string              `json:"unattended"` // ok or will_stop
	Stops      []PreviewStop       `json:"stops"`      // what cannot run, and why
	Unresolved []string            `json:"unresolved"` // known only when it runs
}

// PreviewStop is a subject that cannot run at present.
type PreviewStop struct {
	Subject SubjectRef `json:"subject"`
	Reason  string     `json:"reason"` // inactive, or definition_changed: its change needs approval
	Message string     `json:"message"`
}

// DiffParams identifies two definitions of a subject by their hashes.
type DiffParams struct {
	SubjectKind string `json:"subjectKind"`
	SubjectID   string `json:"subjectId"`
	From        string `json:"from,omitempty"` // default: the last approved one
	To          string `json:"to,omitempty"`   // default: the current one
}

// DiffChange is one location where two definitions differ.
type DiffChange struct {
	Path   string          `json:"path"` // JSON Pointer
	Kind   string          `json:"kind"` // added, removed or changed
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// DiffCapabilities lists the declared capabilities that were added and removed.
type DiffCapabilities struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
}

// DiffResult is the difference between two definitions.
type DiffResult struct {
	From         string           `json:"from"` // hashes; "": none
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
	SubjectID string `json:"subjectId"` // *: several subjects
}
