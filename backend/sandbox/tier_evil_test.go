package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helix/backend/sandbox/worker"
	"helix/backend/testkit"
)

// evilArgument makes the test program a child that a guest has taken over.
const evilArgument = "evil-child"

// actAsChild runs such a child and exits, if the program was started as one.
func actAsChild() {
	if len(os.Args) == 3 && os.Args[1] == parentArgument {
		actAsParent()
	}
	if len(os.Args) < 3 || os.Args[1] != evilArgument {
		return
	}
	act := evil[os.Args[2]]
	c := &evilChild{
		Reader: worker.NewReader(os.Stdin, worker.ToChildLimits), Writer: worker.NewWriter(os.Stdout, worker.FrameLimits{Head: 1 << 30, Body: 1 << 30}),
	}
	if act.early {
		act.do(c)
		time.Sleep(time.Hour)
	}
	if _, _, err := c.ReadToChild(); err != nil {
		os.Exit(1)
	}
	lock := worker.LockReport{Landlock: 99, Reasons: []string{"<script>"}}
	if act.bare {
		lock = worker.LockReport{Reasons: worker.LandlockReasons(0)}
	}
	c.send(worker.FromChild{Ready: &worker.Ready{Lock: lock}})
	if _, _, err := c.ReadToChild(); err != nil {
		os.Exit(1)
	}
	act.do(c)
	time.Sleep(time.Hour) // and never ends by itself
}

type evilChild struct {
	*worker.Reader
	*worker.Writer
}

func (c *evilChild) send(f worker.FromChild, body ...string) {
	var b [][]byte
	for _, s := range body {
		b = append(b, []byte(s))
	}
	if c.Write(f, b...) != nil {
		os.Exit(2)
	}
}

func (c *evilChild) fail(class, message string, details string) {
	e := &worker.RunError{Class: class, Message: message, Call: 77}
	if details != "" {
		e.Details = json.RawMessage(details)
	}
	c.send(worker.FromChild{End: &worker.End{Error: e, Usage: worker.Usage{CPU: 1 << 60, Fuel: 1 << 63, PeakMemory: 1 << 62}}})
}

func call(id int64, op string) worker.FromChild {
	return worker.FromChild{Call: &worker.Call{ID: id, Op: op}}
}

