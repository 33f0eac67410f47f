package main

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of all threads of this process so far. Measurements of pure
// computing use it instead of the clock, so that a busy machine does not affect them.
func cpuTime() time.Duration {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// worked returns the CPU seconds of fn.
func worked(fn func()) float64 {
	t := cpuTime()
	fn()
	return (cpuTime() - t).Seconds()
}

// cpuRate runs fn until it has used d of CPU time and returns the number of calls per CPU second.
func cpuRate(d time.Duration, fn func(i int)) float64 {
	begin, n := cpuTime(), 0
	for cpuTime()-begin < d {
		for range 8 {
			fn(n)
			n++
		}
	}
	return float64(n) / (cpuTime() - begin).Seconds()
}
