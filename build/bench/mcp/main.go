// Command mcp measures backend/mcp against the client and the server of the official SDK in one run,
// on the same server programs. It prints one line per measurement: name, value, unit, ratio to the
// peer, peer, separated by tabs. -only runs the measures whose name contains a text.
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
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/mcp"
	"helixbench/figures"
)

const (
	peer      = "go-sdk, bare client"
	echoInput = `{"text":"Good morning. What is on the calendar for today, and is there anything to prepare?"}`
)

func main() {
	role := flag.String("role", "", "internal: stdio, many, http, serve, idle")
	calls := flag.Int("calls", 2000, "one after the other, and at once")
	starts := flag.Int("starts", 11, "of the reference server")
	lists := flag.Int("lists", 15, "of 1,000 tools")
	only := flag.String("only", "", "run the measures whose name contains this")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		check(err)
		check(pprof.StartCPUProfile(f))
		defer pprof.StopCPUProfile()
	}
	switch *role {
	case "stdio":
		check(echoServer().Run(context.Background(), &sdk.StdioTransport{}))
		return
	case "many":
		check(manyTools().Run(context.Background(), &sdk.StdioTransport{}))
		return
	case "http":
		listen(sdkHandler())
		return
	case "serve":
		serve()
		return
	case "idle":
		idle()
		return
	}
	for _, m := range []struct {
		name string
		fn   func(n int)
		n    int
	}{{"call.stdio", callStdio, *calls}, {"call.http", callHTTP, *calls}, {"call.64", callAtOnce, *calls}, {"list.1000", list, *lists}, {"serve", serving, *calls}, {"start", start, *starts}, {"idle", idleCost, 0}} {
		if strings.Contains(m.name, *only) {
			m.fn(m.n)
		}
	}
}

func check(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", filepath.Base(file), line, err)
		os.Exit(1)
	}
}

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

func micros(began time.Time) float64 { return float64(time.Since(began).Nanoseconds()) / 1000 }

func self() string {
	exe, err := os.Executable()
	check(err)
	return exe
}

// bare connects the client of the SDK.
func bare(t sdk.Transport) *sdk.ClientSession {
	s, err := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil).Connect(context.Background(), t, nil)
	check(err)
	return s
}

func bareEcho(s *sdk.ClientSession) {
	r, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: "echo", Arguments: json.RawMessage(echoInput)})
	check(err)
	if r.IsError {
		check(fmt.Errorf("the call failed: %v", r.Content))
	}
}

// compare times two functions, alternating, after some calls that are not counted.
func compare(n int, ours, theirs func()) (a, b []float64) {
	for i := range n + n/10 {
		began := time.Now()
		ours()
		x := micros(began)
		began = time.Now()
		theirs()
		if y := micros(began); i >= n/10 {
			a, b = append(a, x), append(b, y)
		}
	}
	return a, b
}

func callStdio(n int) {
	s := openService()
	defer s.close()
	s.add(mcp.Server{Name: "echo", Command: self(), Args: []string{"-role", "stdio"}})
	theirs := bare(&sdk.CommandTransport{Command: exec.Command(self(), "-role", "stdio")})
	defer theirs.Close()
	a, b := compare(n, s.echo, func() { bareEcho(theirs) })
	x, y := quantile(a, 0.5), quantile(b, 0.5)
	figures.Print("call.stdio.p50", x, "µs", x/y, peer)
	figures.Print("call.stdio.p50, more than 1.3 × the peer", x-1.3*y, "µs", 0, "")
	figures.Print("call.stdio.p99", quantile(a, 0.99), "µs", quantile(a, 0.99)/quantile(b, 0.99), peer)
}

func callHTTP(n int) {
	p := run("http")
	defer p.stop()
	s := openService()
	defer s.close()
	s.add(mcp.Server{Name: "echo", URL: p.ready.URL})
	theirs := bare(&sdk.StreamableClientTransport{Endpoint: p.ready.URL})
	defer theirs.Close()
	a, b := compare(n, s.echo, func() { bareEcho(theirs) })
	x, y := quantile(a, 0.5), quantile(b, 0.5)
	figures.Print("call.http.p50", x, "µs", x/y, peer)
	figures.Print("call.http.p50, more than 1.2 × the peer", x-1.2*y, "µs", 0, "")
}

// callAtOnce measures calls per second with 64 in flight.
func callAtOnce(n int) {
	s := openService()
	defer s.close()
	s.add(mcp.Server{Name: "echo", Command: self(), Args: []string{"-role", "stdio"}})
	theirs := bare(&sdk.CommandTransport{Command: exec.Command(self(), "-role", "stdio")})
	defer theirs.Close()
	rate := func(call func()) float64 {
		var left atomic.Int64
		left.Store(int64(n))
		var all sync.WaitGroup
		began := time.Now()
		for range 64 {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					call()
				}
			})
		}
		all.Wait()
		return float64(n) / time.Since(began).Seconds()
	}
	var a, b []float64
	for range 5 {
		a, b = append(a, rate(s.echo)), append(b, rate(func() { bareEcho(theirs) }))
	}
	x, y := quantile(a, 0.5), quantile(b, 0.5)
	figures.Print("call.64.rate", x, "calls/s", x/y, peer)
}

