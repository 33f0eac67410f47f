// Package permission decides for every kind of call whether a subject may use a capability on a
// resource now. By default nothing is allowed. It stores grants, denials, approved definitions and
// open questions; no other package compares capabilities or reads grants. Domains and the
// composition root import it.
package permission

import (
	"context"
	"encoding/json"
	"fmt"
	"helix/backend/fault"

	"github.com/google/uuid"
)

// Subject is one definition of a tool, skill, agent or other part that requests permissions.
type Subject struct {
	Kind           string // tool, skill, wasm, mcp, container, agent, voice_command, channel, schedule
	ID             string
	DefinitionHash [32]byte // a grant is valid only for this definition
}

// Tier is how much harm a call can do. A hint from a third party may raise it, but never lower it.
type Tier int

// The tiers, in ascending order.
const (
	ReadOnly Tier = iota
	SideEffecting
	Privileged
)

// String returns the tier on the wire: read_only, side_effecting or privileged.
func (t Tier) String() string {
	switch t {
	case ReadOnly:
		return "read_only"
	case SideEffecting:
		return "side_effecting"
	}
	return "privileged"
}

// Raise returns the higher of the two tiers.
func (t Tier) Raise(hint Tier) Tier { return max(t, hint) }

func parseTier(s string) Tier {
	switch s {
	case "read_only":
		return ReadOnly
	case "side_effecting":
		return SideEffecting
	}
	return Privileged
}

// Effect is the outcome of a decision.
type Effect string

// The effects. Service.Decide returns Allow or Deny. Ask is the result of the rules before the
// person is asked.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
	Ask   Effect = "ask"
)

// The reasons of a Decision.
const (
	ReasonNever             = "never"              // never grantable, or the resource is malformed
	ReasonInactive          = "inactive"           // the subject is unknown, disabled, revoked or waits for approval
	ReasonDefinitionChanged = "definition_changed" // the definition is not the approved one
	ReasonDeniedByUser      = "denied_by_user"     // a remembered denial, or a denied question
	ReasonUndeclared        = "undeclared"         // not declared by the subject
	ReasonCallerLacks       = "caller_lacks"       // the caller does not have it and cannot lend it
	ReasonGranted           = "granted"
	ReasonReadOnly          = "read_only"       // no permission is needed
	ReasonNeedsApproval     = "needs_approval"  // a question is open; see PendingID
	ReasonRevoked           = "revoked"         // the run lost a grant that it was using
	ReasonAuditDown         = "audit_unwritten" // never in a Decision: Decide returns an Unavailable error
)

// Request is a request for a permission.
type Request struct {
	Subject  Subject
	Cap      Capability // "" requests a call of the given Tier without any capability
	Resource string     // concrete: a path, host[:port], port, bytes, name
	// Ask is the pattern to ask the person for if Resource is not granted, such as the folder of a
	// file; "": exactly Resource. It must match Resource.
	Ask       string
	Tier      Tier
	Caller    *Authority // what the caller of the run holds; nil: the user. The run's own Authority is accepted too
	RunID     uuid.UUID
	SessionID uuid.UUID // zero: the session in the context
	// Interactive means that a person is waiting for this call. Decide then waits at most 120 s for
	// an answer; otherwise it returns at once and leaves the question open.
	Interactive bool
	// Call tells apart calls that need the same capability but are asked about separately, because the
	// person judges the call itself by Why; "": all such calls share one question.
	Call    string
	Why     string          // the subject's own explanation, shown as a quotation
	RunKind string          // kind of the run as shown to people: tool, skill, schedule …; "": Subject.Kind
	Rerun   json.RawMessage // payload for Register's rerun to start the same run again; nil: not possible
	// Waiting is called once when Decide begins to wait for a person, with the id of the question.
	Waiting func(pending uuid.UUID)
}

