package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"helix/backend/fault"
)

// inRun calls fn with a run of a module with two pages of memory, as if the guest had called.
func inRun(t testing.TB, c Call, fn func(w *moduleRun, m guestMemory)) (*moduleRun, outcome) {
	t.Helper()
	m := loaded(t, fromText(t, `(module (memory (export "memory") 2) (func (export "execute")))`))
	in, err := m.code.take()
	if err != nil {
		t.Fatal(err)
	}
	defer m.code.release(in, false)
	if c.Input == nil {
		c.Input = json.RawMessage("{}")
	}
	unhurried(&c)
	r := newControl(context.Background(), shared, c, c.Limits.effective(true))
	w := &moduleRun{control: r, code: m.code, in: in, rand: shared.o.Rand}
	in.gauge.Arm(r.limits.Fuel)
	r.halt = in.gauge.Stop
	out := r.do(func() {
		w.openStandard()
		func() {
			defer func() {
				if x := recover(); x != nil && x != errEnded { //nolint:errorlint // the very value
					panic(x)
				}
			}()
			fn(w, guestMemory{in.mod.Memory()})
		}()
		w.flushErrors()
		if !w.over() {
			w.end(outcome{output: json.RawMessage("null")})
		}
	}, w.waitHosts)
	return w, out
}

// callImport calls an imported function by name.
func callImport(w *moduleRun, m guestMemory, module, name string, p ...uint64) errno {
	return importable()[module][name].call(w, m, p)
}

func wasiCall(w *moduleRun, m guestMemory, name string, p ...uint64) errno {
	return callImport(w, m, importWASI, name, p...)
}

const beyond = 2 << 16 // the first address after the memory of inRun