// list measures what it costs to validate, hash, compare and store 1,000 tools.
func list(n int) {
	s := openService()
	defer s.close()
	theirs := bare(&sdk.CommandTransport{Command: exec.Command(self(), "-role", "many")})
	defer theirs.Close()
	listAll := func() {
		for range theirs.Tools(context.Background(), nil) { //nolint:revive // reading is what is measured
		}
	}
	s.add(mcp.Server{Name: "many", Command: self(), Args: []string{"-role", "many"}})
	for _, c := range []struct{ name, before string }{
		{"list.1000.unchanged", ""},
		{"list.1000.changed", `UPDATE mcp_tools SET definition_hash = zeroblob(32)`},
		{"list.1000.new", `DELETE FROM mcp_tools`},
	} {
		var a, b []float64
		for range n {
			if c.before != "" {
				s.exec(c.before)
			}
			began := time.Now()
			s.list("many")
			a = append(a, micros(began)/1000)
			began = time.Now()
			listAll()
			b = append(b, micros(began)/1000)
		}
		x, y := quantile(a, 0.5), quantile(b, 0.5)
		figures.Print(c.name, x, "ms", x/y, peer)
		figures.Print(c.name+", added", x-y, "ms", 0, "")
	}
}

func serving(n int) {
	ours, theirs := run("serve"), run("http")
	defer ours.stop()
	defer theirs.stop()
	a, b := bare(&sdk.StreamableClientTransport{Endpoint: ours.ready.URL, HTTPClient: withToken(ours.ready.Token)}), bare(&sdk.StreamableClientTransport{Endpoint: theirs.ready.URL})
	defer a.Close()
	defer b.Close()
	x, y := compare(n, func() { bareEcho(a) }, func() { bareEcho(b) })
	figures.Print("serve.p50", quantile(x, 0.5), "µs", quantile(x, 0.5)/quantile(y, 0.5), "go-sdk, server with an empty handler")
}

// start measures the time until the reference server can be called.
func start(n int) {
	path := ""
	for _, dir := range []string{"../mcp", "build/mcp"} {
		if p := filepath.Join(dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"); path == "" {
			if _, err := os.Stat(p); err == nil {
				path = p
			}
		}
	}
	if path == "" {
		check(fmt.Errorf("run make setup-npm first"))
	}
	path, err := filepath.Abs(path)
	check(err)
	s := openService()
	defer s.close()
	s.add(mcp.Server{Name: "everything", Command: "node", Args: []string{path, "stdio"}})
	var a, b []float64
	for range n {
		_, err := s.Stop(s.ctx, mcp.NameParams{Name: "everything"})
		check(err)
		began := time.Now()
		_, err = s.Start(s.ctx, mcp.NameParams{Name: "everything"})
		check(err)
		a = append(a, micros(began)/1000)
		cmd := exec.Command("node", path, "stdio")
		began = time.Now()
		session := bare(&sdk.CommandTransport{Command: cmd})
		b = append(b, micros(began)/1000)
		_ = session.Close() // it reports how the program ended
	}
	x, y := quantile(a, 0.5), quantile(b, 0.5)
	figures.Print("start.ready", x, "ms", x/y, peer)
}

func idleCost(int) {
	p := run("idle")
	defer p.stop()
	figures.Print("idle.connection", p.ready.Connection/(1<<20), "MiB", 0, "")
	figures.Print("stopped.32", p.ready.Stopped/(1<<20), "MiB", 0, "")
	figures.Print("stopped.32.processes", float64(p.ready.Processes), "processes", 0, "")
}

// ready is the first line of a process.
type ready struct {
	URL, Token          string
	Connection, Stopped float64 // bytes
	Processes           int
}

// program is this program in a role, which serves until its input ends.
type program struct {
	cmd   *exec.Cmd
	in    interface{ Close() error }
	ready ready
}

func run(role string) *program {
	p := &program{cmd: exec.Command(self(), "-role", role)}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	check(err)
	out, err := p.cmd.StdoutPipe()
	check(err)
	check(p.cmd.Start())
	line, err := bufio.NewReader(out).ReadBytes('\n')
	check(err)
	check(json.Unmarshal(line, &p.ready))
	p.in = in
	return p
}

func (p *program) stop() {
	check(p.in.Close())
	check(p.cmd.Wait())
}
