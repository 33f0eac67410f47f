package channels

import (
	"context"
	"fmt"
	"time"

	"helix/backend/storage"
)

const (
	typingEach  = 5 * time.Second
	statusAfter = 30 * time.Second // how long an answer takes before a message says so
)

// working is a conversation in which an answer is being written.
type working struct {
	since     time.Time
	ref, text string // of the status message
}

// progress shows in the conversations of a channel that answers are being written: a typing sign, and in
// long turns one message that is edited.
func (r *runner) progress(ctx context.Context) {
	adapter, ok := r.adapter.(Progress)
	if !ok {
		return
	}
	shown := map[string]*working{}
	for ctx.Err() == nil {
		open, err := r.openContexts(ctx)
		if err != nil && ctx.Err() == nil {
			r.s.log.Warn("the progress of a channel is not shown", "channel", r.c.id, "err", err)
		}
		r.showProgress(ctx, adapter, shown, open)
		var timer <-chan time.Time
		stop := func() {}
		if len(shown) > 0 || err != nil {
			timer, stop = r.s.o.Clock.After(typingEach)
		}
		select {
		case <-r.busy:
		case <-timer:
		case <-ctx.Done():
		}
		stop()
	}
}

// openContexts returns the conversations with running turns.
func (r *runner) openContexts(ctx context.Context) (open []string, err error) {
	return storage.Result(ctx, r.s.db.Read, func(tx *storage.Tx) ([]string, error) {
		return storage.Collect(tx.Select(`SELECT DISTINCT context_id FROM channel_inbox WHERE channel_id = ? AND state = 'submitted'`, r.c.id), storage.RowTo[string])
	})
}

func (r *runner) showProgress(ctx context.Context, adapter Progress, shown map[string]*working, open []string) {
	now := r.s.o.Clock.Now()
	running := map[string]bool{}
	for _, id := range open {
		running[id] = true
		w := shown[id]
		if w == nil {
			w = &working{since: now}
			shown[id] = w
		}
		r.shown(adapter.Typing(ctx, id))
		if took := now.Sub(w.since); took >= statusAfter {
			r.status(ctx, adapter, id, w, "Still working"+minutes(took)+"…")
		}
	}
	for id, w := range shown {
		if running[id] {
			continue
		}
		if w.ref != "" {
			r.status(ctx, adapter, id, w, "Done"+minutes(now.Sub(w.since))+".")
		}
		delete(shown, id)
	}
}

// minutes returns a duration for a status message, which changes once a minute.
func minutes(d time.Duration) string {
	if d < time.Minute {
		return ""
	}
	return fmt.Sprintf(" (%d min)", int(d.Minutes()))
}

func (r *runner) status(ctx context.Context, adapter Progress, contextID string, w *working, text string) {
	if w.text == text {
		return
	}
	ref, err := adapter.Status(ctx, contextID, w.ref, text)
	if r.shown(err); err == nil {
		w.ref, w.text = ref, text
	}
}

func (r *runner) shown(err error) {
	if err != nil {
		r.s.log.Debug("the progress of a channel is not shown", "channel", r.c.id, "err", err)
	}
}
