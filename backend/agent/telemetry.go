package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/otlp"
	"helix/backend/providers"
)

// Telemetry derives spans and metrics from the events of sessions: one span for a turn, with child
// spans for its calls of models and tools. It contains no texts, arguments or names of people unless
// Content is set; even then, secrets are removed.
type Telemetry struct {
	Out     *otlp.Exporter
	Content bool

	mu   sync.Mutex
	open map[uuid.UUID]*tracedTurn // by session
}

// tracedTurn is a running turn.
type tracedTurn struct {
	turn     uuid.UUID
	trace    [16]byte
	parent   [8]byte // of a subagent
	start    time.Time
	window   int
	steps    int
	model    string // of the last attempt
	provider string
	call     time.Time // when the open call began; zero: none
	usage    providers.Usage
	tools    map[string]*toolIntent // by call
	input    string
	output   string
}

// traceOf and spanOf derive ids from the ids of turns and events, so that spans after a restart
// belong to the same trace.
func traceOf(turn uuid.UUID) [16]byte { return turn }

func spanOf(turn uuid.UUID, what string, of any) (id [8]byte) {
	text, _ := json.Marshal([]any{turn, what, of})
	sum := sha256.Sum256(text)
	copy(id[:], sum[:])
	return id
}

// toolSpan returns the id of the span of a call, which is known before the call ends.
func toolSpan(turn uuid.UUID, intent *toolIntent) [8]byte { return spanOf(turn, spanTool, intent.Key) }

// calling returns a context in which a call of a tool is part of the trace of its turn.
func (t *Telemetry) calling(ctx context.Context, session uuid.UUID, intent *toolIntent) context.Context {
	if t == nil {
		return ctx
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.open[session]
	if x == nil { // the turn began before a restart
		return ctx
	}
	return otlp.WithParent(ctx, x.trace, toolSpan(x.turn, intent))
}

// observe processes a committed event. text removes secrets.
func (t *Telemetry) observe(session uuid.UUID, st *State, e Event, text func(string) string) {
	if t == nil || e.Turn == uuid.Nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[uuid.UUID]*tracedTurn{}
	}
	if b, ok := e.Body.(*turnStarted); ok {
		x := &tracedTurn{turn: e.Turn, trace: traceOf(e.Turn), start: e.At, window: b.Window, tools: map[string]*toolIntent{}}
		if st.Turn != nil && t.Content {
			x.input = text(st.Turn.Input.Text)
		}
		if above := st.Created.Parent; above != nil {
			x.trace, x.parent = traceOf(above.Turn), spanOf(above.Turn, spanTurn, 0)
			if p := t.open[above.Session]; p != nil && p.turn == above.Turn { // the parent may itself be a subagent
				x.trace = p.trace
			}
		}
		t.open[session] = x
		t.Out.Set(metricActive, "{session}", float64(len(t.open)))
		return
	}
	x := t.open[session]
	if x == nil || x.turn != e.Turn { // the turn began before a restart
		return
	}
	switch b := e.Body.(type) {
	case *callStarted:
		t.endCall(x, session, e, "interrupted", "")
		x.call, x.steps, x.usage = e.At, b.Step, providers.Usage{}
	case *callReserved:
		x.provider, x.model = b.Provider, b.Model
	case *callSettled:
		t.settled(x, b)
	case *replied:
		failed := ""
		if b.Failure != nil {
			failed = b.Failure.Kind
		}
		if t.Content {
			x.output = text(providers.Reply{Parts: b.Parts}.Text())
		}
		t.endCall(x, session, e, failed, b.Reason)
	case *toolIntent:
		x.tools[b.CallID] = b
	case *toolOutcome:
		t.tool(x, e, b)
	case *turnFinished:
		t.finished(x, session, st, e, b)
	}
}

func (x *tracedTurn) models() []otlp.Attribute {
	return []otlp.Attribute{otlp.String(attrOperation, spanCall), otlp.String(attrProvider, x.provider), otlp.String(attrModel, x.model)}
}

// settled counts the tokens and cost of an attempt.
func (t *Telemetry) settled(x *tracedTurn, b *callSettled) {
	u := b.Usage
	x.usage = u
	of := x.models()
	for kind, n := range map[string]int64{"input": u.Prompt(), "output": u.Output} {
		attributes := slices.Concat(of, []otlp.Attribute{otlp.String(attrTokenType, kind)})
		t.Out.Record(metricCallTokens, "{token}", float64(n), attributes...)
		t.Out.Add(metricTokens, "{token}", float64(n), attributes...)
	}
	t.Out.Add(metricCost, "{USD}", float64(b.Micros)/1e6, of...)
	if x.window > 0 {
		t.Out.Set(metricContext, "1", float64(u.Prompt())/float64(x.window), of...)
	}
}

