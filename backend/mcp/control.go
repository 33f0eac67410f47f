package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/storage"
)

// StateResult is the state of a server.
type StateResult struct {
	State string `json:"state"`
}

// row returns a server of the caller.
func (s *Service) row(ctx context.Context, name string) (r serverRow, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (serverRow, error) { return loadServer(tx, name) })
}

// Start starts an MCP server, even if it failed repeatedly, and returns when it is ready.
func (s *Service) Start(ctx context.Context, p NameParams) (StateResult, error) {
	if err := s.syncApprovals(ctx); err != nil {
		return StateResult{}, err
	}
	r, err := s.row(ctx, p.Name)
	if err != nil {
		return StateResult{}, err
	}
	if err := s.checkStart(ctx, &r); err != nil {
		return StateResult{}, err
	}
	l := s.link(&r)
	l.reset()
	_, release, err := l.acquire(ctx)
	if err != nil {
		return StateResult{State: StateFailed}, err
	}
	release()
	return StateResult{StateReady}, nil
}

// Stop stops an MCP server and everything that it started. The next call starts it again.
func (s *Service) Stop(ctx context.Context, p NameParams) (StateResult, error) {
	r, err := s.row(ctx, p.Name)
	if err != nil {
		return StateResult{}, err
	}
	s.link(&r).stop(StateStopped)
	return StateResult{StateStopped}, nil
}

// Restart stops an MCP server and starts it again.
func (s *Service) Restart(ctx context.Context, p NameParams) (StateResult, error) {
	if _, err := s.Stop(ctx, p); err != nil {
		return StateResult{}, err
	}
	return s.Start(ctx, p)
}

// checkStart refuses to start a server that is disabled or whose entry is not approved.
func (s *Service) checkStart(ctx context.Context, r *serverRow) error {
	if !*r.Enabled {
		return fault.Deniedf("%s is disabled. Enable it first: helix mcp enable %s", r.Name, r.Name).WithDetails(callable.Refusal{Reason: callable.ReasonDisabled})
	}
	run := storage.NewID()
	if _, err := s.perm.Begin(ctx, nil, r.subject(), run); err != nil {
		refused := fault.As(callable.RefusedAlways(err))
		if refused.Kind == fault.Denied {
			refused.Message = fmt.Sprintf("%s hasn't been approved to run. Review its command in Approvals or with: helix mcp approve %s", r.Name, r.Name)
		}
		return refused
	}
	if !r.isApproved() { // it was approved in Approvals
		u := unapproved{r.subject(), r.id, uuid.Nil}
		if err := s.write(ctx, u.approve); err != nil {
			return err
		}
		r.approved = r.hash
	}
	return s.perm.EndRun(ctx, run)
}

// lookup returns how to resolve the variables of an entry: stored secrets first, then the environment.
func (s *Service) lookup(ctx context.Context) lookup {
	return func(name string) (string, bool, error) {
		if s.o.Secret != nil {
			v, err := s.o.Secret(ctx, name)
			if err == nil {
				return string(v), true, nil
			}
			if !fault.Is(err, fault.NotFound) {
				return "", false, err
			}
		}
		if strings.HasPrefix(strings.ToUpper(name), "HELIX_") || s.o.Getenv == nil {
			return "", false, nil
		}
		v := s.o.Getenv(name)
		return v, v != "", nil
	}
}

// LogsParams select lines of a server's log.
type LogsParams struct {
	Name string `json:"name"`
	// AfterSeq selects lines with a higher number; 0: the last lines.
	AfterSeq int64 `json:"afterSeq,omitempty"`
	Limit    int   `json:"limit,omitempty"` // 1 to 2,000; default 200
}

// LogsResult contains lines in order.
type LogsResult struct {
	Lines []LogLine `json:"lines"`
}

// Logs returns what an MCP server wrote to standard error, and the protocol messages without their
// content, since Helix started.
func (s *Service) Logs(ctx context.Context, p LogsParams) (LogsResult, error) {
	offset := 0
	if err := storage.CheckPage(&p.Limit, &offset, 200, maxLogLines); err != nil {
		return LogsResult{}, err
	}
	r, err := s.row(ctx, p.Name)
	if err != nil {
		return LogsResult{}, err
	}
	out := LogsResult{s.link(&r).log.after(p.AfterSeq, p.Limit)}
	for i := range out.Lines {
		out.Lines[i].Text = s.o.Scrub(ctx, out.Lines[i].Text)
	}
	return out, nil
}

// TestStep is one step of a test.
type TestStep struct {
	Step  string `json:"step"` // resolve, start, list or ping
	OK    bool   `json:"ok"`
	Ms    int64  `json:"ms"`
	Error string `json:"error,omitempty"`
}

// TestResult lists the steps up to the first that failed.
type TestResult struct {
	OK    bool       `json:"ok"`
	Steps []TestStep `json:"steps"`
}

// Test checks an MCP server step by step: its variables and program, start with handshake, list of
// tools, and whether it answers.
func (s *Service) Test(ctx context.Context, p NameParams) (TestResult, error) {
	out := TestResult{OK: true, Steps: []TestStep{}}
	r, err := s.row(ctx, p.Name)
	if err != nil {
		return out, err
	}
	l := s.link(&r)
	step := func(name string, fn func() error) {
		if !out.OK {
			return
		}
		began := time.Now()
		err := fn()
		st := TestStep{Step: name, OK: err == nil, Ms: time.Since(began).Milliseconds()}
		if err != nil {
			st.Error, out.OK = fault.As(err).Message, false
		}
		out.Steps = append(out.Steps, st)
	}
	step("resolve", func() error {
		if _, err := r.expand(s.lookup(ctx)); err != nil {
			return err
		}
		if r.Transport != Stdio {
			return nil
		}
		_, err := newFinder(s.o.Getenv).findOr(r.Command, s.o.ShellPath)
		return err
	})
	step("start", func() error {
		_, err := s.Start(ctx, p)
		return err
	})
	step("list", func() error { return l.refresh(ctx) })
	step("ping", func() error { return l.ping(ctx) })
	return out, ctx.Err()
}

// ping asks the server for an answer. The newest protocol has no ping; there the list was the answer.
func (l *link) ping(ctx context.Context) error {
	c, release, err := l.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if c.protocol > legacyProtocol {
		return nil
	}
	ctx, cancel := l.limited(ctx)
	defer cancel()
	if err := c.session.Ping(ctx, nil); err != nil {
		return c.translate(l.name, err)
	}
	return nil
}
