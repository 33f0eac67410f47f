package gateway

import "time"

// workers runs short tasks on goroutines that are used again: a fresh one would grow its
// stack anew in each call, which costs more than the call's own work.
type workers struct{ idle chan func() }

const workerPatience = 200 * time.Millisecond

// run starts task on a waiting goroutine, or on a new one. It never blocks.
func (w *workers) run(task func()) {
	select {
	case w.idle <- task:
	default:
		go w.loop(task)
	}
}

func (w *workers) loop(task func()) {
	t := time.NewTimer(workerPatience)
	defer t.Stop()
	for {
		task()
		task = nil
		t.Reset(workerPatience)
		select {
		case task = <-w.idle:
		case <-t.C:
			return
		}
	}
}
