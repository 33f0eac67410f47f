package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// wasi is the beginning of modules that the tests write as text: the imported functions, a memory,
// and helpers. $out writes a text, $end ends a run.
const wasi = `
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $write (param $fd i32) (param $at i32) (param $n i32)
    (i32.store (i32.const 65000) (local.get $at))
    (i32.store (i32.const 65004) (local.get $n))
    (drop (call $fd_write (local.get $fd) (i32.const 65000) (i32.const 1) (i32.const 65008))))
  (func $out (param $at i32) (param $n i32) (call $write (i32.const 1) (local.get $at) (local.get $n)))
  ;; $number writes a number from 0 to 9999 as four digits behind a 1.
  (func $number (param $v i32)
    (i32.store8 (i32.const 64000) (i32.const 49))
    (i32.store8 (i32.const 64001) (i32.add (i32.const 48) (i32.rem_u (i32.div_u (local.get $v) (i32.const 1000)) (i32.const 10))))
    (i32.store8 (i32.const 64002) (i32.add (i32.const 48) (i32.rem_u (i32.div_u (local.get $v) (i32.const 100)) (i32.const 10))))
    (i32.store8 (i32.const 64003) (i32.add (i32.const 48) (i32.rem_u (i32.div_u (local.get $v) (i32.const 10)) (i32.const 10))))
    (i32.store8 (i32.const 64004) (i32.add (i32.const 48) (i32.rem_u (local.get $v) (i32.const 10))))
    (call $out (i32.const 64000) (i32.const 5)))
`

// textModule returns a module with the given parts and a body of execute.
func textModule(t testing.TB, parts, body string) []byte {
	t.Helper()
	return fromText(t, wasi+parts+"\n(func (export \"execute\")\n"+body+"))")
}

func wantModuleClass(t testing.TB, wasm []byte, c Call, want Class) *Error {
	t.Helper()
	res, err := tryModule(t, wasm, c)
	if err == nil || err.Class != want {
		t.Fatalf("ends with %v (output %.200s), want class %s", err, res.Output, want)
	}
	return err
}

func TestExecuteABI(t *testing.T) {
	t.Parallel()
	// _initialize is called first and once; whitespace around the result is allowed.
	wasm := textModule(t, `
		(global $n (mut i32) (i32.const 5))
		(func (export "_initialize") (global.set $n (i32.mul (global.get $n) (i32.const 7))))
		(data (i32.const 100) "\n ")`,
		`(call $out (i32.const 100) (i32.const 2)) (call $number (global.get $n)) (call $out (i32.const 100) (i32.const 2))`)
	for range 3 {
		if got := string(runModule(t, wasm, Call{}).Output); got != "10035" {
			t.Fatalf("output %q", got)
		}
	}
	info := compileWASM(t, wasm).Info()
	if info.ABI != ABIExecute || info.Memory != 1 || info.Size != int64(len(wasm)) || len(info.SHA256) != 64 ||
		!slices.Equal(info.Exports, []string{"memory", "_initialize", "execute"}) || !slices.Contains(info.Imports, "helix.call") || info.Tables != 0 {
		t.Errorf("info %+v", info)
	}
}

func TestStartSectionRunsFirst(t *testing.T) {
	t.Parallel()
	wasm := textModule(t, `
		(global $n (mut i32) (i32.const 1))
		(func $s (global.set $n (i32.add (global.get $n) (i32.const 2))))
		(func (export "_initialize") (global.set $n (i32.mul (global.get $n) (i32.const 7))))
		(start $s)`, `(call $number (global.get $n))`)
	for range 3 {
		if got := string(runModule(t, wasm, Call{}).Output); got != "10021" {
			t.Fatalf("output %q", got)
		}
	}
}

