package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helixbench/figures"
)

// heap returns the memory in use after a garbage collection, in MiB.
func heap() float64 {
	runtime.GC()
	runtime.GC() // collects what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// openSessions measures the memory of 50 open chats of 40 turns each.
func openSessions(ctx context.Context, open func() *agent.Service, begin func() uuid.UUID, say func(uuid.UUID)) {
	const chats, turns = 50, 40
	var sessions []uuid.UUID
	for range chats {
		session := begin()
		for range turns {
			say(session)
		}
		sessions = append(sessions, session)
	}
	before := heap()
	other := open()
	for _, session := range sessions {
		_, err := other.Get(ctx, agent.SessionParams{SessionID: session})
		figures.Check(err)
	}
	figures.Print("sessions.50", heap()-before, "MiB", 0, "")
	figures.Check(other.Close())
}

// manyTurns runs a thousand turns in one chat with a small window, so that its summary is rewritten
// repeatedly. It compares the heap of the second hundred turns with that of the last hundred: it
// should not grow.
func manyTurns(say func(uuid.UUID), session uuid.UUID) {
	var early, late float64
	for n := 1; n <= 1000; n++ {
		say(session)
		switch {
		case n > 100 && n <= 200 && n%20 == 0:
			early += heap() / 5
		case n > 900 && n%20 == 0:
			late += heap() / 5
		}
	}
	figures.Print("turns.1000.heap", (late/early-1)*100, "% more", 0, "")
	figures.Print("turns.1000.heap.size", late, "MiB", 0, "")
}

// idleDay runs the test in which an agent with chats is idle for 24 hours of a virtual clock, and
// measures the processor time of an idle service.
func idleDay(ctx context.Context, s *agent.Service) {
	out, err := exec.Command("go", "-C", "../..", "test", "-count=1", "-run", "^TestIdleDayCallsNobody$", "-v", "./backend/agent").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestIdleDayCallsNobody") {
		fmt.Fprintln(os.Stderr, string(out))
		figures.Check(errors.New("an agent that is idle for a day calls a model"))
	}
	figures.Print("idle.day.calls", 0, "calls of a model", 0, "")
	idle, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(idle) }()
	time.Sleep(time.Second)
	const look = 10 * time.Second
	used := cpu(1, func(int) { time.Sleep(look) })[0]
	stop()
	figures.Check(<-done)
	figures.Print("idle.cpu", used/float64(look.Milliseconds())*100, "% of a processor", 0, "")
}
