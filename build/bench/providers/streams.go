package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"helix/backend/providers"
	"helix/backend/safehttp"
	"helixbench/figures"
)

// free is a Meter without a limit.
type free struct{}

// Reserve implements providers.Meter.
func (free) Reserve(context.Context, providers.Estimate) (providers.Hold, error) { return free{}, nil }

// Settle implements providers.Hold.
func (free) Settle(providers.Usage, providers.Micros, string) {}

// emulate serves models in a separate process, as services do, and prints its address. /sent returns
// the body of the last request. The model "m" answers with one word; "N/T" sends N deltas, one every
// T microseconds, and each delta is the time at which it is sent.
func emulate() {
	var body atomic.Pointer[[]byte]
	mux := http.NewServeMux()
	mux.HandleFunc("/sent", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(*body.Load()) })
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		figures.Check(err)
		var q struct{ Model string }
		figures.Check(json.Unmarshal(b, &q))
		body.Store(&b)
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w).Flush
		delta := func(text string) {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"}}]}\n\n", text)
			_ = flush() // the client may disconnect
		}
		var n, micros int
		if _, err := fmt.Sscanf(q.Model, "%d/%d", &n, &micros); err != nil {
			delta("Hello")
		}
		next := time.Now()
		for range n {
			next = next.Add(time.Duration(micros) * time.Microsecond)
			time.Sleep(time.Until(next))
			delta(strconv.FormatInt(time.Now().UnixNano(), 10))
		}
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"total_tokens\":10}}\n\ndata: [DONE]\n\n")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	figures.Check(err)
	fmt.Println("http://" + l.Addr().String())
	figures.Check(http.Serve(l, mux))
}

// service is the emulator with a router that calls it.
type service struct {
	address string
	router  *providers.Router
	stop    func()
}

func newService() *service {
	self, err := os.Executable()
	figures.Check(err)
	emulator := exec.Command(self, "emulate")
	out, err := emulator.StdoutPipe()
	figures.Check(err)
	figures.Check(emulator.Start())
	address, err := bufio.NewReader(out).ReadString('\n')
	figures.Check(err)
	s := &service{address: strings.TrimSpace(address)}
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRedirects: -1})
	s.router = open(client, s.address)
	s.stop = func() {
		client.Close()
		_ = emulator.Process.Kill()
		_ = emulator.Wait()
	}
	return s
}

func open(client *safehttp.Client, address string) *providers.Router {
	router, err := providers.Open(providers.Options{
		Config: func(context.Context) (map[string]providers.Entry, map[providers.Role]providers.RoleConfig, error) {
			return map[string]providers.Entry{"p": {Type: providers.WireChat, BaseURL: address, MaxConcurrent: 256}}, nil, nil
		},
		Key:  func(context.Context, string, providers.Entry) (string, string, error) { return "", "", nil },
		HTTP: client, Meter: free{},
	})
	figures.Check(err)
	return router
}

// ask streams a model's answer and calls fn with each text.
func (s *service) ask(model string, fn func(text string)) {
	q := providers.Request{Model: providers.ModelRef("p/" + model), Messages: []providers.Message{{Role: providers.User, Parts: []providers.Part{providers.TextPart(strings.Repeat("A question. ", 100))}}}}
	for e, err := range s.router.Stream(context.Background(), q) {
		figures.Check(err)
		if e.Type == providers.EventText {
			fn(e.Delta)
		}
	}
}

// sent returns the body of the last request.
func (s *service) sent() []byte {
	last, err := http.Get(s.address + "/sent")
	figures.Check(err)
	defer last.Body.Close()
	body, err := io.ReadAll(last.Body)
	figures.Check(err)
	return body
}

