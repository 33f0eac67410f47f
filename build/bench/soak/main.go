// Command soak lets one Helix work for hours: schedules, imports, runs of tools and skills,
// recordings of a microphone without hardware, and clients that connect, call and disconnect.
// Meanwhile it samples goroutines, open files, processes and memory. It prints the samples as a
// table separated by tabs and at the end the growth of each figure: the median of the last fifth
// against that of the fifth after the first, which fills caches. It fails if one grew by more than
// a tenth, or if a kind of work never succeeded.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"time"

	"helix/backend/sandbox"
	"helixbench/procfs"
)

// samples is how many rows one run has, if each lasts at least a second.
const samples = 100

func main() {
	worker := sandbox.ServeWorker() // does not return in the sandbox's child process
	lasting := flag.Duration("for", time.Hour, "how long Helix works")
	role := flag.String("serve", "", "internal: be the Helix with this data `folder`")
	flag.Parse()
	run := func() error { return soak(*lasting) }
	if *role != "" {
		run = func() error { return serve(*role, worker) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// sample is one row of the table.
type sample struct {
	Goroutines, HeapKiB     int64 // from the process itself
	files, processes        int64
	residentKiB, sharePSSKB int64 // of it, and of it with its children
}

// spare is what a figure may grow by in any case: a tenth of a small number is less than one.
var figures = []struct {
	name  string
	spare int64
	of    func(sample) int64
}{
	{"goroutines", 4, func(s sample) int64 { return s.Goroutines }},
	{"open files", 4, func(s sample) int64 { return s.files }},
	{"processes", 1, func(s sample) int64 { return s.processes }},
	{"resident KiB", 2 << 10, func(s sample) int64 { return s.residentKiB }},
	{"KiB by share, with children", 2 << 10, func(s sample) int64 { return s.sharePSSKB }},
	{"live heap KiB", 2 << 10, func(s sample) int64 { return s.HeapKiB }},
}

func soak(lasting time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "helix-soak-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h, err := startHelix(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	w, err := startWork(dir)
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	end := time.After(lasting)
	tick := time.NewTicker(max(lasting/samples, time.Second))
	defer tick.Stop()
	fmt.Print("seconds")
	for _, f := range figures {
		fmt.Print("\t", f.name)
	}
	fmt.Println("\tcalls\terrors")
	began := time.Now()
	var all []sample
	for working := true; working; {
		select {
		case <-tick.C:
			s, err := h.sample()
			if err != nil {
				return errors.Join(err, w.stop())
			}
			all = append(all, s)
			fmt.Printf("%.0f", time.Since(began).Seconds())
			for _, f := range figures {
				fmt.Print("\t", f.of(s))
			}
			done, failed := w.counts()
			fmt.Printf("\t%d\t%d\n", done, failed)
		case <-end:
			working = false
		case <-interrupted:
			working = false
		}
	}
	return errors.Join(w.stop(), growth(all))
}

// growth prints how each figure changed, and returns an error if one grew too much.
func growth(all []sample) (err error) {
	n := len(all) / 5
	if n == 0 {
		return errors.New("too few samples: let it work longer")
	}
	for _, f := range figures {
		median := func(part []sample) int64 {
			v := make([]int64, len(part))
			for i, s := range part {
				v[i] = f.of(s)
			}
			slices.Sort(v)
			return v[len(v)/2]
		}
		first, last := median(all[n:2*n]), median(all[len(all)-n:])
		fmt.Printf("%s: %d, at the end %d, %+.1f %%\n", f.name, first, last, 100*(float64(last)/float64(first)-1))
		if last > first+max(first/10, f.spare) {
			err = errors.Join(err, fmt.Errorf("%s grew from %d to %d", f.name, first, last))
		}
	}
	return err
}

// helix is the process that is watched.
type helix struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startHelix(dir string) (*helix, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &helix{cmd: exec.Command(exe, "-serve", dir)}
	h.cmd.Stderr = os.Stderr
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.out = bufio.NewReader(out)
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = h.sample() // it answers once it is open
	return h, err
}

func (h *helix) sample() (s sample, err error) {
	if _, err := h.in.Write([]byte("\n")); err != nil {
		return s, err
	}
	line, err := h.out.ReadBytes('\n')
	if err != nil {
		return s, err
	}
	pid := h.cmd.Process.Pid
	family := procfs.Family(pid)
	s.files, s.processes = int64(procfs.Files(pid)), int64(len(family))
	s.residentKiB, s.sharePSSKB = procfs.KiB(pid, "status", "VmRSS:"), procfs.Sum(family, "smaps_rollup", "Pss:")
	return s, json.Unmarshal(line, &s)
}

func (h *helix) stop() error { return errors.Join(h.in.Close(), h.cmd.Wait()) }
