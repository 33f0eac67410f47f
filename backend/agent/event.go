package agent

import (
	"bytes"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/encoding/json"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/providers"
)

// schemaVersion is the version of the payload format that this program writes.
const schemaVersion = 1

// Event is one entry of the log of a session. It holds everything needed to fold it: the reducer uses
// no clock, new ids or randomness.
type Event struct {
	Seq   int64
	Turn  uuid.UUID // zero: concerns the session
	Cause int64     // the event that led to it; 0: none
	At    time.Time
	Body  payload
}

// payload is the body of an event of one type.
type payload interface{ eventType() string }

// PromptPart is a text of the system prompt and its source.
type PromptPart struct {
	Kind string `json:"kind"` // system, soul or skills
	Name string `json:"name"`
	Text string `json:"text"`
}

// created begins a session. The prompt texts stay the same for the life of the session.
type created struct {
	Kind   string             `json:"kind"`
	Agent  string             `json:"agent"`
	Prompt []PromptPart       `json:"prompt"`
	Model  providers.ModelRef `json:"model,omitempty"`
	Mode   string             `json:"mode"`
	Budget Budget             `json:"budget"`
	Once   bool               `json:"once,omitempty"`   // archived when its first turn ends
	Parent *parent            `json:"parent,omitempty"` // of a subagent
	Tools  []string           `json:"tools,omitempty"`  // the only tools allowed, if Limited
	// Limited restricts the session to the tools in Tools.
	Limited     bool           `json:"limited,omitempty"`
	Role        providers.Role `json:"role,omitempty"` // "": chat
	PersonaHash string         `json:"personaHash,omitempty"`
	Skills      []string       `json:"skills,omitempty"` // names of the documents it can load
	ProjectDir  string         `json:"projectDir,omitempty"`
	Boundary    boundary       `json:"boundary,omitempty"` // "": a session of an earlier version
	// Private and Untrusted are the initial marks of the session.
	Private   bool `json:"private,omitempty"`
	Untrusted bool `json:"untrusted,omitempty"`
}

// configured changes the settings of a session from this point on.
type configured struct {
	Mode      *string             `json:"mode,omitempty"`
	QueueMode *string             `json:"queueMode,omitempty"`
	Model     *providers.ModelRef `json:"model,omitempty"`
}

// input is a message to the session. It waits until its turn starts.
type input struct {
	Text      string             `json:"text"`
	Origin    Origin             `json:"origin"`
	QueueMode string             `json:"queueMode"`
	Model     providers.ModelRef `json:"model,omitempty"`
	Budget    Budget             `json:"budget"`
	// Attended reports whether a person can answer questions of its turn.
	Attended bool         `json:"attended"`
	Files    []Attachment `json:"files,omitempty"`
	// Private and Untrusted are the marks of the session that wrote the input, or of its files.
	Private   bool `json:"private,omitempty"`
	Untrusted bool `json:"untrusted,omitempty"`
	// Of is the turn whose input this one answers again. That exchange is left out of later requests.
	Of *uuid.UUID `json:"of,omitempty"`
}

// withdrawn removes an input from the queue before its turn has started.
type withdrawn struct {
	Reason string `json:"reason"`
}

// turnStarted begins the turn of an input. Block holds everything that changes between turns: the
// date, recalled memories, the scratchpad, the budget.
type turnStarted struct {
	Joined []uuid.UUID          `json:"joined,omitempty"` // inputs answered in the same turn
	Block  string               `json:"block"`
	Ref    providers.ModelRef   `json:"model,omitempty"`
	Window int                  `json:"window"`
	Output int                  `json:"output"`
	Limits Budget               `json:"limits"`
	Tools  []providers.ToolDecl `json:"tools,omitempty"` // nil: unchanged
	// Private reports whether Block holds memories.
	Private bool `json:"private,omitempty"`
}

// steered adds waiting inputs to the running turn.
type steered struct {
	Turns []uuid.UUID `json:"turns"`
}

// callStarted is the intent to call the model. Hash is the hash of the request.
type callStarted struct {
	Step int    `json:"step"`
	Hash string `json:"hash"`
}

// callReserved is an attempt with its highest possible cost.
type callReserved struct {
	Ledger   uuid.UUID        `json:"ledger"`
	Provider string           `json:"provider"`
	Model    string           `json:"model"`
	Micros   providers.Micros `json:"micros"`
}

