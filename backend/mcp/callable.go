package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

var (
	errTool   = errors.New("the tool reported an error")
	errOutput = errors.New("the output does not match its schema")
)

// provider makes the tools of MCP servers callable.
type provider struct{ s *Service }

// Provider returns the provider of the tools of the caller's MCP servers. Its list is the last one
// seen, so that listing starts no server.
func (s *Service) Provider() callable.Provider { return provider{s} }

// Kind implements callable.Provider.
func (provider) Kind() callable.Kind { return Kind }

// cutID splits server.tool.
func cutID(id string) (server, tool string, ok bool) {
	server, tool, ok = strings.Cut(id, ".")
	return server, tool, ok && tool != ""
}

func (t *toolRow) info(row *serverRow) callable.Info {
	d, id := t.definition(), toolID(row.Name, t.name)
	i := callable.Info{
		Ref: callable.Ref{Kind: Kind, ID: id}, Name: id, Title: visible(d.Title, 256), Description: visible(d.Description, maxModelText), Hash: hexHash(t.hash),
		Input: d.Input, Output: d.Output, Effects: d.effects(t.permissionTier()), Capabilities: []string{permission.FormatCapability(permission.MCP, id)}, Untrusted: true,
	}
	switch {
	case !*row.Enabled, row.Trust == TrustNone, t.state == ToolDenied:
		i.Blocked = callable.ReasonDisabled
	case t.state == ToolChanged, !row.isApproved():
		i.Blocked = callable.ReasonChanged
	case t.state != ToolApproved:
		i.Blocked = callable.ReasonNeedsApproval
	}
	return i
}

// Find implements callable.Provider. The name of a tool is its id.
func (p provider) Find(ctx context.Context, id, name string) ([]callable.Info, error) {
	if id == "" {
		id = name
	}
	if err := p.s.syncApprovals(ctx); err != nil {
		return nil, err
	}
	t, err := p.s.find(ctx, callable.Ref{Kind: Kind, ID: id})
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []callable.Info{t.info}, nil
}

// List implements callable.Provider. Tools that were removed are not listed.
func (p provider) List(ctx context.Context) ([]callable.Info, error) {
	if err := p.s.syncApprovals(ctx); err != nil {
		return nil, err
	}
	out := []callable.Info{}
	err := p.s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := loadServers(tx)
		if err != nil {
			return err
		}
		for i := range rows {
			tools, err := loadTools(tx, rows[i].id)
			if err != nil {
				return err
			}
			for k := range tools {
				if tools[k].state != ToolRemoved && tools[k].problem == "" {
					out = append(out, tools[k].info(&rows[i]))
				}
			}
		}
		return nil
	})
	return out, err
}

// Call implements callable.Provider.
func (p provider) Call(ctx context.Context, ref callable.Ref, r callable.Request) (callable.Result, error) {
	out, err := p.s.callTool(ctx, ref, r)
	if err != nil {
		return callable.Result{}, err
	}
	output, notes := out.forCaller()
	return callable.Result{Output: output, Notes: notes, Untrusted: true}, nil
}

// Rights implements callable.Provider.
func (p provider) Rights(ctx context.Context, i callable.Info, _ json.RawMessage) (permission.PreviewResult, error) {
	return p.s.perm.Preview(ctx, permission.PreviewParams{Subject: permission.PreviewSubject{Kind: string(Kind), ID: i.ID}})
}

// CallParams are a call of a tool.
type CallParams struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // default {}
	TimeoutMs int64           `json:"timeoutMs,omitempty"`
	RunID     *uuid.UUID      `json:"runId,omitempty"` // shown with the call
}

// CallResult is the result of a call. A failure that the tool itself reports has isError.
type CallResult struct {
	Success           bool            `json:"success"`
	Output            []Part          `json:"output"`
	Structured        json.RawMessage `json:"structured,omitempty"`
	IsError           bool            `json:"isError"`
	Error             string          `json:"error,omitempty"`
	ErrorClass        string          `json:"errorClass,omitempty"`
	DurationMs        int64           `json:"durationMs"`
	ExecutionID       uuid.UUID       `json:"executionId"`
	PendingApprovalID *uuid.UUID      `json:"pendingApprovalId,omitempty"`
}

// Call calls a tool of an MCP server, which is started if necessary. A call that was refused before it
// started is an error.
func (s *Service) Call(ctx context.Context, p CallParams) (CallResult, error) {
	if p.TimeoutMs < 0 {
		return CallResult{}, fault.InvalidField("/timeoutMs", "range", "timeoutMs can't be negative.")
	}
	q := callable.Request{Input: p.Arguments, Timeout: duration.Of(p.TimeoutMs, time.Millisecond), Caller: callable.Caller{Attended: true}}
	if p.RunID != nil {
		q.Caller.Run = *p.RunID
	}
	o, err := s.callTool(ctx, callable.Ref{Kind: Kind, ID: toolID(p.Server, p.Tool)}, q)
	out := CallResult{Success: err == nil, Output: []Part{}, IsError: o.isError, DurationMs: o.took.Milliseconds(), ExecutionID: o.id}
	if r, refused := callable.RefusalOf(err); refused {
		if r.PendingApprovalID == uuid.Nil {
			return out, err
		}
		out.PendingApprovalID = &r.PendingApprovalID
	} else if err != nil && o.id == uuid.Nil {
		return out, err
	}
	if err != nil {
		f := fault.As(err)
		out.Error, out.ErrorClass = f.Message, string(f.Kind)
		switch {
		case errors.Is(err, errTool):
			out.ErrorClass = "tool"
		case errors.Is(err, errOutput):
			out.ErrorClass = "output"
		}
	}
	if o.result != nil && len(o.output) <= maxOutput {
		out.Output = parts(o.result.Content)
		if o.result.StructuredContent != nil {
			out.Structured = o.output
		}
	} else if o.result != nil {
		cut, _ := o.forCaller()
		out.Output = []Part{{Type: "text", Text: string(cut)}}
	}
	return out, nil
}
