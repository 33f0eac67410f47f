package fault

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Panic is a recovered panic. It is the cause of the error that Caught returns, so that the log
// contains the stack.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// LogValue adds the stack to the log.
func (p *Panic) LogValue() slog.Value { return slog.StringValue(p.Error() + "\n" + string(p.Stack)) }

// LogValue adds the cause to the log, and the stack of a panic.
func (e *Error) LogValue() slog.Value {
	var p *Panic
	if errors.As(e.Err, &p) {
		return slog.StringValue(e.Message + ": " + p.LogValue().String())
	}
	return slog.StringValue(e.Error())
}

// Caught returns the error for a recovered panic. Call it in the deferred function that recovers,
// where the stack still shows the origin.
func Caught(value any) *Error {
	return Internalf(&Panic{value, debug.Stack()}, "Helix has an internal error. The log has the details.")
}

// Catch calls fn and returns its error. A panic in fn becomes an error of kind Internal, so that
// one item of background work cannot crash the process and with it all other work.
func Catch(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Caught(v)
		}
	}()
	return fn()
}
