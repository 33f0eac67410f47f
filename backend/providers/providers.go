// Package providers implements the wire protocols of language model services behind one request type
// and one stream of events, with usage as the service reports it. A Router resolves a role or a model
// to a chain of services, and applies their limits and retries. A wire converts requests to bodies,
// and bodies to events. The Service keeps the registry that the interface edits. Keys are stored as
// encrypted secrets: they never appear in a row of this package, a log or an error.
package providers

import (
	"encoding/json"
	"iter"
	"strings"
)

// The roles that code uses. Model names occur only in the settings.
const (
	RoleChat      Role = "chat"
	RoleFast      Role = "fast"
	RoleSynthesis Role = "synthesis"
	RoleEmbed     Role = "embed"
)

// Role is a purpose for which the person configures models.
type Role string

// Roles lists the roles in display order.
func Roles() []Role { return []Role{RoleChat, RoleFast, RoleSynthesis, RoleEmbed} }

// ModelRef names a model as provider/model.
type ModelRef string

// Split returns the provider and the model, whose name may contain slashes.
func (r ModelRef) Split() (provider, model string) {
	provider, model, _ = strings.Cut(string(r), "/")
	return provider, model
}

// Effort says how much a model should reason before it answers; "" leaves it to the service.
type Effort string

// The efforts.
const (
	EffortNone   Effort = "none"
	EffortLow    Effort = "low"
	EffortMedium Effort = "medium"
	EffortHigh   Effort = "high"
)

// Request is one call of a model. Model, if set, selects what answers; otherwise Role does.
type Request struct {
	Role  Role     `json:"role,omitempty"`
	Model ModelRef `json:"model,omitempty"`
	// Pin restricts the request to one model of the role at one host, even if it fails.
	Pin         *Pin       `json:"pin,omitempty"`
	System      []Part     `json:"system,omitempty"`
	Messages    []Message  `json:"messages"`
	Tools       []ToolDecl `json:"tools,omitempty"`
	Choice      ToolChoice `json:"choice,omitzero"`
	Schema      *Schema    `json:"schema,omitempty"`
	MaxOutput   int        `json:"maxOutput,omitempty"`
	Temperature *float64   `json:"temperature,omitempty"`
	Reasoning   Effort     `json:"reasoning,omitempty"`
	// CacheMarks are indexes into Messages after which the prompt may be cached; -1 is the end of
	// System.
	CacheMarks []int    `json:"cacheMarks,omitempty"`
	Stop       []string `json:"stop,omitempty"`
	Seed       *int64   `json:"seed,omitempty"`
	// Purpose labels the call in the ledger.
	Purpose string `json:"purpose,omitempty"`
	// Key identifies the session, so that calls of one session share a prompt cache.
	Key string `json:"key,omitempty"`
	// AllowDiscard permits a retry after text has been delivered; a Discard event comes first.
	AllowDiscard bool `json:"allowDiscard,omitempty"`
	// Waiting, if set, is called before the request waits for a limit on the rate of calls, with the
	// service's name for people. The next event ends the wait.
	Waiting func(service string) `json:"-"`
	// NoStream requests the answer in one piece.
	NoStream bool `json:"noStream,omitempty"`
}

// Pin is the model and host to which a person has agreed to send a text.
type Pin struct {
	Model ModelRef `json:"model"`
	Host  string   `json:"host"`
}

// The roles of messages.
const (
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role  string `json:"role"`
	Parts []Part `json:"parts"`
}

// The kinds of parts.
const (
	PartText       = "text"
	PartImage      = "image"
	PartFile       = "file"
	PartReasoning  = "reasoning"
	PartToolCall   = "tool_call"
	PartToolResult = "tool_result"
	PartOpaque     = "opaque"
)

