// Command memory measures memory.search end to end through RPC, with the embedding of the
// query, in one run with its peer: FTS5 and sqlite-vec over the same texts and vectors, fused
// the same way. Eight clients query concurrently, half of them with filters, and again while an
// import runs. Before that it adds memories one by one, which must not become slower as their
// number grows. It prints one line per measurement: name, value, unit, ratio to the peer, peer,
// separated by tabs.
//
// The texts are turns of LoCoMo with some of their words replaced, the vectors are embeddings of
// those turns mixed in pairs with seeded noise; both use fixed seeds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/embed"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
	"helixbench/figures"
)

var (
	dataDir = flag.String("data", "../../../shared/data", "`folder` with locomo")
	sizes   = flag.String("n", "10000,100000", "numbers of items")
	runs    = flag.Int("runs", 5, "runs of which the median is taken")
	queries = flag.Int("queries", 160, "queries of one run")
	clients = flag.Int("clients", 8, "clients that ask at once")
	sigma   = flag.Float64("sigma", 0.3, "length of the noise relative to that of a vector")
	peers   = flag.Bool("peers", true, "run the peer")
	answers = flag.String("answers", "", "write what the first run finds to this `file`, to compare two builds")
	profile = flag.String("cpuprofile", "", "write a CPU profile of the queries to this `file`")

	adds        = flag.Int("adds", 50000, "memories that are added one by one; 0: none")
	addsProfile = flag.String("adds-cpuprofile", "", "write a CPU profile of the adds to this `file`")
)

const token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func main() {
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	model, err := embed.Open()
	figures.Check(err)
	c := readCorpus(*dataDir, model, *sigma)
	figures.Print("memory.sigma", *sigma, "of length", 0, "")
	if *adds >= addsWindow {
		measureAdds(c, *adds)
	}
	for _, s := range strings.FieldsFunc(*sizes, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(s)
		figures.Check(err)
		measure(c, n)
	}
}

// measure runs all measurements at one size, in a temporary folder.
func measure(c *corpus, n int) {
	dir, err := os.MkdirTemp("", "helix-bench-memory-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	s := openService(c, dir)
	defer s.close()
	start := time.Now()
	s.load(c, n, 1)
	took := time.Since(start).Seconds()
	start = time.Now()
	figures.Check(s.mem.EmbedPending(s.ctx))
	label := fmt.Sprintf("%dk", n/1000)
	figures.Print("memory.import."+label, float64(n)/took, "turns/s", 0, "")
	figures.Print("memory.vectors."+label, float64(n)/time.Since(start).Seconds(), "stored/s", 0, "")

	var p *peer
	if *peers {
		p = openPeer(c, n, filepath.Join(dir, "peer.db"))
		defer p.close()
	}
	var own, busy, theirs []float64
	if *answers != "" {
		s.writeAnswers(c, *answers+"-"+label)
	}
	s.run(c, 0) // now the lists of common words and the pages of the files are cached
	stopProfile := profileTo(*profile)
	var cpu []float64
	for i := range *runs {
		before := cpuTime()
		own = append(own, s.run(c, i)...)
		cpu = append(cpu, (cpuTime()-before)/float64(*queries))
		if p != nil {
			theirs = append(theirs, p.run(c, i)...)
		}
	}
	stopProfile()
	stop := s.importing(c)
	for i := range *runs {
		busy = append(busy, s.run(c, i)...)
	}
	stop()
	figures.Print("memory.search.cpu."+label, quantile(cpu, 0.5), "ms CPU", 0, "")
	for _, q := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p95", 0.95}} {
		ratio, who := 0.0, ""
		if p != nil {
			ratio, who = quantile(theirs, q.share)/quantile(own, q.share), "fts5+sqlite-vec"
			figures.Print("memory.peer."+label+"."+q.name, quantile(theirs, q.share), "ms", 0, who)
		}
		figures.Print("memory.search."+label+"."+q.name, quantile(own, q.share), "ms", ratio, who)
		figures.Print("memory.search.importing."+label+"."+q.name, quantile(busy, q.share), "ms", 0, "")
	}
}

// profileTo writes a CPU profile to path until the returned function is called; with "" it does
// nothing.
func profileTo(path string) (stop func()) {
	if path == "" {
		return func() {}
	}
	f, err := os.Create(path)
	figures.Check(err)
	figures.Check(pprof.StartCPUProfile(f))
	return func() {
		pprof.StopCPUProfile()
		figures.Check(f.Close())
	}
}

// cpuTime returns the CPU time of the process, clients and server together, in milliseconds.
func cpuTime() float64 {
	var r syscall.Rusage
	figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e6
}

func quantile(xs []float64, share float64) float64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs[min(int(share*float64(len(xs))), len(xs)-1)]
}

// service is the memory behind a gateway, with clients.
type service struct {
	dir  string
	db   *storage.DB
	mem  *memory.Service
	ctx  context.Context
	end  context.CancelFunc
	done chan error
	api  []*gateway.Client
}

