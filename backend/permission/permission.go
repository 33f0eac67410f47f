// Package permission answers one question for every kind of call: may this subject use this
// capability on this resource now? Nothing is allowed by default. It keeps grants, denials,
// approved definitions and open questions, and no other package compares capabilities or
// reads grants. Domains and the composition root import it.
package permission

import (
	"context"
	"encoding/json"
	"fmt"
	"helix/backend/fault"

	"github.com/google/uuid"
)

// Subject is what asks: one definition of one tool, skill, agent or other part.
type Subject struct {
	Kind           string // tool, skill, wasm, mcp, container, agent, voice_command, channel, schedule
	ID             string
	DefinitionHash [32]byte // a grant belongs to exactly this definition
}

// Tier says how much harm a call can do. A third party's hint may raise it, never lower it.
type Tier int

// The tiers, in rising order.
const (
	ReadOnly Tier = iota
	SideEffecting
	Privileged
)

// String is the tier on the wire: read_only, side_effecting or privileged.
func (t Tier) String() string {
	switch t {
	case ReadOnly:
		return "read_only"
	case SideEffecting:
		return "side_effecting"
	}
	return "privileged"
}

// Raise is the higher of the two tiers.
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

// Effect is the answer.
type Effect string

// The effects. Service.Decide answers Allow or Deny; Ask is what the pure rules say before
// the person was asked.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
	Ask   Effect = "ask"
)

// The reasons of a Decision.
const (
	ReasonNever             = "never"              // never grantable, or the resource is malformed
	ReasonInactive          = "inactive"           // subject unknown, disabled, revoked or waiting for approval
	ReasonDefinitionChanged = "definition_changed" // not the definition that was approved
	ReasonDeniedByUser      = "denied_by_user"     // a remembered denial, or the answer to this question
	ReasonUndeclared        = "undeclared"         // not in the subject's own list
	ReasonCallerLacks       = "caller_lacks"       // the caller may lend only what it holds
	ReasonGranted           = "granted"
	ReasonReadOnly          = "read_only"       // nothing to allow
	ReasonNeedsApproval     = "needs_approval"  // a question is open; see PendingID
	ReasonRevoked           = "revoked"         // the run lost a right it was using
	ReasonAuditDown         = "audit_unwritten" // never a Decision: Decide answers an Unavailable error
)

// Request is one question.
type Request struct {
	Subject  Subject
	Cap      Capability // "" asks for a call of the given Tier without any capability
	Resource string     // concrete: a path, host[:port], port, bytes, name
	// Ask is the pattern that the person is asked for when Resource is not granted, such as the
	// folder of a file; "": exactly Resource. It must name Resource too.
	Ask       string
	Tier      Tier
	Caller    *Authority // what the caller of the run holds; nil: the user. The run's own Authority may also be given
	RunID     uuid.UUID
	SessionID uuid.UUID // zero: the session in the context
	// Interactive says that a person is there and waits for this call. Then Decide waits at
	// most 120 s for an answer; otherwise it answers at once and leaves the question open.
	Interactive bool
	Why         string          // the subject's own words, shown as a quotation
	RunKind     string          // what the run is for people: tool, skill, schedule …; "" is Subject.Kind
	Rerun       json.RawMessage // what Register's rerun needs to start the same run again; nil: it cannot
	// Waiting is called once when Decide begins to wait for a person, with the question's id.
	Waiting func(pending uuid.UUID)
}

// Decision is the answer to a Request.
type Decision struct {
	Effect    Effect    `json:"effect"`
	Reason    string    `json:"reason"`
	GrantID   uuid.UUID `json:"grantId"`   // the grant that allowed it, or zero
	PendingID uuid.UUID `json:"pendingId"` // the question that is open, or zero
	// Path is what the resource of a file capability led to, with every link followed, when
	// Effect is Allow. Open exactly this and follow no link: the resource itself may lead
	// somewhere else by then.
	Path string `json:"-"`
}

// Want is one capability that a subject declares.
type Want struct {
	Capability Capability
	Resource   string // a pattern
	Why        string
}

// ParseWant reads one capability.
func ParseWant(text string) (Want, error) {
	c, resource, err := ParseCapability(text)
	return Want{Capability: c, Resource: resource}, err
}

// ParseWants reads stored capabilities; what does not parse is left out, since it was checked
// when it was saved and cannot be granted.
func ParseWants(caps []string) []Want {
	out := make([]Want, 0, len(caps))
	for _, c := range caps {
		if w, err := ParseWant(c); err == nil {
			out = append(out, w)
		}
	}
	return out
}

// Bounds of what one definition asks for.
const (
	maxWants        = 32
	MaxProgramState = int64(16) << 20
)

// EachWant reads the capabilities that a definition asks for, without repetitions: accept gets
// each with its place, refuse what the definition cannot have and why; -1 is the list as a whole.
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

// Text is the normal form, as definitions store it.
func (w Want) Text() string {
	if w.Capability == FilesystemWrite {
		return string(w.Capability)
	}
	return FormatCapability(w.Capability, w.Resource)
}

// SubjectInfo is what a domain knows about one of its subjects.
type SubjectInfo struct {
	Name           string
	State          string // active, disabled, suspended, revoked, pending_approval
	DefinitionHash [32]byte
	Definition     json.RawMessage // what the hash covers, shown in diffs
	Declared       []Want
	Signer         string // who vouches for it, as shown to people; "" nobody
	// Approved says that its definition needs no approval of its own because the user wrote
	// it here. Changing it still suspends its grants.
	Approved bool
	// Draft says that it is not stored: only the scopes once and run can be answered.
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

// Source tells about the subjects of one kind. Subject is NotFound when there is none of
// this id or it is not the caller's.
type Source interface {
	Subject(ctx context.Context, kind, id string) (SubjectInfo, error)
}

// Step is one part of what a subject would do when it runs.
type Step struct {
	ID         string
	Subject    Subject
	Tier       Tier
	Wants      []Want
	Unresolved string // why what the step needs is not known in advance; "" it is
}

// Stepper is a Source whose subjects consist of steps; preview asks it. It must not run
// anything.
type Stepper interface {
	Steps(ctx context.Context, kind, id string, input json.RawMessage) ([]Step, error)
}

// Rerun starts the same run again from the payload of its Request and returns the new run's
// id as soon as it has begun. ctx carries the answer that allows it: pass it on to Begin.
type Rerun = func(ctx context.Context, payload json.RawMessage) (uuid.UUID, error)