// raw sends a body as a plain, cancelable HTTP client would, with the headers that Helix sends, and
// calls fn with each line of data.
func (s *service) raw(body []byte, fn func(line string)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address+"/v1/chat/completions", bytes.NewReader(body))
	figures.Check(err)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "text/event-stream, application/json")
	q.Header.Set("User-Agent", "Helix")
	r, err := http.DefaultClient.Do(q)
	figures.Check(err)
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			fn(data)
		}
		if err != nil {
			return
		}
	}
}

// firstToken measures the time from a request to its first text, alternating with the time of a plain
// client to the first line of data of the same answer. Both start from the conversation as a value
// and encode its body, because no caller has an encoded body ready.
func firstToken() {
	const rounds = 5000
	s := newService()
	defer s.stop()
	first := func(ask func(func(string))) float64 {
		began, took := time.Now(), time.Duration(0)
		ask(func(string) {
			if took == 0 {
				took = time.Since(began)
			}
		})
		return float64(took.Nanoseconds()) / 1000
	}
	ours := func(fn func(string)) { s.ask("m", fn) }
	first(ours)
	var request struct {
		Model    string `json:"model"`
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
		Stream        bool            `json:"stream"`
		StreamOptions map[string]bool `json:"stream_options,omitempty"`
	}
	figures.Check(json.Unmarshal(s.sent(), &request))
	theirs := func(fn func(string)) {
		body, err := json.Marshal(request)
		figures.Check(err)
		s.raw(body, fn)
	}
	first(theirs)
	var mine, peer []float64
	for range rounds {
		mine, peer = append(mine, first(ours)), append(peer, first(theirs))
	}
	slices.Sort(mine)
	slices.Sort(peer)
	for _, p := range []struct {
		name string
		at   int
	}{{"p50", rounds / 2}, {"p99", rounds * 99 / 100}} {
		figures.Print("ttft."+p.name, mine[p.at], "µs", mine[p.at]/peer[p.at], "net/http")
		figures.Print("ttft.overhead."+p.name, mine[p.at]-peer[p.at], "µs more", 0, "net/http")
	}
}

// deltas measures the time from the flush of a delta to its event, and to its line in a plain client.
// Both processes run on this computer and share one clock. They read at the same time, so that other
// load delays both; if they alternated, the slowest hundredth would show which was interrupted.
func deltas() {
	const streams, each = 40, 200
	s := newService()
	defer s.stop()
	model := fmt.Sprintf("%d/1000", each)
	var mine, peer []float64
	late := func(to *[]float64, sent string) {
		at, err := strconv.ParseInt(sent, 10, 64)
		figures.Check(err)
		*to = append(*to, float64(time.Now().UnixNano()-at)/1000)
	}
	s.ask(model, func(string) {})
	body := s.sent()
	for range streams {
		var both sync.WaitGroup
		both.Go(func() { s.ask(model, func(text string) { late(&mine, text) }) })
		both.Go(func() {
			s.raw(body, func(line string) {
				if _, text, ok := strings.Cut(line, `"content":"`); ok {
					text, _, _ = strings.Cut(text, `"`)
					late(&peer, text)
				}
			})
		})
		both.Wait()
	}
	if len(mine) != streams*each || len(peer) != streams*each {
		figures.Check(fmt.Errorf("%d and %d deltas of %d", len(mine), len(peer), streams*each))
	}
	slices.Sort(mine)
	slices.Sort(peer)
	for _, p := range []struct {
		name string
		at   int
	}{{"p50", streams * each / 2}, {"p99", streams * each * 99 / 100}} {
		figures.Print("delta.latency."+p.name, mine[p.at], "µs", mine[p.at]/peer[p.at], "net/http")
	}
}

