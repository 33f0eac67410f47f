package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"helixbench/figures"

	"helix/backend/bus"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/storage"
)

const token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// EchoParams is about 200 bytes in this benchmark.
type EchoParams struct {
	Text string `json:"text"`
}

// BurstParams request n events.
type BurstParams struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// Tick is one event.
type Tick struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

func echo(_ context.Context, p EchoParams) (EchoParams, error) { return p, nil }

func newServer() *gateway.Server {
	a := gateway.NewAPI()
	b := bus.New()
	doc, _ := os.ReadFile(filepath.Join("..", "..", "backend", "openrpc.json.gz")) //nolint:errcheck // otherwise the small table's own document
	user := storage.NewID()
	s := gateway.New(a, gateway.Options{Addr: "127.0.0.1:0", Bus: b, RootToken: token, OpenRPC: doc, User: func() gateway.User { return gateway.User{ID: user} },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Limits: gateway.Limits{SessionsPerUser: 2000}})
	big := strings.Repeat("x", 1<<20)
	gateway.Handle(a, "connect", gateway.None, s.Connect)
	gateway.Handle(a, "echo", gateway.Read, echo)
	gateway.Handle(a, "big", gateway.Read, func(context.Context, struct{}) (EchoParams, error) { return EchoParams{big}, nil })
	gateway.Handle(a, "burst", gateway.Read, func(ctx context.Context, p BurstParams) (BurstParams, error) {
		for i := range p.N {
			bus.Publish(b, identity.UserID(ctx), Tick{i, p.Text})
		}
		return p, nil
	})
	gateway.Handle(a, "memory", gateway.Read, func(ctx context.Context, _ struct{}) (gateway.MemoryUse, error) {
		debug.FreeOSMemory()
		st, err := s.SystemStatus(ctx, struct{}{})
		return st.Memory, err
	})
	gateway.Handle(a, "rpc.discover", gateway.Read, s.Discover)
	gateway.Handle(a, "events.subscribe", gateway.Read, s.Subscribe)
	gateway.Handle(a, "events.resume", gateway.Read, s.Resume)
	gateway.Forward[Tick](a, "tick.tock")
	return s
}

// profiled writes a CPU profile to file until stop is called; without a file it does nothing.
func profiled(file, end string) (stop func()) {
	if file == "" {
		return func() {}
	}
	f, err := os.Create(file + end)
	figures.Check(err)
	figures.Check(pprof.StartCPUProfile(f))
	return func() {
		pprof.StopCPUProfile()
		figures.Check(f.Close())
	}
}

// serve prints its address and runs until its input ends.
func serve(profile string) {
	defer profiled(profile, ".serve")()
	s := newServer()
	ctx, cancel := context.WithCancel(context.Background())
	figures.Check(s.Listen(ctx))
	fmt.Println(s.URL())
	go func() {
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // only its end matters
		cancel()
	}()
	figures.Check(s.Run(ctx))
}

func dial(url string) *gateway.Client {
	c, err := gateway.Dial(context.Background(), gateway.ClientOptions{URL: url, Token: token, Scopes: []string{"read"}})
	figures.Check(err)
	return c
}

func print(m map[string]float64) {
	b, err := json.Marshal(m)
	figures.Check(err)
	fmt.Println(string(b))
}

func client(args []string) {
	url, what := args[0], args[1]
	ctx := context.Background()
	switch what {
	case "echo":
		c := dial(url)
		p := EchoParams{strings.Repeat("y", 188)}
		print(load(args[2], func() {
			var r EchoParams
			figures.Check(c.Call(ctx, "echo", p, &r))
		}))
		c.Close()
	case "one", "discover", "big":
		c := dial(url)
		n, err := strconv.Atoi(args[2])
		figures.Check(err)
		took := make([]float64, 0, n)
		var bytes float64
		for range n {
			began := time.Now()
			switch what {
			case "one":
				var r EchoParams
				figures.Check(c.Call(ctx, "echo", EchoParams{strings.Repeat("y", 188)}, &r))
			case "big":
				var r EchoParams
				figures.Check(c.Call(ctx, "big", nil, &r))
				if len(r.Text) != 1<<20 {
					figures.Check(fmt.Errorf("short"))
				}
			default:
				var r json.RawMessage
				figures.Check(c.Call(ctx, "rpc.discover", nil, &r))
				bytes = float64(len(r))
			}
			took = append(took, float64(time.Since(began).Nanoseconds())/1000)
		}
		print(map[string]float64{"median": median(took), "bytes": bytes})
		c.Close()
	case "idle":
		idle(url, args[2])
	case "events":
		events(url, args[2], args[3])
	}
}

