//go:build linux

package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"helix/backend/container/guest"
)

// The numbers of resource limits that package syscall lacks.
const rlimitNoFile, rlimitCore, rlimitFileSize = 7, 4, 1

func report() *guest.Report {
	status := map[string]string{}
	for line := range strings.Lines(read("/proc/self/status")) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	number := func(name string) int {
		n, err := strconv.Atoi(status[name])
		if err != nil {
			return -1
		}
		return n
	}
	r := &guest.Report{
		Version: guest.Version, PID: os.Getpid(), UID: os.Geteuid(), GID: os.Getegid(), CapEff: status["CapEff"], CapBnd: status["CapBnd"],
		NoNewPrivs: number("NoNewPrivs"), Seccomp: number("Seccomp"), Interfaces: []string{},
		NoFile: limit(rlimitNoFile), Core: limit(rlimitCore), FileSize: limit(rlimitFileSize),
	}
	for line := range strings.Lines(read("/proc/self/mountinfo")) {
		if f := strings.Fields(line); len(f) > 5 && f[4] == "/" {
			r.RootMount = f[5]
		}
	}
	for line := range strings.Lines(read("/proc/net/dev")) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			r.Interfaces = append(r.Interfaces, strings.TrimSpace(name))
		}
	}
	cgroup(r)
	return r
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func limit(resource int) int64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(resource, &l) != nil {
		return -1
	}
	return int64(min(l.Max, 1<<62))
}

const cgroups = "/sys/fs/cgroup/"

// unlimited stands for no limit.
const unlimited = 1 << 62

// value reads a number of a control group; -1: it can't be read.
func value(path string) int64 {
	text := read(cgroups + path)
	if text == "max" {
		return unlimited
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func isV2() bool {
	_, err := os.Stat(cgroups + "cgroup.controllers")
	return err == nil
}

// cgroup reads the limits of the container, in version 1 or 2.
func cgroup(r *guest.Report) {
	r.CPUPercent = -1
	if isV2() {
		r.Cgroup, r.Memory, r.Swap, r.Pids = 2, value("memory.max"), value("memory.swap.max"), value("pids.max")
		quota, period, _ := strings.Cut(read(cgroups+"cpu.max"), " ")
		if q, err := strconv.ParseInt(quota, 10, 64); err == nil {
			if p, err := strconv.ParseInt(period, 10, 64); err == nil && p > 0 {
				r.CPUPercent = q * 100 / p
			}
		} else if quota == "max" {
			r.CPUPercent = unlimited
		}
		return
	}
	r.Cgroup, r.Memory, r.Pids, r.Swap = 1, value("memory/memory.limit_in_bytes"), value("pids/pids.max"), -1
	if both := value("memory/memory.memsw.limit_in_bytes"); both >= 0 && r.Memory >= 0 {
		r.Swap = both - r.Memory
	}
	for _, folder := range []string{"cpu/", "cpu,cpuacct/"} {
		if q, p := value(folder+"cpu.cfs_quota_us"), value(folder+"cpu.cfs_period_us"); p > 0 {
			r.CPUPercent = q * 100 / p
			if q < 0 {
				r.CPUPercent = unlimited
			}
		}
	}
}

// field returns a number of a file of lines with a name and a number; -1: it has none.
func field(path, name string) int64 {
	for line := range strings.Lines(read(cgroups + path)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

// cgroupCPU returns the CPU time of the container in microseconds, or 0.
func cgroupCPU() int64 {
	if n := field("cpu.stat", "usage_usec"); n >= 0 {
		return n
	}
	for _, folder := range []string{"cpuacct/", "cpu,cpuacct/"} {
		if n := value(folder + "cpuacct.usage"); n >= 0 {
			return n / 1000
		}
	}
	return 0
}

// cgroupPeak returns the most memory that the container used, or 0 if the kernel does not say.
func cgroupPeak() int64 {
	return max(0, value("memory.peak"), value("memory/memory.max_usage_in_bytes"))
}

// oomEvents returns how many processes the kernel ended for memory.
func oomEvents() int64 {
	return max(0, field("memory.events", "oom_kill"), field("memory/memory.oom_control", "oom_kill"))
}
