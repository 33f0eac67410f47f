package tools

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
)

// host implements the helix.* calls of one run. Every call with an effect is decided by permission
// and recorded in the audit log beforehand.
type host struct {
	e *execution

	mu      sync.Mutex
	credits map[string]int // one-time grants that were used up while the run was authorized
	pending uuid.UUID      // id of the last open question
	after   []afterCall    // audit entries about finished calls, written when the run ends
	secrets map[string]*runSecret
	memory  map[string]json.RawMessage // state of a draft, which is not stored
}

// afterCall is the audit entry of a finished call.
type afterCall struct {
	action  string
	outcome string
	details map[string]any
}

func newHost(e *execution) *host {
	return &host{e: e, credits: map[string]int{}, secrets: map[string]*runSecret{}, memory: map[string]json.RawMessage{}}
}

func creditKey(c permission.Capability, resource string) string { return string(c) + "\x00" + resource }

// credit records a one-time grant that was used up while the run was authorized.
func (h *host) credit(c permission.Capability, resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.credits[creditKey(c, resource)]++
}

func (h *host) spend(c permission.Capability, resource string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := creditKey(c, resource)
	if h.credits[k] == 0 {
		return false
	}
	h.credits[k]--
	return true
}

func (h *host) lastPending() uuid.UUID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pending
}

// Call implements sandbox.Host.
func (h *host) Call(ctx context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
	c := &call{h: h, op: op, digest: digest(req), bytesIn: len(req)}
	begun := time.Now()
	answer, err := h.dispatch(ctx, c, req)
	c.finish(begun, len(answer), err)
	if err != nil {
		return nil, h.guestError(err)
	}
	return answer, nil
}

func (h *host) dispatch(ctx context.Context, c *call, req json.RawMessage) (json.RawMessage, error) {
	switch c.op {
	case sandbox.OpFetch:
		return decodeCall(ctx, c, req, h.fetch)
	case sandbox.OpReadText:
		return decodeCall(ctx, c, req, h.readText)
	case sandbox.OpList:
		return decodeCall(ctx, c, req, h.listFolder)
	case sandbox.OpWriteText:
		return decodeCall(ctx, c, req, h.writeText)
	case sandbox.OpStateGet:
		return decodeCall(ctx, c, req, h.stateGet)
	case sandbox.OpStateSet:
		return decodeCall(ctx, c, req, h.stateSet)
	case sandbox.OpStateDelete:
		return decodeCall(ctx, c, req, h.stateDelete)
	case sandbox.OpStateKeys:
		return decodeCall(ctx, c, req, h.stateKeys)
	case sandbox.OpSecret:
		return decodeCall(ctx, c, req, h.secret)
	case sandbox.OpTool:
		return decodeCall(ctx, c, req, h.tool)
	case sandbox.OpFolders:
		return decodeCall(ctx, c, req, h.folders)
	case sandbox.OpReadBytes:
		return decodeCall(ctx, c, req, h.readBytes)
	}
	return nil, fault.Invalidf("Unknown operation %q.", lifecycle.Shorten(c.op, 40))
}

