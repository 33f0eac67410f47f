package providers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// The types of entries. A wire has the same name in settings and in decoders.
const (
	WireChat      = "openai"
	WireResponses = "openai_responses"
	WireAnthropic = "anthropic"
	WireGemini    = "gemini"
	WireScripted  = "scripted"
)

// Limits on one answer.
const (
	maxEvent       = 8 << 20
	maxGeminiEvent = 32 << 20
	maxStream      = 64 << 20
	maxCalls       = 128
	maxArgs        = 1 << 20
	maxOpaque      = 1 << 20
)

// decoder converts the events of one wire to those of this package. event takes either one event or a
// complete answer that was not streamed, because both have the same members. done is true after the
// last event of a stream.
type decoder interface {
	event(data []byte) (done bool, err error)
	end()
	state() *assembler
}

// assembler is the common part of the decoders. It numbers blocks, joins split characters, collects
// calls, and holds back the end of the answer until the stream ends.
type assembler struct {
	out    []Event
	newID  func() string
	origin Opaque // Provider and Model of opaque parts

	texts   map[int]*joiner // blocks whose last delta ended inside a character
	calls   []*pendingCall
	ids     map[string]bool
	usage   Usage
	counted bool
	reason  string
	raw     string
	shown   bool // part of an answer has arrived
	cited   map[citation]bool
}

// pendingCall is a tool call whose arguments are still arriving.
type pendingCall struct {
	key, index int // index is the service's, -1 if it sends none
	wireID     string
	id, name   string
	args       []byte
	started    bool
	sent       bool
}

func (a *assembler) state() *assembler { return a }

func (a *assembler) emit(e Event) { a.shown, a.out = true, append(a.out, e) }

// text emits a delta of a block; kind is EventText or EventReasoning.
func (a *assembler) text(kind EventType, block int, b []byte, summary bool) {
	if len(b) == 0 {
		return
	}
	at := block << 1
	if kind == EventReasoning {
		at++
	}
	j := a.texts[at]
	if j == nil {
		if partial(b) == 0 {
			a.emit(Event{Type: kind, Block: block, Delta: string(wellFormed(b)), Summary: summary})
			return
		}
		j = &joiner{}
		if a.texts == nil {
			a.texts = map[int]*joiner{}
		}
		a.texts[at] = j
	}
	if s := j.add(b); s != "" {
		a.emit(Event{Type: kind, Block: block, Delta: s, Summary: summary})
	}
}

// call returns the pending call with the service's index, else with its id, else the current one, or
// else a new one. name and args are those of the current event, if any. If both are set and the
// arguments of the found call are already complete, a new call begins, even under the same index:
// some servers use one index for all calls.
func (a *assembler) call(index int, id, name string, args []byte) (*pendingCall, error) {
	follows := func(c *pendingCall) bool {
		return name != "" && len(args) > 0 && len(c.args) > 0 && json.Valid(c.args)
	}
	for i := len(a.calls) - 1; i >= 0; i-- {
		c := a.calls[i]
		if index >= 0 && c.index == index {
			switch {
			case id == "" || c.wireID == "":
				if !follows(c) {
					return c, nil
				}
			case c.wireID == id || name == "": // a changed id begins a new call only if a name comes with it
				return c, nil
			}
		}
		if index < 0 && id != "" && c.wireID == id {
			return c, nil
		}
	}
	if n := len(a.calls); n > 0 && index < 0 && id == "" {
		if last := a.calls[n-1]; name == "" || !last.started || name == last.name && !follows(last) {
			return last, nil
		}
	}
	if len(a.calls) >= maxCalls {
		return nil, fault.Unavailablef("The answer has more than %d tool calls.", maxCalls)
	}
	c := &pendingCall{key: len(a.calls), index: index}
	a.calls = append(a.calls, c)
	return c, nil
}

// start announces a call once its name is known.
func (a *assembler) start(c *pendingCall) {
	if c.started || c.name == "" {
		return
	}
	c.started = true
	c.id = c.wireID
	if c.id == "" {
		c.id = "call_" + a.newID()
	}
	if a.ids == nil {
		a.ids = map[string]bool{}
	}
	for base, n := c.id, 2; a.ids[c.id]; n++ {
		c.id = fmt.Sprintf("%s_%d", base, n)
	}
	a.ids[c.id] = true
	a.emit(Event{Type: EventToolStart, Key: c.key, ID: c.id, Name: c.name})
}

func (a *assembler) args(c *pendingCall, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if len(c.args)+len(b) > maxArgs {
		return fault.Unavailablef("The arguments of a tool call are larger than %d bytes.", maxArgs)
	}
	a.start(c)
	c.args = append(c.args, b...)
	if partial(c.args) == 0 && partial(b) == 0 { // deltas are only for display; the final call is authoritative
		a.emit(Event{Type: EventToolDelta, Key: c.key, Delta: string(wellFormed(b))})
	}
	return nil
}