func TestCommandABI(t *testing.T) {
	t.Parallel()
	wasm := fromC(t, "command")
	if m := compileWASM(t, wasm); m.Info().ABI != ABICommand {
		t.Errorf("abi %q", m.Info().ABI)
	}
	res := runModule(t, wasm, Call{Input: []byte(`{"exit":0}`)})
	if string(res.Output) != `{"read":10,"arguments":0,"environment":0}` {
		t.Errorf("output %s", res.Output)
	}
	if len(res.Logs) != 2 || res.Logs[0].Message != "first line" || res.Logs[1].Message != "no end of line" || res.Logs[0].Level != "info" {
		t.Errorf("logs %v", res.Logs)
	}
	res, err := tryModule(t, wasm, Call{Input: []byte(`{"exit":3}`)})
	if err == nil || err.Class != ClassTrap || err.Details != (ExitDetail{3}) || !strings.HasPrefix(err.Message, "exit 3: ") || !strings.HasSuffix(err.Message, "no end of line") {
		t.Errorf("exit 3 = %v", err)
	}
	if len(res.Logs) != 2 || res.Output != nil {
		t.Errorf("exit 3 keeps logs %v and output %s", res.Logs, res.Output)
	}
}

func TestModuleFromGo(t *testing.T) {
	testkit.SkipRaced(t, "compiles much, and one thing after the other")
	t.Parallel()
	wasm := fromGo(t, "program")
	run := func(in string) map[string]any {
		t.Helper()
		var v map[string]any
		if err := json.Unmarshal(runModule(t, wasm, Call{Input: []byte(in)}).Output, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := run(`{"do":"echo","n":[1,"ü"]}`); !strings.Contains(string(jsonObject(v)), `"n":[1,"ü"]`) {
		t.Errorf("echo %v", v)
	}
	if v := run(`{"do":"surroundings"}`); len(v["args"].([]any)) != 0 || len(v["env"].([]any)) != 0 || v["root"] != true {
		t.Errorf("surroundings %v", v)
	}
	if v := run(`{"do":"sleep","ms":30}`); v["slept"].(float64) < 30 {
		t.Errorf("slept %v", v)
	}
	for in, want := range map[string]string{
		`{"do":"exit","code":3}`:             "exit 3: leaving now",
		`{"do":"panic"}`:                     "panic: the program is wrong",
		`{"do":"read","path":"/etc/passwd"}`: "exit 3: open /etc/passwd",
	} {
		if err := wantModuleClass(t, wasm, Call{Input: []byte(in)}, ClassTrap); !strings.Contains(err.Message, want) {
			t.Errorf("%s: %q", in, err.Message)
		}
	}
	if _, err := tryModule(t, wasm, Call{Input: []byte(`{"do":"exit","code":0}`)}); err == nil || err.Class != ClassOutput {
		t.Errorf("exit 0 without output = %v", err)
	}
	e := wantModuleClass(t, wasm, Call{Input: []byte(`{"do":"allocate","size":300000000}`)}, ClassMemory)
	if d, ok := e.Details.(LimitDetail); !ok || d.Max != 128<<20 || d.Value > d.Max {
		t.Errorf("details %+v", e.Details)
	}
	if v := run(`{"do":"allocate","size":30000000}`); v["allocated"].(float64) != 3e7 {
		t.Errorf("allocate %v", v)
	}
}

// TestExecuteFromGo runs a Go program that exports execute, with answers from the host.
func TestExecuteFromGo(t *testing.T) {
	testkit.SkipRaced(t, "compiles much, and one thing after the other")
	t.Parallel()
	wasm := fromGo(t, "reactor")
	if abi := compileWASM(t, wasm).Info().ABI; abi != ABIExecute {
		t.Errorf("abi %q", abi)
	}
	host := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"found":true,"value":"hello"}`), nil
	})
	for range 3 {
		res := runModule(t, wasm, Call{Host: host, Input: []byte(`[5]`)})
		if got := string(res.Output); got != `{"answer":{"found":true,"value":"hello"},"calls":1,"failed":false,"in":[5]}` {
			t.Errorf("output %s", got)
		}
	}
	if got := string(runModule(t, wasm, Call{Input: []byte(`[5]`)}).Output); !strings.Contains(got, `"failed":true`) || !strings.Contains(got, `"name":"PermissionError"`) {
		t.Errorf("without a host: %s", got)
	}
}

func TestExitInsideExecute(t *testing.T) {
	t.Parallel()
	well := textModule(t, ``, `(call $number (i32.const 7)) (call $proc_exit (i32.const 0)) (call $number (i32.const 8))`)
	for range 3 {
		if got := string(runModule(t, well, Call{}).Output); got != "10007" {
			t.Fatalf("output %q", got)
		}
	}
	if err := wantModuleClass(t, textModule(t, ``, `(call $number (i32.const 7)) (call $proc_exit (i32.const -1))`), Call{}, ClassTrap); err.Message != "exit 4294967295" {
		t.Errorf("message %q", err.Message)
	}
	early := textModule(t, `(func (export "_initialize") (call $number (i32.const 1)) (call $proc_exit (i32.const 0)))`, `(unreachable)`)
	if got := string(runModule(t, early, Call{}).Output); got != "10001" {
		t.Errorf("output %q", got)
	}
}

func TestMissingExport(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text  string
		lists []string
	}{
		"nothing":                {`(module)`, []string{"nothing"}},
		"other names":            {`(module (memory (export "memory") 1) (func (export "run") (param i32) (result i64) (i64.const 1)))`, []string{"memory (memory)", "run(i32) i64"}},
		"execute with argument":  {`(module (memory (export "memory") 1) (func (export "execute") (param i32)))`, []string{"execute(i32)"}},
		"execute with result":    {`(module (memory (export "memory") 1) (func (export "execute") (result i32) (i32.const 1)))`, []string{"execute() i32"}},
		"execute is a global":    {`(module (memory (export "memory") 1) (global (export "execute") i32 (i32.const 1)))`, []string{"execute (global)"}},
		"no memory":              {`(module (func (export "execute")))`, []string{"execute()", "not its memory"}},
		"memory is not exported": {`(module (memory 1) (func (export "execute")))`, []string{"execute()", "not its memory"}},
		"start with argument":    {`(module (memory (export "memory") 1) (func (export "_start") (param i32)))`, []string{"_start(i32)"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := shared.CompileWASM(context.Background(), fromText(t, c.text))
			var e *Error
			if !errors.As(err, &e) || e.Class != ClassMissingExport || e.Class.Kind() != fault.Invalid {
				t.Fatalf("%v, want missing_export", err)
			}
			for _, l := range c.lists {
				if !strings.Contains(e.Message, l) {
					t.Errorf("%q does not say %q", e.Message, l)
				}
			}
		})
	}
	many := "(module (memory 1)"
	for i := range 100 {
		many += strings.ReplaceAll(` (func (export "f#"))`, "#", strings.Repeat("x", i))
	}
	_, err := shared.CompileWASM(context.Background(), fromText(t, many+")"))
	if e := fault.As(err); !strings.Contains(e.Message, "and 80 more") || len(e.Message) > 4000 {
		t.Errorf("%d bytes: %.200s", len(e.Message), e.Message)
	}
}

func TestRefusedModules(t *testing.T) {
	t.Parallel()
	entry := `(memory (export "memory") 1) (func (export "execute"))`
	cases := map[string]struct{ text, feature string }{
		"foreign module":   {`(module (import "env" "f" (func)) ` + entry + `)`, "import"},
		"extism":           {`(module (import "extism:host/env" "input_length" (func (result i64))) ` + entry + `)`, "import"},
		"unknown function": {`(module (import "wasi_snapshot_preview1" "fd_exec" (func)) ` + entry + `)`, "import"},
		"unknown of helix": {`(module (import "helix" "spawn" (func (param i32 i32) (result i32))) ` + entry + `)`, "import"},
		"other signature":  {`(module (import "helix" "call" (func (param i64 i32) (result i32))) ` + entry + `)`, "import"},
		"no result":        {`(module (import "helix" "call" (func (param i32 i32))) ` + entry + `)`, "import"},
		"two results":      {`(module (import "helix" "call" (func (param i32 i32) (result i32 i32))) ` + entry + `)`, "import"},
		"memory import":    {`(module (import "helix" "call" (memory 1)) (func (export "execute")))`, "import"},
		"global import":    {`(module (import "helix" "call" (global i32)) ` + entry + `)`, "import"},
		"table import":     {`(module (import "helix" "call" (table 1 funcref)) ` + entry + `)`, "import"},
		"meter's import":   {`(module (import "helix" "helix:fuel" (global (mut i64))) ` + entry + `)`, "import"},
		"reserved name":    {`(module (global (export "helix:fuel") (mut i64) (i64.const 1)) ` + entry + `)`, "reserved name"},
		"reserved start":   {`(module (func (export "helix:start")) ` + entry + `)`, "reserved name"},
		"reserved global":  {`(module (global (export "helix:global:0") i64 (i64.const 1)) ` + entry + `)`, "reserved name"},
		"threads":          {`(module (memory (export "memory") 1 1 shared) (func (export "execute")))`, "threads"},
		"exceptions":       {`(module (tag) ` + entry + `)`, "exceptions"},
		"tail call":        {`(module (func $f return_call $f) ` + entry + `)`, "tail calls"},
		"memory64":         {`(module (memory (export "memory") i64 1) (func (export "execute")))`, "memory64"},
		"two memories":     {`(module (memory 1) ` + entry + `)`, "multi-memory"},
		"large memory":     {`(module (memory (export "memory") 4097) (func (export "execute")))`, "module limits"},
		"large table":      {`(module (table 1000001 funcref) ` + entry + `)`, "module limits"},
		"data outside":     {`(module (data (i32.const 65535) "ab") ` + entry + `)`, "invalid"},
		"data below":       {`(module (data (i32.const -1) "a") ` + entry + `)`, "invalid"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := shared.CompileWASM(context.Background(), fromText(t, c.text))
			wantRefused(t, err, c.feature)
		})
	}
	whole := fromC(t, "command")
	for name, wasm := range map[string][]byte{
		"empty": {}, "magic only": []byte("\x00asm"), "text": []byte(`{"not":"wasm"}`), "cut": whole[:len(whole)/2],
		"component": []byte("\x00asm\x0d\x00\x01\x00"), "version": []byte("\x00asm\x02\x00\x00\x00"), "cut by one": whole[:len(whole)-1],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := shared.CompileWASM(context.Background(), wasm)
			wantRefused(t, err, "")
		})
	}
	t.Run("large", func(t *testing.T) {
		t.Parallel()
		_, err := shared.CompileWASM(context.Background(), make([]byte, 32<<20+1))
		wantRefused(t, err, "module limits")
	})
}

func wantRefused(t *testing.T, err error, feature string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Class != ClassCompile || e.Class.Kind() != fault.Invalid {
		t.Fatalf("%v, want compile", err)
	}
	d, ok := e.Details.(ModuleDetail)
	if !ok || d.Feature == "" || d.Offset < 0 || feature != "" && d.Feature != feature {
		t.Errorf("details %+v, want feature %q: %v", e.Details, feature, e)
	}
}

func TestModuleInput(t *testing.T) {
	t.Parallel()
	wasm := fromC(t, "json")
	big := append(append([]byte(`"`), bytes.Repeat([]byte("x"), 4<<20-2)...), '"')
	if got := string(runModule(t, wasm, Call{Input: big}).Output); !strings.Contains(got, `"strings":1`) {
		t.Errorf("4 MiB: %s", got)
	}
	wantModuleClass(t, wasm, Call{Input: append(big, ' ')}, ClassInput)
	wantModuleClass(t, wasm, Call{Input: []byte("{")}, ClassInput)
	if got := string(runModule(t, wasm, Call{}).Output); !strings.Contains(got, `"objects":1`) {
		t.Errorf("no input is {}: %s", got)
	}
	if _, err := tryModule(t, wasm, Call{Input: []byte(`[1,2]`), Limits: Limits{InputBytes: 4}}); err == nil || err.Class != ClassInput {
		t.Errorf("over the caller's limit: %v", err)
	}
}

func TestModuleOutput(t *testing.T) {
	t.Parallel()
	// repeat writes the first bytes of the input as output, many times.
	const repeat = `
		(func $repeat (param $n i32) (loop $l
			(call $out (i32.const 1000) (i32.const 1000))
			(br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
		(func (export "_initialize") (memory.fill (i32.const 1000) (i32.const 55) (i32.const 1000)))`
	const quote = `(call $out (i32.const 900) (i32.const 1))`
	exactly := textModule(t, `(data (i32.const 900) "\22")`+repeat, quote+`(call $out (i32.const 1000) (i32.const 998)) (call $repeat (i32.const 9))`+quote)
	if res := runModule(t, exactly, Call{Limits: Limits{OutputBytes: 10_000}}); len(res.Output) != 10_000 || res.Usage.OutputBytes != 10_000 {
		t.Errorf("%d bytes", len(res.Output))
	}
	err := wantModuleClass(t, exactly, Call{Limits: Limits{OutputBytes: 9_999}}, ClassOutput)
	if d, ok := err.Details.(LimitDetail); !ok || d.Limit != "outputBytes" || d.Max != 9_999 || d.Value != 10_000 {
		t.Errorf("details %+v", err.Details)
	}
	if !strings.Contains(err.Message, strings.Repeat("7", 199)) || strings.Contains(err.Message, strings.Repeat("7", 201)) {
		t.Errorf("message %q", err.Message)
	}
	wantModuleClass(t, textModule(t, repeat, `(call $repeat (i32.const 2000000000))`), Call{}, ClassOutput)
	cases := map[string]string{
		"empty":        ``,
		"blank":        `\n \t\r\n`,
		"two values":   `1 2`,
		"text":         `hello`,
		"half":         `{\"a\":`,
		"NUL":          `\"a\00b\"`,
		"not UTF-8":    `\"\ff\"`,
		"byte order":   `\ef\bb\bf1`,
		"NaN":          `NaN`,
		"trailing NUL": `1\00`,
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := len(strings.NewReplacer(`\n`, "1", `\t`, "1", `\r`, "1", `\"`, "1", `\00`, "1", `\ff`, "1", `\ef`, "1", `\bb`, "1", `\bf`, "1").Replace(text))
			wasm := textModule(t, `(data (i32.const 1000) "`+text+`") (data (i32.const 2000) "a line of the log")`,
				`(call $write (i32.const 2) (i32.const 2000) (i32.const 17)) (call $out (i32.const 1000) (i32.const `+itoa(n)+`))`)
			res, err := tryModule(t, wasm, Call{})
			if err == nil || err.Class != ClassOutput || err.Class.Kind() != fault.Limit {
				t.Fatalf("%v", err)
			}
			if name == "text" && !strings.Contains(err.Message, "hello") {
				t.Errorf("message %q", err.Message)
			}
			if len(res.Logs) != 1 || res.Logs[0].Message != "a line of the log" {
				t.Errorf("logs %v", res.Logs)
			}
		})
	}
	for _, text := range []string{"0", "false", "null", `\22\22`, "[]", "-1.5e3"} {
		n := len(strings.ReplaceAll(text, `\22`, "1"))
		want := strings.ReplaceAll(text, `\22`, `"`)
		wasm := textModule(t, `(data (i32.const 1000) "`+text+`")`, `(call $out (i32.const 1000) (i32.const `+itoa(n)+`))`)
		if got := string(runModule(t, wasm, Call{}).Output); got != want {
			t.Errorf("output %q, want %q", got, want)
		}
	}
}

func itoa(n int) string { return string(jsonObject(n)) }
