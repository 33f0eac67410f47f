package sandbox

import (
	"encoding/json"
	"sync"
	"time"

	"helix/backend/fault"
	"helix/backend/sandbox/worker"
)

// remoteCalls are the running host calls of a child.
type remoteCalls struct {
	workers sync.WaitGroup
	mu      sync.Mutex // guards lanes
}

func (c *remoteCalls) wait() { waitAWhile(&c.workers) }

// overCap is how many calls a child may attempt beyond its limit of host calls. A correct child
// makes none, because it counts them too.
const overCap = 64

// call starts one host call of the child.
func (t *tierRun) call(c *worker.Call, req []byte) error {
	if c.ID != t.lastCall+1 || !json.Valid(req) {
		return errProtocol
	}
	t.lastCall = c.ID
	lane, room := "", otherLane
	switch c.Op {
	case OpFetch:
		lane, room = OpFetch, fetchLane
	case OpTool:
		lane, room = OpTool, toolLane
	}
	t.calls.mu.Lock()
	full := t.lanes[lane] >= room
	if !full {
		t.lanes[lane]++
	}
	t.calls.mu.Unlock()
	if full || c.ID > int64(t.limits.HostCalls)+overCap {
		return errProtocol
	}
	refused := ""
	if c.Op != OpFolders || t.folders { // the first is the engine's own request and not counted
		_, refused = t.take(c.Op)
	}
	t.folders = t.folders || c.Op == OpFolders
	t.calls.workers.Add(1)
	go func() {
		defer t.calls.workers.Done()
		var resp json.RawMessage
		var err error
		if refused != "" {
			err = fault.Deniedf("%s", refused).WithDetails(Refusal{Reason: ReasonLimit})
		} else {
			resp, err = t.ask(c.Op, req)
		}
		a := worker.Answer{ID: c.ID, Charge: t.inner()}
		if err != nil {
			resp, a.Error = nil, t.refuse(c.ID, err)
		}
		t.calls.mu.Lock()
		t.lanes[lane]--
		t.calls.mu.Unlock()
		if t.over() {
			return
		}
		if err := t.child.p.In.Write(worker.ToChild{Answer: &a}, resp); err != nil {
			// Too large for a frame, or the child is gone, which the reader detects.
			a.Error = &worker.HostError{Kind: string(fault.Limit), Message: "The answer is too large."}
			_ = t.child.p.In.Write(worker.ToChild{Answer: &a})
		}
	}()
	return nil
}

// inner returns the usage of inner runs so far, for the child to count too; nil if there is none.
func (t *tierRun) inner() *worker.Charge {
	c := worker.Charge{CPU: time.Duration(t.extraCPU.Load()), Fuel: t.extraFuel.Load(), HostCalls: int(t.extraCalls.Load())}
	if c == (worker.Charge{}) {
		return nil
	}
	return &c
}

// refuse returns an error of the host in the form for the child. A refusal is kept, so that it can
// become the run's outcome with all details from the host.
func (t *tierRun) refuse(id int64, err error) *worker.HostError {
	f := fault.As(err)
	h := &worker.HostError{Kind: string(f.Kind), Message: clip(f.Message, maxMessage)}
	if f.Kind == fault.Denied {
		ref := refusalOf(f)
		h.Reason, h.Capability, h.Resource = ref.Reason, clip(ref.Capability, maxMessage), clip(ref.Resource, maxMessage)
		t.calls.mu.Lock()
		t.refusals[id] = &Error{Class: ClassHostDenied, Message: f.Message, Details: ref, Err: f.Err}
		t.calls.mu.Unlock()
	}
	return h
}