// partial is an answer as received so far.
type partial struct {
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
}

// replied is the complete answer of a model.
type replied struct {
	Provider string             `json:"provider"`
	Model    string             `json:"model"`
	Parts    []providers.Part   `json:"parts"`
	Sources  []providers.Source `json:"sources,omitempty"`
	Reason   string             `json:"reason"`
	Usage    providers.Usage    `json:"usage"`
	BadArgs  []string           `json:"badArgs,omitempty"`
	Failure  *TurnError         `json:"failure,omitempty"` // the answer broke off
}

// callSettled is the actual cost of an attempt.
type callSettled struct {
	Ledger  uuid.UUID        `json:"ledger"`
	Outcome string           `json:"outcome"` // done, failed, stopped or lost
	Micros  providers.Micros `json:"micros"`
	Usage   providers.Usage  `json:"usage"`
}

// toolIntent is logged before a tool is called.
type toolIntent struct {
	CallID     string       `json:"callId"`
	Tool       string       `json:"tool"`
	Ref        callable.Ref `json:"ref"`
	Hash       string       `json:"hash"`
	ArgsHash   string       `json:"argsHash"`
	Key        string       `json:"key"`
	Tier       string       `json:"tier"`
	Repeatable bool         `json:"repeatable"` // reads only, or is idempotent
}

// toolOutcome is the result of a call, as the model reads it.
type toolOutcome struct {
	CallID    string     `json:"callId"`
	Text      string     `json:"text"`
	Status    string     `json:"status"` // done, failed, denied, skipped, unknown
	Blob      string     `json:"blob,omitempty"`
	Bytes     int64      `json:"bytes,omitempty"` // of the whole result
	Result    string     `json:"result,omitempty"`
	Kind      string     `json:"kind,omitempty"` // of a failure
	Unusable  bool       `json:"unusable,omitempty"`
	Private   bool       `json:"private,omitempty"`
	Untrusted bool       `json:"untrusted,omitempty"`
	Undo      string     `json:"undo,omitempty"`
	TookMs    int64      `json:"tookMs"`
	Approval  *uuid.UUID `json:"approvalId,omitempty"`
}

// approvalAsked records that a call waits for a person.
type approvalAsked struct {
	CallID   string    `json:"callId"`
	Approval uuid.UUID `json:"approvalId"`
	Unknown  bool      `json:"unknown,omitempty"` // whether an interrupted call happened
}

// approvalAnswered is the person's answer. For an unknown outcome, Choice is happened, again or stop.
type approvalAnswered struct {
	CallID   string `json:"callId"`
	Approved bool   `json:"approved"`
	Choice   string `json:"choice,omitempty"`
	Note     string `json:"note,omitempty"`
}

// compactionSaved is a list that stands in for older history until there is a summary.
type compactionSaved struct {
	Epoch int    `json:"epoch"`
	Upto  int    `json:"upto"` // exchanges that leave the request
	Text  string `json:"text"`
}

// summarized replaces the list of the same epoch.
type summarized struct {
	Epoch int    `json:"epoch"`
	Text  string `json:"text"`
}

// noticed is a sentence for people, and for the model too if Model is set.
type noticed struct {
	Kind  string `json:"kind"`
	Title string `json:"title,omitempty"`
	Text  string `json:"text"`
	Model bool   `json:"model,omitempty"`
}

// mediaSent is a file that the model has shown to the person.
type mediaSent struct {
	CallID string     `json:"callId"`
	File   Attachment `json:"file"`
	Text   string     `json:"text,omitempty"`
}

// imported marks the session as imported from a file: the events that follow are of unknown origin.
type imported struct {
	Name string `json:"name,omitempty"` // of the file
}

// scratchpad replaces the items of the scratchpad.
type scratchpad struct {
	Items []string `json:"items"`
}

// loadedTools are tools that the model has found by searching; they stay available for the session.
type loadedTools struct {
	Tools []providers.ToolDecl `json:"tools"`
}

// subagentStarted is logged before the session of a subagent is created.
type subagentStarted struct {
	CallID   string    `json:"callId"`
	Session  uuid.UUID `json:"sessionId"`
	Turn     uuid.UUID `json:"turnId"`
	Goal     string    `json:"goal"`
	Detached bool      `json:"detached,omitempty"`
}

