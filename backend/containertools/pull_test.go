package containertools

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/testkit"
)

// Pull gets an image in two steps. One named slow waits to be canceled, one named missing does not exist.
func (f *fakeEngine) Pull(ctx context.Context, ref, digest string, progress func(container.Progress)) (container.Image, error) {
	progress(container.Progress{Done: 1, Size: 4})
	switch ref {
	case "slow", "slower", "slowest":
		f.begun <- struct{}{}
		<-ctx.Done()
		return container.Image{}, ctx.Err()
	case "missing":
		return container.Image{}, fault.Unavailablef("Couldn't pull missing: the key is s3cret-key")
	}
	return container.Image{Ref: ref, ID: f.image.ID, Digest: digest}, nil
}

// ended waits for a pull to end.
func (e *env) ended(id uuid.UUID) Pull {
	e.Helper()
	return testkit.Eventually(e.T, "the end of the pull", func() (p Pull) {
		r, err := e.s.Pulls(e.ctx, struct{}{})
		if err != nil {
			e.Fatal(err)
		}
		for _, p = range r.Pulls {
			if p.JobID == id {
				return p
			}
		}
		e.Fatalf("%s isn't listed", id)
		return p
	}, func(p Pull) bool { return p.Status != pullRunning })
}

func TestPullIsAJobWithProgressAndEnd(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var mu sync.Mutex
	states := []string{}
	defer bus.Subscribe(e.db.Bus(), func(_ uuid.UUID, p Pull) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, fmt.Sprint(p.Status, " ", p.Done, "/", p.Size))
	})()
	digest := "sha256:" + e.engine.image.ID[len("sha256:"):]
	job, err := e.s.Pull(e.ctx, PullParams{Ref: "example.com/box:1", Digest: digest})
	if err != nil {
		t.Fatal(err)
	}
	if p := e.ended(job.JobID); p.Status != pullDone || p.Image == nil || p.Image.Digest != digest || p.Done != 4 || p.Size != 4 {
		t.Errorf("%+v", p)
	}
	testkit.Eventually(t, "the events", func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(states, ", ")
	}, func(s string) bool { return s == "running 0/0, running 1/4, done 4/4" })
	if job, err = e.s.Pull(e.ctx, PullParams{Ref: "missing"}); err != nil {
		t.Fatal(err)
	}
	if p := e.ended(job.JobID); p.Status != pullFailed || p.Error != "Couldn't pull missing: the key is ***" {
		t.Errorf("%+v", p)
	}
	for ref, digest := range map[string]string{"../x": "", "box": "sha256:1", "": ""} {
		if _, err := e.s.Pull(e.ctx, PullParams{Ref: ref, Digest: digest}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q, %q: %v", ref, digest, err)
		}
	}
}

func TestPullCanBeCanceledByItsUserOnly(t *testing.T) {
	t.Parallel()
	e := setup(t)
	job, err := e.s.Pull(e.ctx, PullParams{Ref: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	<-e.engine.begun
	if again, err := e.s.Pull(e.ctx, PullParams{Ref: "slow"}); err != nil || again != job {
		t.Errorf("the same image again: %v, %v", again, err)
	}
	other, err := e.s.Pull(e.ctx, PullParams{Ref: "slower"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.s.Pull(e.ctx, PullParams{Ref: "slowest"}); !fault.Is(err, fault.Limit) {
		t.Errorf("a third: %v", err)
	}
	id, _ := identity.From(e.ctx)
	id.User = uuid.New()
	stranger := identity.With(e.ctx, id)
	if r, err := e.s.CancelPull(stranger, JobParams(job)); err != nil || r.Canceled {
		t.Errorf("a stranger: %+v, %v", r, err)
	}
	if r, err := e.s.Pulls(stranger, struct{}{}); err != nil || len(r.Pulls) > 0 {
		t.Errorf("a stranger sees %+v, %v", r, err)
	}
	if r, err := e.s.CancelPull(e.ctx, JobParams(job)); err != nil || !r.Canceled {
		t.Errorf("%+v, %v", r, err)
	}
	if p := e.ended(job.JobID); p.Status != pullCanceled || p.Error != "" {
		t.Errorf("%+v", p)
	}
	if err := e.s.Close(); err != nil { // ends the other one
		t.Fatal(err)
	}
	if p := e.ended(other.JobID); p.Status != pullCanceled {
		t.Errorf("%+v", p)
	}
	if _, err := e.s.Pull(e.ctx, PullParams{Ref: "box"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after the end: %v", err)
	}
}

func TestOnlyTheLastPullsAreKept(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var last PullResult
	for range keptPulls + 5 {
		var err error
		if last, err = e.s.Pull(e.ctx, PullParams{Ref: "box"}); err != nil {
			t.Fatal(err)
		}
		e.ended(last.JobID)
	}
	r, err := e.s.Pulls(e.ctx, struct{}{})
	if err != nil || len(r.Pulls) != keptPulls+1 || r.Pulls[0].JobID != last.JobID {
		t.Errorf("%d pulls, %v", len(r.Pulls), err)
	}
}