// Decision is the result of a Request.
type Decision struct {
	Effect    Effect    `json:"effect"`
	Reason    string    `json:"reason"`
	GrantID   uuid.UUID `json:"grantId"`   // the grant that allowed it; zero: none
	PendingID uuid.UUID `json:"pendingId"` // the open question; zero: none
	// Path is the resource of an allowed file capability, with every symbolic link resolved. Open
	// this path without following links, because Resource may have changed its target since.
	Path string `json:"-"`
}

// Want is one capability that a subject declares.
type Want struct {
	Capability Capability
	Resource   string // pattern
	Why        string
}

// ParseWant parses one capability.
func ParseWant(text string) (Want, error) {
	c, resource, err := ParseCapability(text)
	return Want{Capability: c, Resource: resource}, err
}

// ParseWants parses stored capabilities. It skips those that cannot be parsed, because they were
// validated when saved and could not be granted anyway.
func ParseWants(caps []string) []Want {
	out := make([]Want, 0, len(caps))
	for _, c := range caps {
		if w, err := ParseWant(c); err == nil {
			out = append(out, w)
		}
	}
	return out
}

// Limits on what one definition requests.
const (
	maxWants        = 32
	MaxProgramState = int64(16) << 20
)

// EachWant parses the capabilities that a definition requests, without duplicates. It calls accept
// for each with its index, and refuse with the reason for those that are not allowed; index -1
// stands for the whole list.
func EachWant(noun string, caps []string, accept func(i int, w Want), refuse func(i int, code, message string)) {
	if len(caps) > maxWants {
		refuse(-1, "capabilities", fmt.Sprintf("A %s asks for at most %d capabilities.", noun, maxWants))
		return
	}
	seen := map[string]bool{}
	for i, c := range caps {
		w, err := ParseWant(c)
		switch {
		case err != nil:
			refuse(i, "capability", fault.As(err).Message)
		case w.Capability == State && StateBytes(w.Resource) > MaxProgramState:
			refuse(i, "quota", fmt.Sprintf("A %s keeps at most 16 MiB of state.", noun))
		case !seen[w.Text()]:
			seen[w.Text()] = true
			accept(i, w)
		}
	}
}

// Text returns the normalized form that definitions store.
func (w Want) Text() string {
	if w.Capability == FilesystemWrite {
		return string(w.Capability)
	}
	return FormatCapability(w.Capability, w.Resource)
}

// SubjectInfo is what a domain reports about one of its subjects.
type SubjectInfo struct {
	Name           string
	State          string // active, disabled, suspended, revoked, pending_approval
	DefinitionHash [32]byte
	Definition     json.RawMessage // the document covered by the hash, shown in diffs
	Declared       []Want
	Signer         string // who signed it, as shown to people; "": nobody
	// Approved means that the definition needs no approval because the user wrote it on this
	// installation. A change of it still suspends its grants.
	Approved bool
	// Draft means that it is not stored. Only the scopes once and run are possible.
	Draft bool
}

// The states of a subject.
const (
	Active          = "active"
	Disabled        = "disabled"
	Suspended       = "suspended"
	Revoked         = "revoked"
	PendingApproval = "pending_approval"
)

// Source provides the subjects of one kind. Subject returns NotFound if there is none with this id
// or it belongs to another user.
type Source interface {
	Subject(ctx context.Context, kind, id string) (SubjectInfo, error)
}

// Step is one step of what a subject does when it runs.
type Step struct {
	ID         string
	Subject    Subject
	Tier       Tier
	Wants      []Want
	Unresolved string // why what the step needs is not known in advance; "": it is
}

// Stepper is a Source whose subjects consist of steps, for previews. It must not run anything.
type Stepper interface {
	Steps(ctx context.Context, kind, id string, input json.RawMessage) ([]Step, error)
}

// Rerun starts the same run again from the payload of its Request and returns the new run's id as
// soon as it has started. ctx contains the answer that allows it and must be passed to Begin.
type Rerun = func(ctx context.Context, payload json.RawMessage) (uuid.UUID, error)
