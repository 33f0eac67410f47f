package backend

import (
	"context"
	"time"

	"helix/backend/fault"
	"helix/backend/pause"
	"helix/backend/scheduler"
)

// PauseBackgroundParams set how long background work is paused, or resume it.
type PauseBackgroundParams struct {
	For    string `json:"for,omitempty"` // 1h, tomorrow or forever, which is until it is resumed; "": forever
	Resume bool   `json:"resume,omitempty"`
}

// PauseBackground pauses schedules, embeddings, automatic backups and pruning, or resumes them.
// Running work, and work that the person starts, continues. A pause survives a restart.
func (b *Backend) PauseBackground(ctx context.Context, p PauseBackgroundParams) (pause.State, error) {
	now := time.Now()
	var until time.Time
	switch {
	case p.Resume && p.For != "":
		return pause.State{}, fault.Invalidf("Give for or resume, not both.")
	case p.Resume:
		if _, err := b.Scheduler.ResumeAll(ctx, struct{}{}); err != nil {
			return pause.State{}, err
		}
		err := b.Pause.Release()
		return b.Pause.State(), err
	case p.For == "1h":
		until = now.Add(time.Hour)
	case p.For == "tomorrow":
		y, m, d := now.Date()
		until = time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())
	case p.For != "" && p.For != "forever":
		return pause.State{}, fault.Invalidf("for: %.32q is not one of 1h, tomorrow and forever.", p.For)
	}
	var end *time.Time
	if !until.IsZero() {
		end = &until
	}
	if _, err := b.Scheduler.PauseAll(ctx, scheduler.PauseAllParams{Until: end}); err != nil {
		return pause.State{}, err
	}
	if err := b.Pause.Hold(until); err != nil {
		return pause.State{}, fault.Internalf(err, "Couldn't save the pause.")
	}
	return b.Pause.State(), nil
}
