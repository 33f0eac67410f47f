package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"helix/backend/sandbox/worker"
)

// Limits on the text that is accepted from a child's report.
const (
	maxMessage = 64 << 10
	maxStack   = 32 << 10
)

func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// finish processes the child's report. Limits and sizes are checked again, and values that the
// parent knows better are replaced by its own.
func (t *tierRun) finish(end *worker.End, output []byte) {
	t.finished.Store(true)
	t.childCPU = end.Usage.CPU
	t.usedFuel.Store(min(end.Usage.Fuel, t.limits.Fuel))
	t.usedBytes.Store(min(end.Usage.PeakMemory, t.limits.MemoryBytes))
	switch {
	case end.Error != nil:
		t.fail(t.reported(end.Error))
	case int64(len(output)) > t.limits.OutputBytes:
		t.fail(&Error{
			Class: ClassOutput, Message: fmt.Sprintf("The result is larger than %s.", size(t.limits.OutputBytes)),
			Details: LimitDetail{"outputBytes", t.limits.OutputBytes, int64(len(output))},
		})
	case !json.Valid(output):
		t.fail(failf(ClassOutput, "The result is not valid JSON: %q", head(output)))
	default:
		t.end(outcome{output: output})
	}
}

// reported converts the child's error to the run's.
func (t *tierRun) reported(e *worker.RunError) *Error {
	out := &Error{Class: Class(e.Class), Message: clip(e.Message, maxMessage), Stack: clip(e.Stack, maxStack)}
	if e.Cause != "" {
		out.Err = errors.New(clip(e.Cause, maxMessage))
	}
	switch out.Class {
	case ClassTimeout:
		return t.overLimit(ClassTimeout, "wallMs", t.limits.Wall, t.limits.Wall)
	case ClassCPU:
		if d := detail[LimitDetail](e.Details); d.Limit == "fuel" {
			return t.outOfFuel(uint64(max(d.Value, 0)))
		}
		return t.overLimit(ClassCPU, "cpuMs", t.limits.CPU, max(t.childCPU, t.limits.CPU))
	case ClassMemory:
		return t.outOfMemory(out.Stack)
	case ClassHostDenied:
		return t.denied(e, out)
	case ClassThrown:
		if len(e.Details) == 0 {
			break
		}
		out.Details = ThrownDetail{clip(detail[ThrownDetail](e.Details).Name, 256)}
	case ClassOutput:
		if d := detail[OutputDetail](e.Details); d.Path != "" {
			out.Details = OutputDetail{clip(d.Path, maxMessage), clip(d.What, 64)}
		} else if d := detail[LimitDetail](e.Details); d.Limit != "" {
			out.Details = LimitDetail{"outputBytes", t.limits.OutputBytes, d.Value}
		}
	case ClassTrap:
		if d := detail[ExitDetail](e.Details); d.ExitCode != 0 {
			out.Details = d
		}
	case ClassMissingExport, ClassUnavailable:
	default: // a child may not report this class
		out.Class = ClassTrap
	}
	return out
}

// denied is the outcome of an uncaught refusal: the host's refusal, if the child names one that was
// made, else the run's own limit.
func (t *tierRun) denied(e *worker.RunError, out *Error) *Error {
	t.calls.mu.Lock()
	ref := t.refusals[e.Call]
	t.calls.mu.Unlock()
	if ref != nil {
		c := *ref
		c.Stack = out.Stack
		return &c
	}
	r := detail[Refusal](e.Details)
	if r.Reason != ReasonLimit {
		r.Reason = ReasonCapability
	}
	out.Details = Refusal{Reason: r.Reason}
	return out
}

func detail[T any](text json.RawMessage) (d T) {
	if len(text) > 0 {
		_ = json.Unmarshal(text, &d) // invalid details are ignored
	}
	return d
}
