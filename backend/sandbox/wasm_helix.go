package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"helix/backend/fault"
)

// maxRequest is the maximum size in bytes of a module's request.
const maxRequest = 8 << 20

// helixCall is helix.call(ptr, len): the request {op, ...} as JSON, with an operation of
// hostapi.go and the members of its request, or "log" with level, message and fields. It
// waits for the answer and returns its length. A negative number is the length of an error instead:
// a JSON object with name, message, code and, for a refusal, capability, as in JavaScript.
// helix.read then returns the text.
func (w *moduleRun) helixCall(m guestMemory, p []uint64) errno {
	b, ok := m.bytes(p[0], p[1])
	if !ok {
		return w.answered(nil, fault.Invalidf("The request is outside the module's memory."))
	}
	if len(b) > maxRequest {
		return w.answered(nil, fault.Limitf("The request is larger than %s.", size(maxRequest)))
	}
	w.work(4 * len(b))
	op, req, err := splitRequest(b)
	if err != nil {
		return w.answered(nil, err)
	}
	if op == "log" { // does not show whether the module handled a refusal
		before := w.refusal
		n := w.answered(w.helixLog(req))
		w.refusal = before
		return n
	}
	if op == OpFolders { // only for the engine's own requests
		return w.answered(nil, fault.Invalidf("Unknown operation %q.", op))
	}
	if _, refused := w.take(op); refused != "" {
		w.refusal = limitRefusal(refused)
		return w.answer(jsonObject(rejection{Name: "LimitError", Message: refused, Code: "limit", Denied: true}), true)
	}
	resp, err := w.await(op, req)
	return w.answered(resp, err)
}

// splitRequest separates the operation from a request. The host reads exactly what was checked
// here: duplicate members are removed, and names are valid text.
func splitRequest(b []byte) (op string, req json.RawMessage, err error) {
	var o map[string]json.RawMessage
	if !utf8.Valid(b) || json.Unmarshal(b, &o) != nil || o == nil {
		return "", nil, fault.Invalidf("The request is not a JSON object.")
	}
	if json.Unmarshal(o["op"], &op) != nil || op == "" {
		return "", nil, fault.Invalidf(`The request has no "op".`)
	}
	delete(o, "op")
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(o); err != nil {
		return "", nil, fault.Invalidf("The request is not a JSON object.")
	}
	return op, bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func (w *moduleRun) helixLog(req json.RawMessage) (json.RawMessage, error) {
	var l struct {
		Level, Message string
		Fields         json.RawMessage
	}
	if json.Unmarshal(req, &l) != nil {
		return nil, fault.Invalidf("The arguments of log are not valid.")
	}
	w.flushErrors()
	w.logs.add(l.Level, l.Message, string(l.Fields))
	return json.RawMessage("{}"), nil
}

// answered stores the text for helix.read and returns its length for the guest.
func (w *moduleRun) answered(resp json.RawMessage, err error) errno {
	if err == nil {
		w.refusal = nil
		return w.answer(resp, false)
	}
	var out rejection
	out, w.refusal = rejectionOf(err)
	return w.answer(jsonObject(out), true)
}

func (w *moduleRun) answer(text []byte, failed bool) errno {
	w.response = text
	n := int32(len(text))
	if failed {
		n = -n
	}
	return errno(uint32(n))
}

// helixRead is helix.read(ptr, cap): it copies as much of the last answer as fits and returns the
// number of bytes, or -1 if the buffer is not inside the memory.
func (w *moduleRun) helixRead(m guestMemory, p []uint64) errno {
	b, ok := m.bytes(p[0], min(uint64(uint32(p[1])), uint64(len(w.response))))
	if !ok {
		return errno(0xFFFFFFFF)
	}
	w.work(len(b) / 16)
	return errno(copy(b, w.response))
}

// deniedError is the error of a run that did not handle a refusal.
func deniedError(f *fault.Error) *Error {
	return &Error{Class: ClassHostDenied, Message: f.Message, Details: refusalOf(f), Err: f.Err}
}

func limitRefusal(message string) *Error {
	return &Error{Class: ClassHostDenied, Message: message, Details: Refusal{Reason: ReasonLimit}}
}

// await calls the host and waits for its answer without using the run's CPU time. The host runs on
// another goroutine, so that a call that ignores the end of the run cannot delay it.
func (w *moduleRun) await(op string, req json.RawMessage) (json.RawMessage, error) {
	type result struct {
		resp json.RawMessage
		err  error
	}
	done := make(chan result, 1)
	w.asked = true
	w.hosts.Add(1)
	go func() {
		defer w.hosts.Done()
		resp, err := w.ask(op, req)
		done <- result{resp, err}
	}()
	w.pause()
	defer w.resume()
	select {
	case r := <-done:
		if r.err == nil && len(r.resp) > 1<<30 {
			return nil, fmt.Errorf("answer of %d bytes", len(r.resp))
		}
		return r.resp, r.err
	case <-w.ctx.Done():
		return nil, w.ctx.Err()
	}
}
