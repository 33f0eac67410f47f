package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"helix/backend/testkit"
)

// attempt is the result of one run of a hostile program.
type attempt struct {
	class    string // a Class, or ok
	err      *Error
	res      Result
	wall     time.Duration // of compiling and running
	problems []string
}

func (a *attempt) badf(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// run compiles and runs the case and checks the properties of a single run.
func (h *hostileCase) run(ctx context.Context, e *Engine, tier string) (a attempt) {
	code := h.text()
	start := time.Now()
	a.res, a.err = h.execute(ctx, e, tier, code)
	a.wall = time.Since(start)
	a.class = "ok"
	if a.err != nil {
		a.class = string(a.err.Class)
	}
	h.check(&a)
	return a
}

func (h *hostileCase) execute(ctx context.Context, e *Engine, tier string, code []byte) (Result, *Error) {
	var r Runnable
	var err error
	switch h.kind {
	case "wasm":
		r, err = e.CompileWASM(ctx, code)
	case "ts":
		r, err = e.CompileJS(ctx, Source{Text: string(code), Language: TypeScript})
	default:
		r, err = e.CompileJS(ctx, Source{Text: string(code), Language: JavaScript})
	}
	var res Result
	if err == nil {
		c := Call{Input: h.input, Limits: h.limits, Host: hostileHosts[h.host](), Trust: TrustOwn, Tier: tier}
		res, err = e.Execute(ctx, r, c)
	}
	if err == nil {
		return res, nil
	}
	var x *Error
	if !errors.As(err, &x) {
		x = &Error{Class: "not *Error", Message: fmt.Sprintf("%T: %v", err, err)}
	}
	return res, x
}

func (h *hostileCase) check(a *attempt) {
	if !slices.Contains(h.classes, a.class) {
		a.badf("ends as %s (%.300v), want %s", a.class, a.err, strings.Join(h.classes, " or "))
	}
	if a.class == "ok" && h.hasOutput && string(a.res.Output) != h.output {
		a.badf("gives %.200s, want %s", a.res.Output, h.output)
	}
	u := a.res.Usage
	if hostileTimed {
		h.checkTimes(a)
	}
	if u.PeakMemory > h.limits.MemoryBytes {
		a.badf("used %d bytes of memory with a limit of %d", u.PeakMemory, h.limits.MemoryBytes)
	}
	if u.HostCalls > 1000 {
		a.badf("made %d host calls", u.HostCalls)
	}
	if len(a.res.Output) > 1<<20 {
		a.badf("%d bytes of output", len(a.res.Output))
	}
	logged := 0
	for _, l := range a.res.Logs {
		logged += len(l.Message) + len(l.Fields)
	}
	if logged > 64<<10 || len(a.res.Logs) > 64<<10 {
		a.badf("%d lines and %d bytes of logs", len(a.res.Logs), logged)
	}
	if a.err == nil {
		return
	}
	if len(a.res.Output) > 0 {
		a.badf("gives output beside an error")
	}
	if n := len(a.err.Message) + len(a.err.Stack); n > 64<<10 || !utf8.ValidString(a.err.Message+a.err.Stack) {
		a.badf("%d bytes of message and stack, valid text: %v", n, utf8.ValidString(a.err.Message+a.err.Stack))
	}
	for _, inside := range []string{"goroutine ", ".go:", "wasm stack trace", "0xc0"} {
		if strings.Contains(a.err.Message, inside) && a.err.Class != ClassThrown {
			a.badf("the message shows what is inside: %.200s", a.err.Message)
			break
		}
	}
}

// hostileTimed also checks times. They are meaningful only on an otherwise idle machine.
var hostileTimed = os.Getenv("HELIX_TIMED") != ""

func (h *hostileCase) checkTimes(a *attempt) {
	u := a.res.Usage
	if a.wall > h.within {
		a.badf("took %v, may take %v", a.wall.Round(time.Millisecond), h.within)
	}
	if a.class == "timeout" && h.host != "late" && u.Wall > h.limits.Wall+200*time.Millisecond {
		a.badf("ran %v with a limit of %v", u.Wall, h.limits.Wall)
	}
	if cpuMeter == "thread" && u.CPU > h.limits.CPU+100*time.Millisecond {
		a.badf("used %v of processor time with a limit of %v", u.CPU, h.limits.CPU)
	}
}

// TestHostile runs each program once in this process, or every eighth with the race detector. make
// hostile does the rest: both tiers, all cores, and the effect on the process.
func TestHostile(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	hostileClasses(t, shared, "", func(*hostileCase) bool { return true })
}

// TestHostileEverywhere checks how each program ends in both tiers, with and without Crosscheck.
// Programs that the compiler rejects reach neither.
func TestHostileEverywhere(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	if !long {
		t.Skip("takes minutes: HELIX_LONG=1, or make hostile")
	}
	runs := regexp.MustCompile("^(cpu|mem|deep|esc|host|out|wasm_(cpu|mem|deep|esc|trap|out))_")
	for _, crosscheck := range []bool{false, true} {
		e, err := Open(context.Background(), Options{WorkerCommand: childCommand, CacheDir: sharedCache, Crosscheck: crosscheck})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		for _, tier := range []string{tier0, tier1} {
			t.Run(fmt.Sprintf("%s crosscheck %v", tier, crosscheck), func(t *testing.T) {
				hostileClasses(t, e, tier, func(h *hostileCase) bool {
					if crosscheck {
						h.crosschecked()
					}
					return runs.MatchString(h.name)
				})
			})
		}
	}
}

func hostileClasses(t *testing.T, e *Engine, tier string, pick func(h *hostileCase) bool) {
	for i, h := range hostileFiles(t) {
		if h.long && !long || !pick(&h) {
			continue
		}
		if raceEnabled && i%8 != 0 { // all of them run without it
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if h.waits != "" {
				t.Skip("waits for " + h.waits)
			}
			for _, p := range h.run(context.Background(), e, tier).problems {
				t.Error(p)
			}
		})
	}
}

// TestHostileModulesAreFresh compiles the texts of the modules again.
func TestHostileModulesAreFresh(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("wat2wasm")
	if err != nil {
		t.Skip("wat2wasm is not installed: make setup")
	}
	for _, h := range hostileFiles(t) {
		if h.kind != "wasm" {
			continue
		}
		text := filepath.Join("testdata", "hostile", h.name+".wat")
		if _, err := os.Stat(text); err != nil {
			continue // made by hostileGiants
		}
		out := filepath.Join(t.TempDir(), "x.wasm")
		if msg, err := exec.Command(tool, append(strings.Fields(h.flags), text, "-o", out)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", text, err, msg)
		}
		if b, err := os.ReadFile(out); err != nil || string(b) != string(h.code) {
			t.Errorf("%s.wasm is not what its text gives (%v)", h.name, err)
		}
	}
}