// subagentEnded is the result of a subagent. Its cost is added to that of the turn that started it.
type subagentEnded struct {
	CallID    string           `json:"callId"`
	Session   uuid.UUID        `json:"sessionId"`
	For       uuid.UUID        `json:"for"` // the turn that started it
	Status    string           `json:"status"`
	Micros    providers.Micros `json:"micros"`
	Usage     providers.Usage  `json:"usage"`
	Private   bool             `json:"private,omitempty"`
	Untrusted bool             `json:"untrusted,omitempty"`
}

// turnFinished ends the turn.
type turnFinished struct {
	State  string     `json:"state"`
	Reason string     `json:"stopReason"`
	Error  *TurnError `json:"error,omitempty"`
}

// unknown is an event of a type that this version does not know. Its data is kept unchanged.
type unknown struct {
	typ string
	raw json.RawMessage
}

func (*created) eventType() string          { return "session_created" }
func (*configured) eventType() string       { return "session_configured" }
func (*input) eventType() string            { return "input" }
func (*withdrawn) eventType() string        { return "input_withdrawn" }
func (*turnStarted) eventType() string      { return "turn_started" }
func (*steered) eventType() string          { return "input_steered" }
func (*callStarted) eventType() string      { return "call_started" }
func (*callReserved) eventType() string     { return "call_reserved" }
func (*partial) eventType() string          { return "partial" }
func (*replied) eventType() string          { return "reply" }
func (*callSettled) eventType() string      { return "call_settled" }
func (*toolIntent) eventType() string       { return "tool_intent" }
func (*toolOutcome) eventType() string      { return "tool_outcome" }
func (*approvalAsked) eventType() string    { return "approval_asked" }
func (*approvalAnswered) eventType() string { return "approval_answered" }
func (*compactionSaved) eventType() string  { return "compaction_saved" }
func (*summarized) eventType() string       { return "summary" }
func (*noticed) eventType() string          { return "notice" }
func (*mediaSent) eventType() string        { return "media_sent" }
func (*imported) eventType() string         { return "imported" }
func (*scratchpad) eventType() string       { return "scratchpad" }
func (*loadedTools) eventType() string      { return "tools_loaded" }
func (*subagentStarted) eventType() string  { return "subagent_started" }
func (*subagentEnded) eventType() string    { return "subagent_ended" }
func (*turnFinished) eventType() string     { return "turn_finished" }
func (u *unknown) eventType() string        { return u.typ }

// MarshalJSON implements json.Marshaler.
func (u *unknown) MarshalJSON() ([]byte, error) { return u.raw, nil }

// newPayload returns an empty payload of a type, or nil if the type is unknown.
func newPayload(typ string) payload {
	switch typ {
	case "session_created":
		return &created{}
	case "session_configured":
		return &configured{}
	case "input":
		return &input{}
	case "input_withdrawn":
		return &withdrawn{}
	case "turn_started":
		return &turnStarted{}
	case "input_steered":
		return &steered{}
	case "call_started":
		return &callStarted{}
	case "call_reserved":
		return &callReserved{}
	case "partial":
		return &partial{}
	case "reply":
		return &replied{}
	case "call_settled":
		return &callSettled{}
	case "tool_intent":
		return &toolIntent{}
	case "tool_outcome":
		return &toolOutcome{}
	case "approval_asked":
		return &approvalAsked{}
	case "approval_answered":
		return &approvalAnswered{}
	case "compaction_saved":
		return &compactionSaved{}
	case "summary":
		return &summarized{}
	case "notice":
		return &noticed{}
	case "media_sent":
		return &mediaSent{}
	case "imported":
		return &imported{}
	case "scratchpad":
		return &scratchpad{}
	case "tools_loaded":
		return &loadedTools{}
	case "subagent_started":
		return &subagentStarted{}
	case "subagent_ended":
		return &subagentEnded{}
	case "turn_finished":
		return &turnFinished{}
	}
	return nil
}

// decodePayload decodes a stored payload. A version newer than this program's is a Conflict error;
// such a session is read-only.
func decodePayload(typ string, version int, raw []byte) (payload, error) {
	if version > schemaVersion {
		return nil, fault.Conflictf("This chat was continued by a newer version of Helix. Update Helix to continue it.")
	}
	p := newPayload(typ)
	if p == nil {
		return &unknown{typ: typ, raw: bytes.Clone(raw)}, nil
	}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fault.Internalf(err, "Couldn't read the log of this chat.")
	}
	return p, nil
}
