package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// TestModulesInBothTiers checks that a module ends in a child as it does in this process.
func TestModulesInBothTiers(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	files := folderHost(docs(t))
	host := HostFunc(func(ctx context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
		switch op {
		case OpStateGet:
			return json.RawMessage(`{"found":false}`), nil
		case OpFetch:
			return nil, fault.Deniedf("No network.").WithDetails(Refusal{Reason: ReasonCapability, Capability: "network:https(a.b)"})
		}
		return files(ctx, op, req)
	})
	cases := map[string]struct {
		wasm   []byte
		input  string
		limits Limits
	}{
		"json":          {fromC(t, "json"), `{"a":[1,2,{"b":null}]}`, Limits{}},
		"command":       {fromC(t, "command"), `{"exit":0}`, Limits{}},
		"exit":          {fromC(t, "command"), `{"exit":3}`, Limits{}},
		"files":         {fromC(t, "files"), `{}`, Limits{}},
		"host call":     {helixGuest(t, `{"op":"state.get","key":"k"}`, `(call $number (local.get $r))`), `{}`, Limits{}},
		"refused":       {helixGuest(t, `{"op":"fetch","url":"https://a.b"}`, `(unreachable)`), `{}`, Limits{}},
		"got over it":   {helixGuest(t, `{"op":"fetch","url":"https://a.b"}`, `(call $number (i32.const 1))`), `{}`, Limits{}},
		"log":           {helixGuest(t, `{"op":"log","level":"warn","message":"so"}`, `(call $number (i32.const 1))`), `{}`, Limits{}},
		"trap":          {textModule(t, ``, `(drop (i32.div_s (i32.const 1) (i32.const 0)))`), `{}`, Limits{}},
		"nothing":       {textModule(t, ``, ``), `{}`, Limits{}},
		"large output":  {textModule(t, ``, `(loop $l (call $out (i32.const 0) (i32.const 60000)) (br $l))`), `{}`, Limits{}},
		"fuel":          {textModule(t, ``, spin), `{}`, Limits{Fuel: 3_000_000}},
		"memory":        {textModule(t, ``, `(if (i32.eq (memory.grow (i32.const 5000)) (i32.const -1)) (then (unreachable)))`), `{}`, Limits{}},
		"begins larger": {fromText(t, `(module (memory (export "memory") 100) (func (export "execute")))`), `{}`, Limits{MemoryBytes: 1 << 20}},
		"in start":      {textModule(t, `(func $s (call $number (i32.const 3)) (call $proc_exit (i32.const 0))) (start $s)`, `(unreachable)`), `{}`, Limits{}},
	}
	type seen struct {
		Output  string
		Class   Class
		Message string
		Details any
		Stack   string
		Logs    []string
		Calls   int
		Peak    int64
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := compileWASM(t, c.wasm)
			var got [2]seen
			for i, tier := range []string{tier0, tier1} {
				call := Call{Input: json.RawMessage(c.input), Host: host, Limits: c.limits, Tier: tier}
				unhurried(&call)
				res, err := shared.Execute(context.Background(), m, call)
				s := seen{Output: string(res.Output), Calls: res.Usage.HostCalls, Peak: res.Usage.PeakMemory}
				var e *Error
				if errors.As(err, &e) {
					s.Class, s.Message, s.Stack, s.Details = e.Class, e.Message, e.Stack, e.Details
					if d, ok := e.Details.(LimitDetail); ok && d.Limit == "fuel" {
						s.Details = d.Max // the usage differs by up to a slice
					}
				}
				if name == "begins larger" { // the parent has its own message
					s.Message, s.Details = "", nil
				}
				for _, l := range res.Logs {
					s.Logs = append(s.Logs, l.Level+" "+l.Message)
				}
				if res.Tier != tier {
					t.Errorf("ran in %s", res.Tier)
				}
				got[i] = s
			}
			if !reflect.DeepEqual(got[0], got[1]) {
				t.Errorf("here  %+v\nchild %+v", got[0], got[1])
			}
		})
	}
}
