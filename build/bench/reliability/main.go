// Command reliability starts build/bin/helix and sends it all hostile inputs of this folder at the
// same time. Meanwhile it measures how fast an ordinary tool answers, whether the process survives
// and how much memory it uses; then how fast it stops, and whether the data is intact after a
// restart. It prints one line per measurement: name, value, unit, ratio to the peer, peer,
// separated by tabs. To standard error it prints how often each input was sent and what the answers
// were.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helixbench/figures"
	"helixbench/procfs"
)

var (
	program      = flag.String("helix", "../bin/helix", "the `file` of the program")
	lasting      = flag.Duration("for", time.Minute, "how long everything runs")
	endlessTools = flag.Int("endless", 2, "how many clients run tools that never end")
	only         = flag.String("only", "", "send the inputs whose name contains this alone")
	target       = flag.String("target", "", "internal: be the attackers of this address")
	token        = flag.String("token", "", "internal: of the scopes read and write")
	allToken     = flag.String("all-token", "", "internal: of all scopes")
)

func main() {
	flag.Parse()
	run := measure
	if *target != "" {
		run = attack
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench reliability:", err)
		os.Exit(1)
	}
}

func measure() error {
	dir, err := os.MkdirTemp("", "helix-bench-reliability-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	b := &bench{dir: dir}
	if b.helix, err = filepath.Abs(*program); err != nil {
		return err
	}
	defer func() {
		if b.p != nil {
			b.p.cmd.Process.Kill() //nolint:errcheck // after an error
		}
	}()
	if err := b.start(); err != nil {
		return err
	}
	if err := b.prepare(); err != nil {
		return err
	}
	if err := b.calm(); err != nil {
		return err
	}
	if err := b.attacked(); err != nil {
		return err
	}
	return b.after()
}

type bench struct {
	dir, helix string
	token      string // with the scopes read and write
	all        string // a token with all scopes
	tool       string // the ordinary one
	p          *process
	deaths     int
	stored     []string // ids of memories that were confirmed as stored
}

// process is one run of the program.
type process struct {
	cmd   *exec.Cmd
	url   string
	log   string
	ended chan struct{}
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// start starts the program and waits for its address.
func (b *bench) start() error {
	log, err := os.CreateTemp(b.dir, "stderr-*")
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	cmd := exec.Command(b.helix, "serve", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(b.dir, "data"))
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	b.p = &process{cmd: cmd, log: log.Name(), ended: make(chan struct{}), url: line[strings.LastIndexByte(line, ' ')+1 : max(len(line)-1, 0)]}
	go func(p *process) {
		p.cmd.Wait() //nolint:errcheck // its state is in ProcessState
		close(p.ended)
	}(b.p)
	if err != nil {
		return fmt.Errorf("helix serve told no address: %w: %s", err, tail(log.Name()))
	}
	return nil
}

// tail returns the end of a file.
func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// admin calls a method through the command line, with all scopes.
func (b *bench) admin(method string, params, result any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	cmd := exec.Command(b.helix, "rpc", method, string(text), "--data-dir", filepath.Join(b.dir, "data"), "--timeout", "10m")
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", method, err, failure.String())
	}
	return json.Unmarshal(out, result)
}

func (b *bench) dial(scopes ...string) (*gateway.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	token := b.token
	if slices.Contains(scopes, "admin") {
		token = b.all
	}
	return gateway.Dial(ctx, gateway.ClientOptions{URL: b.p.url, Token: token, Scopes: scopes})
}

// prepare creates the tokens and the ordinary tool.
func (b *bench) prepare() error {
	for token, scopes := range map[*string][]string{&b.token: {"read", "write"}, &b.all: {"read", "write", "admin"}} {
		var made struct{ Token string }
		if err := b.admin("tokens.create", map[string]any{"name": "benchmark", "scopes": scopes}, &made); err != nil {
			return err
		}
		*token = made.Token
	}
	c, err := b.dial("read", "write")
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // no longer used
	var tool struct{ Tool struct{ ID string } }
	if err := c.Call(context.Background(), "tools.create", map[string]any{"name": "Sum", "code": "return params.a + params.b",
		"parameters": json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`)}, &tool); err != nil {
		return err
	}
	b.tool = tool.Tool.ID
	return b.ordinary(c)
}

// ordinary runs the ordinary tool once.
func (b *bench) ordinary(c *gateway.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var r struct {
		Success bool
		Output  json.Number
		Error   string
	}
	if err := c.Call(ctx, "tools.execute", map[string]any{"toolId": b.tool, "params": map[string]any{"a": 2, "b": 3}}, &r); err != nil {
		return err
	}
	if !r.Success || r.Output != "5" {
		return fmt.Errorf("the tool answered %q, %s", r.Output, r.Error)
	}
	return nil
}

// calm measures the ordinary tool before the attack.
func (b *bench) calm() error {
	c, err := b.dial("read", "write")
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // no longer used
	var took []float64
	for range 25 {
		began := time.Now()
		if err := b.ordinary(c); err != nil {
			return err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
		time.Sleep(200 * time.Millisecond)
	}
	figures.Print("ordinary tool, p95, before", quantile(took, 0.95), "ms", 0, "")
	return nil
}

// attacked sends everything at once, measures meanwhile, and then stops the program during the
// attack.
func (b *bench) attacked() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := b.dial("read", "write")
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // no longer used
	// They run in a separate process, so that nothing of theirs is measured here.
	attackers := exec.Command(os.Args[0], "-target", b.p.url, "-token", b.token, "-all-token", b.all, "-only", *only, "-endless", fmt.Sprint(*endlessTools))
	attackers.Stderr = os.Stderr
	end, err := attackers.StdinPipe()
	if err != nil {
		return err
	}
	if err := attackers.Start(); err != nil {
		return err
	}
	memory := watch(ctx, b.p.cmd.Process.Pid)

	var took []float64
	var refused []string
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	until := time.Now().Add(*lasting)
	for i := 0; time.Now().Before(until) && b.p.alive(); i++ {
		began := time.Now()
		if err := b.ordinary(c); err != nil {
			refused = append(refused, err.Error())
		} else {
			took = append(took, float64(time.Since(began).Microseconds())/1000)
		}
		if i%5 == 0 {
			b.store(ctx, c, i)
		}
		<-tick.C
	}
	if b.p.alive() {
		var status struct{ PID int }
		if err := c.Call(ctx, "system.status", struct{}{}, &status); err != nil || status.PID != b.p.cmd.Process.Pid {
			return fmt.Errorf("system.status: process %d, %w", status.PID, err)
		}
	}
	stopping := b.stop()
	cancel()
	end.Close() //nolint:errcheck // only its end matters
	if err := attackers.Wait(); err != nil {
		return fmt.Errorf("the attackers: %w", err)
	}
	fmt.Fprintln(os.Stderr, "most memory:", memory.parts.Load())
	for _, r := range refused {
		fmt.Fprintln(os.Stderr, "the ordinary tool:", r)
	}
	if len(took) == 0 {
		return errors.New("the ordinary tool never answered")
	}
	figures.Print("ordinary tool, p50", quantile(took, 0.5), "ms", 0, "")
	figures.Print("ordinary tool, p95", quantile(took, 0.95), "ms", 0, "")
	figures.Print("ordinary tool, max", slices.Max(took), "ms", 0, "")
	figures.Print("answers of the ordinary tool", float64(len(took)), "count", 0, "")
	figures.Print("calls of the ordinary tool that failed", float64(len(refused)), "count", 0, "")
	figures.Print("stop after SIGTERM", stopping.Seconds(), "s", 0, "")
	figures.Print("resident memory, peak", float64(memory.all.Load())/1024, "MiB", 0, "")
	figures.Print("resident memory, peak, without children", float64(memory.parent.Load())/1024, "MiB", 0, "")
	figures.Print("memory by share, peak", float64(memory.share.Load())/1024, "MiB", 0, "")
	return nil
}

// attack sends everything until its input ends.
func attack() error {
	dir, err := os.MkdirTemp("", "helix-bench-reliability-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	b := &bench{dir: dir, token: *token, all: *allToken, p: &process{url: *target}}
	attackers, err := b.attackers()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	for _, a := range attackers {
		if strings.Contains(a.name, *only) {
			group.Go(func() { a.run(ctx, b) })
		}
	}
	io.Copy(io.Discard, os.Stdin) //nolint:errcheck // only its end matters
	cancel()
	group.Wait()
	for _, a := range attackers {
		a.report()
	}
	return nil
}

// store adds a memory and records its id if it was confirmed.
func (b *bench) store(ctx context.Context, c *gateway.Client, i int) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var r struct{ Item struct{ ID string } }
	if err := c.Call(ctx, "memory.add", map[string]any{"content": fmt.Sprintf("Note %d of an ordinary day.", i)}, &r); err == nil {
		b.stored = append(b.stored, r.Item.ID)
	} else {
		fmt.Fprintln(os.Stderr, "memory.add:", err)
	}
}

// stop stops the program gracefully and returns how long that took. A program that ended before
// counts as a crash.
func (b *bench) stop() time.Duration {
	if !b.p.alive() {
		b.deaths++
		fmt.Fprintf(os.Stderr, "helix died: %s\n%s\n", b.p.cmd.ProcessState, tail(b.p.log))
		return 0
	}
	began := time.Now()
	b.p.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // if it fails, the program never ends, which is noticed
	select {
	case <-b.p.ended:
	case <-time.After(2 * time.Minute):
		b.p.cmd.Process.Kill() //nolint:errcheck // it is alive
		<-b.p.ended
		b.deaths++
		fmt.Fprintln(os.Stderr, "helix did not stop within two minutes")
	}
	took := time.Since(began)
	if code := b.p.cmd.ProcessState.ExitCode(); code != 0 {
		fmt.Fprintf(os.Stderr, "helix ended with code %d\n%s\n", code, tail(b.p.log))
	}
	return took
}

// after restarts the program on the same data and checks that the data is intact.
func (b *bench) after() error {
	began := time.Now()
	if err := b.start(); err != nil {
		return err
	}
	c, err := b.dial("read", "write")
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // no longer used
	if err := b.ordinary(c); err != nil {
		return fmt.Errorf("after the start: %w", err)
	}
	figures.Print("started again, until the first answer", time.Since(began).Seconds(), "s", 0, "")
	lost := 0
	for _, id := range b.stored {
		var item struct{ Content string }
		if err := c.Call(context.Background(), "memory.get", map[string]any{"id": id}, &item); fault.Is(err, fault.NotFound) {
			lost++
		} else if err != nil {
			return err
		}
	}
	figures.Print("acknowledged memories", float64(len(b.stored)), "count", 0, "")
	figures.Print("acknowledged memories that are lost", float64(lost), "count", 0, "")
	var check struct {
		OK       bool
		Problems []string
	}
	if err := b.admin("storage.check", map[string]any{"full": true}, &check); err != nil {
		return err
	}
	var log struct {
		OK      bool
		Message string
	}
	if err := b.admin("audit.verify", struct{}{}, &log); err != nil {
		return err
	}
	if !check.OK || !log.OK {
		fmt.Fprintln(os.Stderr, "the data:", check.Problems, log.Message)
	}
	figures.Print("problems of the database and the log", float64(len(check.Problems))+map[bool]float64{false: 1}[log.OK], "count", 0, "")
	b.stop()
	figures.Print("deaths", float64(b.deaths), "count", 0, "")
	return nil
}

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(float64(len(v))*q))]
}

// use is the largest memory use seen, in KiB.
type use struct {
	all, parent, share atomic.Int64
	parts              atomic.Value // per process, for people
}

// watch samples the memory of a process and its children until ctx ends. In all, shared pages count
// once per process, in share once.
func watch(ctx context.Context, pid int) *use {
	u := &use{}
	most := func(v *atomic.Int64, now int64) { v.Store(max(v.Load(), now)) }
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			pids := procfs.Family(pid)
			most(&u.parent, procfs.Sum(pids[:1], "status", "VmRSS:"))
			if n := procfs.Sum(pids, "status", "VmRSS:"); n > u.all.Load() {
				u.all.Store(n)
				var parts []string
				for _, p := range pids {
					parts = append(parts, fmt.Sprintf("%d MiB", procfs.KiB(p, "status", "VmRSS:")>>10))
				}
				u.parts.Store(fmt.Sprintf("%s; of the first %d MiB are the program's file", strings.Join(parts, " + "), procfs.KiB(pid, "status", "RssFile:")>>10))
			}
			if i%20 == 0 {
				most(&u.share, procfs.Sum(pids, "smaps_rollup", "Pss:"))
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return u
}
