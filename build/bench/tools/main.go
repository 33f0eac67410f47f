// Command tools measures backend/tools against its peers in one run: a node server that runs
// the same code in a fresh vm context for each request, node -e, ajv, the esbuild command,
// sqlite3, and jq with openssl. It prints one line per measurement: name, value, unit, ratio to the
// peer, peer, separated by tabs. -only runs the measurements whose name contains a text, -rows sets
// the number of runs in the big history.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/tools"
	"helix/backend/wasmtools"
	"helixbench/figures"
)

const (
	token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	// code is what tool and peer run: JSON in, JSON out.
	code = `const items = params.items.map((x) => ({ ...x, total: x.price * x.count }));
return { items, sum: items.reduce((a, x) => a + x.total, 0), count: items.length };`
	// loop does an adjustable amount of work; busy adjusts it.
	loop = `let a = 0; for (let i = 0; i < %d; i++) a = (a * 31 + i) %% 1000003; return a;`
)

// busy returns a tool that takes a millisecond in the sandbox on this machine: it derives the time
// of one iteration from the smallest CPU time of a few runs with and without many iterations.
func (b *bench) busy() string {
	least := func(turns int) float64 {
		id := b.tool(fmt.Sprintf("Turns %d", turns), fmt.Sprintf(loop, turns))
		var all []float64
		for range 15 {
			r, err := b.svc.Execute(b.ctx, tools.ExecuteParams{ToolID: &id})
			figures.Check(err)
			all = append(all, r.CPUTimeMs)
		}
		return slices.Min(all)
	}
	const few, many = 1, 5000
	base := least(few)
	turns := max(few, (1-base)*(many-few)/(least(many)-base))
	return fmt.Sprintf(loop, int(turns))
}

func params() json.RawMessage {
	var list []map[string]any
	for i := range 20 {
		list = append(list, map[string]any{"name": fmt.Sprintf("item %d", i), "price": float64(i) * 1.5, "count": i})
	}
	b, err := json.Marshal(map[string]any{"items": list})
	figures.Check(err)
	return b
}

type bench struct {
	dir   string
	rows  int
	key   []byte
	db    *storage.DB
	audit *audit.Service
	svc   *tools.Service
	box   *sandbox.Engine
	ctx   context.Context
	stop  func() // ends the background work of box
}

func main() {
	only := flag.String("only", "", "run the measures whose name contains this")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the measures to this `file`")
	rows := flag.Int("rows", 1_000_000, "runs in the big history")
	first := flag.String("first", "", "internal: run the tool of this folder once")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if *first != "" {
		runFirst(*first)
		return
	}
	dir, err := os.MkdirTemp("", "helix-bench-tools-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, rows: *rows}
	b.open(dir)
	if *profile != "" {
		f, err := os.Create(*profile)
		figures.Check(err)
		figures.Check(pprof.StartCPUProfile(f))
		defer func() { pprof.StopCPUProfile(); figures.Check(f.Close()) }()
	}
	for _, m := range []struct {
		name string
		fn   func(*bench)
	}{
		{"execute", (*bench).execute}, {"first", (*bench).first}, {"throughput", (*bench).throughput}, {"static", (*bench).static},
		{"import", (*bench).imports}, {"list", (*bench).list}, {"usage", (*bench).usage},
	} {
		if strings.Contains(m.name, *only) {
			m.fn(b)
		}
	}
	b.close()
}

// open creates or opens everything that a tool needs in dir.
func (b *bench) open(dir string) {
	keyFile := filepath.Join(dir, "key")
	key, err := os.ReadFile(keyFile)
	if err != nil {
		key = storagetest.NewRoot().Key
		figures.Check(os.WriteFile(keyFile, key, 0o600))
	}
	b.db, err = storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(&storagetest.Root{Key: key})})
	figures.Check(err)
	b.audit = audit.New(b.db, audit.Options{})
	perm := permission.New(b.db, b.db.Bus(), permission.Options{Audit: b.audit})
	cache := filepath.Join(dir, "cache")
	figures.Check(os.MkdirAll(cache, 0o700))
	b.box, err = sandbox.Open(context.Background(), sandbox.Options{CacheDir: cache})
	figures.Check(err)
	life, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.box.Run(life) }() // as the program does
	b.stop = func() { cancel(); figures.Check(<-ended) }
	b.svc = tools.New(b.db, perm, b.audit, b.box, wasmtools.New(b.db, perm, b.box, ""), tools.Options{StateDir: filepath.Join(dir, "state"), Parallel: 16, MaxTools: 20_000})
	b.ctx = identity.With(context.Background(), identity.Identity{User: b.db.LocalUser().ID, Session: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal, Pipe: "memory"})
}