// evil lists what a child may try, and how its run must end.
var evil = map[string]struct {
	do    func(c *evilChild)
	early bool // before it was greeted
	bare  bool // without Landlock
	class Class
	check func(t *testing.T, res Result, e *Error)
}{
	"never answers": {do: func(*evilChild) {}, class: ClassTimeout},
	"garbage":       {do: func(*evilChild) { os.Stdout.Write(bytes.Repeat([]byte("garbage"), 1000)) }, class: ClassTrap},
	"oversize head": {do: func(*evilChild) {
		os.Stdout.Write(binary.BigEndian.AppendUint64(nil, 0xffffffff<<32))
	}, class: ClassTrap},
	"oversize body": {do: func(c *evilChild) {
		c.send(call(1, OpFetch), strings.Repeat(" ", worker.FromChildLimits.Body+1))
	}, class: ClassTrap},
	"half a frame":      {do: func(*evilChild) { os.Stdout.Write([]byte{0, 0, 1, 0, 0, 0}) }, class: ClassTimeout},
	"closes output":     {do: func(*evilChild) { os.Stdout.Close() }, class: ClassTrap},
	"ends":              {do: func(*evilChild) { os.Exit(0) }, class: ClassTrap},
	"panics":            {do: func(*evilChild) { panic("secret of the child") }, class: ClassTrap},
	"ready again":       {do: func(c *evilChild) { c.send(worker.FromChild{Ready: &worker.Ready{}}) }, class: ClassTrap},
	"call out of turn":  {do: func(c *evilChild) { c.send(call(5, OpFetch), "{}") }, class: ClassTrap},
	"call twice":        {do: func(c *evilChild) { c.send(call(1, OpFetch), "{}"); c.send(call(1, OpFetch), "{}") }, class: ClassTrap},
	"call with rubbish": {do: func(c *evilChild) { c.send(call(1, OpFetch), "{") }, class: ClassTrap},
	"too many at once": {do: func(c *evilChild) {
		for i := range int64(fetchLane + 1) {
			c.send(call(i+1, OpFetch), `{"wait":true}`)
		}
	}, class: ClassTrap},
	"calls without end": {do: func(c *evilChild) {
		for i := int64(1); ; i++ {
			c.send(call(i, OpStateGet), "{}")
			if _, _, err := c.ReadToChild(); err != nil {
				os.Exit(2)
			}
		}
	}, class: ClassTrap, check: func(t *testing.T, res Result, _ *Error) {
		if res.Usage.HostCalls != 20 {
			t.Errorf("%d host calls reached the host", res.Usage.HostCalls)
		}
	}},
	"does not read": {do: func(c *evilChild) {
		for i := range int64(otherLane) {
			c.send(call(i+1, OpStateGet), `{"big":true}`)
		}
	}, class: ClassTimeout},
	"logs without end": {do: func(c *evilChild) {
		for {
			c.send(worker.FromChild{Log: &worker.Log{Level: "info", TextSize: 1}}, "x")
		}
	}, class: ClassTrap, check: logCapped},
	"huge log": {do: func(c *evilChild) {
		s := strings.Repeat("x", 8<<20)
		for {
			c.send(worker.FromChild{Log: &worker.Log{Level: "evil", TextSize: len(s)}}, s)
		}
	}, class: ClassTrap},
	"odd log": {do: func(c *evilChild) {
		c.send(worker.FromChild{Log: &worker.Log{Level: "root", TextSize: 2}}, "\xff\xfe", "{not json")
		c.send(worker.FromChild{End: &worker.End{}}, "1")
	}, check: func(t *testing.T, res Result, _ *Error) {
		if len(res.Logs) != 1 || res.Logs[0].Level != "info" || res.Logs[0].Fields != nil || res.Logs[0].Message != "\uFFFD" {
			t.Errorf("logs %+v", res.Logs)
		}
	}},
	"output not JSON":  {do: func(c *evilChild) { c.send(worker.FromChild{End: &worker.End{}}, "}{") }, class: ClassOutput},
	"no output":        {do: func(c *evilChild) { c.send(worker.FromChild{End: &worker.End{}}) }, class: ClassOutput},
	"output too large": {do: func(c *evilChild) { c.send(worker.FromChild{End: &worker.End{}}, `"`+strings.Repeat("x", 2<<20)+`"`) }, class: ClassOutput},
	"two ends": {do: func(c *evilChild) {
		c.send(worker.FromChild{End: &worker.End{}}, "1")
		c.send(worker.FromChild{End: &worker.End{}}, "2")
	}, check: func(t *testing.T, res Result, _ *Error) {
		if string(res.Output) != "1" {
			t.Errorf("output %s", res.Output)
		}
	}},
	"unknown class":  {do: func(c *evilChild) { c.fail("admin", "x", "") }, class: ClassTrap},
	"says canceled":  {do: func(c *evilChild) { c.fail("canceled", "x", "") }, class: ClassTrap},
	"says compile":   {do: func(c *evilChild) { c.fail("compile", "x", `{"file":"/etc/passwd"}`) }, class: ClassTrap},
	"wrong details":  {do: func(c *evilChild) { c.fail("thrown", "x", `{"name":{"a":1}}`) }, class: ClassThrown},
	"forged timeout": {do: func(c *evilChild) { c.fail("timeout", "Enter your password", `{"limit":"<b>","max":-1}`) }, class: ClassTimeout, check: ownWords},
	"forged CPU":     {do: func(c *evilChild) { c.fail("cpu", "Enter your password", `{"limit":"fuel","max":-1,"value":-5}`) }, class: ClassCPU, check: ownWords},
	"forged memory":  {do: func(c *evilChild) { c.fail("memory", "Enter your password", "") }, class: ClassMemory, check: ownWords},
	"forged refusal": {do: func(c *evilChild) {
		c.fail("host_denied", "x", `{"reason":"address","capability":"filesystem:read(/)","extra":{"approval":"all"}}`)
	}, class: ClassHostDenied, check: func(t *testing.T, _ Result, e *Error) {
		if d := e.Details.(Refusal); d.Capability != "" || d.Extra != nil || d.Reason != ReasonCapability {
			t.Errorf("details %+v", d)
		}
	}},
	"long message": {do: func(c *evilChild) { c.fail("thrown", strings.Repeat("m", 900<<10), "") }, class: ClassThrown, check: func(t *testing.T, res Result, e *Error) {
		if len(e.Message) > maxMessage || res.Usage.PeakMemory > res.Usage.PeakMemory&(1<<40-1) {
			t.Errorf("message of %d bytes, usage %+v", len(e.Message), res.Usage)
		}
	}},
	"without Landlock": {bare: true, do: func(c *evilChild) { c.send(worker.FromChild{End: &worker.End{}}, "1") }, check: func(t *testing.T, res Result, _ *Error) {
		if res.Isolation != IsolationProcess || !slices.Contains(res.Reasons, worker.ReasonLandlock) {
			t.Errorf("isolation %s %v", res.Isolation, res.Reasons)
		}
	}},
	"odd reasons": {do: func(c *evilChild) { c.send(worker.FromChild{End: &worker.End{}}, "1") }, check: func(t *testing.T, res Result, _ *Error) {
		if slices.Contains(res.Reasons, "<script>") {
			t.Errorf("reasons %v", res.Reasons)
		}
	}},
	"speaks first":    {early: true, do: func(c *evilChild) { c.send(worker.FromChild{End: &worker.End{}}, "1") }, class: ClassUnavailable},
	"garbage at once": {early: true, do: func(*evilChild) { os.Stdout.Write([]byte("<html><body>hello")) }, class: ClassUnavailable},
	"dies at once":    {early: true, do: func(*evilChild) { os.Exit(1) }, class: ClassUnavailable},
}

