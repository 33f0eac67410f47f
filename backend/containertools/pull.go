package containertools

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Limits of pulls.
const (
	maxPulls      = 2                      // at once, of all users
	keptPulls     = 20                     // that have ended
	progressEvery = 250 * time.Millisecond // shortest time between two events about one
)

// The states of a pull.
const (
	pullRunning  = "running"
	pullDone     = "done"
	pullFailed   = "failed"
	pullCanceled = "canceled"
)

// Pull is the job of getting an image from its registry. It is also the event container.pull.
type Pull struct {
	JobID     uuid.UUID        `json:"jobId"`
	Ref       string           `json:"ref"`
	Status    string           `json:"status"` // running, done, failed or canceled
	Done      int64            `json:"done"`   // bytes
	Size      int64            `json:"size"`   // bytes of the layers that are known so far; 0: none is
	Image     *container.Image `json:"image,omitempty"`
	Error     string           `json:"error,omitempty"`
	StartedAt time.Time        `json:"startedAt"`
}

// pulls are the jobs of this process, oldest first.
type pulls struct {
	mu     sync.Mutex
	closed bool
	jobs   []*pull
	work   sync.WaitGroup
}

type pull struct {
	Pull
	user   uuid.UUID
	cancel context.CancelFunc
}

// PullParams name an image in a registry.
type PullParams struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest,omitempty"` // sha256:…; any other image is refused
}

// PullResult is a job that has started.
type PullResult struct {
	JobID uuid.UUID `json:"jobId"`
}

// Pull starts to get an image from its registry. It is the only way in which an image is fetched: runs never do. A
// pull of the same reference that is in progress is returned instead.
func (s *Service) Pull(ctx context.Context, p PullParams) (PullResult, error) {
	if err := container.CheckRef(p.Ref); err != nil {
		return PullResult{}, err
	}
	if p.Digest != "" && !container.IsDigest(p.Digest) {
		return PullResult{}, fault.InvalidField("digest", fault.CodeSyntax, "A digest is sha256: with 64 hexadecimal digits.")
	}
	user := identity.UserID(ctx)
	s.pulls.mu.Lock()
	defer s.pulls.mu.Unlock()
	running := 0
	for _, j := range s.pulls.jobs {
		if j.Status != pullRunning {
			continue
		}
		if j.user == user && j.Ref == p.Ref {
			return PullResult{j.JobID}, nil
		}
		running++
	}
	if s.pulls.closed {
		return PullResult{}, fault.Unavailablef("Helix is closing.")
	}
	if running >= maxPulls {
		return PullResult{}, fault.Limitf("%d images are being pulled. Wait for one to end, or cancel it.", maxPulls)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	j := &pull{Pull: Pull{JobID: storage.NewID(), Ref: p.Ref, Status: pullRunning, StartedAt: time.Now()}, user: user, cancel: cancel}
	s.pulls.jobs = append(s.pulls.jobs, j)
	if n := len(s.pulls.jobs) - running - 1 - keptPulls; n > 0 {
		s.pulls.forget(n)
	}
	s.pulls.work.Go(func() { defer cancel(); s.pull(ctx, j, p.Digest) })
	return PullResult{j.JobID}, nil
}

// forget removes the oldest n jobs that have ended.
func (p *pulls) forget(n int) {
	kept := p.jobs[:0]
	for _, j := range p.jobs {
		if n > 0 && j.Status != pullRunning {
			n--
			continue
		}
		kept = append(kept, j)
	}
	clear(p.jobs[len(kept):])
	p.jobs = kept
}

// pull carries out a job.
func (s *Service) pull(ctx context.Context, j *pull, digest string) {
	s.changePull(j, func(*Pull) {})
	var last time.Time
	i, err := s.engine.Pull(ctx, j.Ref, digest, func(now container.Progress) {
		if time.Since(last) >= progressEvery {
			last = time.Now()
			s.changePull(j, func(p *Pull) { p.Done, p.Size = now.Done, now.Size })
		}
	})
	if err == nil {
		err = s.record(context.WithoutCancel(ctx), "container.image_pulled", i.ID, map[string]any{"ref": i.Ref, "digest": i.Digest})
	}
	s.changePull(j, func(p *Pull) {
		switch {
		case err == nil:
			p.Status, p.Image, p.Done = pullDone, &i, p.Size
		case ctx.Err() != nil:
			p.Status = pullCanceled
		default:
			p.Status, p.Error = pullFailed, s.o.Scrub(ctx, fault.As(err).Message)
		}
	})
}

// changePull changes a job and publishes it.
func (s *Service) changePull(j *pull, change func(*Pull)) {
	s.pulls.mu.Lock()
	change(&j.Pull)
	now := j.Pull
	s.pulls.mu.Unlock()
	publish(s, j.user, now)
}

// PullsResult lists pulls.
type PullsResult struct {
	Pulls []Pull `json:"pulls"`
}

// Pulls lists the caller's pulls since Helix was started, newest first. Only the last ones that have ended are kept.
func (s *Service) Pulls(ctx context.Context, _ struct{}) (PullsResult, error) {
	s.pulls.mu.Lock()
	defer s.pulls.mu.Unlock()
	out := PullsResult{[]Pull{}}
	for i := len(s.pulls.jobs) - 1; i >= 0; i-- {
		if j := s.pulls.jobs[i]; j.user == identity.UserID(ctx) {
			out.Pulls = append(out.Pulls, j.Pull)
		}
	}
	return out, nil
}

// JobParams name a pull.
type JobParams struct {
	JobID uuid.UUID `json:"jobId"`
}

// CancelResult says whether a pull was in progress.
type CancelResult struct {
	Canceled bool `json:"canceled"`
}

// CancelPull ends a pull. What the engine has of the image until then is up to the engine.
func (s *Service) CancelPull(ctx context.Context, p JobParams) (CancelResult, error) {
	s.pulls.mu.Lock()
	defer s.pulls.mu.Unlock()
	for _, j := range s.pulls.jobs {
		if j.JobID == p.JobID && j.user == identity.UserID(ctx) && j.Status == pullRunning {
			j.cancel()
			return CancelResult{true}, nil
		}
	}
	return CancelResult{}, nil
}

// Close ends pulls in progress.
func (s *Service) Close() error {
	s.pulls.mu.Lock()
	s.pulls.closed = true
	for _, j := range s.pulls.jobs {
		j.cancel()
	}
	s.pulls.mu.Unlock()
	s.pulls.work.Wait()
	return nil
}