// Part is a piece of a message; Kind determines which fields are set.
type Part struct {
	Kind string `json:"kind"`
	// Text is set for text, reasoning and tool results.
	Text string `json:"text,omitempty"`
	// Data and MediaType are set for images and files; Name for files, tool calls and results.
	Data []byte `json:"data,omitempty"`
	// Blob identifies content that the caller loads into Data before sending the request.
	Blob      string `json:"blob,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Name      string `json:"name,omitempty"`
	// ID pairs a tool call with its result. Args is the call's input as JSON.
	ID    string `json:"id,omitempty"`
	Args  string `json:"args,omitempty"`
	Error bool   `json:"error,omitempty"`
	// Opaque is data that a service requires back unchanged.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// TextPart returns a part of text.
func TextPart(text string) Part { return Part{Kind: PartText, Text: text} }

// Opaque is a signature or encrypted reasoning. It is stored and sent back unchanged to the provider
// and model family that it came from, and never shown or logged.
type Opaque struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Kind     string `json:"kind"`
	Data     []byte `json:"data"`
}

// ToolDecl declares a tool. Input is JSON Schema 2020-12.
type ToolDecl struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
}

// ToolChoice determines whether tools may, must or must not be called. Mode is auto (or ""), none,
// required or tool; tool requires a call of the tool Name.
type ToolChoice struct {
	Mode string `json:"mode,omitempty"`
	Name string `json:"name,omitempty"`
}

// Schema is the required format of the answer.
type Schema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// EventType is one of the constants below.
type EventType string

// The closed set of events, in the order of a stream.
const (
	EventAttempt   EventType = "attempt"    // starts each try: ID, Provider, Model
	EventText      EventType = "text"       // Delta, Block
	EventReasoning EventType = "reasoning"  // Delta, Block, Summary
	EventToolStart EventType = "tool_start" // Key, ID, Name
	EventToolDelta EventType = "tool_delta" // Key, Delta
	EventToolCall  EventType = "tool_call"  // Key, ID, Name, Args: once a call, complete
	EventSource    EventType = "source"     // URL, Title, Block
	EventOpaque    EventType = "opaque"     // Opaque
	EventUsage     EventType = "usage"      // Usage replaces the previous one
	EventFinish    EventType = "finish"     // Reason, Raw: exactly one on success
	EventDiscard   EventType = "discard"    // discard everything that Attempt delivered; Raw is the reason
)

// The reasons of an EventFinish.
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishToolCalls     = "tool_calls"
	FinishContentFilter = "content_filter"
	FinishRefusal       = "refusal"
	FinishPause         = "pause"
	FinishUnknown       = "unknown"
)

// Event is one step of an answer; Type determines which fields are set. A Delta is valid UTF-8.
type Event struct {
	Type    EventType `json:"type"`
	Attempt int       `json:"attempt,omitempty"`
	Block   int       `json:"block,omitempty"`
	Key     int       `json:"key,omitempty"`
	Delta   string    `json:"delta,omitempty"`
	Summary bool      `json:"summary,omitempty"`
	ID      string    `json:"id,omitempty"`
	Name    string    `json:"name,omitempty"`
	Args    string    `json:"args,omitempty"`
	// BadArgs reports that Args is the model's text and not valid JSON.
	BadArgs  bool    `json:"badArgs,omitempty"`
	URL      string  `json:"url,omitempty"`
	Title    string  `json:"title,omitempty"`
	Provider string  `json:"provider,omitempty"`
	Model    string  `json:"model,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Raw      string  `json:"raw,omitempty"`
	Opaque   *Opaque `json:"opaque,omitempty"`
	Usage    *Usage  `json:"usage,omitempty"`
}

// Usage counts tokens. Input excludes the tokens read from or written to a cache; Output includes
// Reasoning.
type Usage struct {
	Input        int64 `json:"input"`
	CacheRead    int64 `json:"cacheRead,omitempty"`
	CacheWrite   int64 `json:"cacheWrite,omitempty"`
	CacheWrite1h int64 `json:"cacheWrite1h,omitempty"`
	Output       int64 `json:"output"`
	Reasoning    int64 `json:"reasoning,omitempty"`
	ToolPrompt   int64 `json:"toolPrompt,omitempty"`
	Requests     int64 `json:"requests,omitempty"`
	// ReportedMicros is the cost that the service itself reports, in millionths of a dollar.
	ReportedMicros int64 `json:"reportedMicros,omitempty"`
	// Estimated reports that the counts are estimates, because the service did not report them.
	Estimated bool `json:"estimated,omitempty"`
}

