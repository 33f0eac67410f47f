package sandbox

import (
	"fmt"

	"helix/backend/fault"
)

// Class is how a run, or the compilation before it, failed.
type Class string

// The classes. A failed run has exactly one: the first that was determined.
const (
	ClassCompile       Class = "compile"        // source or module rejected
	ClassMissingExport Class = "missing_export" // a module without an entry point
	ClassThrown        Class = "thrown"         // uncaught exception or rejected promise
	ClassTrap          Class = "trap"           // unreachable, out of bounds, native stack overflow, a bug in Helix
	ClassTimeout       Class = "timeout"        // wall time
	ClassCPU           Class = "cpu"            // processor time
	ClassMemory        Class = "memory"         // linear memory or the engine's heap
	ClassOutput        Class = "output"         // result too large or not JSON
	ClassInput         Class = "input"          // input too large or not JSON
	ClassHostDenied    Class = "host_denied"    // an uncaught refusal, or too many host calls
	ClassCanceled      Class = "canceled"       // the caller's context ended
	ClassUnavailable   Class = "unavailable"    // artefacts missing, tier not available, queue full
)

// Kind returns the fault.Kind under which a class crosses an API boundary. Thrown and Trap are
// Internal, but callers report a guest failure as a normal result (success:false).
func (c Class) Kind() fault.Kind {
	switch c {
	case ClassCompile, ClassMissingExport, ClassInput:
		return fault.Invalid
	case ClassTimeout, ClassCPU:
		return fault.Timeout
	case ClassMemory, ClassOutput:
		return fault.Limit
	case ClassHostDenied:
		return fault.Denied
	case ClassCanceled:
		return fault.Canceled
	case ClassUnavailable:
		return fault.Unavailable
	}
	return fault.Internal
}

// Error is the error of every failing call of this package. Message is safe to show; Stack holds
// the guest's frames with lines of the original source; Details is one of the *Detail types of this
// package or nil; Err is the cause, for the log only.
type Error struct {
	Class   Class
	Message string
	Stack   string
	Details any
	Err     error
}

// CompileDetail is the position in a rejected source. Line and Column start at 1; Column counts
// characters.
type CompileDetail struct {
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Column    int    `json:"column,omitempty"`
	LineText  string `json:"lineText,omitempty"`
	Specifier string `json:"specifier,omitempty"` // of a rejected import
}

// LimitDetail is the limit that ended a run and the usage at that point, in bytes, milliseconds or
// as a count, depending on the name (wallMs, cpuMs, memoryBytes, outputBytes, inputBytes,
// hostCalls).
type LimitDetail struct {
	Limit string `json:"limit"`
	Max   int64  `json:"max"`
	Value int64  `json:"value"`
}

// OutputDetail is the place in the result of a value that JSON cannot represent.
type OutputDetail struct {
	Path string `json:"path"` // such as $.a.b[3]
	What string `json:"what"` // function, symbol, bigint, cycle
}

// ExitDetail is the exit code of a module that exited.
type ExitDetail struct {
	ExitCode uint32 `json:"exitCode"`
}

// ThrownDetail is the name of the guest error, such as TypeError.
type ThrownDetail struct {
	Name string `json:"name"`
}

// Error returns class, message and cause; it is meant for the log.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("sandbox: %s: %s", e.Class, e.Message)
	}
	return fmt.Sprintf("sandbox: %s: %s: %v", e.Class, e.Message, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// As makes errors.As, and so fault.As, find the error as a *fault.Error: Kind by class, the
// message, and the details.
func (e *Error) As(target any) bool {
	t, ok := target.(**fault.Error)
	if ok {
		*t = e.Fault()
	}
	return ok
}

// Fault returns the error as the *fault.Error that crosses API boundaries.
func (e *Error) Fault() *fault.Error {
	return &fault.Error{Kind: e.Class.Kind(), Message: e.Message, Details: e.Details, Err: e.Err}
}

func failf(c Class, format string, args ...any) *Error {
	return &Error{Class: c, Message: fmt.Sprintf(format, args...)}
}
