package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/otlp"
	"helix/backend/permission"
	"helix/backend/schema"
	"helix/backend/storage"
)

// maxExtended is how long a call may last at most, even if the server reports progress.
const maxExtended = 10 * time.Minute

// The results of calls in mcp_calls.
const (
	callRunning   = "running"
	callSuccess   = "success"
	callFailure   = "failure"
	callTimeout   = "timeout"
	callCancelled = "cancelled"
)

// outcome is what a call returned.
type outcome struct {
	id      uuid.UUID
	output  json.RawMessage // for callers
	result  *sdk.CallToolResult
	text    string // of the content
	isError bool
	hidden  []string // secrets among the arguments
	sent    bool     // the server may have received the call
	took    time.Duration
}

// runningCall is a call in progress.
type runningCall struct {
	id, user, server uuid.UUID
	tool             string // server.tool
	attended         bool   // a person can answer questions
	began            time.Time
	clock            *callClock
	done             <-chan struct{}
}

// callTool makes a call: it checks the state of the server and the tool, the arguments and the
// permissions, calls the server, and checks and records the result. Every call of an MCP tool ends here.
func (s *Service) callTool(ctx context.Context, ref callable.Ref, q callable.Request) (out outcome, err error) {
	if err := s.syncApprovals(ctx); err != nil {
		return out, err
	}
	lists := s.lists.Load() // before the definition is read
	t, err := s.find(ctx, ref)
	if err != nil {
		return out, err
	}
	if err := s.usable(ctx, t, q.Hash); err != nil {
		return out, err
	}
	row, tool, info := &t.row, &t.tool, t.info
	l := s.link(row)
	if len(q.Input) == 0 {
		q.Input = json.RawMessage("{}")
	}
	if err := callable.CheckInputWith(ctx, s.schemas.CheckJSON, info, q.Input); err != nil {
		return out, err
	}
	if err := ctx.Err(); err != nil {
		return out, fault.New(fault.Canceled, "The call was canceled before it started.").WithCause(err)
	}
	id := info.ID
	out.id = storage.NewID()
	kept := q.Input
	if sch, err := s.schemas.Compile(info.Input); err == nil {
		kept, out.hidden = sch.RedactJSON(kept)
	}
	arguments := clip(s.o.Scrub(ctx, string(kept)), maxRowOutput)
	pass, err := s.o.Gate.Pass(ctx, &q, callable.Reach{
		Name: id, Subject: tool.subject(row.Name), Cap: permission.MCP, Resource: id, Tier: tool.permissionTier(), Action: audit.Start,
		Details: map[string]any{"execution": out.id, "definitionHash": hexHash(tool.hash)},
		Begin: func(tx *storage.Tx) error {
			_, err := tx.Exec(`INSERT INTO mcp_calls (id, user_id, server_id, server, tool, arguments, status, definition_hash, caller, run_id, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				out.id, row.user, row.id, row.Name, tool.name, arguments, callRunning, tool.hash, cmp.Or(q.Caller.Kind, "user"), q.Caller.Run, tx.Now)
			return err
		},
	})
	if err != nil {
		return out, err
	}
	defer pass.End()
	held, stop := pass.Context(ctx)
	defer stop()

	began := time.Now()
	err = s.perform(held, l, t, &q, lists, &out)
	out.took = time.Since(began)
	if err != nil && !out.sent { // the start of the server may have shown another definition
		if changed := s.unchanged(ctx, t); changed != nil {
			err = changed
		}
	} else if cause := context.Cause(held); err != nil && fault.Is(cause, fault.Denied) {
		err = fault.Deniedf("The permission for %s was revoked during the call.", id).WithCause(err)
	}
	if rerr := s.record(ctx, id, &q, &out, err); rerr != nil {
		s.log.Error("record an MCP call", "tool", id, "err", rerr)
	}
	return out, err
}

// perform calls the server. While it runs the definition is the one that was checked: the list is read
// again first if the server announced a change. lists is how often lists had been stored when the
// definition was read.
func (s *Service) perform(ctx context.Context, l *link, t *storedTool, q *callable.Request, lists int64, out *outcome) error {
	row, id := &t.row, t.info.ID
	limit := duration.Of(row.TimeoutMs, time.Millisecond)
	if q.Timeout > 0 {
		limit = min(limit, q.Timeout)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := l.ensureFresh(ctx); err != nil {
		return err
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return fault.As(ctx.Err())
	}
	clock := newCallClock(limit, maxExtended, func() { cancel(context.DeadlineExceeded) })
	defer clock.stop()
	s.mu.Lock()
	call := &runningCall{out.id, row.user, row.id, id, q.Caller.Attended, time.Now(), clock, ctx.Done()}
	s.running[out.id] = call
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.running, out.id)
		s.mu.Unlock()
	}()
	params := &sdk.CallToolParams{Meta: sdk.Meta{}, Name: t.tool.name, Arguments: q.Input}
	params.SetProgressToken(out.id.String())
	if parent := otlp.TraceParent(ctx); parent != "" {
		params.Meta["traceparent"] = parent
	}
	ctx = context.WithValue(ctx, callKey{}, call)
	err := l.use(ctx, func(ctx context.Context, session *sdk.ClientSession) (err error) {
		if s.lists.Load() != lists { // each start lists the tools
			if err := s.unchanged(ctx, t); err != nil {
				return err
			}
		}
		out.sent = true
		out.result, err = session.CallTool(ctx, params)
		return err
	})
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "%s did not answer within %s.", id, limit).WithCause(err)
	}
	if err != nil {
		return err
	}
	if out.result.NeedsInput() {
		return fault.Unavailablef("%s asks for more input, which this version doesn't support.", row.Name)
	}
	return s.readResult(ctx, t, out)
}

// callClock ends a call after its limit. Each sign of progress starts the limit again, up to most.
type callClock struct {
	mu    sync.Mutex
	timer *time.Timer
	limit time.Duration
	end   time.Time
	ended bool
}

func newCallClock(limit, most time.Duration, expire func()) *callClock {
	return &callClock{limit: limit, end: time.Now().Add(max(most, limit)), timer: time.AfterFunc(limit, expire)}
}

func (c *callClock) extend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := min(c.limit, time.Until(c.end)); !c.ended && left > 0 && c.timer.Stop() {
		c.timer.Reset(left)
	}
}

// hold lets a call last up to most, until release.
func (c *callClock) hold() (release func()) {
	set := func(d time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.ended && d > 0 && c.timer.Stop() {
			c.timer.Reset(d)
		}
	}
	set(time.Until(c.end))
	return func() { set(min(c.limit, time.Until(c.end))) }
}

func (c *callClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.timer.Stop()
}

// progressed publishes the progress of a call.
func (s *Service) progressed(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	id, err := uuid.Parse(token)
	if err != nil {
		return
	}
	s.mu.Lock()
	c := s.running[id]
	s.mu.Unlock()
	if c == nil {
		return // the call has ended
	}
	c.clock.extend()
	bus.Publish(s.bus, c.user, Progress{ExecutionID: id, Progress: p.Progress, Total: p.Total, Message: visible(p.Message, 500)})
}

// find returns the tool with the id server.tool.
func (s *Service) find(ctx context.Context, ref callable.Ref) (*storedTool, error) {
	if _, _, ok := cutID(ref.ID); !ok {
		return nil, callable.NotFound(ref)
	}
	t, ok, err := s.stored(ctx, ref.ID)
	if fault.Is(err, fault.NotFound) || err == nil && (!ok || t.tool.state == ToolRemoved) {
		return nil, callable.NotFound(ref)
	}
	return t, err
}

// usable refuses a call of a tool that may not be called now. What only needs an approval leaves a
// question in Approvals.
func (s *Service) usable(ctx context.Context, t *storedTool, hash string) error {
	row, tool, id := t.row, &t.tool, t.info.ID
	refuse := func(format string, args ...any) error {
		return fault.Deniedf(format, args...).WithDetails(callable.Refusal{Reason: callable.ReasonDisabled})
	}
	switch {
	case hash != "" && hash != hexHash(tool.hash):
		return callable.Changed(t.info)
	case !*row.Enabled:
		return refuse("%s is disabled. Enable it first: helix mcp enable %s", row.Name, row.Name)
	case row.Trust == TrustNone:
		return refuse("The entry of %s has trust none, so its tools can't be called.", row.Name)
	case tool.problem != "":
		return refuse("%s can't be used. %s", id, tool.problem)
	case tool.state == ToolDenied:
		return refuse("%s is excluded by the entry of its server.", id)
	case !row.isApproved():
		return s.checkStart(ctx, &row)
	case tool.state == ToolApproved:
		return nil
	}
	return s.askForTool(ctx, &row, tool)
}

// askForTool leaves a question about the definition of a tool and refuses the call.
func (s *Service) askForTool(ctx context.Context, row *serverRow, tool *toolRow) error {
	run, id := storage.NewID(), toolID(row.Name, tool.name)
	_, err := s.perm.Begin(ctx, nil, tool.subject(row.Name), run)
	if err == nil { // it was approved in Approvals
		u := unapproved{tool.subject(row.Name), row.id, tool.id}
		if err := s.write(ctx, u.approve); err != nil {
			return err
		}
		return s.perm.EndRun(ctx, run)
	}
	refused := fault.As(callable.RefusedAlways(err))
	if r, ok := refused.Details.(callable.Refusal); ok && refused.Kind == fault.Denied {
		refused.Message = id + " hasn't been approved yet. Review it in Approvals or with: helix mcp tools " + row.Name
		if tool.state == ToolNew {
			r.Reason = callable.ReasonNeedsApproval
		} else {
			refused.Message = id + " has changed since it was approved. Review the difference in Approvals or with: helix mcp tools " + row.Name
		}
		refused.Details = r
	}
	return refused
}

// unchanged refuses the call if the definition is no longer the one that was checked.
func (s *Service) unchanged(ctx context.Context, t *storedTool) error {
	now, err := s.find(ctx, t.info.Ref)
	if err != nil {
		return err
	}
	if now.tool.hash == t.tool.hash && now.tool.state == ToolApproved {
		return nil
	}
	if err := s.usable(ctx, now, ""); err != nil {
		return err
	}
	return callable.Changed(now.info)
}

// record stores the result of a call, and its audit entry.
func (s *Service) record(ctx context.Context, id string, q *callable.Request, out *outcome, failed error) error {
	ctx = context.WithoutCancel(ctx)
	status, class, action, result := callSuccess, "", audit.Complete, audit.OK
	if failed != nil {
		status, class, action, result = callFailure, string(fault.KindOf(failed)), audit.Error, audit.Failed
		switch fault.KindOf(failed) {
		case fault.Timeout:
			status = callTimeout
		case fault.Canceled:
			status = callCancelled
		}
	}
	var blob any
	masked := schema.Mask(out.output, out.hidden) // the server may have repeated them
	output := string(masked)
	if len(output) <= maxRowOutput {
		output = s.o.Scrub(ctx, output)
	} else {
		ref, err := s.db.Blobs().PutBytes(ctx, masked)
		if err != nil {
			return err
		}
		blob, output = "sha256:"+ref.String(), ""
	}
	e := audit.Entry{ActorKind: q.Caller.Kind, Action: action, SubjectKind: string(Kind), SubjectID: id, Outcome: result, RunID: q.Caller.Run,
		Details: map[string]any{"execution": out.id, "durationMs": out.took.Milliseconds(), "bytes": len(out.output), "errorClass": class}}
	if q.Caller.Kind != "" {
		e.ActorID = q.Caller.Run.String()
	}
	return s.o.Gate.Record(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE mcp_calls SET output = ?, output_sha256 = ?, status = ?, error_class = ?, duration_ms = ?, bytes = ? WHERE id = ?`,
			output, blob, status, class, out.took.Milliseconds(), len(out.output), out.id)
		return err
	}, e)
}

// closeInterrupted ends the calls that an earlier process left running.
func (s *Service) closeInterrupted(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE mcp_calls SET status = ?, error_class = 'interrupted' WHERE status = 'running' AND created_at < ?`, callFailure, s.began)
		return err
	})
}