// Prompt returns the size of the whole prompt in tokens.
func (u Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.CacheWrite1h }

// Reply is a complete answer: the fold of its events.
type Reply struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	// Parts are text, reasoning, opaque parts and tool calls in the order of the answer.
	Parts   []Part   `json:"parts"`
	Sources []Source `json:"sources,omitempty"`
	Usage   Usage    `json:"usage"`
	Reason  string   `json:"reason"`
	Raw     string   `json:"raw,omitempty"`
	// BadArgs lists the ids of calls whose arguments are not JSON.
	BadArgs []string `json:"badArgs,omitempty"`
}

// Source is a page that an answer cites.
type Source struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
}

// Text returns the text of the answer.
func (r Reply) Text() string { return r.join(PartText) }

// ReasoningText returns the visible reasoning.
func (r Reply) ReasoningText() string { return r.join(PartReasoning) }

func (r Reply) join(kind string) string {
	if len(r.Parts) == 1 && r.Parts[0].Kind == kind {
		return r.Parts[0].Text
	}
	var b strings.Builder
	for _, p := range r.Parts {
		if p.Kind == kind {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// Calls returns the tool calls.
func (r Reply) Calls() []Part {
	var out []Part
	for _, p := range r.Parts {
		if p.Kind == PartToolCall {
			out = append(out, p)
		}
	}
	return out
}

// Message returns the answer as a turn of the conversation.
func (r Reply) Message() Message { return Message{Role: Assistant, Parts: r.Parts} }

// Fold collects a stream into a Reply. On an error, the reply holds what was received before it.
func Fold(events iter.Seq2[Event, error]) (Reply, error) {
	var f folder
	for e, err := range events {
		if err != nil {
			return f.reply(), err
		}
		f.add(e)
	}
	return f.reply(), nil
}

// folder builds a Reply. It joins the text of each block only once.
type folder struct {
	r     Reply
	text  []byte
	kind  string
	block int
}

func (f *folder) flush() {
	if len(f.text) > 0 {
		f.r.Parts = append(f.r.Parts, Part{Kind: f.kind, Text: string(f.text)})
		f.text = f.text[:0]
	}
}

func (f *folder) reply() Reply {
	f.flush()
	return f.r
}

func (f *folder) add(e Event) {
	switch e.Type {
	case EventAttempt:
		f.r.Provider, f.r.Model, f.r.Attempts = e.Provider, e.Model, e.Attempt
	case EventText, EventReasoning:
		kind := PartText
		if e.Type == EventReasoning {
			kind = PartReasoning
		}
		if kind != f.kind || e.Block != f.block {
			f.flush()
			f.kind, f.block = kind, e.Block
		}
		f.text = append(f.text, e.Delta...)
	case EventToolCall:
		f.flush()
		f.r.Parts = append(f.r.Parts, Part{Kind: PartToolCall, ID: e.ID, Name: e.Name, Args: e.Args})
		if e.BadArgs {
			f.r.BadArgs = append(f.r.BadArgs, e.ID)
		}
	case EventSource:
		f.r.Sources = append(f.r.Sources, Source{URL: e.URL, Title: e.Title})
	case EventOpaque:
		f.flush()
		f.r.Parts = append(f.r.Parts, Part{Kind: PartOpaque, Opaque: e.Opaque})
	case EventUsage:
		f.r.Usage = *e.Usage
	case EventFinish:
		f.r.Reason, f.r.Raw = e.Reason, e.Raw
	case EventDiscard:
		f.text = f.text[:0]
		f.r = Reply{Provider: f.r.Provider, Model: f.r.Model, Attempts: f.r.Attempts}
	}
}
