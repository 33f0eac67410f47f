// Command audio measures the voice packages: decoding against ffmpeg, resampling against sox, noise
// suppression, recording, and the words, commands and searches of transcripts. It prints one row per
// measurement; see package figures. With -only it runs a single part.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"helixbench/figures"
)

// limit is the longest run. One that takes longer hangs, and ends with an error.
const limit = 25 * time.Minute

var parts = []struct {
	name string
	run  func(*bench)
}{
	{"formats", (*bench).formats}, {"agreement", (*bench).agreement}, {"resampler", (*bench).resampler}, {"quality", (*bench).quality}, {"tones", (*bench).tones},
	{"flac", (*bench).flac}, {"noise", (*bench).noise}, {"words", (*bench).words}, {"commands", (*bench).commands}, {"corpus", (*bench).corpus}, {"memos", (*bench).memos},
	{"recording", (*bench).recording}, {"overhead", (*bench).overhead}, {"memory", (*bench).memory},
}

func main() {
	minutes := flag.Int("minutes", 10, "length of the recordings")
	only := flag.String("only", "", "the `part` to run; default: all")
	flag.Parse()
	if child() {
		return
	}
	if *only != "" && !slices.ContainsFunc(parts, func(p struct {
		name string
		run  func(*bench)
	}) bool {
		return p.name == *only
	}) {
		figures.Check(fmt.Errorf("no part is called %q", *only))
	}
	dir, err := os.MkdirTemp("", "helix-bench-audio-")
	figures.Check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	b := &bench{dir, *minutes}
	var now atomic.Pointer[string]
	time.AfterFunc(limit, func() { figures.Check(fmt.Errorf("the part %s didn't end within %s", *now.Load(), limit)) })
	for _, p := range parts {
		if *only != "" && p.name != *only {
			continue
		}
		now.Store(&p.name)
		start := time.Now()
		p.run(b)
		fmt.Fprintf(os.Stderr, "audio: %s took %.0f s\n", p.name, time.Since(start).Seconds())
	}
}

type bench struct {
	dir     string
	minutes int
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// Work of a process of its own, whose memory is measured. The argument is in the variable.
const (
	childDecode = "HELIX_BENCH_DECODE" // a file
	childRecord = "HELIX_BENCH_RECORD" // seconds
	childIdle   = "HELIX_BENCH_IDLE"   // seconds
)

// child does the work of a child process, and returns false in the process that measures.
func child() bool {
	for name, run := range map[string]func(string){childDecode: decodeChild, childRecord: recordChild, childIdle: idleChild} {
		if of := os.Getenv(name); of != "" {
			run(of)
			return true
		}
	}
	return false
}

// inChild runs this program for one piece of work and returns the numbers that it prints.
func inChild(name, of string, out ...any) {
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), name+"="+of), os.Stderr
	text, err := c.Output()
	figures.Check(err)
	_, err = fmt.Sscan(string(text), out...)
	figures.Check(err)
}

// peakMemory returns the peak of this process in MiB. Getrusage would return that of the process which
// started this one, if it is larger.
func peakMemory() float64 {
	text, err := os.ReadFile("/proc/self/status")
	figures.Check(err)
	_, rest, ok := strings.Cut(string(text), "VmHWM:")
	var kib float64
	if _, err = fmt.Sscan(rest, &kib); !ok {
		err = errors.New("no VmHWM in /proc/self/status")
	}
	figures.Check(err)
	return kib / 1024
}

// cpu returns the processor time of fn.
func cpu(fn func()) time.Duration {
	used := func() time.Duration {
		var r syscall.Rusage
		figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	start := used()
	fn()
	return used() - start
}

// run runs a program and returns its processor time.
func run(name string, args ...string) time.Duration {
	c := exec.Command(name, args...)
	if out, err := c.CombinedOutput(); err != nil {
		figures.Check(fmt.Errorf("%s %v: %w\n%s", name, args, err, out))
	}
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}
