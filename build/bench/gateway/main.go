// Command gateway measures backend/gateway against its peers in one run: npm
// rpc-websockets on Node and net/rpc/jsonrpc of the standard library over TCP. Server and client
// are separate processes for each of the three. It prints one line per measurement: name, value,
// unit, ratio to the peer, peer, separated by tabs.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helixbench/figures"
)

const rounds = 3 // the median of this many is reported

func main() {
	role := flag.String("role", "", "internal: serve, client, rpc-serve, rpc-client")
	seconds := flag.Float64("seconds", 3, "of each echo measurement")
	only := flag.String("only", "", "run the measures whose name contains this")
	profile := flag.String("profile", "", "write CPU profiles of our server and client to this file with .serve and .client")
	flag.Parse()
	switch *role {
	case "serve":
		serve(*profile)
	case "client":
		stop := profiled(*profile, ".client")
		client(flag.Args())
		stop()
	case "rpc-serve":
		rpcServe()
	case "rpc-client":
		rpcClient(flag.Args())
	default:
		b := &bench{seconds: *seconds, profile: *profile}
		for _, m := range []struct {
			name string
			fn   func()
		}{
			{"echo", b.echo}, {"events", b.events}, {"big", b.big}, {"layer", b.layer}, {"idle", b.idle}, {"discover", b.discover}, {"status", b.status}, {"cold", b.cold},
		} {
			if strings.Contains(m.name, *only) {
				m.fn()
			}
		}
	}
}

type bench struct {
	seconds float64
	profile string
}

// report prints one line; with a peer of 0 there is no ratio.
func report(name string, value float64, unit string, peer float64, peerName string) {
	ratio := 0.0
	if peer > 0 {
		ratio = value / peer
	}
	figures.Print(name, value, unit, ratio, peerName)
}

// start runs a server process and returns its first line and a function that stops it.
func start(name string, args ...string) (line string, stop func() (cpu time.Duration)) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	figures.Check(err)
	out, err := cmd.StdoutPipe()
	figures.Check(err)
	figures.Check(cmd.Start())
	line, err = bufio.NewReader(out).ReadString('\n')
	figures.Check(err)
	return strings.TrimSpace(line), func() time.Duration {
		in.Close() //nolint:errcheck // our servers end with their input
		if strings.HasSuffix(name, "node") {
			cmd.Process.Kill() //nolint:errcheck // it is ours
		}
		cmd.Wait() //nolint:errcheck // it is ours
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
}

// ask runs a client process that prints one JSON object of numbers.
func ask(name string, args ...string) map[string]float64 {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	figures.Check(err)
	m := map[string]float64{}
	figures.Check(json.Unmarshal(out, &m))
	m["cpu"] = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return m
}

func self() string {
	exe, err := os.Executable()
	figures.Check(err)
	return exe
}

// scripts returns the path of a .mjs file in the source folder, wherever the binary is.
func scripts(name string) string {
	for _, dir := range []string{"gateway", ".", "build/bench/gateway"} {
		if p := filepath.Join(dir, name); exists(p) {
			return p
		}
	}
	figures.Check(fmt.Errorf("%s not found: run in build/bench", name))
	return ""
}

func exists(p string) bool { _, err := os.Stat(p); return err == nil }

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// contenders runs one measurement on ours, node and, if withRPC is set, net/rpc, alternating,
// rounds times, and returns the medians by contender and key.
func (b *bench) contenders(withRPC bool, args ...string) map[string]map[string]float64 {
	all := map[string]map[string][]float64{}
	add := func(who string, m map[string]float64, server time.Duration) {
		m["cpu"] += server.Seconds() // of both processes: unlike the rest, it hardly depends on the load of the machine
		if all[who] == nil {
			all[who] = map[string][]float64{}
		}
		for k, v := range m {
			all[who][k] = append(all[who][k], v)
		}
	}
	for range rounds {
		url, stop := start(self(), "-role", "serve", "-profile", b.profile)
		m := ask(self(), append([]string{"-role", "client", "-profile", b.profile, url}, args...)...)
		add("helix", m, stop())
		port, stop := start("node", scripts("rpcws-server.mjs"))
		m = ask("node", append([]string{scripts("rpcws-client.mjs"), port}, args...)...)
		add("node", m, stop())
		if withRPC {
			addr, stop := start(self(), "-role", "rpc-serve")
			m := ask(self(), append([]string{"-role", "rpc-client", addr}, args...)...)
			add("rpc", m, stop())
		}
	}
	out := map[string]map[string]float64{}
	for who, keys := range all {
		out[who] = map[string]float64{}
		for k, v := range keys {
			out[who][k] = median(v)
		}
	}
	return out
}