func (b *bench) close() {
	figures.Check(b.svc.Close())
	b.stop()
	figures.Check(b.box.Close())
	figures.Check(b.db.Close())
}

func (b *bench) tool(name, text string) uuid.UUID {
	r, err := b.svc.Create(b.ctx, tools.CreateParams{Name: name, Code: text})
	figures.Check(err)
	return r.Tool.ID
}

// serve opens a real WebSocket to the service.
func (b *bench) serve() (url string, stop func()) {
	a := gateway.NewAPI()
	s := gateway.New(a, gateway.Options{
		Addr: "127.0.0.1:0", Bus: b.db.Bus(), RootToken: token, User: func() gateway.User { return gateway.User{ID: b.db.LocalUser().ID} },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Limits: gateway.Limits{CostlyRate: 1e9, CostlyBurst: 1e9, WriteRate: 1e9, WriteBurst: 1e9},
	})
	gateway.Handle(a, "connect", gateway.None, s.Connect)
	gateway.Handle(a, "tools.execute_custom", gateway.Write, b.svc.Execute, gateway.Costly())
	ctx, cancel := context.WithCancel(context.Background())
	figures.Check(s.Listen(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	return s.URL(), func() { cancel(); <-done }
}

func dial(url string) *gateway.Client {
	c, err := gateway.Dial(context.Background(), gateway.ClientOptions{URL: url, Token: token, Scopes: []string{"read", "write"}})
	figures.Check(err)
	return c
}

// node starts the peer server and returns its address.
func node(processes int) (url string, stop func()) {
	cmd := exec.Command("node", "tools/server.mjs", strconv.Itoa(processes))
	in, err := cmd.StdinPipe()
	figures.Check(err)
	out, err := cmd.StdoutPipe()
	figures.Check(err)
	figures.Check(cmd.Start())
	var port int
	_, err = fmt.Fscan(out, &port)
	figures.Check(err)
	return fmt.Sprintf("http://127.0.0.1:%d/", port), func() { in.Close(); _ = cmd.Wait() }
}

func post(c *http.Client, url string, body []byte) {
	r, err := c.Post(url, "application/json", bytes.NewReader(body))
	figures.Check(err)
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	figures.Check(err)
	if !bytes.Contains(raw, []byte(`"success":true`)) {
		figures.Check(fmt.Errorf("peer: %s", raw))
	}
}

// nodeCPU returns the CPU time that the peer has used, in milliseconds.
func nodeCPU(c *http.Client, url string) float64 {
	r, err := c.Get(url)
	figures.Check(err)
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	figures.Check(err)
	us, err := strconv.ParseFloat(string(raw), 64)
	figures.Check(err)
	return us / 1000
}

// ownCPU returns the CPU time that this process has used, in milliseconds.
func ownCPU() float64 {
	var u syscall.Rusage
	figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

const warm, runs = 60, 600

// execute alternates between us and the peer, so that both see the same machine.
func (b *bench) execute() {
	id := b.tool("Execute", code)
	url, stop := b.serve()
	defer stop()
	c := dial(url)
	defer c.Close()
	peer, end := node(1)
	defer end()
	web := &http.Client{}
	p := tools.ExecuteParams{ToolID: &id, Params: params()}
	body, err := json.Marshal(map[string]any{"code": code, "params": p.Params})
	figures.Check(err)
	var ours, theirs, over []float64
	var used, usedThere float64
	for i := range warm + runs {
		if i == warm {
			used, usedThere = 0, nodeCPU(web, peer)
		}
		var r tools.ExecuteResult
		before := ownCPU()
		began := time.Now()
		figures.Check(c.Call(context.Background(), "tools.execute_custom", p, &r))
		took := time.Since(began)
		used += ownCPU() - before
		if !r.Success {
			figures.Check(fmt.Errorf("tool: %s", r.Error))
		}
		began = time.Now()
		post(web, peer, body)
		other := time.Since(began)
		began = time.Now()
		r, err := b.svc.Execute(b.ctx, p)
		figures.Check(err)
		inner := time.Since(began)
		if i >= warm {
			ours, theirs = append(ours, ms(took)), append(theirs, ms(other))
			over = append(over, ms(inner)-r.ExecutionTimeMs)
		}
	}
	figures.Print("execute.rpc.p50", figures.Quantile(ours, 0.5), "ms", figures.Quantile(ours, 0.5)/figures.Quantile(theirs, 0.5), "node vm server")
	figures.Print("execute.rpc.p99", figures.Quantile(ours, 0.99), "ms", figures.Quantile(ours, 0.99)/figures.Quantile(theirs, 0.99), "node vm server")
	used, usedThere = used/runs, (nodeCPU(web, peer)-usedThere)/runs
	figures.Print("execute.rpc.cpu", used, "ms", used/usedThere, "node vm server, processor time (ours: client and server)")
	figures.Print("execute.overhead.p50", figures.Quantile(over, 0.5), "ms", 0, "")
	figures.Print("execute.overhead.p95", figures.Quantile(over, 0.95), "ms", 0, "")
	var with, without []float64
	for range 300 {
		began := time.Now()
		figures.Check(b.db.Write(b.ctx, func(*storage.Tx) error { return nil }))
		without = append(without, ms(time.Since(began)))
		began = time.Now()
		figures.Check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
			for range 2 {
				if err := audit.Append(tx, audit.Entry{Action: "start", SubjectKind: "tool", SubjectID: id.String(), Details: map[string]any{"version": "1.0.0", "bytes": 7}}); err != nil {
					return err
				}
			}
			return nil
		}))
		with = append(with, ms(time.Since(began)))
	}
	figures.Print("execute.audit", figures.Quantile(with, 0.5)-figures.Quantile(without, 0.5), "ms", 0, "")
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// runFirst is the child of first: from nothing to the first result.
func runFirst(dir string) {
	b := &bench{dir: dir}
	b.open(dir)
	l, err := b.svc.List(b.ctx, tools.ListParams{Query: "Execute first"})
	figures.Check(err)
	r, err := b.svc.Execute(b.ctx, tools.ExecuteParams{ToolID: &l.Tools[0].ID, Params: params()})
	figures.Check(err)
	fmt.Println(string(r.Output))
	os.Exit(0)
}

func (b *bench) first() {
	dir, err := os.MkdirTemp("", "helix-bench-first-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	x := &bench{dir: dir}
	x.open(dir)
	x.tool("Execute first", code)
	x.close()
	self, err := os.Executable()
	figures.Check(err)
	script := fmt.Sprintf("const params = %s; console.log(JSON.stringify((function () {%s})()))", params(), code)
	var ours, theirs []float64
	for i := range 11 {
		a, c := timed(self, "-first", dir), timed("node", "-e", script)
		if i > 0 { // the first one fills the engine's cache
			ours, theirs = append(ours, a), append(theirs, c)
		}
	}
	figures.Print("first", figures.Quantile(ours, 0.5), "ms", figures.Quantile(ours, 0.5)/figures.Quantile(theirs, 0.5), "node -e")
}

func timed(name string, args ...string) float64 {
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Run(); err != nil {
		figures.Check(fmt.Errorf("%s: %w: %s", name, err, out.String()))
	}
	return ms(time.Since(began))
}

const clients = 16

func (b *bench) throughput() {
	busy := b.busy()
	id := b.tool("Busy", busy)
	url, stop := b.serve()
	defer stop()
	peer, end := node(runtime.NumCPU())
	defer end()
	body, err := json.Marshal(map[string]any{"code": busy, "params": map[string]any{}})
	figures.Check(err)
	load := func(each func(i int) func()) float64 {
		var wg sync.WaitGroup
		const n = 20
		began := time.Now()
		for i := range clients {
			call := each(i)
			wg.Go(func() {
				for range n {
					call()
				}
			})
		}
		wg.Wait()
		return clients * n / time.Since(began).Seconds()
	}
	var conns []*gateway.Client
	for range clients {
		conns = append(conns, dial(url))
	}
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var ours, theirs []float64
	for range 5 {
		ours = append(ours, load(func(i int) func() {
			return func() {
				var r tools.ExecuteResult
				figures.Check(conns[i].Call(context.Background(), "tools.execute_custom", tools.ExecuteParams{ToolID: &id}, &r))
				if !r.Success {
					figures.Check(fmt.Errorf("tool: %s", r.Error))
				}
			}
		}))
		theirs = append(theirs, load(func(int) func() { return func() { post(web, peer, body) } }))
	}
	for _, c := range conns {
		c.Close()
	}
	figures.Print("throughput", figures.Quantile(ours, 0.5), "runs/s", figures.Quantile(ours, 0.5)/figures.Quantile(theirs, 0.5), "node vm server, one process a core (the gateway's limits of rate lifted)")
}

// static runs the benchmarks of the package itself, for what it does not export.
func (b *bench) static() {
	test, esbuild := filepath.Join(b.dir, "tools.test"), filepath.Join(b.dir, "esbuild")
	build := exec.Command("go", "test", "-c", "-o", test, "./backend/tools")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		figures.Check(fmt.Errorf("go test -c: %w: %s", err, out))
	}
	if out, err := exec.Command("go", "build", "-o", esbuild, "github.com/evanw/esbuild/cmd/esbuild").CombinedOutput(); err != nil {
		figures.Check(fmt.Errorf("build esbuild: %w: %s", err, out))
	}
	took := map[string][]float64{}
	var ajv, bundler []float64
	for range 5 { // alternating, so that both see the same machine
		cmd := exec.Command(test, "-test.run", "^$", "-test.bench", "Params|Analyse", "-test.benchtime", "300ms")
		cmd.Dir = b.dir
		cmd.Env = append(os.Environ(), "HELIX_BENCH_OUT="+b.dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			figures.Check(fmt.Errorf("benchmarks: %w: %s", err, out))
		}
		for _, l := range strings.Split(string(out), "\n") {
			f := strings.Fields(l)
			if len(f) > 3 && f[3] == "ns/op" {
				n, err := strconv.ParseFloat(f[2], 64)
				figures.Check(err)
				name, _, _ := strings.Cut(f[0], "-")
				took[name] = append(took[name], n)
			}
		}
		if out, err = exec.Command("node", "tools/ajv.mjs", b.dir).Output(); err != nil {
			figures.Check(fmt.Errorf("ajv: %w", err))
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		figures.Check(err)
		ajv = append(ajv, n)
		for range 5 {
			bundler = append(bundler, timed(esbuild, filepath.Join(b.dir, "big.js"), "--outfile=/dev/null", "--allow-overwrite", "--log-level=error"))
		}
	}
	ours, peer := figures.Quantile(took["BenchmarkParams"], 0.5), figures.Quantile(ajv, 0.5)
	figures.Print("params.validate", ours/1000, "us", ours/peer, "ajv")
	a := figures.Quantile(took["BenchmarkAnalyse"], 0.5) / 1e6
	figures.Print("analyse.116k", a, "ms", a/figures.Quantile(bundler, 0.5), "esbuild command")
}

func (b *bench) imports() {
	x := &bench{dir: filepath.Join(b.dir, "from")}
	figures.Check(os.MkdirAll(x.dir, 0o700))
	x.open(x.dir)
	var ids []uuid.UUID
	for i := range 100 {
		ids = append(ids, x.tool(fmt.Sprintf("Tool %03d", i), code))
	}
	ex, err := x.svc.Export(x.ctx, tools.ExportParams{ToolIDs: ids})
	figures.Check(err)
	x.close()
	raw, err := json.Marshal(ex.Bundle)
	figures.Check(err)
	file := filepath.Join(b.dir, "bundle.json")
	figures.Check(os.WriteFile(file, raw, 0o600))
	began := time.Now()
	_, err = b.svc.Import(b.ctx, tools.ImportParams{Bundle: raw})
	figures.Check(err)
	no := false
	r, err := b.svc.Import(b.ctx, tools.ImportParams{Bundle: raw, DryRun: &no})
	figures.Check(err)
	ours := ms(time.Since(began))
	if len(r.Tools) != 100 {
		figures.Check(fmt.Errorf("%d tools", len(r.Tools)))
	}
	// The script does the same with standard programs: pick each tool, hash its definition, verify
	// the signature. The verified text differs from the signed one, but only the work counts, so a
	// failed verification is equivalent.
	script := `set -e
cd "$1"
for i in $(seq 0 99); do
  jq -cS ".tools[$i].definition" bundle.json | openssl dgst -sha256 -binary > hash
  jq -r ".tools[$i].signature.signature" bundle.json | base64 -d > sig
  { printf '302a300506032b6570032100' | xxd -r -p; jq -r ".tools[$i].signature.publicKey" bundle.json | base64 -d; } > key.der
  jq -cS "{author: .tools[$i].author, name: .tools[$i].definition.name, version: .tools[$i].version}" bundle.json > text
  openssl pkeyutl -verify -rawin -pubin -inkey key.der -keyform DER -in text -sigfile sig > /dev/null || true
done`
	theirs := timed("bash", "-c", strings.ReplaceAll(script, "xxd -r -p", `perl -ne 'print pack("H*",$_)'`), "-", b.dir)
	figures.Print("import.100", ours, "ms", ours/theirs, "jq and openssl")
}

// fill inserts n tools directly.
func (b *bench) fill(n int) {
	figures.Check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
		for i := range n {
			if _, err := tx.Exec(`INSERT INTO custom_tools (id, user_id, name, description, code, definition_hash, tags, visibility, usage_count, created_at, updated_at)
				VALUES (?, ?, ?, ?, 'return 1', ?, ?, 'public', ?, ?, ?)`, storage.NewID(), b.db.LocalUser().ID, fmt.Sprintf("Listed %05d", i),
				fmt.Sprintf("does thing number %d with text and numbers", i), [32]byte{1}, `["a","b"]`, i%977, tx.Now, tx.Now.Add(time.Duration(i)*time.Microsecond)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (b *bench) list() {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.fill(10_000)
	var took, search []float64
	for i := range 60 {
		began := time.Now()
		r, err := b.svc.List(b.ctx, tools.ListParams{})
		figures.Check(err)
		took = append(took, ms(time.Since(began)))
		if r.Total < 10_000 {
			figures.Check(fmt.Errorf("%d tools", r.Total))
		}
		began = time.Now()
		_, err = b.svc.Search(b.ctx, tools.SearchParams{Query: fmt.Sprintf("number %d", i*37)})
		figures.Check(err)
		search = append(search, ms(time.Since(began)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	user := b.db.LocalUser().ID
	query := fmt.Sprintf(`SELECT count(*) FROM custom_tools t WHERE t.user_id = x'%x' AND t.deleted_at IS NULL;
SELECT t.id, t.name, t.description, t.version, t.usage_count, t.last_used, t.is_enabled, t.visibility, t.icon, t.tags, t.origin, t.signature IS NOT NULL,
coalesce((SELECT u.status FROM custom_tool_usage u WHERE u.custom_tool_id = t.id ORDER BY u.timestamp DESC LIMIT 1), '')
FROM custom_tools t WHERE t.user_id = x'%x' AND t.deleted_at IS NULL ORDER BY t.updated_at DESC, t.id DESC LIMIT 50 OFFSET 0;
`, user[:], user[:])
	sql := func(n int) float64 {
		cmd := exec.Command("sqlite3", filepath.Join(b.dir, "helix.db"))
		cmd.Stdin = strings.NewReader(strings.Repeat(query, n))
		cmd.Stdout = io.Discard
		began := time.Now()
		figures.Check(cmd.Run())
		return ms(time.Since(began))
	}
	var theirs []float64
	for range 7 {
		theirs = append(theirs, (sql(41)-sql(1))/40)
	}
	figures.Print("list.10k", figures.Quantile(took, 0.5), "ms", figures.Quantile(took, 0.5)/figures.Quantile(theirs, 0.5), "sqlite3")
	figures.Print("search.10k.p95", figures.Quantile(search, 0.95), "ms", 0, "")
	figures.Print("memory.10k", float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB", 0, "")
}

func (b *bench) usage() {
	id := b.tool("Used", code)
	user := b.db.LocalUser().ID
	for done := 0; done < b.rows; {
		figures.Check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
			return tx.WithoutCapture(func() error {
				st, err := tx.PrepareContext(tx.Context(), `INSERT INTO custom_tool_usage (id, custom_tool_id, user_id, input_params, output_result, status,
					execution_time_ms, timestamp, created_at, updated_at) VALUES (?, ?, ?, '{}', '1', 'success', ?, ?, ?, ?)`)
				if err != nil {
					return err
				}
				defer st.Close()
				for range 20_000 {
					done++
					at := tx.Now.UnixMicro() + int64(done)
					row := storage.NewID()
					if _, err := st.Exec(row[:], id[:], user[:], float64(done%100), at, at, at); err != nil {
						return err
					}
				}
				return nil
			})
		}))
	}
	var one, all []float64
	for range 30 {
		began := time.Now()
		_, err := b.svc.Usage(b.ctx, tools.UsageParams{ToolID: &id})
		figures.Check(err)
		one = append(one, ms(time.Since(began)))
		began = time.Now()
		_, err = b.svc.Usage(b.ctx, tools.UsageParams{})
		figures.Check(err)
		all = append(all, ms(time.Since(began)))
	}
	figures.Print(fmt.Sprintf("usage.page.%d", b.rows), figures.Quantile(one, 0.5), "ms", 0, "")
	figures.Print(fmt.Sprintf("usage.page.all.%d", b.rows), figures.Quantile(all, 0.5), "ms", 0, "")
}
