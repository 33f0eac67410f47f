package container

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// removals is how many containers are removed at once.
const removals = 16

// grace is how long after its deadline a container of a live run is left alone.
const grace = 30 * time.Second

// Reap removes the containers of this data folder whose run is not in progress, such as those of a process
// that was killed, and returns their ids. Other containers are never touched.
func (e *Engine) Reap(ctx context.Context) (removed []string, err error) {
	c, _, err := e.connected(ctx)
	if err != nil {
		return nil, err
	}
	filter, err := json.Marshal(map[string][]string{"label": {labelOwner + "=" + e.owner}})
	if err != nil {
		return nil, err
	}
	var list []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	if err := c.call(ctx, "GET", "/containers/json", url.Values{"all": {"1"}, "filters": {string(filter)}}, nil, &list); err != nil {
		return nil, e.lost(c, err)
	}
	var mu sync.Mutex
	var failed error
	var all errgroup.Group
	all.SetLimit(removals)
	for _, x := range list {
		if x.Labels[labelOwner] != e.owner || e.live(x.Labels) {
			continue
		}
		all.Go(func() error {
			err := c.remove(ctx, x.ID)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = errors.Join(failed, err)
			} else {
				removed = append(removed, x.ID)
			}
			return nil
		})
	}
	all.Wait() //nolint:errcheck // failed has all of them
	return removed, failed
}

// live reports whether a container belongs to a run in progress of this process.
func (e *Engine) live(labels map[string]string) bool {
	if labels[labelInstance] != e.instance {
		return false // one process uses a data folder at a time
	}
	deadline, err := strconv.ParseInt(labels[labelDeadline], 10, 64)
	if err != nil || time.Now().After(time.Unix(deadline, 0).Add(grace)) {
		return false
	}
	id, err := uuid.Parse(labels[labelRun])
	e.mu.Lock()
	defer e.mu.Unlock()
	return err == nil && e.held[id]
}