func (b *bench) echo() {
	m := b.contenders(true, "echo", fmt.Sprint(b.seconds))
	report("echo 200 B, 64 in flight", m["helix"]["calls"], "calls/s", m["node"]["calls"], "rpc-websockets")
	report("echo 200 B, 64 in flight", m["helix"]["calls"], "calls/s", m["rpc"]["calls"], "net/rpc/jsonrpc")
	cpu := func(who string) float64 { return m[who]["cpu"] / (m[who]["calls"] * b.seconds) * 1e6 }
	report("echo, processor time of both ends a call", cpu("helix"), "us", cpu("node"), "rpc-websockets")
	report("echo, processor time of both ends a call", cpu("helix"), "us", cpu("rpc"), "net/rpc/jsonrpc")
	report("echo p99", m["helix"]["p99"]/1000, "ms", m["node"]["p99"]/1000, "rpc-websockets")
	report("echo p99", m["helix"]["p99"]/1000, "ms", m["rpc"]["p99"]/1000, "net/rpc/jsonrpc")
}

func (b *bench) events() {
	m := b.contenders(false, "events", "100", "500")
	report("event to 100 subscribers", m["helix"]["delivered"], "events/s", m["node"]["delivered"], "rpc-websockets")
	report("the same, processor time of both ends", m["helix"]["cpu"], "s", m["node"]["cpu"], "rpc-websockets")
}

func (b *bench) big() {
	m := b.contenders(false, "big", "60")
	report("1 MiB result round trip", m["helix"]["median"]/1000, "ms", m["node"]["median"]/1000, "rpc-websockets")
	report("the same, processor time of both ends", m["helix"]["cpu"], "s", m["node"]["cpu"], "rpc-websockets")
}

// layer measures the overhead of a call over the Go function alone: over a pipe in memory, without
// a network, and over the loopback with one call at a time.
func (b *bench) layer() {
	direct, memory := layerCost()
	report("layer: echo by RPC in memory minus the Go call", memory-direct, "us", 0, "none")
	url, stop := start(self(), "-role", "serve")
	defer stop()
	m := ask(self(), "-role", "client", url, "one", "20000")
	report("echo over loopback, one at a time, minus the Go call", m["median"]-direct, "us", 0, "none")
}

func (b *bench) idle() {
	url, stop := start(self(), "-role", "serve")
	defer stop()
	m := ask(self(), "-role", "client", url, "idle", "1000")
	report("1,000 idle sessions, resident", (m["during"]-m["before"])/(1<<20), "MiB", 0, "none")
	report("idle session", (m["during"]-m["before"])/1000/1024, "KiB", 0, "none")
	report("resident after they closed", (m["after"]-m["before"])/(1<<20), "MiB", 0, "none")
	report("heap after they closed", (m["heapAfter"]-m["heapBefore"])/(1<<20), "MiB", 0, "none")
}

func (b *bench) discover() {
	url, stop := start(self(), "-role", "serve")
	defer stop()
	m := ask(self(), "-role", "client", url, "discover", "100")
	report("rpc.discover, "+fmt.Sprintf("%.0f KiB", m["bytes"]/1024), m["median"]/1000, "ms", 0, "none")
}

// helix returns the path of the built program; if there is none, it prints why.
func helix(measure string) (path string, ok bool) {
	for _, p := range []string{"../bin/helix", "build/bin/helix"} {
		if exists(p) {
			path, _ = filepath.Abs(p)
		}
	}
	if path == "" {
		fmt.Fprintf(os.Stderr, "bench gateway: build/bin/helix is missing; %s is not measured\n", measure)
	}
	return path, path != ""
}

// wall returns the median times of a command and of `node -e 0`, alternating.
func wall(name string, args ...string) (ours, node float64) {
	run := func(name string, args ...string) float64 {
		began := time.Now()
		figures.Check(exec.Command(name, args...).Run())
		return float64(time.Since(began).Microseconds()) / 1000
	}
	run(name, args...) // creates the data folder
	var a, b []float64
	for range 15 {
		a = append(a, run(name, args...))
		b = append(b, run("node", "-e", "0"))
	}
	return median(a), median(b)
}

// cold measures commands while no Helix is running.
func (b *bench) cold() {
	helix, ok := helix("the start of commands")
	if !ok {
		return
	}
	dir, err := os.MkdirTemp("", "helix-bench-gateway-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	for _, args := range [][]string{{"version"}, {"tool", "list"}} {
		ours, node := wall(helix, append(args, "--data-dir", dir)...)
		report("helix "+strings.Join(args, " ")+", cold, wall", ours, "ms", node, "node -e 0")
	}
}

// status compares `helix status` against a running backend with the start of Node.
func (b *bench) status() {
	helix, ok := helix("helix status")
	if !ok {
		return
	}
	dir, err := os.MkdirTemp("", "helix-bench-gateway-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	serve := exec.CommandContext(ctx, helix, "serve", "--data-dir", dir, "--addr", "127.0.0.1:0")
	serve.Cancel = func() error { return serve.Process.Signal(os.Interrupt) }
	serve.WaitDelay = 15 * time.Second
	out, err := serve.StdoutPipe()
	figures.Check(err)
	figures.Check(serve.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	figures.Check(err)
	ours, node := wall(helix, "status", "--data-dir", dir)
	cancel()
	serve.Wait() //nolint:errcheck // interrupted
	report("helix status, wall", ours, "ms", node, "node -e 0")
}
