package cli

import (
	"context"
	"encoding/json"
	"time"

	"helix/backend/gateway"
)

// follow prints events of the topics until ctx ends; after ≥ 0 first replays the events after it.
func follow(ctx context.Context, c *gateway.Client, topics []string, after int64, fn func(event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := c.Follow(ctx, topics, after, func(e gateway.Event) {
		params, err := json.Marshal(map[string]any{"seq": e.Seq, "time": e.Time.Format(time.RFC3339Nano), "data": e.Data})
		if err == nil {
			err = fn(event{Method: e.Name, Params: params})
		}
		if err != nil {
			cancel(err) // standard output is closed
		}
	}, nil)
	if err == nil {
		return context.Cause(ctx)
	}
	return err
}
