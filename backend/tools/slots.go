package tools

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// slot counts the runs of one tool and holds those that are queued.
type slot struct {
	running int
	queue   []chan struct{}
}

// TooMany is the detail of the error when too many runs of a tool are queued.
type TooMany struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// enter registers a run, so that it can be canceled, and waits for a slot. Runs started by another tool
// use the slot of the outer run, which waits for them; otherwise recursive calls could deadlock.
func (s *Service) enter(ctx context.Context, e *execution) (release func(), err error) {
	runCtx, cancel := context.WithCancelCause(ctx)
	e.cancel, e.runCtx = cancel, runCtx
	s.mu.Lock()
	s.running[e.id] = e
	leave := func() {
		s.mu.Lock()
		delete(s.running, e.id)
		s.mu.Unlock()
		cancel(context.Canceled)
	}
	if e.draft || e.caller.outer != nil {
		s.mu.Unlock()
		return leave, nil
	}
	sl := s.slots[e.tool.ID]
	if sl == nil {
		sl = &slot{}
		s.slots[e.tool.ID] = sl
	}
	if sl.running < s.o.parallel() && len(sl.queue) == 0 {
		sl.running++
		s.mu.Unlock()
		return func() { leave(); s.free(e.tool.ID) }, nil
	}
	if len(sl.queue) >= s.o.maxWaiting() {
		n := TooMany{sl.running, len(sl.queue)}
		delete(s.running, e.id)
		s.mu.Unlock()
		cancel(context.Canceled)
		return nil, fault.Limitf("This tool has %d running and %d waiting runs, so this one was not started. Try again later.", n.Running, n.Waiting).WithDetails(n)
	}
	turn := make(chan struct{})
	sl.queue = append(sl.queue, turn)
	s.mu.Unlock()
	e.events.report("queued", 0, nil)
	select {
	case <-turn:
		return func() { leave(); s.free(e.tool.ID) }, nil
	case <-runCtx.Done():
		s.mu.Lock()
		i := slices.Index(sl.queue, turn)
		if i >= 0 {
			sl.queue = slices.Delete(sl.queue, i, i+1)
		}
		s.mu.Unlock()
		if i < 0 { // it was given a slot at the same moment
			s.free(e.tool.ID)
		}
		leave()
		return nil, fault.New(fault.Canceled, "The run was canceled while it was queued.")
	}
}

// free passes a slot to the run that has waited longest.
func (s *Service) free(tool uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.slots[tool]
	if len(sl.queue) > 0 {
		close(sl.queue[0])
		sl.queue = sl.queue[1:]
		return
	}
	if sl.running--; sl.running == 0 {
		delete(s.slots, tool)
	}
}

// Cancel stops a run of the caller, which ends with error class canceled. An unknown or finished
// run is not an error.
func (s *Service) Cancel(ctx context.Context, p CancelParams) (CancelResult, error) {
	s.mu.Lock()
	e := s.running[p.ExecutionID]
	s.mu.Unlock()
	if e == nil || e.user != identity.UserID(ctx) {
		return CancelResult{}, nil
	}
	e.cancel(errCanceledByUser)
	return CancelResult{Canceled: true}, nil
}

func (s *Service) cancelTool(tool uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.running {
		if e.tool.ID == tool && !e.draft {
			e.cancel(errCanceledByUser)
		}
	}
}

// once runs a call under an idempotency key. The same key and call return the stored result.
func (s *Service) once(ctx context.Context, p ExecuteParams, run func() (ExecuteResult, error)) (ExecuteResult, error) {
	user, key := identity.UserID(ctx), p.IdempotencyKey
	p.IdempotencyKey, p.Interactive = "", false
	hash := sha256.Sum256(lifecycle.Text(p))
	mark := user.String() + key
	s.mu.Lock()
	if s.keys[mark] {
		s.mu.Unlock()
		f := fault.Conflictf("A call with this idempotency key is still running.")
		f.RetryAfter = time.Second
		return ExecuteResult{}, f
	}
	s.keys[mark] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.keys, mark)
		s.mu.Unlock()
	}()
	out, found, err := s.reply(ctx, user, key, hash)
	if err != nil || found {
		return out, err
	}
	out, err = run()
	if err != nil {
		return out, err
	}
	if werr := s.db.Write(context.WithoutCancel(ctx), func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO custom_tool_replies (user_id, key, request_hash, response, created_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (user_id, key) DO NOTHING`, user, key, hash, lifecycle.Text(out), tx.Now)
		return err
	}); werr != nil {
		out.Warnings = append(out.Warnings, "The answer could not be kept: repeating the call would run the tool again.")
	}
	return out, nil
}

func (s *Service) reply(ctx context.Context, user uuid.UUID, key string, hash [32]byte) (out ExecuteResult, found bool, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		var was []byte
		var response string
		err := tx.QueryRow(`SELECT request_hash, response FROM custom_tool_replies WHERE user_id = ? AND key = ? AND created_at > ?`,
			user, key, tx.Now.Add(-replyAge)).Scan(&was, &response)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if string(was) != string(hash[:]) {
			return fault.Conflictf("This idempotency key was used for another call.")
		}
		found = true
		return json.Unmarshal([]byte(response), &out)
	})
	return out, found, err
}