// endCall ends the open call of a model.
func (t *Telemetry) endCall(x *tracedTurn, session uuid.UUID, e Event, failed, reason string) {
	if x.call.IsZero() {
		return
	}
	of := x.models()
	seconds := slices.Clone(of)
	if failed != "" {
		seconds = append(seconds, otlp.String(attrError, failed))
	}
	t.Out.Record(metricCallSeconds, "s", e.At.Sub(x.call).Seconds(), seconds...)
	of = append(of, otlp.String(attrConversation, session.String()), otlp.Int(attrInputTokens, x.usage.Prompt()), otlp.Int(attrOutputTokens, x.usage.Output))
	if reason != "" {
		of = append(of, otlp.String(attrFinish, reason))
	}
	t.Out.Span(otlp.Span{
		Trace: x.trace, ID: spanOf(x.turn, spanCall, e.Seq), Parent: spanOf(x.turn, spanTurn, 0),
		Name: spanCall + " " + x.model, Kind: otlp.Client, Start: x.call, End: e.At, Attributes: of, Error: failed,
	})
	x.call = time.Time{}
}

// tool records the end of a tool call.
func (t *Telemetry) tool(x *tracedTurn, e Event, b *toolOutcome) {
	took := duration.Of(b.TookMs, time.Millisecond)
	name, failed, span := "", "", spanOf(x.turn, spanTool, e.Seq)
	if intent := x.tools[b.CallID]; intent != nil {
		name, span = intent.Tool, toolSpan(x.turn, intent)
		delete(x.tools, b.CallID) // ids may be used again in the next step
	}
	if b.Status != statusDone {
		failed = b.Status
	}
	of := []otlp.Attribute{otlp.String(attrTool, name), otlp.String(attrStatus, b.Status)}
	t.Out.Add(metricTools, "{call}", 1, of...)
	t.Out.Record(metricToolSeconds, "s", took.Seconds(), of...)
	t.Out.Span(otlp.Span{
		Trace: x.trace, ID: span, Parent: spanOf(x.turn, spanTurn, 0),
		Name: spanTool + " " + name, Kind: otlp.Internal, Start: e.At.Add(-took), End: e.At, Error: failed,
		Attributes: append(of, otlp.String(attrOperation, spanTool), otlp.String(attrToolCall, b.CallID)),
	})
}

// finished records the end of the turn.
func (t *Telemetry) finished(x *tracedTurn, session uuid.UUID, st *State, e Event, b *turnFinished) {
	failed := ""
	if b.Error != nil {
		failed = b.Error.Kind
	}
	t.endCall(x, session, e, failed, "")
	of := []otlp.Attribute{otlp.String(attrAgent, st.Created.Agent), otlp.String(attrStop, b.Reason), otlp.String(attrKind, st.Created.Kind)}
	t.Out.Record(metricTurnSeconds, "s", e.At.Sub(x.start).Seconds(), of...)
	of = append(of, otlp.String(attrOperation, spanTurn), otlp.String(attrConversation, session.String()), otlp.Int(attrSteps, int64(x.steps)))
	if t.Content {
		of = append(of, otlp.String(attrInput, messageText("user", x.input)), otlp.String(attrOutput, messageText("assistant", x.output)))
	}
	t.Out.Span(otlp.Span{
		Trace: x.trace, ID: spanOf(x.turn, spanTurn, 0), Parent: x.parent, Name: spanTurn + " " + st.Created.Agent, Kind: otlp.Internal,
		Start: x.start, End: e.At, Attributes: of, Error: failed,
	})
	delete(t.open, session)
	t.Out.Set(metricActive, "{session}", float64(len(t.open)))
}

// messageText formats a text as a message of the OpenTelemetry conventions.
func messageText(role, text string) string {
	out, _ := json.Marshal([]map[string]any{{"role": role, "parts": []map[string]string{{"type": "text", "content": text}}}})
	return string(out)
}

// scrubber returns a function that removes the secrets of the session's user.
func (l *live) scrubber() func(string) string {
	return func(text string) string { return l.s.o.Scrub(l.s.asUser(context.Background(), l.user), text) }
}
