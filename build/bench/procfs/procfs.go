// Package procfs reads from /proc what processes use.
package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc; it is the same on all Linux systems.
const tick = 10 * time.Millisecond

// Family returns a process and all its descendants.
func Family(pid int) []int {
	parents := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") //nolint:errcheck // the pattern is sound
	for _, file := range stats {
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) //nolint:errcheck // the pattern asks for a digit
		if f := stat(id); f != nil {
			parents[id], _ = strconv.Atoi(f[1]) //nolint:errcheck // the kernel writes it
		}
	}
	all := []int{pid}
	program := arguments(pid)
	for i := 0; i < len(all); i++ {
		for id, parent := range parents {
			// A process that has not yet executed its program shows its parent's memory as its own.
			if parent == all[i] && arguments(id) != program {
				all = append(all, id)
			}
		}
	}
	return all
}

// stat returns the fields of /proc/PID/stat after the name, the state being the first; nil if the
// process has ended.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name is in parentheses and may contain some.
	f := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	if len(f) < 20 {
		return nil
	}
	return f
}

func arguments(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "" // it ended
	}
	return string(text)
}

// Find returns the process of a program file that has an argument; 0: none.
func Find(file, argument string) int {
	all, _ := filepath.Glob("/proc/[0-9]*/exe") //nolint:errcheck // the pattern is sound
	for _, exe := range all {
		if at, err := os.Readlink(exe); err != nil || at != file {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(exe))) //nolint:errcheck // the pattern asks for a digit
		for _, a := range strings.Split(arguments(pid), "\x00") {
			if a == argument {
				return pid
			}
		}
	}
	return 0
}

// KiB returns a field of a file of a process, such as VmRSS: of status; 0 if the process has ended.
func KiB(pid int, file, field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field {
			n, _ := strconv.ParseInt(f[1], 10, 64) //nolint:errcheck // the kernel writes it
			return n
		}
	}
	return 0
}

// Sum adds up a field of several processes.
func Sum(pids []int, file, field string) (kib int64) {
	for _, p := range pids {
		kib += KiB(p, file, field)
	}
	return kib
}

// CPU returns the processor time that the processes have used.
func CPU(pids ...int) (used time.Duration) {
	for _, p := range pids {
		if f := stat(p); f != nil {
			for _, v := range f[11:13] {
				n, _ := strconv.ParseInt(v, 10, 64) //nolint:errcheck // the kernel writes it
				used += time.Duration(n) * tick
			}
		}
	}
	return used
}

// Started returns when a process was started, to a hundredth of a second.
func Started(pid int) (time.Time, error) {
	f := stat(pid)
	if f == nil {
		return time.Time{}, fmt.Errorf("process %d has ended", pid)
	}
	ticks, err := strconv.ParseInt(f[19], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	text, err := os.ReadFile("/proc/uptime")
	now := time.Now()
	if err != nil {
		return time.Time{}, err
	}
	var up float64
	if _, err := fmt.Sscan(string(text), &up); err != nil {
		return time.Time{}, err
	}
	return now.Add(time.Duration(ticks)*tick - time.Duration(up*float64(time.Second))), nil
}

// Files returns the number of open files of a process.
func Files(pid int) int {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0 // it ended
	}
	return len(all)
}
