package sandbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"helix/backend/fault"
)

// maxFetches is how many fetches one run may start.
const maxFetches = 100

// lane limits how many operations of a kind run concurrently in one run.
const (
	fetchLane = 6
	toolLane  = 4
	otherLane = 8
)

// maxRequests is the limit, in bytes, on the requests of a run that are running or queued: they are
// copies outside the guest's memory.
const maxRequests = 16 * mebibyte

// answer is the result of one host call.
type answer struct {
	id   int64
	lane *lane
	size int // of the request
	resp json.RawMessage
	err  error
}

// calls are the host calls of one run. Except for the channel, only the run's goroutine uses it.
type calls struct {
	fetch    lane
	tool     lane
	other    lane
	ended    chan answer
	open     int // started and not yet delivered, or queued
	bytes    int // of their requests
	workers  sync.WaitGroup
	held     bool             // quick calls are waiting to be started
	refusals map[int64]*Error // of denied calls, by id, until the run ends
}

type lane struct {
	room    int
	waiting []pendingCall
}

type pendingCall struct {
	id  int64
	op  string
	req json.RawMessage
}

// init allocates what calls need, at the first one.
func (c *calls) init() {
	if c.ended != nil {
		return
	}
	c.fetch.room, c.tool.room, c.other.room = fetchLane, toolLane, otherLane
	c.ended = make(chan answer, fetchLane+toolLane+otherLane)
	c.refusals = map[int64]*Error{}
}

func (c *calls) outstanding() int { return c.open }

// hostGrace is how long a finished run waits for host calls that do not react to its end.
const hostGrace = 2 * time.Second

// wait waits for the goroutines of the calls, whose context has ended.
func (c *calls) wait() {
	if c.open == 0 {
		c.workers.Wait()
		return
	}
	waitAWhile(&c.workers)
}

// waitAWhile waits for the goroutines of host calls whose context has ended, at most hostGrace.
func waitAWhile(workers *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	t := time.NewTimer(hostGrace)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// startCall starts a host call, or returns why the run may not make another.
func (r *run) startCall(op, req string) (id int64, refused string) {
	if int64(r.calls.bytes)+int64(len(req)) > maxRequests {
		return 0, fmt.Sprintf("the operations in progress would have more than %s to send", size(maxRequests))
	}
	if id, refused = r.take(op); refused != "" {
		return 0, refused
	}
	r.calls.init()
	r.calls.open++
	r.calls.bytes += len(req)
	l := &r.calls.other
	switch op {
	case OpFetch:
		l = &r.calls.fetch
	case OpTool:
		l = &r.calls.tool
	}
	l.waiting = append(l.waiting, pendingCall{id, op, json.RawMessage(req)})
	if quick(op) {
		r.calls.held = true
	} else {
		r.runLane(l)
	}
	return id, ""
}

// quick reports whether an operation ends soon because it reads or writes a small value of the
// host. If it is all that the guest is waiting for, it is called on the run's goroutine, since
// handing it to another goroutine takes longer than the operation. So it is started when the guest
// has nothing else to do, or a few jobs later.
func quick(op string) bool { return op == OpSecret || strings.HasPrefix(op, "state.") }

// release starts the calls that startCall held back.
func (r *run) release() {
	if r.calls.held {
		r.calls.held = false
		r.runLane(&r.calls.other)
	}
}

// alone returns the only call that the guest is waiting for, if it is quick and not started.
func (r *run) alone() (p pendingCall, ok bool) {
	l := &r.calls.other
	if !r.calls.held || r.calls.open != 1 || len(l.waiting) != 1 || len(r.timers.heap) > 0 {
		return p, false
	}
	p, l.waiting = l.waiting[0], l.waiting[:0]
	l.room--
	r.calls.held = false
	return p, true
}

func (r *run) runLane(l *lane) {
	for l.room > 0 && len(l.waiting) > 0 {
		p := l.waiting[0]
		l.waiting[0] = pendingCall{} // release its request
		l.waiting = l.waiting[1:]
		l.room--
		r.calls.workers.Add(1)
		go func() {
			defer r.calls.workers.Done()
			resp, err := r.ask(p.op, p.req)
			r.calls.ended <- answer{p.id, l, len(p.req), resp, err} // has room for every lane
		}()
	}
}

// rejection is what the guest sees of a failed host call.
type rejection struct {
	Name       string `json:"name"`
	Message    string `json:"message"`
	Code       string `json:"code"`
	Capability string `json:"capability,omitempty"`
	Resource   string `json:"resource,omitempty"`
	Denied     bool   `json:"denied,omitempty"`
}

// deliver settles the guest's promise.
func (r *run) deliver(a answer) error {
	r.calls.open--
	r.calls.bytes -= a.size
	a.lane.room++
	r.runLane(a.lane)
	payload := []byte(a.resp)
	if a.err != nil {
		payload = jsonObject(r.reject(a.id, a.err))
	}
	in := r.g.in
	id, err := in.NewNumber(float64(a.id))
	if err != nil {
		return err
	}
	body, err := in.NewString(payload)
	if err != nil {
		return err
	}
	ok, err := in.NewBool(a.err == nil)
	if err != nil {
		return err
	}
	if _, err := in.Enter(enterDeliver, id, ok, body); err != nil {
		return err
	}
	return in.Free(body)
}

func (r *run) reject(id int64, err error) rejection {
	out, denied := rejectionOf(err)
	if denied != nil {
		r.calls.refusals[id] = denied
	}
	return out
}

// rejectionOf returns what the guest sees of an error of the host. denied is the error of the run
// if it ends because of a denial; nil for other errors.
func rejectionOf(err error) (out rejection, denied *Error) {
	f := fault.As(err)
	if f.Kind != fault.Denied {
		return rejection{Name: "HelixError", Message: f.Message, Code: string(f.Kind)}, nil
	}
	ref := refusalOf(f)
	out = rejection{
		Name: "PermissionError", Message: f.Message, Code: "denied",
		Capability: ref.Capability, Resource: ref.Resource, Denied: true,
	}
	if ref.Reason == ReasonLimit {
		out.Name, out.Code = "LimitError", "limit"
	}
	return out, deniedError(f)
}

func refusalOf(f *fault.Error) Refusal {
	switch d := f.Details.(type) {
	case Refusal:
		return d
	case *Refusal:
		if d != nil {
			return *d
		}
	}
	return Refusal{Reason: ReasonCapability}
}

// refused is the outcome of a refusal that the guest did not catch; id 0 means a limit of this
// package.
func (r *run) refused(id int64, message, stack string) *Error {
	if e, ok := r.calls.refusals[id]; ok {
		c := *e
		c.Stack = stack
		return &c
	}
	return &Error{
		Class: ClassHostDenied, Message: message, Stack: stack,
		Details: Refusal{Reason: ReasonLimit},
	}
}
