// Package fault defines the error type that crosses API boundaries in Helix: a Kind for programs, a
// Message that is safe to show to people, and the cause for the log. Any package may import it; it
// imports only the standard library.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind says what a caller can do about an error. The gateway maps each Kind to one
// JSON-RPC code and one HTTP status, the CLI to one exit code.
type Kind string

// The kinds. Anything that is not a *Error is Internal, except context errors.
const (
	Invalid     Kind = "invalid"     // the request is wrong; repeating it will not help
	NotFound    Kind = "not_found"   // it does not exist, or belongs to someone else
	Conflict    Kind = "conflict"    // the state has changed; reload and decide again
	Denied      Kind = "denied"      // not allowed; Details contain the missing permission
	Unavailable Kind = "unavailable" // a part is down or missing; may be retried later
	Timeout     Kind = "timeout"
	Canceled    Kind = "canceled"
	Limit       Kind = "limit" // a quota, a rate or a size
	Internal    Kind = "internal"
)

// Error is a coded error. Message is one or two sentences for a person: what happened, what was
// kept, what to do next; it never contains a path, SQL or a secret. Details is encoded as JSON for
// programs. Err is the cause and goes only to the log.
type Error struct {
	Kind       Kind
	Message    string
	Details    any
	Err        error
	RetryAfter time.Duration // zero: unknown
}

// Error returns the message followed by the cause; it is meant for the log.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// WithDetails sets the details and returns e.
func (e *Error) WithDetails(d any) *Error { e.Details = d; return e }

// WithCause sets the cause and returns e.
func (e *Error) WithCause(err error) *Error { e.Err = err; return e }

// New returns an Error with a formatted message.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// Invalidf is New(Invalid, …).
func Invalidf(format string, args ...any) *Error { return New(Invalid, format, args...) }

// NotFoundf is New(NotFound, …).
func NotFoundf(format string, args ...any) *Error { return New(NotFound, format, args...) }

// Conflictf is New(Conflict, …).
func Conflictf(format string, args ...any) *Error { return New(Conflict, format, args...) }

// Deniedf is New(Denied, …).
func Deniedf(format string, args ...any) *Error { return New(Denied, format, args...) }

// Unavailablef is New(Unavailable, …).
func Unavailablef(format string, args ...any) *Error { return New(Unavailable, format, args...) }

// Limitf is New(Limit, …).
func Limitf(format string, args ...any) *Error { return New(Limit, format, args...) }

// Internalf is New(Internal, …) with a cause that is logged and not shown.
func Internalf(err error, format string, args ...any) *Error {
	return New(Internal, format, args...).WithCause(err)
}

// As returns the *Error in err's chain. Context errors become Canceled or Timeout; any
// other error becomes Internal with a message that reveals nothing. As(nil) is nil.
func As(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &Error{Kind: Canceled, Message: "The call was canceled.", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Timeout, Message: "The call took too long.", Err: err}
	}
	return &Error{Kind: Internal, Message: "Helix has an internal error. The log has the details.", Err: err}
}

// KindOf returns the Kind of As(err), and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	return As(err).Kind
}

// Is reports whether err's Kind is k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// Retryable reports whether the same call may succeed later without changes.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case Unavailable, Timeout, Limit:
		return true
	}
	return e.RetryAfter > 0
}
