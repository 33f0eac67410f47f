package tools

import (
	"slices"
	"sync"
	"time"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/sandbox"
	"helix/backend/wasmtools"
)

// progressAfter is how long a run takes before its progress is reported.
const progressAfter = 2 * time.Second

// reporter publishes the events of one run in order.
type reporter struct {
	e     *execution
	mu    sync.Mutex
	seq   int64
	ended bool
	timer *time.Timer
	wall  time.Duration
	begun time.Time
}

func (r *reporter) report(state string, progress float64, line *LogLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publish(state, progress, line)
}

func (r *reporter) publish(state string, progress float64, line *LogLine) {
	if r.ended {
		return
	}
	r.seq++
	if w := r.e.skill; w != nil {
		ev := SkillExecutionChanged{ExecutionID: r.e.id, SkillID: w.ID, Status: wasmtools.SkillRunning, Seq: r.seq, Progress: progress, Log: line}
		if slices.Contains(ev.Status.Enum(), state) {
			ev.Status = wasmtools.SkillStatus(state)
		} else {
			ev.Waiting = state
		}
		bus.Publish(r.e.s.db.Bus(), r.e.user, ev)
		return
	}
	bus.Publish(r.e.s.db.Bus(), r.e.user, Execution{ExecutionID: r.e.id, ToolID: r.e.tool.ID, Seq: r.seq, State: state, Progress: progress, Log: line})
}

// start reports that the run has started and, after two seconds, its progress every second.
func (r *reporter) start(wall time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wall, r.begun = wall, time.Now()
	r.publish("running", 0, nil)
	r.timer = time.AfterFunc(progressAfter, r.tick)
}

func (r *reporter) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.publish("running", min(1, float64(time.Since(r.begun))/float64(r.wall)), nil)
	r.timer.Reset(time.Second)
}

func (r *reporter) log(l sandbox.LogLine) {
	line := r.e.logLine(l)
	r.report("running", 0, &line)
}

// done publishes the last event. Later events are dropped.
func (r *reporter) done(state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publish(state, 0, nil)
	r.ended = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

// abandon publishes the last event of a run that failed with err before it started, if clients have
// been told about the run.
func (r *reporter) abandon(err error) {
	r.mu.Lock()
	heard := r.seq > 0 && !r.ended
	r.mu.Unlock()
	if err == nil || !heard {
		return
	}
	state := string(StatusFailure)
	if fault.Is(err, fault.Canceled) {
		state = "canceled"
	}
	r.done(state)
}