// finishCall delivers a call. A call that never got a name is dropped.
func (a *assembler) finishCall(c *pendingCall) {
	if c.sent || c.name == "" {
		return
	}
	a.start(c)
	c.sent = true
	args, ok := repairArgs(c.args)
	a.emit(Event{Type: EventToolCall, Key: c.key, ID: c.id, Name: c.name, Args: args, BadArgs: !ok})
}

// repairArgs removes white space and code fences around arguments, and changes nothing else. Missing
// arguments become an empty object.
func repairArgs(b []byte) (args string, ok bool) {
	s := bytes.TrimSpace(wellFormed(b))
	if rest, fenced := bytes.CutPrefix(s, []byte("```")); fenced {
		if inner, closed := bytes.CutSuffix(rest, []byte("```")); closed {
			s = bytes.TrimSpace(bytes.TrimPrefix(inner, []byte("json")))
		}
	}
	if len(s) == 0 {
		return "{}", true
	}
	if !json.Valid(s) {
		return string(wellFormed(b)), false
	}
	return string(s), true
}

func (a *assembler) opaque(kind string, data []byte) {
	if len(data) == 0 || len(data) > maxOpaque {
		return
	}
	o := a.origin
	o.Kind, o.Data = kind, bytes.Clone(data)
	a.emit(Event{Type: EventOpaque, Opaque: &o})
}

func (a *assembler) count(u Usage) {
	u.Requests = 1
	if a.counted && (u == a.usage || u.Prompt()+u.Output == 0) { // an empty count does not replace an earlier one
		return
	}
	a.usage, a.counted = u, true
	shown := u
	a.emit(Event{Type: EventUsage, Usage: &shown})
}

// citation is a page that a block cites.
type citation struct {
	block int
	url   string
}

// source emits a citation once, because some services repeat citations in every event.
func (a *assembler) source(e Event) {
	at := citation{e.Block, e.URL}
	if e.URL == "" || a.cited[at] {
		return
	}
	if a.cited == nil {
		a.cited = map[citation]bool{}
	}
	a.cited[at] = true
	e.Type = EventSource
	a.emit(e)
}

// finish records the reason. It is delivered at the end, because usage may follow it.
func (a *assembler) finish(reason, raw string) { a.reason, a.raw = reason, raw }

// ended records that the service has ended the answer, which some do without a reason.
func (a *assembler) ended(raw string) {
	if a.reason == "" && a.shown {
		a.finish(FinishUnknown, raw)
	}
}

// closeAnswer ends everything still open, and emits the Finish if the service gave a reason.
func (a *assembler) closeAnswer() {
	for _, at := range slices.Sorted(maps.Keys(a.texts)) {
		if s := a.texts[at].end(); s != "" {
			kind := EventText
			if at&1 == 1 {
				kind = EventReasoning
			}
			a.emit(Event{Type: kind, Block: at >> 1, Delta: s})
		}
	}
	a.texts = nil
	if a.reason == "" {
		return
	}
	for _, c := range a.calls {
		a.finishCall(c)
	}
	if len(a.calls) > 0 && a.reason == FinishStop {
		a.reason = FinishToolCalls // many servers report stop
	}
	a.emit(Event{Type: EventFinish, Reason: a.reason, Raw: a.raw})
}

func newDecoder(wire string, a assembler) decoder {
	if a.newID == nil {
		a.newID = uuid.NewString
	}
	switch wire {
	case WireResponses:
		return &responsesDecoder{assembler: a}
	case WireAnthropic:
		return &anthropicDecoder{assembler: a}
	case WireGemini:
		return &geminiDecoder{assembler: a}
	}
	return &chatDecoder{assembler: a}
}

// DecodeOptions configures Decode; the zero value is valid.
type DecodeOptions struct {
	// Provider and Model are recorded in opaque parts.
	Provider, Model string
	// NewID returns an id for a call that has none; nil: random ids.
	NewID func() string
}

// Decode reads an answer of a wire, streamed or not, and yields its events as they arrive, each
// before the next read. It ends after Finish or one error.
func Decode(wire string, body io.Reader, o DecodeOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		counted := &countingReader{r: body}
		d := newDecoder(wire, assembler{newID: o.NewID, origin: Opaque{Provider: o.Provider, Model: o.Model}})
		a := d.state()
		deliver := func() bool {
			for _, e := range a.out {
				if !yield(e, nil) {
					return false
				}
			}
			clear(a.out)
			a.out = a.out[:0]
			return true
		}
		err := decodeBody(wire, d, counted, deliver)
		if errors.Is(err, errStopped) {
			return
		}
		if err == nil || a.reason != "" && !isRefusal(err) { // the answer is complete, even if the rest failed
			d.end()
			a.closeAnswer()
			if !deliver() || a.reason != "" {
				return
			}
			err = truncated(counted.n, nil)
		} else {
			a.reason = ""
			a.closeAnswer()
			if !deliver() {
				return
			}
		}
		yield(Event{}, asStreamError(err, counted.n))
	}
}

var (
	errStopped = errors.New("the consumer stopped")
	errHTML    = errors.New("a web page")
)

