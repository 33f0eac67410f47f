package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
)

// wireError is an error in its wire form. Handlers return *fault.Error; only the protocol layer
// creates the others (parse, request, method, params, unauthenticated).
type wireError struct {
	Code    int
	Message string
	Data    errorData
	status  int
}

// errorData is the `data` member of every error.
type errorData struct {
	Kind         fault.Kind `json:"kind"`
	Code         string     `json:"code"`
	Details      any        `json:"details,omitempty"`
	Retryable    bool       `json:"retryable"`
	RetryAfterMs int64      `json:"retryAfterMs,omitempty"`
	RequestID    string     `json:"requestId"`
}

// Error returns the message.
func (e *wireError) Error() string { return e.Message }

func protocolError(code int, status int, format string, args ...any) *wireError {
	return &wireError{Code: code, status: status, Message: fmt.Sprintf(format, args...), Data: errorData{Kind: fault.Invalid, Code: "INVALID_REQUEST"}}
}

func parseError(cause error) *wireError {
	return protocolError(-32700, http.StatusBadRequest, "%s", cause.Error())
}
func badRequest(why string) *wireError {
	return protocolError(-32600, http.StatusBadRequest, "%s", why)
}
func noMethod(name string) *wireError {
	return protocolError(-32601, http.StatusNotFound, "unknown method %q", name)
}
func badParams(format string, args ...any) *wireError {
	return protocolError(-32602, http.StatusBadRequest, format, args...)
}

// unauthenticated returns the error for a missing, wrong, expired or revoked token. It does not
// reveal which of these it was.
func unauthenticated() *wireError {
	return &wireError{Code: -32001, status: http.StatusUnauthorized, Message: "This needs a valid token.",
		Data: errorData{Kind: fault.Denied, Code: "UNAUTHORIZED"}}
}

// toWire converts an error to its wire form. It is the only place where a Kind becomes a code.
// internal reports that the cause belongs in the log.
func toWire(err error) (w *wireError, internal bool) {
	if errors.As(err, &w) {
		c := *w
		c.Data.RequestID = storage.NewID().String()
		return &c, false
	}
	f := fault.As(err)
	code, name, status := kindCode(f.Kind)
	if narrow := (*statusError)(nil); errors.As(err, &narrow) {
		status = narrow.status
	}
	return &wireError{Code: code, status: status, Message: f.Message, Data: errorData{Kind: f.Kind, Code: name, Details: f.Details,
		Retryable: f.Retryable(), RetryAfterMs: f.RetryAfter.Milliseconds(), RequestID: storage.NewID().String()}}, f.Kind == fault.Internal
}

func kindCode(k fault.Kind) (code int, name string, status int) {
	switch k {
	case fault.Unavailable:
		return -32000, "UNAVAILABLE", http.StatusServiceUnavailable
	case fault.Denied:
		return -32002, "DENIED", http.StatusForbidden
	case fault.NotFound:
		return -32003, "NOT_FOUND", http.StatusNotFound
	case fault.Conflict:
		return -32004, "CONFLICT", http.StatusConflict
	case fault.Timeout:
		return -32005, "TIMEOUT", http.StatusGatewayTimeout
	case fault.Canceled:
		return -32006, "CANCELED", 499
	case fault.Limit:
		return -32007, "LIMIT", http.StatusTooManyRequests
	case fault.Invalid:
		return -32008, "VALIDATION_ERROR", http.StatusUnprocessableEntity
	}
	return -32603, "INTERNAL_ERROR", http.StatusInternalServerError
}

// limited returns a Limit error that says when to retry.
func limited(after time.Duration, format string, args ...any) *fault.Error {
	e := fault.Limitf(format, args...)
	e.RetryAfter = max(after, time.Millisecond)
	return e
}

// marshal encodes v without HTML escapes.
func marshal(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	return appendJSON(make([]byte, 0, 256), v)
}

// okFrame returns the response to id with v as its result, built in place so that a large result is
// copied once. result is the part of frame with the result.
func okFrame(id json.RawMessage, v any) (frame, result []byte, err error) {
	raw, isRaw := v.(json.RawMessage)
	b := newFrame(len(raw) + len(id) + 300)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"result":`...)
	start := len(b)
	if isRaw {
		b = append(b, raw...)
	} else if b, err = appendJSON(b, v); err != nil {
		return nil, nil, err
	}
	end := len(b)
	b = append(b, '}')
	return b, b[start:end], nil
}

// errorFrame returns the response to id with an error.
func errorFrame(id json.RawMessage, e *wireError) []byte {
	out := make([]byte, 0, 320)
	out = append(out, `{"jsonrpc":"2.0","id":`...)
	out = append(out, id...)
	out = append(out, `,"error":`...)
	out = append(out, e.json()...)
	return append(out, '}')
}

// json returns the error object alone.
func (e *wireError) json() []byte {
	obj := struct {
		Code    int       `json:"code"`
		Message string    `json:"message"`
		Data    errorData `json:"data"`
	}{e.Code, e.Message, e.Data}
	b, err := marshal(obj)
	if err != nil { // the details of a handler cannot be encoded
		obj.Data.Details = nil
		b, _ = marshal(obj) // plain fields only
	}
	return b
}