func decodeCall[P, R any](ctx context.Context, c *call, req json.RawMessage, fn func(context.Context, *call, P) (R, error)) (json.RawMessage, error) {
	var p P
	if err := json.Unmarshal(req, &p); err != nil {
		return nil, fault.Invalidf("The arguments of %s aren't valid.", c.op)
	}
	r, err := fn(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return jcs.Marshal(r)
}

// guestError returns the error as shown to the guest. A refusal names the capability.
func (h *host) guestError(err error) error {
	f := fault.As(err)
	out := &fault.Error{Kind: f.Kind, Message: h.scrub(f.Message), Err: f.Err, Details: f.Details}
	if den, ok := f.Details.(Denial); ok {
		r := sandbox.Refusal{Reason: sandbox.ReasonCapability, Resource: den.Resource}
		if den.Capability != "" {
			r.Capability = permission.FormatCapability(permission.Capability(den.Capability), den.Resource)
		}
		if den.PendingApprovalID != nil {
			r.Extra = map[string]any{"pendingApprovalId": den.PendingApprovalID}
		}
		out.Details = r
	} else if f.Kind == fault.Denied {
		if _, ok := f.Details.(sandbox.Refusal); !ok {
			out.Details = sandbox.Refusal{Reason: sandbox.ReasonCapability}
		}
	}
	return out
}

// call is one helix.* call.
type call struct {
	h        *host
	op       string
	digest   string
	bytesIn  int
	action   string // of the audit entry to write when the call ends; "": none
	cap      permission.Capability
	resource string
	path     string // of an allowed file: the resolved resource, as decided
	more     map[string]any
}

// allow asks permission for a capability and records the decision before anything else happens.
func (c *call) allow(ctx context.Context, capability permission.Capability, resource, action string) error {
	h, e := c.h, c.h.e
	c.cap, c.resource, c.action = capability, resource, action
	if err := e.auth.Err(); err != nil {
		return err
	}
	d := permission.Decision{Effect: permission.Allow, Reason: permission.ReasonGranted}
	var err error
	if h.spend(capability, resource) {
		if capability == permission.FilesystemRead || capability == permission.FilesystemWrite {
			if d.Path, err = e.s.perm.Locate(e.subject(), capability, resource); err != nil {
				d = permission.Decision{Effect: permission.Deny, Reason: permission.ReasonNever}
			}
		}
	} else {
		if d, err = e.s.perm.Decide(ctx, e.request(capability, resource, permission.SideEffecting)); err != nil {
			return err
		}
	}
	verdict, result := string(d.Effect), audit.OK
	if d.Effect != permission.Allow {
		verdict, result = d.Reason, audit.Denied
		if d.PendingID != uuid.Nil {
			h.mu.Lock()
			h.pending = d.PendingID
			h.mu.Unlock()
		}
	}
	if err := e.record(ctx, audit.PermissionCheck, result, map[string]any{
		"op": c.op, "capability": capability, "resource": resource, "arguments": c.digest, "verdict": verdict,
	}); err != nil {
		return err
	}
	if d.Effect != permission.Allow {
		c.action = ""
		return e.capabilityDenied(capability, resource, d)
	}
	c.path = d.Path
	return nil
}

// note adds a detail to the audit entry that is written when the call ends.
func (c *call) note(key string, v any) {
	if c.more == nil {
		c.more = map[string]any{}
	}
	c.more[key] = v
}

// finish stores what the call did, for the audit entry at the end of the run.
func (c *call) finish(begun time.Time, bytesOut int, err error) {
	if c.action == "" {
		return
	}
	details := map[string]any{
		"op": c.op, "capability": c.cap, "resource": c.resource, "bytesIn": c.bytesIn, "bytesOut": bytesOut, "microseconds": time.Since(begun).Microseconds(),
	}
	for k, v := range c.more {
		details[k] = v
	}
	result := audit.OK
	if err != nil {
		result = audit.Failed
		details["error"] = fault.KindOf(err)
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if len(c.h.after) < 2000 {
		c.h.after = append(c.h.after, afterCall{c.action, result, details})
	}
}

// take returns and clears the entries of finished calls, for the run to write at its end.
func (h *host) take() []afterCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.after
	h.after = nil
	return list
}

// depth returns the number of nested tool calls, including this one.
func (e *execution) depth() int {
	n := 0
	for x := e; x != nil; x = x.caller.outer {
		n++
	}
	return n
}

// maxDepth is the maximum nesting of tool calls.
const maxDepth = 4

// tool runs another tool of the user, with no more authority, time and calls than this run has left.
func (h *host) tool(ctx context.Context, c *call, p sandbox.ToolRequest) (sandbox.ToolResponse, error) {
	e := h.e
	name := strings.TrimSpace(p.Name)
	if err := c.allow(ctx, permission.ToolCall, name, audit.ResourceAccess); err != nil {
		return sandbox.ToolResponse{}, err
	}
	inner, err := storage.Result(ctx, e.s.db.Read, func(tx *storage.Tx) (*Tool, error) { return toolByRef(tx, name) })
	if err != nil {
		return sandbox.ToolResponse{}, err
	}
	for x := e; x != nil; x = x.caller.outer {
		if !x.draft && x.tool.ID == inner.ID {
			return sandbox.ToolResponse{}, fault.New(fault.Invalid, "The tools call each other in a loop: %q is already running.", inner.Name)
		}
	}
	if e.depth() >= maxDepth {
		return sandbox.ToolResponse{}, fault.Limitf("Tools can call one another at most %d levels deep.", maxDepth)
	}
	r, err := e.s.ExecuteFor(ctx, Caller{Kind: e.noun(), Authority: e.auth, RunID: e.id, outer: e}, ExecuteParams{ToolID: &inner.ID, Params: p.Params})
	if err != nil {
		return sandbox.ToolResponse{}, err
	}
	c.note("run", r.ExecutionID)
	if !r.Success {
		return sandbox.ToolResponse{}, fault.New(sandbox.Class(r.ErrorClass).Kind(), "The tool %q failed: %s", inner.Name, r.Error)
	}
	return sandbox.ToolResponse{Output: r.Output}, nil
}