func decodeBody(wire string, d decoder, body io.Reader, deliver func() bool) error {
	limit := maxEvent
	if wire == WireGemini {
		limit = maxGeminiEvent
	}
	s := newSSE(body, limit)
	defer s.close()
	switch first, err := s.first(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	case first == '{' || first == '[':
		return decodeWhole(d, s.rest(), limit, deliver)
	case first == '<':
		return errHTML
	}
	for {
		data, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		done, err := decodeEvent(d, string(s.name), data, s.lines > 1)
		if !deliver() {
			return errStopped
		}
		if done || err != nil {
			return err
		}
	}
}

// decodeEvent decodes the data of one event. By the specification the data lines form one text, but
// some servers leave out the blank lines between events; then each line is an event.
func decodeEvent(d decoder, name string, data []byte, lines bool) (done bool, err error) {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return false, nil
	}
	c := cursor{b: data}
	for lines && c.peek() == '{' {
		value := c.raw()
		if value == nil {
			return false, errJSON
		}
		if done, err = d.event(value); done || err != nil {
			return done, err
		}
		if data = bytes.TrimSpace(data[c.i:]); len(data) == 0 {
			return false, nil
		}
		c = cursor{b: data}
	}
	if string(data) == "[DONE]" {
		d.state().ended("[DONE]")
		return true, nil
	}
	if done, err = d.event(data); name == "error" && !done && (err == nil || errors.Is(err, errJSON)) {
		if c = (cursor{b: data}); c.peek() != '{' { // the text is the error message
			return false, (&ServiceError{Message: string(wellFormed(data))}).fault(0)
		}
		return false, serviceError(&c, 0)
	}
	return done, err
}

// decodeWhole reads an answer in one piece, or Gemini's array of chunks.
func decodeWhole(d decoder, r io.Reader, limit int, deliver func() bool) error {
	body, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return err
	}
	if len(body) > limit {
		return errEventSize
	}
	c := cursor{b: body}
	if c.peek() != '[' {
		_, err = d.event(body)
	} else {
		c.array(func() {
			if chunk := c.raw(); err == nil && chunk != nil {
				_, err = d.event(chunk)
			}
		})
		err = cmp.Or(err, c.end())
	}
	if !deliver() {
		return errStopped
	}
	return err
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.n > maxStream {
		return n, errEventSize
	}
	return n, err
}

// Received describes an answer that was interrupted.
type Received struct {
	Received int64 `json:"received"`
}

func truncated(n int64, cause error) *fault.Error {
	return fault.Unavailablef("The model's answer was cut off. The part that arrived was kept.").WithDetails(Received{n}).WithCause(cause)
}

func asStreamError(err error, n int64) error {
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, errHTML):
		return fault.Unavailablef("The server returned a web page. Check the base URL.").WithCause(err)
	case errors.Is(err, errJSON), errors.Is(err, errEventSize):
		return fault.Unavailablef("Couldn't read the model's answer.").WithDetails(Received{n}).WithCause(err)
	}
	return truncated(n, err)
}

// ServiceError is an error reported by a service. It is the cause of the *fault.Error that a call
// returns.
type ServiceError struct {
	Status  int
	Code    string // the service's own type or code
	Message string

	says func(service string) string // the sentence for people about a service of this name
}

func (e *ServiceError) Error() string {
	return fmt.Sprintf("status %d, %s: %s", e.Status, e.Code, e.Message)
}

func isRefusal(err error) bool {
	var s *ServiceError
	return errors.As(err, &s)
}

// serviceError reads the error object of any wire, at which c stands.
func serviceError(c *cursor, status int) error {
	e := ServiceError{Status: status}
	if c.peek() == '"' {
		e.Message = c.str()
		return e.fault(0)
	}
	c.object(func(key []byte) {
		switch string(key) {
		case "message", "detail":
			if s := c.str(); s != "" {
				e.Message = s
			}
		case "type", "status":
			if s := c.str(); e.Code == "" {
				e.Code = s
			}
		case "code":
			if c.peek() == '"' {
				if s := c.str(); s != "" {
					e.Code = s
				}
				return
			}
			if n := c.count(); n >= 400 && n < 600 {
				e.Status = int(n)
			}
		}
	})
	if e.Status == 0 { // in a stream only the code identifies the error
		e.Status = streamStatus[e.Code]
	}
	return e.fault(0)
}

// streamStatus maps the error codes that services send in the middle of a stream to HTTP statuses.
var streamStatus = map[string]int{
	"overloaded_error": 529, "api_error": 500, "timeout_error": 504, "server_error": 500, "internal_server_error": 500, "INTERNAL": 500, "UNAVAILABLE": 503,
	"DEADLINE_EXCEEDED": 504, "rate_limit_error": 429, "rate_limit_exceeded": 429, "RESOURCE_EXHAUSTED": 429, "invalid_request_error": 400, "INVALID_ARGUMENT": 400,
}

// hasAny reports whether s contains one of the words.
func hasAny(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