func TestPointersOutOfRange(t *testing.T) {
	t.Parallel()
	host := HostFunc(func(_ context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
		switch op {
		case OpFolders:
			return jsonObject(FoldersResponse{[]Folder{{Name: "/docs", Path: "/srv/docs"}}}), nil
		case OpReadBytes:
			return jsonObject(BytesResponse{Content: []byte("0123456789")}), nil
		case OpList:
			return jsonObject(ListResponse{[]DirEntry{{Name: "a", Size: 10}, {Name: "b", IsDir: true}}}), nil
		}
		return json.RawMessage(`{"x":1}`), nil
	})
	// 0 stands for a valid pointer, P for the tested one.
	const P = math.MaxUint64
	cases := []struct {
		name   string
		params []uint64
		size   uint64 // of the data at P
	}{
		{"args_sizes_get", []uint64{P, 0}, 4},
		{"args_sizes_get", []uint64{0, P}, 4},
		{"environ_sizes_get", []uint64{P, 0}, 4},
		{"environ_sizes_get", []uint64{0, P}, 4},
		{"clock_res_get", []uint64{0, P}, 8},
		{"clock_time_get", []uint64{0, 0, P}, 8},
		{"fd_fdstat_get", []uint64{0, P}, 24},
		{"fd_filestat_get", []uint64{0, P}, 64},
		{"fd_prestat_get", []uint64{3, P}, 8},
		{"fd_prestat_dir_name", []uint64{3, P, 5}, 5},
		{"fd_read", []uint64{0, P, 1, 0}, 8},
		{"fd_read", []uint64{0, 0, 0, P}, 4},
		{"fd_write", []uint64{1, P, 1, 0}, 8},
		{"fd_write", []uint64{1, 0, 0, P}, 4},
		{"fd_pread", []uint64{4, P, 1, 0, 0}, 8},
		{"fd_pread", []uint64{4, 0, 0, 0, P}, 4},
		{"fd_readdir", []uint64{3, P, 100, 0, 0}, 100},
		{"fd_readdir", []uint64{3, 0, 100, 0, P}, 4},
		{"fd_seek", []uint64{4, 0, 0, P}, 8},
		{"fd_tell", []uint64{4, P}, 8},
		{"path_open", []uint64{3, 0, P, 1, 0, 0, 0, 0, 0}, 1},
		{"path_open", []uint64{3, 0, 70000, 1, 0, 0, 0, 0, P}, 4},
		{"path_filestat_get", []uint64{3, 0, P, 1, 0}, 1},
		{"path_filestat_get", []uint64{3, 0, 70000, 1, P}, 64},
		{"path_readlink", []uint64{3, P, 1, 0, 1, 0}, 1},
		{"poll_oneoff", []uint64{P, 0, 1, 0}, 48},
		{"poll_oneoff", []uint64{0, P, 1, 0}, 32},
		{"poll_oneoff", []uint64{0, 0, 1, P}, 4},
		{"random_get", []uint64{P, 16}, 16},
	}
	for i, c := range cases {
		inRun(t, Call{Host: host}, func(w *moduleRun, m guestMemory) {
			m.Write(70000, []byte("a"))
			if e := wasiCall(w, m, "path_open", 3, 0, 70000, 1, 0, 0, 0, 0, 80000); e != errnoOK {
				t.Fatalf("opening a file: errno %d", e)
			}
			for _, at := range []uint64{beyond - c.size + 1, beyond - 1, beyond, beyond + 1, math.MaxUint32, math.MaxUint32 - c.size + 1, 1 << 31, 1<<31 - 1} {
				p := slices.Clone(c.params)
				p[slices.Index(p, P)] = at
				if c.size == 1 && at == beyond-1 {
					continue
				}
				if e := wasiCall(w, m, c.name, p...); e != errnoFault {
					t.Errorf("%d %s%v = %d, want EFAULT", i, c.name, p, e)
				}
			}
			if c.name == "path_readlink" || c.name == "poll_oneoff" {
				return
			}
			p := slices.Clone(c.params)
			p[slices.Index(p, P)] = beyond - c.size
			if c.size == 1 {
				p[slices.Index(c.params, P)] = 70000
			}
			if e := wasiCall(w, m, c.name, p...); e != errnoOK {
				t.Errorf("%d %s%v = %d at the end of the memory", i, c.name, p, e)
			}
		})
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	inRun(t, Call{Input: json.RawMessage(`"abcdefgh"`)}, func(w *moduleRun, m guestMemory) {
		put := func(at uint32, v ...uint32) {
			for i, x := range v {
				m.WriteUint32Le(at+uint32(4*i), x)
			}
		}
		for what, v := range map[string][]uint32{
			"behind the memory": {beyond, 1}, "across the end": {beyond - 1, 2}, "huge": {0, math.MaxUint32}, "around": {math.MaxUint32, 2},
			"second is wrong": {0, 1, beyond, 1},
		} {
			put(0, v...)
			for _, name := range []string{"fd_read", "fd_write"} {
				fd := uint64(0)
				if name == "fd_write" {
					fd = 1
				}
				if e := wasiCall(w, m, name, fd, 0, uint64(len(v)/2), 1000); e != errnoFault {
					t.Errorf("%s, %s: %d", name, what, e)
				}
			}
		}
		for _, n := range []uint64{maxVectors + 1, 1 << 28, 1<<29 + 1, math.MaxUint32} {
			if e := wasiCall(w, m, "fd_read", 0, 0, n, 1000); e != errnoInval {
				t.Errorf("%d vectors: %d", n, e)
			}
		}
		// Failed calls read and wrote nothing. Vectors of length zero do nothing.
		put(0, 2000, 0, 2000, 3, 3000, 0, 3000, 2)
		if e := wasiCall(w, m, "fd_read", 0, 0, 4, 1000); e != errnoOK {
			t.Fatal(e)
		}
		n, _ := m.ReadUint32Le(1000)
		a, _ := m.Read(2000, 4)
		b, _ := m.Read(3000, 3)
		if n != 5 || string(a) != "\"ab\x00" || string(b) != "cd\x00" {
			t.Errorf("read %d: %q %q", n, a, b)
		}
		// The same bytes many times: their total counts.
		for i := range uint32(100) {
			put(8*i, 0, 1<<16)
		}
		if e := wasiCall(w, m, "fd_write", 2, 0, 100, 1000); e != errnoOK {
			t.Errorf("writing 6 MiB of errors: %d", e)
		}
		if len(w.tail) > maxTail || len(w.output) != 0 {
			t.Errorf("keeps %d bytes, output %q", len(w.tail), w.output)
		}
		put(0, 0, 0)
		for range 10 {
			if e := wasiCall(w, m, "fd_read", 0, 0, 0, 1000); e != errnoOK {
				t.Errorf("no vectors: %d", e)
			}
		}
	})
}

func TestDescriptors(t *testing.T) {
	t.Parallel()
	inRun(t, Call{}, func(w *moduleRun, m guestMemory) {
		for _, name := range []string{
			"fd_close", "fd_sync", "fd_datasync", "fd_fdstat_get", "fd_filestat_get", "fd_tell", "fd_prestat_get", "fd_readdir", "fd_read", "fd_pread",
			"fd_seek", "fd_advise", "fd_allocate", "fd_filestat_set_size", "fd_fdstat_set_flags", "path_open", "path_filestat_get", "path_create_directory",
			"path_remove_directory", "path_unlink_file", "path_rename", "path_link", "sock_accept", "sock_recv", "sock_send", "sock_shutdown", "fd_renumber", "fd_write",
		} {
			for _, fd := range []uint64{3, 4, 63, 64, 1 << 20, math.MaxInt32, math.MaxUint32} {
				p := make([]uint64, 9)
				p[0] = fd
				if e := wasiCall(w, m, name, p...); e != errnoBadf {
					t.Errorf("%s(%d) = %d, want EBADF", name, fd, e)
				}
			}
		}
		want := func(what string, got, e errno) {
			t.Helper()
			if got != e {
				t.Errorf("%s = %d, want %d", what, got, e)
			}
		}
		want("read from output", wasiCall(w, m, "fd_read", 1, 0, 0, 0), errnoBadf)
		want("read from errors", wasiCall(w, m, "fd_read", 2, 0, 0, 0), errnoBadf)
		want("write to input", wasiCall(w, m, "fd_write", 0, 0, 0, 0), errnoBadf)
		want("seek in input", wasiCall(w, m, "fd_seek", 0, 0, 0, 0), errnoSpipe)
		want("tell of output", wasiCall(w, m, "fd_tell", 1, 0), errnoSpipe)
		want("pread of input", wasiCall(w, m, "fd_pread", 0, 0, 0, 0, 0), errnoSpipe)
		want("pwrite of output", wasiCall(w, m, "fd_pwrite", 1, 0, 0, 0, 0), errnoSpipe)
		want("prestat of input", wasiCall(w, m, "fd_prestat_get", 0, 0), errnoBadf)
		want("open below input", wasiCall(w, m, "path_open", 0, 0, 0, 1, 0, 0, 0, 0, 0), errnoNotdir)
		want("list input", wasiCall(w, m, "fd_readdir", 0, 0, 0, 0, 0), errnoNotdir)
		want("socket", wasiCall(w, m, "sock_shutdown", 1, 0), errnoNotsup)
		want("raise", wasiCall(w, m, "proc_raise", 9), errnoNosys)
		want("clock", wasiCall(w, m, "clock_time_get", 4, 0, 0), errnoInval)
		want("clock", wasiCall(w, m, "clock_res_get", math.MaxUint32, 0), errnoInval)
		want("flags", wasiCall(w, m, "fd_fdstat_set_flags", 0, flagNonblock), errnoOK)
		want("flags", wasiCall(w, m, "fd_fdstat_set_flags", 0, 16), errnoInval)
		want("yield", wasiCall(w, m, "sched_yield"), errnoOK)
		want("close", wasiCall(w, m, "fd_close", 1), errnoOK)
		want("close again", wasiCall(w, m, "fd_close", 1), errnoBadf)
		want("write after close", wasiCall(w, m, "fd_write", 1, 0, 0, 0), errnoBadf)
		// Standard input renumbered to standard error can be read there.
		want("renumber", wasiCall(w, m, "fd_renumber", 0, 2), errnoOK)
		m.WriteUint32Le(0, 100)
		m.WriteUint32Le(4, 10)
		want("read from 2", wasiCall(w, m, "fd_read", 2, 0, 1, 1000), errnoOK)
		if b, _ := m.Read(100, 2); string(b) != "{}" {
			t.Errorf("read %q", b)
		}
		want("read from 0", wasiCall(w, m, "fd_read", 0, 0, 1, 1000), errnoBadf)
	})
}

func TestInputEnds(t *testing.T) {
	t.Parallel()
	inRun(t, Call{Input: json.RawMessage("[1]")}, func(w *moduleRun, m guestMemory) {
		m.WriteUint32Le(0, 100)
		m.WriteUint32Le(4, 2)
		var all []byte
		for i := range 10 {
			if e := wasiCall(w, m, "fd_read", 0, 0, 1, 1000); e != errnoOK {
				t.Fatal(e)
			}
			n, _ := m.ReadUint32Le(1000)
			if i >= 2 && n != 0 {
				t.Errorf("read %d bytes behind the end", n)
			}
			b, _ := m.Read(100, n)
			all = append(all, b...)
		}
		if string(all) != "[1]" {
			t.Errorf("read %q", all)
		}
	})
}

func TestPoll(t *testing.T) {
	t.Parallel()
	sub := func(user uint64, kind byte, fd uint32, timeout uint64, flags uint16) []byte {
		b := make([]byte, subscriptionSize)
		binary.LittleEndian.PutUint64(b, user)
		b[8] = kind
		binary.LittleEndian.PutUint32(b[16:], fd)
		binary.LittleEndian.PutUint64(b[24:], timeout)
		binary.LittleEndian.PutUint16(b[40:], flags)
		return b
	}
	ms := uint64(time.Millisecond)
	inRun(t, Call{}, func(w *moduleRun, m guestMemory) {
		poll := func(subs ...[]byte) (events [][]byte, took time.Duration) {
			t.Helper()
			m.Write(0, bytes.Join(subs, nil))
			begun := time.Now()
			if e := wasiCall(w, m, "poll_oneoff", 0, 10_000, uint64(len(subs)), 9000); e != errnoOK {
				t.Fatal(e)
			}
			took = time.Since(begun)
			n, _ := m.ReadUint32Le(9000)
			for i := range n {
				b, _ := m.Read(10_000+i*eventSize, eventSize)
				events = append(events, bytes.Clone(b))
			}
			return events, took
		}
		// Only the shorter of two clocks.
		ev, took := poll(sub(1, pollClock, clockMonotonic, 3600_000*ms, 0), sub(2, pollClock, clockMonotonic, 20*ms, 0))
		if len(ev) != 1 || ev[0][0] != 2 || took < 20*time.Millisecond {
			t.Errorf("clocks: %v after %v", ev, took)
		}
		// Input is ready at once, whatever a clock says; a closed descriptor is an error.
		ev, _ = poll(sub(3, pollClock, clockMonotonic, 3600_000*ms, 0), sub(4, pollRead, 0, 0, 0), sub(5, pollWrite, 1, 0, 0), sub(6, pollRead, 77, 0, 0))
		if len(ev) != 3 || ev[0][0] != 4 || ev[1][0] != 5 || ev[2][0] != 6 {
			t.Errorf("files: %v", ev)
		}
		if got := binary.LittleEndian.Uint64(ev[0][16:]); got != 2 {
			t.Errorf("%d bytes to read", got)
		}
		if errno(binary.LittleEndian.Uint16(ev[2][8:])) != errnoBadf || ev[0][10] != pollRead || ev[1][10] != pollWrite {
			t.Errorf("events %v", ev)
		}
		// A time that has passed.
		if ev, _ = poll(sub(7, pollClock, clockRealtime, 1000, 1)); len(ev) != 1 || ev[0][0] != 7 {
			t.Errorf("absolute: %v", ev)
		}
		if ev, _ = poll(sub(8, pollClock, clockMonotonic, 0, 0)); len(ev) != 1 {
			t.Errorf("no time: %v", ev)
		}
		m.Write(0, sub(1, 9, 0, 0, 0))
		for what, p := range map[string][]uint64{
			"none": {0, 10_000, 0, 9000}, "too many": {0, 10_000, maxSubscriptions + 1, 9000}, "overflow": {0, 10_000, 1 << 28, 9000}, "kind": {0, 10_000, 1, 9000},
		} {
			if e := wasiCall(w, m, "poll_oneoff", p...); e != errnoInval {
				t.Errorf("%s: %d", what, e)
			}
		}
		m.Write(0, sub(1, pollClock, 17, 0, 0))
		if e := wasiCall(w, m, "poll_oneoff", 0, 10_000, 1, 9000); e != errnoInval {
			t.Errorf("unknown clock: %d", e)
		}
	})
}

func TestSleepEndsWithTheRun(t *testing.T) {
	t.Parallel()
	sleep := textModule(t, `(data (i32.const 24) "\ff\ff\ff\ff\ff\ff\ff\7f")`, `(drop (call $poll_oneoff (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 200)))`)
	// The wall time limit ends it: sleeping uses no CPU time.
	if _, err := tryModule(t, sleep, Call{Limits: Limits{Wall: 1100 * time.Millisecond, CPU: time.Second}}); err == nil || err.Class != ClassTimeout {
		t.Fatalf("%v, want timeout", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := shared.Execute(ctx, compileWASM(t, sleep), Call{Tier: tier0}); !fault.Is(err, fault.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

func TestRandomAndClock(t *testing.T) {
	t.Parallel()
	read := func(seed *[8]byte, n int) []byte {
		var out []byte
		inRun(t, Call{Seed: seed}, func(w *moduleRun, m guestMemory) {
			if seed != nil {
				w.rand = w.seeded(*seed)
			}
			if e := wasiCall(w, m, "random_get", 0, uint64(n)); e != errnoOK {
				t.Fatal(e)
			}
			b, _ := m.Read(0, uint32(n))
			out = bytes.Clone(b)
		})
		return out
	}
	if a, b := read(nil, 64), read(nil, 64); bytes.Equal(a, b) || bytes.Equal(a, make([]byte, 64)) {
		t.Error("random bytes repeat")
	}
	one, two := [8]byte{1}, [8]byte{2}
	if !bytes.Equal(read(&one, 100_000), read(&one, 100_000)) || bytes.Equal(read(&one, 64), read(&two, 64)) {
		t.Error("the seed does not decide")
	}
	inRun(t, Call{}, func(w *moduleRun, m guestMemory) {
		now := func(id uint64) uint64 {
			if e := wasiCall(w, m, "clock_time_get", id, 1, 0); e != errnoOK {
				t.Fatal(e)
			}
			v, _ := m.ReadUint64Le(0)
			return v
		}
		if d := time.Since(time.Unix(0, int64(now(clockRealtime)))); d < 0 || d > time.Hour {
			t.Errorf("the time is %v off", d)
		}
		if a := now(clockMonotonic); a > uint64(time.Hour) || now(clockMonotonic) < a || a%uint64(clockStep) != 0 {
			t.Errorf("monotonic clock %d", a)
		}
		now(clockProcessCPU)
		now(clockThreadCPU)
	})
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	w, _ := inRun(t, Call{}, func(w *moduleRun, m guestMemory) {
		wasiCall(w, m, "proc_exit", 7)
		t.Error("went on")
	})
	if !w.exited || w.exitCode != 7 {
		t.Errorf("exited %v with %d", w.exited, w.exitCode)
	}
}

// FuzzImports calls functions with arbitrary arguments: nothing may panic, and nothing may be kept
// beyond its limit.
func FuzzImports(f *testing.F) {
	var all []string
	for module, functions := range importable() {
		for name := range functions {
			all = append(all, module+"."+name)
		}
	}
	slices.Sort(all)
	f.Add(uint64(1), []byte(`{"op":"x"}`))
	f.Add(uint64(99), []byte{})
	host := HostFunc(func(_ context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
		if op == OpFolders {
			return jsonObject(FoldersResponse{[]Folder{{Name: "/docs", Path: "/srv/docs"}}}), nil
		}
		return json.RawMessage(`{"content":"YWJj","entries":[{"name":"a","size":3}]}`), nil
	})
	f.Fuzz(func(t *testing.T, seed uint64, memory []byte) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		interesting := []uint64{0, 1, 2, 3, 4, 5, 8, 48, 100, 1024, 65528, 65536, beyond - 1, beyond, 1 << 20, math.MaxInt32, 1 << 31, math.MaxUint32, math.MaxUint32 - 7, math.MaxInt64, math.MaxUint64}
		w, _ := inRun(t, Call{Host: host, Limits: Limits{Wall: 100 * time.Millisecond}}, func(w *moduleRun, m guestMemory) {
			m.Write(0, memory[:min(len(memory), beyond)])
			for range 50 {
				name := all[rnd.IntN(len(all))]
				var module, function string
				fmt.Sscanf(name[:len(importHelix)], "%s", &module)
				if module == importHelix {
					function = name[len(importHelix)+1:]
				} else {
					module, function = importWASI, name[len(importWASI)+1:]
				}
				if function == "proc_exit" {
					continue
				}
				fn := importable()[module][function]
				p := make([]uint64, len(fn.params))
				for i, c := range fn.params {
					p[i] = interesting[rnd.IntN(len(interesting))]
					if c == 'i' {
						p[i] = uint64(uint32(p[i]))
					}
				}
				fn.call(w, m, p)
				if w.over() {
					return
				}
			}
		})
		if len(w.files.open) > maxOpen || w.files.bytes > maxOpenBytes || w.files.bytes < 0 || int64(len(w.output)) > w.limits.OutputBytes || len(w.tail) > maxTail || len(w.line) > maxLine {
			t.Errorf("keeps %d files of %d bytes, %d bytes of output, %d, %d", len(w.files.open), w.files.bytes, len(w.output), len(w.tail), len(w.line))
		}
	})
}
