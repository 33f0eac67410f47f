package sandbox

import (
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// The modules that a guest may import from.
const (
	importWASI  = "wasi_snapshot_preview1"
	importHelix = "helix"
)

// errno is a WASI error number.
type errno uint32

const (
	errnoOK         errno = 0
	errnoAcces      errno = 2
	errnoBadf       errno = 8
	errnoFault      errno = 21
	errnoFbig       errno = 22
	errnoIlseq      errno = 25
	errnoInval      errno = 28
	errnoIO         errno = 29
	errnoIsdir      errno = 31
	errnoNametoo    errno = 37
	errnoNfile      errno = 41
	errnoNoent      errno = 44
	errnoNosys      errno = 52
	errnoNotdir     errno = 54
	errnoNotsup     errno = 58
	errnoOverflow   errno = 61
	errnoRofs       errno = 69
	errnoSpipe      errno = 70
	errnoNotcapable errno = 76
)

// importedFunction is a function that guests may import. params has a letter for each parameter: i
// is i32, I is i64; result reports whether it returns an i32.
type importedFunction struct {
	params string
	result bool
	call   func(w *moduleRun, m guestMemory, p []uint64) errno
}

// importable returns all functions that guests may import, by module and name.
func importable() map[string]map[string]importedFunction {
	f := func(params string, call func(*moduleRun, guestMemory, []uint64) errno) importedFunction {
		return importedFunction{params, true, call}
	}
	// onFile wraps a function whose first parameter is a descriptor.
	onFile := func(params string, call func(*moduleRun, *openFile, guestMemory, []uint64) errno) importedFunction {
		return f(params, func(w *moduleRun, m guestMemory, p []uint64) errno {
			if file := w.file(p[0]); file != nil {
				return call(w, file, m, p)
			}
			return errnoBadf
		})
	}
	answer := func(params string, e errno) importedFunction {
		return onFile(params, func(*moduleRun, *openFile, guestMemory, []uint64) errno { return e })
	}
	return map[string]map[string]importedFunction{
		importWASI: {
			"args_get":                f("ii", (*moduleRun).noStrings),
			"args_sizes_get":          f("ii", (*moduleRun).noSizes),
			"environ_get":             f("ii", (*moduleRun).noStrings),
			"environ_sizes_get":       f("ii", (*moduleRun).noSizes),
			"clock_res_get":           f("ii", (*moduleRun).clockResolution),
			"clock_time_get":          f("iIi", (*moduleRun).clockTime),
			"fd_advise":               onFile("iIIi", (*moduleRun).fdAdvise),
			"fd_allocate":             answer("iII", errnoRofs),
			"fd_close":                onFile("i", (*moduleRun).fdClose),
			"fd_datasync":             answer("i", errnoOK),
			"fd_fdstat_get":           onFile("ii", (*moduleRun).fdStat),
			"fd_fdstat_set_flags":     onFile("ii", (*moduleRun).fdSetFlags),
			"fd_fdstat_set_rights":    answer("iII", errnoOK),
			"fd_filestat_get":         onFile("ii", (*moduleRun).fdFileStat),
			"fd_filestat_set_size":    answer("iI", errnoRofs),
			"fd_filestat_set_times":   answer("iIIi", errnoRofs),
			"fd_pread":                onFile("iiiIi", (*moduleRun).fdPread),
			"fd_prestat_dir_name":     onFile("iii", (*moduleRun).prestatName),
			"fd_prestat_get":          onFile("ii", (*moduleRun).prestat),
			"fd_pwrite":               onFile("iiiIi", (*moduleRun).fdPwrite),
			"fd_read":                 onFile("iiii", (*moduleRun).fdRead),
			"fd_readdir":              onFile("iiiIi", (*moduleRun).fdReaddir),
			"fd_renumber":             f("ii", (*moduleRun).fdRenumber),
			"fd_seek":                 onFile("iIii", (*moduleRun).fdSeek),
			"fd_sync":                 answer("i", errnoOK),
			"fd_tell":                 onFile("ii", (*moduleRun).fdTell),
			"fd_write":                onFile("iiii", (*moduleRun).fdWrite),
			"path_create_directory":   answer("iii", errnoRofs),
			"path_filestat_get":       f("iiiii", (*moduleRun).pathFileStat),
			"path_filestat_set_times": answer("iiiiIIi", errnoRofs),
			"path_link":               answer("iiiiiii", errnoRofs),
			"path_open":               f("iiiiiIIii", (*moduleRun).pathOpen),
			"path_readlink":           f("iiiiii", (*moduleRun).pathReadlink),
			"path_remove_directory":   answer("iii", errnoRofs),
			"path_rename":             answer("iiiiii", errnoRofs),
			"path_symlink": f("iiiii", func(w *moduleRun, _ guestMemory, p []uint64) errno {
				if w.file(p[2]) == nil {
					return errnoBadf
				}
				return errnoRofs
			}),
			"path_unlink_file": answer("iii", errnoRofs),
			"poll_oneoff":      f("iiii", (*moduleRun).poll),
			"proc_exit":        {"i", false, (*moduleRun).procExit},
			"proc_raise":       f("i", func(*moduleRun, guestMemory, []uint64) errno { return errnoNosys }),
			"random_get":       f("ii", (*moduleRun).random),
			"sched_yield":      f("", (*moduleRun).yield),
			"sock_accept":      answer("iii", errnoNotsup),
			"sock_recv":        answer("iiiiii", errnoNotsup),
			"sock_send":        answer("iiiii", errnoNotsup),
			"sock_shutdown":    answer("ii", errnoNotsup),
		},
		importHelix: {
			"call": f("ii", (*moduleRun).helixCall),
			"read": f("ii", (*moduleRun).helixRead),
		},
	}
}

// types returns the function's signature for wazero.
func (f importedFunction) types() (params, results []api.ValueType) {
	for _, c := range f.params {
		t := api.ValueTypeI32
		if c == 'I' {
			t = api.ValueTypeI64
		}
		params = append(params, t)
	}
	if f.result {
		results = []api.ValueType{api.ValueTypeI32}
	}
	return params, results
}

// linkImports defines the modules that guests import from in a runtime.
func linkImports(ctx context.Context, rt wazero.Runtime) error {
	for module, functions := range importable() {
		b := rt.NewHostModuleBuilder(module)
		for name, f := range functions {
			params, results := f.types()
			b.NewFunctionBuilder().WithGoModuleFunction(hostFunction(f), params, results).Export(name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

func hostFunction(f importedFunction) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		w := runOf(ctx)
		if w.over() { // the guest continues until its next check, but not in here
			panic(errEnded)
		}
		for i, c := range f.params {
			if c == 'i' { // only the lower half of an i32 is defined
				stack[i] = uint64(uint32(stack[i]))
			}
		}
		e := f.call(w, guestMemory{mod.Memory()}, stack)
		if f.result {
			stack[0] = uint64(e)
		}
		if w.over() {
			panic(errEnded)
		}
	}
}

// work charges work of the host for the guest as fuel, in units of about a nanosecond, so that a
// guest cannot make the host compute for free.
func (w *moduleRun) work(units int) {
	total := w.hostFuel.Add(uint64(units))
	if used := w.in.gauge.Used() + total; used > w.limits.Fuel {
		w.fail(w.outOfFuel(used))
	}
}

// errEnded unwinds a guest whose run has ended.
var errEnded = sys.NewExitError(255)

// guestMemory is a guest's linear memory. All addresses and lengths passed to it come from
// untrusted code.
type guestMemory struct{ api.Memory }

func (m guestMemory) bytes(at, n uint64) ([]byte, bool) { return m.Read(uint32(at), uint32(n)) }

func (m guestMemory) put32(at uint64, v uint32) errno {
	if !m.WriteUint32Le(uint32(at), v) {
		return errnoFault
	}
	return errnoOK
}

func (m guestMemory) put64(at, v uint64) errno {
	if !m.WriteUint64Le(uint32(at), v) {
		return errnoFault
	}
	return errnoOK
}

// maxVectors is the maximum number of buffers of a read or write call.
const maxVectors = 1024

// vectors returns the buffers of a read or write call.
func (m guestMemory) vectors(at, count uint64) (v [][]byte, e errno) {
	n := uint32(count)
	if n > maxVectors {
		return nil, errnoInval
	}
	table, ok := m.Read(uint32(at), 8*n)
	if !ok {
		return nil, errnoFault
	}
	v = make([][]byte, 0, n)
	for ; len(table) > 0; table = table[8:] {
		b, ok := m.Read(binary.LittleEndian.Uint32(table), binary.LittleEndian.Uint32(table[4:]))
		if !ok {
			return nil, errnoFault
		}
		v = append(v, b)
	}
	return v, errnoOK
}

// noStrings reports that there are no arguments and no environment.
func (w *moduleRun) noStrings(m guestMemory, p []uint64) errno { return errnoOK }

func (w *moduleRun) noSizes(m guestMemory, p []uint64) errno {
	if e := m.put32(p[0], 0); e != errnoOK {
		return e
	}
	return m.put32(p[1], 0)
}

// The clocks of WASI.
const (
	clockRealtime = iota
	clockMonotonic
	clockProcessCPU
	clockThreadCPU
)

// clockStep is the resolution of the guest's clocks.
const clockStep = time.Microsecond

func (w *moduleRun) clockResolution(m guestMemory, p []uint64) errno {
	if uint32(p[0]) > clockThreadCPU {
		return errnoInval
	}
	return m.put64(p[1], uint64(clockStep))
}

func (w *moduleRun) clockTime(m guestMemory, p []uint64) errno {
	t, ok := w.clock(uint32(p[0]))
	if !ok {
		return errnoInval
	}
	return m.put64(p[2], uint64(t))
}

func (w *moduleRun) clock(id uint32) (t time.Duration, ok bool) {
	switch id {
	case clockRealtime:
		t = time.Duration(w.e.o.Now().UnixNano())
	case clockMonotonic:
		t = time.Since(w.start)
	case clockProcessCPU, clockThreadCPU:
		if w.cpu != nil {
			t = w.cpu.used()
		}
	default:
		return 0, false
	}
	return t.Truncate(clockStep), true
}

// randomStep is the number of bytes that are filled between two checks whether the run has ended.
const randomStep = 64 << 10

func (w *moduleRun) random(m guestMemory, p []uint64) errno {
	b, ok := m.bytes(p[0], p[1])
	if !ok {
		return errnoFault
	}
	for len(b) > 0 && !w.over() {
		n := min(len(b), randomStep)
		w.work(n)
		if _, err := io.ReadFull(w.rand, b[:n]); err != nil {
			return errnoIO
		}
		b = b[n:]
	}
	return errnoOK
}

func (w *moduleRun) yield(guestMemory, []uint64) errno {
	runtime.Gosched()
	return errnoOK
}

func (w *moduleRun) procExit(_ guestMemory, p []uint64) errno {
	w.exited, w.exitCode = true, uint32(p[0])
	panic(errEnded)
}

// sleep waits without using CPU time, at most until the run ends.
func (w *moduleRun) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	w.pause()
	defer w.resume()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.ctx.Done():
	}
}
