package skills

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// result waits for the end of a run and returns its status.
func (s *Service) result(ctx context.Context, id uuid.UUID, wait time.Duration) (ExecuteResult, error) {
	if err := s.await(ctx, id, wait); err != nil {
		return ExecuteResult{}, err
	}
	x, err := s.execution(context.WithoutCancel(ctx), id, true)
	return x.ExecuteResult, err
}

// followed is result for a loaded run: it reads the outputs from memory.
func (s *Service) followed(ctx context.Context, r *live, wait time.Duration) (ExecuteResult, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		status, reason, news := r.watch()
		if final(status) {
			x, inner := r.view(true)
			err := s.addInner(context.WithoutCancel(ctx), &x, inner)
			return x.ExecuteResult, err
		}
		if status == machine.Waiting && reason != machine.WaitTimer {
			return s.result(ctx, r.row.id, 0)
		}
		select {
		case <-news:
			continue
		case <-r.gone:
		case <-timer.C:
			return s.result(ctx, r.row.id, 0)
		case <-ctx.Done():
			return s.result(ctx, r.row.id, 0)
		}
		if status, _, _ := r.watch(); !final(status) { // it was unloaded and continues later
			return s.result(ctx, r.row.id, wait)
		}
	}
}

// await returns when a run has ended or waits for a person, when the wait time is over, or when ctx ends.
func (s *Service) await(ctx context.Context, id uuid.UUID, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	news, cancel := s.watch(id)
	defer cancel()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		status, reason, err := s.runStatus(ctx, id)
		if err != nil || final(status) || status == machine.Waiting && reason != machine.WaitTimer {
			return err
		}
		select {
		case <-news:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		case <-s.life.Done():
			return nil
		}
	}
}

// runStatus returns the status of a run and why it waits.
func (s *Service) runStatus(ctx context.Context, id uuid.UUID) (status Status, reason string, err error) {
	if r := s.inMemory(id); r != nil {
		status, reason, _ = r.watch()
		return status, reason, nil
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		row, err := anyRun(tx, id)
		if err == nil {
			status, reason = row.status, row.reason
		}
		return err
	})
	return status, reason, err
}