func logCapped(t *testing.T, res Result, _ *Error) {
	total := 0
	for _, l := range res.Logs {
		total += len(l.Message)
	}
	if n := len(res.Logs); total > 1<<16+200 || n == 0 || n > 1<<12+2 || !strings.Contains(res.Logs[n-1].Message, "truncated") {
		t.Errorf("%d lines of log with %d bytes", n, total)
	}
}

func ownWords(t *testing.T, res Result, e *Error) {
	if strings.Contains(e.Message, "password") {
		t.Errorf("the child's words are shown: %q", e.Message)
	}
	if d := e.Details.(LimitDetail); d.Max <= 0 || d.Value < 0 {
		t.Errorf("details %+v", d)
	}
	if res.Usage.PeakMemory > 128<<20 || res.Usage.Fuel > 2e11 {
		t.Errorf("usage %+v", res.Usage)
	}
}

func TestHostileChildren(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	t.Parallel()
	p := compile(t, "return 1")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range evil {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := Open(context.Background(), Options{Idle: -1, CacheDir: sharedCache, WorkerCommand: []string{program, evilArgument, name}})
			if err != nil {
				t.Fatal(err)
			}
			var open atomic.Int64
			host := HostFunc(func(ctx context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
				if n := open.Add(1); n > fetchLane+toolLane+otherLane {
					t.Errorf("%d operations at once", n)
				}
				defer open.Add(-1)
				if bytes.Contains(req, []byte("wait")) {
					<-ctx.Done()
				}
				if bytes.Contains(req, []byte("big")) {
					return bytes.Repeat([]byte("1"), 4<<20), nil
				}
				return json.RawMessage("{}"), nil
			})
			limits := Limits{Wall: time.Minute, HostCalls: 20}
			if c.class == ClassTimeout && !strings.HasPrefix(name, "forged") {
				limits.Wall = 200 * time.Millisecond
			}
			res, xerr := e.Execute(context.Background(), p, Call{Tier: tier1, Host: host, Limits: limits})
			var x *Error
			if xerr != nil && !errors.As(xerr, &x) {
				t.Fatalf("%T", xerr)
			}
			if c.class == "" != (x == nil) || x != nil && x.Class != c.class {
				t.Errorf("ends with %v, want class %q", x, c.class)
			} else if c.check != nil {
				c.check(t, res, x)
			}
			if x != nil && strings.Contains(x.Message, "secret") {
				t.Errorf("message %q", x.Message)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A child in which Landlock turns out to be missing gets no run if it is required.
func TestChildWithoutLandlockIsRefused(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(context.Background(), Options{
		Idle: -1, CacheDir: sharedCache, MinIsolation: IsolationLandlock, WorkerCommand: []string{program, evilArgument, "without Landlock"},
	})
	if err != nil {
		t.Fatal(err)
	}
	res, err := e.Execute(context.Background(), compile(t, "return 1"), Call{Tier: tier1})
	var x *Error
	if !errors.As(err, &x) || x.Class != ClassUnavailable || res.Output != nil {
		t.Fatalf("%+v %v", res, err)
	}
	if d, ok := x.Details.(IsolationDetail); !ok || d.Required != IsolationLandlock {
		t.Errorf("details %+v", x.Details)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzChildFrames(f *testing.F) {
	f.Add([]byte(`{"log":{"level":"info","textSize":1}}`), []byte("x"), int64(1), "state.get")
	f.Add([]byte(`{"end":{"error":{"class":"thrown","message":"m","details":{"name":"E"}},"usage":{}}}`), []byte(""), int64(1), "fetch")
	f.Add([]byte(`{"end":{"usage":{"cpu":5}}}`), []byte("[1]"), int64(2), "tool")
	f.Add([]byte(`{"end":{"error":{"class":"cpu","message":"m","details":{"limit":"fuel","value":-9}},"usage":{}}}`), []byte(""), int64(1), "x")
	f.Fuzz(fuzzFrames)
}

// fuzzFrames feeds frames to a run without a process.
func fuzzFrames(t *testing.T, head, body []byte, id int64, op string) {
	c := newControl(context.Background(), shared, Call{Input: []byte("{}")}, Limits{}.effective(false))
	defer c.cancel()
	run := &tierRun{control: c, what: &Program{}, lanes: map[string]int{}, refusals: map[int64]*Error{}, child: &child{p: &worker.Process{In: worker.NewWriter(io.Discard, worker.ToChildLimits)}}}
	var b bytes.Buffer
	w := worker.NewWriter(&b, worker.FromChildLimits)
	_ = w.Write(worker.FromChild{Call: &worker.Call{ID: id, Op: op}}, body)
	b.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(head))), uint32(len(body))))
	b.Write(head)
	b.Write(body)
	_ = w.Write(worker.FromChild{End: &worker.End{}}, body)
	r := worker.NewReader(&b, worker.FromChildLimits)
	for range 10 {
		f, body, err := r.ReadFromChild()
		if err != nil || run.handle(f, body) != nil || f.End != nil {
			break
		}
	}
	run.calls.wait()
	if out := c.ended.Load(); out != nil {
		if out.err == nil && !json.Valid(out.output) {
			t.Fatalf("output %q", out.output)
		}
		if out.err != nil && (out.err.Class.Kind() == "" || len(out.err.Message) > maxMessage+100) {
			t.Fatalf("%+v", out.err)
		}
	}
}
