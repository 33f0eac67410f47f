// Package providers speaks the wires of language model services and gives every caller one request
// type, one stream of events and honest usage. A Router resolves a role or a model to a chain of
// services, keeps their limits and retries; a wire turns requests into bodies and bodies into
// events; the Service keeps the registry that the interface edits. Keys are sealed secrets: they
// are never in a row of this package, a log or an error.
package providers

import (
	"encoding/json"
	"iter"
	"strings"
)

// The roles that code asks for. Model names stand in the settings only.
const (
	RoleChat      Role = "chat"
	RoleFast      Role = "fast"
	RoleSynthesis Role = "synthesis"
	RoleEmbed     Role = "embed"
)

// Role is a use of models that the person configures.
type Role string

// Roles lists the roles in the order in which they are shown.
func Roles() []Role { return []Role{RoleChat, RoleFast, RoleSynthesis, RoleEmbed} }

// ModelRef names a model as provider/model.
type ModelRef string

// Split returns the provider and the model, whose name may hold slashes.
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

// Request is one call of a model. Either Role or Model says who answers.
type Request struct {
	Role  Role     `json:"role,omitempty"`
	Model ModelRef `json:"model,omitempty"`
	// Pin keeps the request to one model of the role at one host, whatever fails.
	Pin         *Pin       `json:"pin,omitempty"`
	System      []Part     `json:"system,omitempty"`
	Messages    []Message  `json:"messages"`
	Tools       []ToolDecl `json:"tools,omitempty"`
	Choice      ToolChoice `json:"choice,omitzero"`
	Schema      *Schema    `json:"schema,omitempty"`
	MaxOutput   int        `json:"maxOutput,omitempty"`
	Temperature *float64   `json:"temperature,omitempty"`
	Reasoning   Effort     `json:"reasoning,omitempty"`
	// CacheMarks are indexes of Messages after which the prompt may be cached; -1 is the end of
	// System.
	CacheMarks []int    `json:"cacheMarks,omitempty"`
	Stop       []string `json:"stop,omitempty"`
	Seed       *int64   `json:"seed,omitempty"`
	// Purpose labels the call in the ledger.
	Purpose string `json:"purpose,omitempty"`
	// Key names the session, so that calls of one session find the same cache.
	Key string `json:"key,omitempty"`
	// AllowDiscard permits a retry after text was delivered; a Discard event precedes it.
	AllowDiscard bool `json:"allowDiscard,omitempty"`
	// NoStream asks for the answer in one piece.
	NoStream bool `json:"noStream,omitempty"`
}

// Pin is where a person has agreed to send a text.
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

// Part is a piece of a message; Kind says which fields count.
type Part struct {
	Kind string `json:"kind"`
	// Text of text, reasoning and tool results.
	Text string `json:"text,omitempty"`
	// Data and MediaType of images and files; Name of files, tool calls and results.
	Data []byte `json:"data,omitempty"`
	// Blob names content that the caller loads into Data before it sends the request.
	Blob      string `json:"blob,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Name      string `json:"name,omitempty"`
	// ID pairs a tool call with its result. Args is the call's input as JSON.
	ID    string `json:"id,omitempty"`
	Args  string `json:"args,omitempty"`
	Error bool   `json:"error,omitempty"`
	// Opaque is what a service wants back unchanged.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// TextPart returns a part of text.
func TextPart(text string) Part { return Part{Kind: PartText, Text: text} }

// Opaque is a signature or encrypted reasoning: stored and sent back unchanged to the provider and
// model family it came from, never shown or logged.
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

// ToolChoice says whether tools may, must or must not be called. Mode is auto (or ""), none,
// required or tool, which demands the tool Name.
type ToolChoice struct {
	Mode string `json:"mode,omitempty"`
	Name string `json:"name,omitempty"`
}

// Schema is the form that the answer must have.
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
	EventUsage     EventType = "usage"      // Usage replaces the former one
	EventFinish    EventType = "finish"     // Reason, Raw: exactly one on success
	EventDiscard   EventType = "discard"    // what Attempt delivered is void; Raw says why
)

// The reasons of a Finish.
const (
	FinishStop          = "stop"
	FinishLength        = "length"
	FinishToolCalls     = "tool_calls"
	FinishContentFilter = "content_filter"
	FinishRefusal       = "refusal"
	FinishPause         = "pause"
	FinishUnknown       = "unknown"
)

// Event is one step of an answer; Type says which fields count. A Delta is valid UTF-8.
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
	// BadArgs says that Args is the text that the model wrote and not JSON.
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

// Usage counts tokens. Input is what was neither read from nor written to a cache; Output includes
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
	// Estimated says that the service did not report the counts.
	Estimated bool `json:"estimated,omitempty"`
}

// Prompt is the size of the whole prompt.
func (u Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.CacheWrite1h }

// Reply is a whole answer: the fold of its events.
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

// Fold gathers a stream. On an error the reply holds what came before it.
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

// folder builds a Reply; text of one block is joined once.
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