// load keeps 64 calls in flight for the given number of seconds.
func load(seconds string, call func()) map[string]float64 {
	s, err := strconv.ParseFloat(seconds, 64)
	figures.Check(err)
	until := time.Now().Add(time.Duration(s * float64(time.Second)))
	var mu sync.Mutex
	var all []float64
	var wg sync.WaitGroup
	began := time.Now()
	for range 64 {
		wg.Go(func() {
			var took []float64
			for time.Now().Before(until) {
				t := time.Now()
				call()
				took = append(took, float64(time.Since(t).Nanoseconds())/1000)
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	wg.Wait()
	spent := time.Since(began).Seconds()
	slices.Sort(all)
	return map[string]float64{"calls": float64(len(all)) / spent, "p99": all[len(all)*99/100], "median": all[len(all)/2]}
}

const bursts = 5

func events(url, subscribers, count string) {
	n, err := strconv.Atoi(subscribers)
	figures.Check(err)
	k, err := strconv.Atoi(count)
	figures.Check(err)
	var got atomic.Int64
	all := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var clients []*gateway.Client
	for range n {
		c := dial(url)
		clients = append(clients, c)
		before := c.Hello().Seq
		go c.Follow(ctx, []string{"tick.tock"}, int64(before), func(gateway.Event) { //nolint:errcheck // ends with ctx
			if got.Add(1)%int64(n*k) == 0 {
				all <- struct{}{}
			}
		}, func() { figures.Check(fmt.Errorf("gap")) })
	}
	for _, c := range clients { // its answer comes after that of events.resume
		figures.Check(c.Call(ctx, "echo", EchoParams{"x"}, nil))
	}
	began := time.Now()
	for range bursts { // several, because one is so short that noise would dominate
		figures.Check(clients[0].Call(ctx, "burst", BurstParams{k, strings.Repeat("y", 188)}, nil))
		<-all
	}
	print(map[string]float64{"delivered": float64(bursts*n*k) / time.Since(began).Seconds()})
	cancel()
	for _, c := range clients {
		c.Close()
	}
}

func idle(url, count string) {
	n, err := strconv.Atoi(count)
	figures.Check(err)
	c := dial(url)
	use := func() (rss, heap float64) {
		var m gateway.MemoryUse
		figures.Check(c.Call(context.Background(), "memory", nil, &m))
		return float64(m.RSSBytes), float64(m.HeapBytes)
	}
	use()
	out := map[string]float64{}
	out["before"], out["heapBefore"] = use()
	var all []*gateway.Client
	for range n {
		all = append(all, dial(url))
	}
	out["during"], out["heapDuring"] = use()
	for _, x := range all {
		x.Close()
	}
	time.Sleep(time.Second) // the server sees the closes
	use()
	out["after"], out["heapAfter"] = use()
	print(out)
	c.Close()
}

// layerCost returns the median microseconds of the function alone and of a call over a pipe in
// memory.
func layerCost() (direct, memory float64) {
	s := newServer()
	server, mine := gateway.MemoryPipe()
	go s.Serve(context.Background(), server, identity.Identity{User: storage.NewID(), Scopes: gateway.Read, Client: identity.ClientTerminal}) //nolint:errcheck // ends with the process
	c, err := gateway.DialOver(context.Background(), mine, gateway.ClientOptions{})
	figures.Check(err)
	p := EchoParams{strings.Repeat("y", 188)}
	ctx := context.Background()
	const n = 50_000
	took := make([]float64, 0, n)
	for range n {
		began := time.Now()
		r, _ := echo(ctx, p) //nolint:errcheck // never fails
		runtime.KeepAlive(r)
		took = append(took, float64(time.Since(began).Nanoseconds())/1000)
	}
	direct = median(took)
	took = took[:0]
	for range n {
		var r EchoParams
		began := time.Now()
		figures.Check(c.Call(ctx, "echo", p, &r))
		took = append(took, float64(time.Since(began).Nanoseconds())/1000)
	}
	return direct, median(took)
}
