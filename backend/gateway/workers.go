package gateway

import "time"

// workers runs short tasks on reused goroutines: the stack of a new one would have to grow in each
// call, which costs more than the call itself.
type workers struct{ idle chan func() }

const workerPatience = 200 * time.Millisecond

// run starts task on an idle goroutine, or on a new one. It never blocks.
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
