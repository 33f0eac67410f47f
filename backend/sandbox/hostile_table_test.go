package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"helix/backend/testkit"
)

// Limits on the effect of hostile programs on all cores on the process.
const (
	maxHealth   = 100 * time.Millisecond // an HTTP call inside the process
	maxPause    = 100 * time.Millisecond // runtime.GC
	compiling   = 192 << 20              // for the largest allowed functions, briefly
	spareMemory = 32 << 20               // in addition to the limits of the runs
)

// TestHostileTable is make hostile. It runs each program on all cores at once, in one tier
// after the other, with and without Crosscheck, and prints a line for each. Times are printed,
// and with HELIX_TIMED=1 they are checked too: a case that misses anything then runs again,
// three times at most; the column tries says so.
//
// A program that the compiler refuses reaches no tier; it is run once.
//
// HELIX_HOSTILE=1 turns it on, HELIX_HOSTILE_ONLY is an expression for the names,
// HELIX_HOSTILE_TIERS and HELIX_HOSTILE_MODES pick from "t0 t1" and "plain crosscheck".
func TestHostileTable(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	if os.Getenv("HELIX_HOSTILE") == "" {
		t.Skip("make hostile runs it")
	}
	only := regexp.MustCompile(os.Getenv("HELIX_HOSTILE_ONLY"))
	picked := func(env, all string) []string {
		if s := os.Getenv(env); s != "" {
			all = s
		}
		return strings.Fields(all)
	}
	fmt.Printf("%-34s %-14s %8s %8s %-4s %-5s %-10s %8s %8s %7s %5s\n", "case", "class", "wall ms", "cpu ms", "tier", "path", "mode", "health", "gc", "rss MB", "tries")
	missed, total := 0, 0
	refused := map[string]bool{} // by the compiler, independent of tier and mode
	for _, mode := range picked("HELIX_HOSTILE_MODES", "plain crosscheck") {
		e, err := Open(context.Background(), Options{WorkerCommand: childCommand, CacheDir: sharedCache, Crosscheck: mode == "crosscheck"})
		if err != nil {
			t.Fatal(err)
		}
		s := newStand(t, e)
		for _, tier := range picked("HELIX_HOSTILE_TIERS", "t0 t1") {
			s.settle(tier)
			for _, h := range hostileFiles(t) {
				if h.long && !long || !only.MatchString(h.name) || refused[h.name] {
					continue
				}
				if mode == "crosscheck" {
					h.crosschecked()
				}
				total++
				if h.waits != "" {
					fmt.Printf("%-34s\tMISS waits for %s\n", h.name, h.waits)
					missed++
					continue
				}
				o := s.run(&h, tier)
				refused[h.name] = o.class == string(ClassCompile) || o.class == string(ClassMissingExport)
				fmt.Printf("%-34s %-14s %8.0f %8.0f %-4s %-5s %-10s %8.1f %8.1f %7.0f %5d%s\n", h.name, o.class, ms(o.wall), ms(o.cpu), tier, s.path, mode,
					ms(o.health), ms(o.pause), float64(o.memory)/(1<<20), o.tries, strings.Join(append([]string{""}, o.problems...), "\n\tMISS "))
				if len(o.problems) > 0 {
					missed++
				}
			}
		}
		s.close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	fmt.Printf("%d of %d as expected\n", total-missed, total)
	if missed > 0 {
		t.Errorf("%d of %d miss", missed, total)
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// observed is the behavior of one program on all cores.
type observed struct {
	class                    string
	wall, cpu, health, pause time.Duration
	memory                   int64 // growth of the process, or of the child that grew most
	tries                    int
	problems                 []string
}

// stand is the shared state of the runs of one engine: the health server, and the results of a
// clean run.
type stand struct {
	t      testing.TB
	e      *Engine
	path   string
	server *http.Server
	client *http.Client
	url    string
	clean  map[string]string // tier → fingerprint
	child  int64             // memory of an idle child
}

func newStand(t testing.TB, e *Engine) *stand {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{t: t, e: e, path: e.Status().Snapshot, url: "http://" + l.Addr().String(), client: &http.Client{Timeout: 20 * time.Second}, clean: map[string]string{}}
	s.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(l) }()
	return s
}

func (s *stand) close() {
	_ = s.server.Close()
	s.client.CloseIdleConnections()
}

// fingerprint is a program that lists everything reachable in its world.
const fingerprint = `
const seen = new Map(), out = [];
const walk = (o, path, depth) => {
  if ((typeof o !== 'object' && typeof o !== 'function') || o === null || depth > 8) return;
  if (seen.has(o)) return;
  seen.set(o, path);
  out.push(path + ':' + typeof o + Object.isExtensible(o));
  for (const k of Reflect.ownKeys(o)) {
    const d = Reflect.getOwnPropertyDescriptor(o, k), at = path + '.' + String(k);
    out.push(at + (d.writable ? 'w' : '') + (d.enumerable ? 'e' : '') + (d.configurable ? 'c' : '') + ('value' in d ? typeof d.value : 'gs'));
    if (typeof d.value === 'string' || typeof d.value === 'number') out.push(String(d.value));
    walk(d.value, at, depth + 1); walk(d.get, at + '.get', depth + 1); walk(d.set, at + '.set', depth + 1);
  }
  walk(Object.getPrototypeOf(o), path + '.__proto__', depth + 1);
};
walk(globalThis, '', 0);
for (const f of [async () => {}, function* () {}, async function* () {}, [].values(), new Map().keys(), 'x'.matchAll(/x/g)]) walk(Object.getPrototypeOf(f), '#' + out.length, 1);
const text = out.join('\n');
let a = 7, b = 9;
for (let i = 0; i < text.length; i++) { a = (a * 31 + text.charCodeAt(i)) | 0; b = (b * 131 + text.charCodeAt(i)) | 0 }
return [a, b, out.length, Object.keys(globalThis).length]`

// look runs the fingerprint.
func (s *stand) look(tier string) (string, error) {
	p, err := s.e.CompileJS(context.Background(), Source{Text: fingerprint})
	if err != nil {
		return "", err
	}
	res, err := s.e.Execute(context.Background(), p, Call{Tier: tier, Limits: Limits{CPU: 5 * time.Second}})
	return string(res.Output), err
}

// settle measures what is normal in a tier.
func (s *stand) settle(tier string) {
	s.t.Helper()
	text, err := s.look(tier)
	if err != nil {
		s.t.Fatalf("%s: %v", tier, err)
	}
	s.clean[tier] = text
	if tier == "t1" {
		w := watchMemory()
		p, err := s.e.CompileJS(context.Background(), Source{Text: "await new Promise((r) => setTimeout(r, 300)); return 1"})
		if err != nil {
			s.t.Fatal(err)
		}
		if _, err := s.e.Execute(context.Background(), p, Call{Tier: tier}); err != nil {
			s.t.Fatal(err)
		}
		_, s.child = w.stop()
	}
}

func (s *stand) run(h *hostileCase, tier string) (o observed) {
	for o.tries = 1; ; o.tries++ {
		tries := o.tries
		o = s.once(h, tier)
		o.tries = tries
		if !hostileTimed {
			return o
		}
		if o.health > maxHealth {
			o.problems = append(o.problems, fmt.Sprintf("a health call took %v", o.health))
		}
		if o.pause > maxPause {
			o.problems = append(o.problems, fmt.Sprintf("the collector took %v", o.pause))
		}
		if len(o.problems) == 0 || tries == 3 {
			return o
		}
	}
}

func (s *stand) once(given *hostileCase, tier string) (o observed) {
	ready := *given
	ready.code = given.text() // generating it is not part of the attack
	h := &ready
	debug.FreeOSMemory()
	copies := runtime.NumCPU()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	w := watchMemory()
	var over atomic.Bool
	var beside sync.WaitGroup
	beside.Go(func() {
		for !over.Load() {
			start := time.Now()
			resp, err := s.client.Get(s.url)
			if err == nil {
				_ = resp.Body.Close()
			}
			o.health = max(o.health, time.Since(start))
			time.Sleep(5 * time.Millisecond)
		}
	})
	beside.Go(func() {
		for !over.Load() {
			start := time.Now()
			runtime.GC()
			o.pause = max(o.pause, time.Since(start))
			time.Sleep(20 * time.Millisecond)
		}
	})
	all := make([]attempt, copies)
	var runs sync.WaitGroup
	for i := range all {
		runs.Go(func() { all[i] = h.run(ctx, s.e, tier) })
	}
	runs.Wait()
	over.Store(true)
	beside.Wait()
	own, child := w.stop()
	var classes []string
	for i := range all {
		a := &all[i]
		classes = append(classes, a.class)
		o.wall, o.cpu = max(o.wall, a.wall), max(o.cpu, a.res.Usage.CPU)
		for _, p := range a.problems {
			if !slices.Contains(o.problems, p) {
				o.problems = append(o.problems, p)
			}
		}
	}
	slices.Sort(classes)
	o.class = strings.Join(slices.Compact(classes), ",")
	allowed := spareMemory + int64(copies)*h.limits.MemoryBytes
	if h.make != nil || strings.HasPrefix(h.name, "src_") {
		allowed = spareMemory + int64(copies)*compiling
	}
	if tier == "t1" {
		if grew := child - s.child; s.child > 0 && grew > spareMemory+h.limits.MemoryBytes {
			o.problems = append(o.problems, fmt.Sprintf("a child grew by %d MB", grew>>20))
		}
		o.memory = max(child-s.child, 0)
	}
	o.memory = max(o.memory, own)
	if own > allowed {
		o.problems = append(o.problems, fmt.Sprintf("the process grew by %d MB, at most %d are allowed", own>>20, allowed>>20))
	}
	if text, err := s.look(tier); err != nil || text != s.clean[tier] {
		o.problems = append(o.problems, fmt.Sprintf("the next run sees %s (%v), a clean one %s", text, err, s.clean[tier]))
	}
	return o
}

// memoryWatch tracks the peak size of this process and of its children.
type memoryWatch struct {
	base  int64
	child atomic.Int64
	done  chan struct{}
	ended chan struct{}
}

func watchMemory() *memoryWatch {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // resets the peak size
	own, _ := os.ReadFile("/proc/self/cmdline")
	w := &memoryWatch{base: peakOf("self"), done: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.done:
				return
			case <-tick.C:
				for _, pid := range childrenOf("self", 0) {
					if began, err := os.ReadFile("/proc/" + pid + "/cmdline"); err != nil || bytes.Equal(began, own) {
						continue // until it executes another program it shares the memory of this one
					}
					w.child.Store(max(w.child.Load(), peakOf(pid)))
				}
			}
		}
	}()
	return w
}

// stop returns the peak growth of this process, and the size of the largest child.
func (w *memoryWatch) stop() (own, child int64) {
	close(w.done)
	<-w.ended
	return peakOf("self") - w.base, w.child.Load()
}

// peakOf returns the peak resident size of a process, 0 if unknown.
func peakOf(pid string) int64 {
	f, err := os.Open("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kb int64
		if _, err := fmt.Sscanf(s.Text(), "VmHWM: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	return 0
}

func childrenOf(pid string, depth int) (pids []string) {
	tasks, _ := os.ReadDir("/proc/" + pid + "/task")
	for _, task := range tasks {
		b, _ := os.ReadFile("/proc/" + pid + "/task/" + task.Name() + "/children")
		for _, c := range strings.Fields(string(b)) {
			pids = append(pids, c)
			if depth < 4 {
				pids = append(pids, childrenOf(c, depth+1)...)
			}
		}
	}
	return pids
}
