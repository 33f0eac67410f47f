package agent

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/providers"
)

// schemaVersion is the form of the payloads that this version writes.
const schemaVersion = 1

// Event is one entry of the log of a session. What it holds is enough to fold it: the reducer has
// no clock, ids or randomness of its own.
type Event struct {
	Seq   int64
	Turn  uuid.UUID // zero: of the session
	Cause int64     // the event that led to it; 0: none
	At    time.Time
	Body  payload
}

// payload is what an event of one type holds.
type payload interface{ eventType() string }

// PromptPart is a text of the system prompt with where it is from.
type PromptPart struct {
	Kind string `json:"kind"` // system, soul or skills
	Name string `json:"name"`
	Text string `json:"text"`
}

// created begins a session. The texts of the prompt stay the same for its life.
type created struct {
	Kind   string             `json:"kind"`
	Agent  string             `json:"agent"`
	Prompt []PromptPart       `json:"prompt"`
	Model  providers.ModelRef `json:"model,omitempty"`
	Mode   string             `json:"mode"`
	Budget Budget             `json:"budget"`
	Once   bool               `json:"once,omitempty"`   // it is archived when its first turn ends
	Parent *parent            `json:"parent,omitempty"` // of a subagent
	Tools  []string           `json:"tools,omitempty"`  // the only ones that it has, with Limited
	// Limited says that it has only the tools that Tools names.
	Limited     bool           `json:"limited,omitempty"`
	Role        providers.Role `json:"role,omitempty"` // "": chat
	PersonaHash string         `json:"personaHash,omitempty"`
	Skills      []string       `json:"skills,omitempty"` // names of the documents that it can load
	ProjectDir  string         `json:"projectDir,omitempty"`
	// Private and Untrusted are marks that it starts with.
	Private   bool `json:"private,omitempty"`
	Untrusted bool `json:"untrusted,omitempty"`
}

// configured changes the settings of a session from here on.
type configured struct {
	Mode      *string             `json:"mode,omitempty"`
	QueueMode *string             `json:"queueMode,omitempty"`
	Model     *providers.ModelRef `json:"model,omitempty"`
}

// input is what somebody wrote. It waits until its turn starts.
type input struct {
	Text      string             `json:"text"`
	Origin    Origin             `json:"origin"`
	QueueMode string             `json:"queueMode"`
	Model     providers.ModelRef `json:"model,omitempty"`
	Budget    Budget             `json:"budget"`
	// Attended says that a person can answer questions of its turn.
	Attended bool         `json:"attended"`
	Files    []Attachment `json:"files,omitempty"`
	// Private and Untrusted are marks of the session that wrote it, or of its files.
	Private   bool `json:"private,omitempty"`
	Untrusted bool `json:"untrusted,omitempty"`
	// Of is the turn that it answers again; that exchange is left out from here on.
	Of *uuid.UUID `json:"of,omitempty"`
}

// withdrawn takes an input out of the queue before its turn started.
type withdrawn struct {
	Reason string `json:"reason"`
}

// turnStarted begins the turn of an input. Block is all that changes from turn to turn: the date,
// recalled memories, the scratchpad, the budget.
type turnStarted struct {
	Joined []uuid.UUID          `json:"joined,omitempty"` // inputs that are answered with it
	Block  string               `json:"block"`
	Ref    providers.ModelRef   `json:"model,omitempty"`
	Window int                  `json:"window"`
	Output int                  `json:"output"`
	Limits Budget               `json:"limits"`
	Tools  []providers.ToolDecl `json:"tools,omitempty"` // nil: as before
	// Private says that Block holds memories.
	Private bool `json:"private,omitempty"`
}

// steered puts waiting inputs into the turn that runs.
type steered struct {
	Turns []uuid.UUID `json:"turns"`
}

// callStarted is the intent to call the model. Hash is of the request.
type callStarted struct {
	Step int    `json:"step"`
	Hash string `json:"hash"`
}

// callReserved is an attempt with what it may cost.
type callReserved struct {
	Ledger   uuid.UUID        `json:"ledger"`
	Provider string           `json:"provider"`
	Model    string           `json:"model"`
	Micros   providers.Micros `json:"micros"`
}

// partial is what an answer says so far.
type partial struct {
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
}

// replied is the whole answer of a model.
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

// callSettled is what an attempt cost.
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
	Repeatable bool         `json:"repeatable"` // reads only, or acts once for a key
}

// toolOutcome is what a call came to, as the model reads it.
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

// approvalAsked says that a call waits for a person.
type approvalAsked struct {
	CallID   string    `json:"callId"`
	Approval uuid.UUID `json:"approvalId"`
	Unknown  bool      `json:"unknown,omitempty"` // whether an interrupted call happened
}

// approvalAnswered is what the person said. Choice is happened, again or stop for an unknown
// outcome.
type approvalAnswered struct {
	CallID   string `json:"callId"`
	Approved bool   `json:"approved"`
	Choice   string `json:"choice,omitempty"`
	Note     string `json:"note,omitempty"`
}

// compactionSaved is the list that replaces older history until there is a summary.
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

// noticed is a sentence: for the model, when Model says so, and for people.
type noticed struct {
	Kind  string `json:"kind"`
	Title string `json:"title,omitempty"`
	Text  string `json:"text"`
	Model bool   `json:"model,omitempty"`
}

// mediaSent is a file that the model showed to the person.
type mediaSent struct {
	CallID string     `json:"callId"`
	File   Attachment `json:"file"`
	Text   string     `json:"text,omitempty"`
}

// imported says that the session comes from a file: what follows is of unknown origin.
type imported struct {
	Name string `json:"name,omitempty"` // of the file
}

// scratchpad replaces the items of the scratchpad.
type scratchpad struct {
	Items []string `json:"items"`
}

// loadedTools are tools that the model searched for; they stay for the session.
type loadedTools struct {
	Tools []providers.ToolDecl `json:"tools"`
}

// subagentStarted is logged before the session of a subagent is made.
type subagentStarted struct {
	CallID   string    `json:"callId"`
	Session  uuid.UUID `json:"sessionId"`
	Turn     uuid.UUID `json:"turnId"`
	Goal     string    `json:"goal"`
	Detached bool      `json:"detached,omitempty"`
}

// subagentEnded is what a subagent came to. Its cost counts in the turn that started it.
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

// unknown is an event of a type that this version does not know. It is kept as it is.
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

// newPayload returns an empty payload of a type; nil for one that is unknown.
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

// decodePayload reads a stored payload. A version that is newer than this program's is a Conflict:
// the session can be read, and nothing more.
func decodePayload(typ string, version int, raw []byte) (payload, error) {
	if version > schemaVersion {
		return nil, fault.Conflictf("This chat was continued by a newer version of Helix. Update Helix to continue it.")
	}
	p := newPayload(typ)
	if p == nil {
		return &unknown{typ: typ, raw: bytes.Clone(raw)}, nil
	}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fault.Internalf(err, "The log of this chat can't be read.")
	}
	return p, nil
}