// manyStreams measures the processor time of 256 streams of 100 deltas a second each, in this process
// and in a Node process with the openai package, and the memory of an open stream.
func manyStreams() {
	const streams, each = 256, 300
	s := newService()
	defer s.stop()
	model := fmt.Sprintf("%d/10000", each)
	run := func(n int, model string, middle func()) (deltas int64) {
		var group sync.WaitGroup
		var count atomic.Int64
		for range n {
			group.Go(func() { s.ask(model, func(string) { count.Add(1) }) })
		}
		if middle != nil {
			for count.Load() < int64(n) {
				time.Sleep(10 * time.Millisecond)
			}
			middle()
		}
		group.Wait()
		return count.Load()
	}
	run(64, "50/10000", nil)
	memory := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m
	}
	before, held := memory(), 0.0
	run(streams, model, func() {
		m := memory()
		held = float64(m.HeapAlloc+m.StackInuse) - float64(before.HeapAlloc+before.StackInuse)
	})
	figures.Print("stream.memory", held/streams/1024, "KiB", 0, "")
	var mine, peer []float64
	for range 3 {
		began := cpu()
		if n := run(streams, model, nil); n != streams*each {
			figures.Check(fmt.Errorf("%d deltas", n))
		}
		mine = append(mine, (cpu()-began)/1000)
		c := exec.Command("node", "providers/streams.mjs", s.address+"/v1", model, strconv.Itoa(streams))
		c.Stderr = os.Stderr
		out, err := c.Output()
		figures.Check(err)
		var theirs struct {
			Deltas int
			Ms     float64
		}
		figures.Check(json.Unmarshal(out, &theirs))
		if theirs.Deltas != streams*each {
			figures.Check(fmt.Errorf("openai got %d deltas", theirs.Deltas))
		}
		peer = append(peer, theirs.Ms)
	}
	slices.Sort(mine)
	slices.Sort(peer)
	figures.Print("streams.256", mine[1], "ms of processor", mine[1]/peer[1], "openai on Node")
}

// leftovers runs 10,000 streams, abandons every third in the middle, and counts the goroutines and
// connections left when the client is closed.
func leftovers() {
	const streams, atOnce = 10_000, 64
	s := newService()
	before, sockets := runtime.NumGoroutine(), openSockets()
	var group sync.WaitGroup
	var left atomic.Int64
	for range atOnce {
		group.Go(func() {
			for n := left.Add(1); n <= streams; n = left.Add(1) {
				q := providers.Request{Model: "p/3/0", Messages: []providers.Message{{Role: providers.User, Parts: []providers.Part{providers.TextPart("A question.")}}}}
				for e, err := range s.router.Stream(context.Background(), q) {
					figures.Check(err)
					if e.Type == providers.EventText && n%3 == 0 {
						break
					}
				}
			}
		})
	}
	group.Wait()
	s.stop()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) && (runtime.NumGoroutine() > before || openSockets() > sockets) {
		time.Sleep(10 * time.Millisecond)
	}
	figures.Print("streams.10000.goroutines", float64(max(runtime.NumGoroutine()-before, 0)), "left", 0, "")
	figures.Print("streams.10000.connections", float64(max(openSockets()-sockets, 0)), "left", 0, "")
}

// openSockets counts the sockets of this process.
func openSockets() (n int) {
	list, err := os.ReadDir("/proc/self/fd")
	figures.Check(err)
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// start measures the time that a router adds to the start, the time to load its catalog, which is
// read on first use, and the memory that both keep.
func start() {
	client := safehttp.New(safehttp.Options{})
	defer client.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	router := open(client, "https://api.example")
	opened := time.Since(began)
	began = time.Now()
	_, err := router.Complete(context.Background(), providers.Request{Model: "p/none"}) // this reads the catalog
	took := time.Since(began)
	if err == nil {
		figures.Check(errors.New("a model answered that nobody has"))
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	figures.Print("start", float64(opened.Microseconds())/1000, "ms", 0, "")
	figures.Print("catalog.first", float64(took.Microseconds())/1000, "ms", 0, "")
	figures.Print("idle.memory", (float64(after.HeapAlloc)-float64(before.HeapAlloc))/(1<<20), "MiB", 0, "")
	runtime.KeepAlive(router)
}
