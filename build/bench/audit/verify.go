package main

import (
	"bufio"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"helix/backend/audit"
	"helixbench/figures"
)

// verify measures audit.Verify with an export of n entries and of a tenth of them, each in a
// separate process to measure its memory, then with the open database, and git fsck.
func (b *bench) verify() {
	b.fill(b.n / 10)
	small := b.export("small.jsonl")
	b.fill(b.n)
	big := b.export("big.jsonl")
	_, _, smallRSS, _ := b.child(small)
	var perSecond, cpu []float64
	var rss float64
	for range 3 {
		n, took, r, c := b.child(big)
		perSecond, cpu, rss = append(perSecond, float64(n)/took.Seconds()), append(cpu, c*1e6/float64(n)), r
	}
	ours := median(perSecond)
	git, gitCPU := b.git()
	if git > 0 {
		figures.Print("verify.export", ours, "entries/s", ours/git, "git fsck --full")
		figures.Print("verify.git_fsck", git, "commits/s", 0, "")
		// On a busy machine only the CPU times are comparable.
		figures.Print("verify.export.cpu", median(cpu), "µs/entry", median(cpu)/gitCPU, "git fsck --full")
	} else {
		figures.Print("verify.export", ours, "entries/s", 0, "")
	}
	figures.Print("verify.memory", rss, "MiB", 0, "")
	figures.Print("verify.memory.tenth", smallRSS, "MiB", 0, "")
	at := time.Now()
	r, err := b.log.Verify(b.ctx, audit.VerifyParams{})
	check(err)
	if !r.OK {
		panic(fmt.Sprintf("%+v", r))
	}
	figures.Print("verify.database", float64(r.Entries)/time.Since(at).Seconds(), "entries/s", 0, "")
}

func (b *bench) export(name string) string {
	path := filepath.Join(b.dir, name)
	at := time.Now()
	res, err := b.log.Export(b.ctx, audit.ExportParams{Path: path})
	check(err)
	if name == "big.jsonl" {
		figures.Print("export", float64(res.Entries)/time.Since(at).Seconds(), "entries/s", 0, "")
	}
	return path
}

// child verifies a file in a new process and returns the number of entries, the time, the peak
// memory in MiB and the CPU time in seconds.
func (b *bench) child(path string) (n int64, took time.Duration, rss, cpu float64) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HELIX_BENCH_VERIFY="+path, "HELIX_BENCH_KEY="+hex.EncodeToString(b.db.Device().PublicKey))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	check(err)
	var ns int64
	_, err = fmt.Sscan(string(out), &n, &ns, &rss)
	check(err)
	return n, time.Duration(ns), rss, seconds(cmd)
}

// seconds returns the CPU time of a finished command.
func seconds(cmd *exec.Cmd) float64 {
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

func verifyChild(path string) {
	key, err := hex.DecodeString(os.Getenv("HELIX_BENCH_KEY"))
	check(err)
	f, err := os.Open(path)
	check(err)
	at := time.Now()
	r, err := audit.Verify(f, []ed25519.PublicKey{key})
	check(err)
	if !r.OK {
		panic(fmt.Sprintf("%+v", r))
	}
	fmt.Println(r.Entries, time.Since(at).Nanoseconds(), peakMiB())
}

func peakMiB() float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, l := range strings.Split(string(b), "\n") {
		var kb float64
		if n, _ := fmt.Sscanf(l, "VmHWM: %f kB", &kb); n == 1 {
			return kb / 1024
		}
	}
	return 0
}

// git creates a linear history of n commits that change one file, with fast-import, and checks it
// in full. It returns commits per second, and CPU microseconds per commit.
func (b *bench) git() (perSecond, cpu float64) {
	dir := filepath.Join(b.dir, "git")
	last := 0.0
	run := func(stdin io.Reader, args ...string) error {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = stdin
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %.300s", args[0], err, out)
		}
		last = seconds(cmd)
		return nil
	}
	check(os.MkdirAll(dir, 0o755))
	r, w := io.Pipe()
	go func() {
		bw := bufio.NewWriterSize(w, 1<<20)
		for i := range b.n {
			msg := fmt.Sprintf("{\"action\":\"network_call\",\"bytes\":%d,\"resource\":\"api.example.com\"}\n", i)
			fmt.Fprintf(bw, "commit refs/heads/main\ncommitter h <h@example.com> %d +0000\ndata %d\n%s", 1700000000+i, len(msg), msg)
			if i == 0 {
				fmt.Fprint(bw, "M 100644 inline log\ndata 1\nx\n")
			}
		}
		_ = bw.Flush()
		_ = w.Close()
	}()
	if err := run(nil, "init", "-q", "--bare", "-b", "main"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 0, 0
	}
	if err := run(r, "fast-import", "--quiet"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 0, 0
	}
	var rates, cpus []float64
	for range 3 {
		at := time.Now()
		if err := run(nil, "fsck", "--full", "--no-progress"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 0, 0
		}
		rates, cpus = append(rates, float64(b.n)/time.Since(at).Seconds()), append(cpus, last*1e6/float64(b.n))
	}
	return median(rates), median(cpus)
}