func openService(c *corpus, dir string) *service {
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db")})
	figures.Check(err)
	s := &service{dir: dir, db: db, done: make(chan error, 1)}
	s.mem = memory.New(db, memory.Options{Embedder: c, VectorDir: filepath.Join(dir, "vectors"), TempDir: dir})
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	s.ctx = identity.With(ctx, identity.Identity{User: db.LocalUser().ID, Session: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal, Label: "bench", Pipe: "memory"})
	a := gateway.NewAPI()
	g := gateway.New(a, gateway.Options{Addr: "127.0.0.1:0", Bus: db.Bus(), RootToken: token, User: func() gateway.User { return gateway.User{ID: db.LocalUser().ID} }})
	gateway.Handle(a, "connect", gateway.None, g.Connect)
	gateway.Handle(a, "memory.search", gateway.Read, s.mem.Search)
	figures.Check(g.Listen(ctx))
	go func() { s.done <- g.Run(ctx) }()
	for range *clients {
		cl, err := gateway.Dial(ctx, gateway.ClientOptions{URL: g.URL(), Token: token, Scopes: []string{"read"}})
		figures.Check(err)
		s.api = append(s.api, cl)
	}
	return s
}

func (s *service) close() {
	for _, c := range s.api {
		_ = c.Close()
	}
	s.end()
	<-s.done
	figures.Check(errors.Join(s.mem.Close(), s.db.Close()))
}

// load imports n turns.
func (s *service) load(c *corpus, n int, seed uint64) {
	path := filepath.Join(s.dir, fmt.Sprintf("import-%d", seed))
	figures.Check(os.MkdirAll(path, 0o700))
	c.write(path, n, seed)
	done := make(chan memory.ImportDone, 1)
	cancel := bus.Subscribe(s.db.Bus(), func(_ uuid.UUID, e memory.ImportDone) { done <- e })
	defer cancel()
	files, err := filepath.Glob(filepath.Join(path, "*.json"))
	figures.Check(err)
	for _, f := range files {
		_, err := s.mem.Import(s.ctx, memory.ImportParams{Path: f, Format: "locomo"})
		figures.Check(err)
		if e := <-done; e.Status != "completed" {
			figures.Check(errors.New("the import has " + e.Status + ": " + e.Message))
		}
	}
}

// importing imports and embeds until the returned function is called.
func (s *service) importing(c *corpus) (stop func()) {
	var wg sync.WaitGroup
	quit := make(chan struct{})
	wg.Go(func() {
		for seed := uint64(2); ; seed++ {
			select {
			case <-quit:
				return
			default:
			}
			s.load(c, 1000, seed)
			figures.Check(s.mem.EmbedPending(s.ctx))
		}
	})
	return func() { close(quit); wg.Wait() }
}

// ask sends the i-th query; every second one has filters.
func (s *service) ask(c *corpus, client, i int, into any) {
	p := map[string]any{"query": c.question(i)}
	if i%2 == 1 {
		p["filters"] = map[string]any{"from": "2021-01-01T00:00:00Z", "to": "2023-07-01T00:00:00Z", "kinds": []string{"turn"}}
	}
	figures.Check(s.api[client].Call(s.ctx, "memory.search", p, into))
}

// writeAnswers writes the results, without what differs from store to store.
func (s *service) writeAnswers(c *corpus, path string) {
	var out strings.Builder
	for i := range *queries {
		var r struct {
			Results []struct {
				Snippet string          `json:"snippet"`
				Score   json.RawMessage `json:"score"`
				Title   string          `json:"sourceRef"`
				Marks   json.RawMessage `json:"highlights"`
			} `json:"results"`
		}
		s.ask(c, 0, i, &r)
		for _, h := range r.Results {
			fmt.Fprintf(&out, "%d\t%s\t%s\t%s\t%q\n", i, h.Score, h.Title, h.Marks, h.Snippet)
		}
	}
	figures.Check(os.WriteFile(path, []byte(out.String()), 0o600))
}

// run sends queries from all clients concurrently and returns the duration of each in milliseconds.
func (s *service) run(c *corpus, round int) []float64 {
	return concurrently(func(client, i int) {
		var r struct {
			Results  []json.RawMessage `json:"results"`
			Degraded string            `json:"degraded"`
		}
		s.ask(c, client, round*(*queries)+i, &r)
		if len(r.Results) == 0 {
			figures.Check(errors.New("nothing was found"))
		}
	})
}

func concurrently(ask func(client, i int)) []float64 {
	took := make([]float64, *queries)
	var wg sync.WaitGroup
	for client := range *clients {
		wg.Go(func() {
			for i := client; i < *queries; i += *clients {
				start := time.Now()
				ask(client, i)
				took[i] = float64(time.Since(start).Microseconds()) / 1000
			}
		})
	}
	wg.Wait()
	return took
}
