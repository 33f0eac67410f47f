package mcp

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// stat is what /proc says about a process.
type stat struct {
	group int
	start int64 // clock ticks since the system started
}

func statOf(pid int) (s stat, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, false
	}
	i := bytes.LastIndexByte(b, ')') // the name before it may contain anything
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 20 || f[0] == "Z" {
		return s, false
	}
	s.group, _ = strconv.Atoi(f[2])
	s.start, err = strconv.ParseInt(f[19], 10, 64)
	return s, err == nil
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it the times are only compared
	return strings.TrimSpace(string(b))
}

// startOf returns when a process started, in a form that is unique across restarts of the system.
func startOf(pid int) (string, bool) {
	s, ok := statOf(pid)
	return fmt.Sprintf("%s %d", bootID(), s.start), ok
}

// endGroup kills the group of a recorded process if it is the same process: no other can have its id
// and have started at the same time. Its command line is not compared, because programs such as npm
// replace theirs. If the process itself has ended, its id is still taken by its group while that has members, so members that started
// after it belong to it.
func endGroup(s started) bool {
	boot, ticks, _ := strings.Cut(s.Start, " ")
	start, err := strconv.ParseInt(ticks, 10, 64)
	if err != nil || boot != bootID() {
		return false
	}
	if leader, ok := statOf(s.PID); ok {
		return leader.start == start && leader.group == s.PID && syscall.Kill(-s.PID, syscall.SIGKILL) == nil
	}
	names, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	ended := false
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		if m, ok := statOf(pid); ok && m.group == s.PID && m.start >= start {
			ended = syscall.Kill(pid, syscall.SIGKILL) == nil || ended
		}
	}
	return ended
}

// memoryOf returns the resident memory of a process in bytes; 0: unknown.
func memoryOf(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if f := strings.Fields(string(b)); err == nil && len(f) > 1 {
		pages, _ := strconv.ParseInt(f[1], 10, 64)
		return pages * int64(os.Getpagesize())
	}
	return 0
}
